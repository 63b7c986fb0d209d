//! The words of a note, where there was a single case.
//!
//! A note's words follow any number and are kept in headers as they are, so they are in the plural.
//! Nearly all begin with the noun that is counted, and then that noun alone has to be put in the
//! singular. Where what follows speaks of the noun once more, or two nouns are counted together,
//! the words stay, behind a colon.

/// What stands behind the noun that is counted.
const BEHIND: [&str; 12] =
    ["of", "that", "which", "whose", "with", "without", "to", "on", "at", "in", "taken", "known"];

/// Words that go with a noun in the plural.
const PLURAL: [&str; 11] =
    ["and", "are", "have", "lie", "reach", "say", "seem", "their", "them", "they", "were"];

/// What was counted once: `1 junk line`, `1 case: requests that are no I/O`.
pub(super) fn one(words: &str) -> String {
    let of_one = || {
        let head = words.split(' ').find(|word| noun(word).is_some() || BEHIND.contains(word))?;
        let (before, behind) = words.split_once(head)?;
        let is_plural = behind.split([' ', ',', ';', ':']).any(|word| PLURAL.contains(&word));
        let is_list = head.ends_with(',') && behind.split(' ').nth(1).is_some_and(is_noun);
        let single = noun(head).filter(|_| !is_plural && !is_list)?;
        Some(format!("1 {before}{single}{behind}"))
    };
    of_one().unwrap_or_else(|| format!("1 case: {words}"))
}

fn is_noun(word: &str) -> bool {
    noun(word).is_some()
}

/// The singular of a noun in the plural, with what stands close behind it; `None` for any other
/// word.
fn noun(word: &str) -> Option<String> {
    let letters = word.trim_end_matches([',', ';', ':']);
    let mark = &word[letters.len()..];
    let stem = letters.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s'))?;
    if !stem.chars().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    Some(match stem {
        _ if stem.ends_with("ie") => format!("{}y{mark}", &stem[..stem.len() - 2]),
        _ if stem.ends_with("sse") || stem.ends_with("she") => {
            format!("{}{mark}", &stem[..stem.len() - 1])
        }
        _ => format!("{stem}{mark}"),
    })
}

#[cfg(test)]
mod tests {
    use super::one;

    #[test]
    fn what_is_counted_once_is_told_of_one() {
        for (words, told) in [
            ("junk lines", "1 junk line"),
            ("flushes", "1 flush"),
            ("latencies below zero", "1 latency below zero"),
            ("UNMAP commands, taken for discards", "1 UNMAP command, taken for discards"),
            ("addresses taken as blocks of 512 bytes", "1 address taken as blocks of 512 bytes"),
            (
                "missing checksums; a damaged file passes",
                "1 missing checksum; a damaged file passes",
            ),
            ("second attempts, queued again", "1 second attempt, queued again"),
            (
                "requests more than a year apart from most",
                "1 request more than a year apart from most",
            ),
        ] {
            assert_eq!(one(words), told);
        }
    }

    #[test]
    fn words_that_speak_of_several_stay_as_they_are() {
        for words in [
            "requests more than a year apart from most: their time stamps may be wrong",
            "requests that were refused because they would have waited",
            "processes, processors and measured times",
            "instants and response times taken as ticks of 100 ns",
            "records that are no requests",
            "of unknown things",
            "",
        ] {
            assert_eq!(one(words), format!("1 case: {words}"));
        }
    }
}
