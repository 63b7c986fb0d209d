//! What opens a store, taken out of the command line.
//!
//! A command line is read by many: a run's directory keeps it, reports print it, messages are
//! pasted into mails. What each place that shows a name had to remember to hide
//! ([`ioecho_trace::secrets`]), some would forget. So the secrets are taken out of the words of the
//! command line before anything else sees them, and only who asks the server gets them back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use ioecho_trace::secrets::{HIDDEN, scheme_of, url_shown};

use crate::args::takes_value;

/// Flags whose values are prose or a program of a user's own, to be taken as they are, and kept
/// without the secrets in them (`run/command::words`).
const PROSE: [&str; 8] = [
    "--cmd",
    "--columns",
    "--description",
    "--device",
    "--kernel",
    "--license",
    "--origin",
    "--pattern",
];

/// The settings that may follow the other trace of `--merge`.
const SETTINGS: [&str; 4] = [",at=", ",offset=", ",align=", ",volumes="];

/// The URLs of the command line, by what is shown of them.
static TYPED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// The words of a command line without passwords and queries of URLs, which are kept in mind.
pub(crate) fn taken_out(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut before, mut is_recorder, mut is_others) = (String::new(), None, false);
    let mut take = |(position, word): (usize, OsString)| {
        let Some(text) = word.to_str() else { return word };
        // Behind `record … --` stands a command that is run as it is. Only the command's own place
        // tells it: a file may be called so, too.
        if position > 0 && is_recorder.is_none() && !text.starts_with('-') && !takes_value(&before)
        {
            is_recorder = Some(text == "record");
        }
        is_others |= is_recorder == Some(true) && text == "--";
        let (flag, value) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, value),
            _ => (before.as_str(), text),
        };
        let taken = if is_others || PROSE.contains(&flag) || scheme_of(value).is_none() {
            text.to_owned()
        } else {
            let ends = SETTINGS.iter().filter_map(|setting| value.find(setting));
            let end = ends.filter(|_| flag == "--merge").min().unwrap_or(value.len());
            let (url, settings) = value.split_at(end);
            let named = &text[..text.len() - value.len()];
            format!("{named}{}{settings}", keep_in_mind(url))
        };
        text.clone_into(&mut before);
        taken.into()
    };
    words.into_iter().enumerate().map(&mut take).collect()
}

/// What is shown of an URL, which leads back to it.
fn keep_in_mind(url: &str) -> String {
    let shown = url_shown(url);
    let mut typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut name, mut number) = (shown.clone(), 2);
    // Two URLs that differ in what is hidden of them are two all the same, also where one of them
    // hides nothing: a server is not to get a password that was meant for the other.
    while typed.get(&name).is_some_and(|other| other != url) {
        let query = format!("?{HIDDEN}");
        name = if shown.contains(&query) {
            shown.replacen(&query, &format!("{query}{number}"), 1)
        } else {
            shown.replacen("://", &format!("://{HIDDEN}{number}@"), 1)
        };
        number += 1;
    }
    typed.insert(name.clone(), url.to_owned());
    name
}

/// The URL that was typed where this is shown.
pub(super) fn typed(shown: &str) -> String {
    let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    typed.get(shown).cloned().unwrap_or_else(|| shown.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from);
        taken_out(words).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn what_is_taken_out_of_a_command_line_is_given_back_to_who_asks_the_server() {
        let first = "https://me:word@taken/x?sig=a#n";
        let words = taken(&["ioecho", "info", first, "--merge=http://me@taken/y?b,c,at=5s"]);
        assert_eq!(
            words,
            ["ioecho", "info", "https://taken/x?…#n", "--merge=http://taken/y?…,at=5s"]
        );
        assert_eq!(typed("https://taken/x?…#n"), first);
        assert_eq!(typed("http://taken/y?…"), "http://me@taken/y?b,c");
        assert_eq!(typed("http://other/y"), "http://other/y");
    }

    #[test]
    fn two_urls_that_differ_in_what_is_hidden_stay_two() {
        let words = taken(&["http://two/x?a=1", "http://two/x?a=2#n", "http://two/x?a=3"]);
        assert_eq!(words, ["http://two/x?…", "http://two/x?…#n", "http://two/x?…2"]);
        assert_eq!(typed(&words[2]), "http://two/x?a=3");
        assert_eq!(taken(&["http://two/x?a=1"]), ["http://two/x?…"]);
    }

    #[test]
    fn an_url_without_a_password_is_not_asked_for_with_that_of_another() {
        for (first, second, is_shown) in [
            ("http://me:word@plain/x", "http://plain/x", "http://…2@plain/x"),
            ("http://bare/x", "http://me:word@bare/x", "http://…2@bare/x"),
            ("http://me:a@both/x", "http://you:b@both/x", "http://…2@both/x"),
            ("http://me:a@sent/x?a", "http://sent/x?a", "http://sent/x?…2"),
        ] {
            let words = taken(&[first, second]);
            assert_eq!(words[1], is_shown);
            assert_eq!((&*typed(&words[0]), &*typed(&words[1])), (first, second));
        }
    }

    #[test]
    fn prose_and_files_are_left_as_they_are() {
        let words =
            ["--origin", "https://example.org/?id=5", "--cmd=ftp://x?y", "a?b", "x=http://"];
        assert_eq!(taken(&words), words);
        for recorder in [
            &["ioecho", "record"][..],
            &["ioecho", "--offline", "record"],
            &["ioecho", "--download-limit", "5G", "--download-timeout=5s", "record"],
        ] {
            let words = [recorder, &["/dev/x", "--", "curl", "http://me:word@h/x?y"]].concat();
            assert_eq!(taken(&words), words);
        }
    }

    #[test]
    fn a_file_called_record_opens_no_way_for_a_password() {
        for before in [&["info", "record"][..], &["convert", "x.load", "record"]] {
            let words = [&["ioecho"], before, &["--", "http://me:word@file/x"]].concat();
            assert_eq!(taken(&words).last().unwrap(), "http://file/x");
        }
    }
}
