//! The words of a verdict other than the names of checks, and exit codes. The documentation
//! explains each of them, and is part of the program.

/// Findings, grades and units. Each page has a heading for each word.
const WORDS: &str = include_str!("../assets/verdict.md");

/// Exit codes: a row of the table for each.
const CODES: &str = include_str!("../assets/exit-codes.md");

/// The words on a page, each with its text.
fn parts() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.split("\n## ").skip(1).filter_map(|part| part.split_once('\n'))
}

/// Each word with the beginning of its text.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    parts().map(|(word, text)| {
        let line = text.trim().lines().next().unwrap_or_default();
        // A table has no first sentence, so a sentence of our own stands for it.
        let line =
            if line.starts_with('|') { "how spans, sizes and rates are written" } else { line };
        (word, line.split_inclusive(". ").next().unwrap_or(line).trim())
    })
}

/// The meaning of a word or of an exit code.
pub(crate) fn page(word: &str) -> Option<String> {
    if let Some((word, text)) = parts().find(|(of, _)| *of == word) {
        return Some(format!("# {word}\n\n{}", text.trim()));
    }
    let (code, meaning) = codes().find(|(code, _)| *code == word)?;
    Some(format!("# exit code {code}\n\n{meaning}"))
}

/// Exit codes with their meanings.
pub(crate) fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    CODES.lines().filter_map(|line| {
        let (code, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit());
        is_code.then_some((code, rest.split_once(" |").map_or(rest, |(meaning, _)| meaning)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use ioecho_stats::verdict::{Finding, Grade, Validity};

    #[test]
    fn every_finding_grade_and_validity_is_explained() {
        let findings = Finding::ALL.map(Finding::name);
        let grades =
            [Grade::NotApplicable, Grade::Pass, Grade::Limited, Grade::Suspect, Grade::Invalid];
        let grades = grades.map(|grade| grade.name().replace(' ', "-"));
        let validities =
            [Validity::Valid, Validity::Suspect, Validity::Invalid].map(Validity::name);
        let words =
            findings.iter().copied().chain(validities).chain(grades.iter().map(String::as_str));
        for word in words.chain(["units"]) {
            let page = page(word).unwrap_or_else(|| panic!("{word} is not explained"));
            assert!(page.starts_with(&format!("# {word}\n")) && page.len() > 40, "{page}");
        }
    }

    #[test]
    fn every_exit_code_is_explained() {
        let codes: Vec<u8> = codes().filter_map(|(code, _)| code.parse().ok()).collect();
        for code in [
            exit::OK,
            exit::USAGE,
            exit::DEVICE_LIMITED,
            exit::DATA_DAMAGED,
            exit::REQUIRED,
            exit::COMMAND_FAILED,
        ] {
            assert!(codes.contains(&code), "{code}");
        }
        assert!(page("10").unwrap().contains("device-limited"));
    }
}
