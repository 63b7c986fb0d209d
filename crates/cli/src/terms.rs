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

/// The meaning of a word, of an exit code, or of a unit or figure.
pub(crate) fn page(word: &str) -> Option<String> {
    if let Some((word, text)) = parts().find(|(of, _)| *of == word) {
        return Some(format!("# {word}\n\n{}", text.trim()));
    }
    if let Some((code, meaning)) = codes().find(|(code, _)| *code == word) {
        return Some(format!("# exit code {code}\n\n{meaning}"));
    }
    let is_it = |of: &str| of.replace('-', " ").eq_ignore_ascii_case(&word.replace('-', " "));
    let (names, meaning) = rows().find(|(names, _)| names.split(", ").any(is_it))?;
    Some(format!("# {names}\n\n{meaning}"))
}

/// The rows of the tables of units and of damage: names, with commas between them, and their
/// meaning.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tables = parts().filter(|(word, _)| matches!(*word, "units" | "damage"));
    // The first two lines are the heading of a table.
    let rows =
        tables.flat_map(|(_, table)| table.lines().filter(|line| line.starts_with('|')).skip(2));
    rows.filter_map(|row| row.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
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
    use ioecho_replay::verify::NameDamage;
    use ioecho_stats::verdict::{Finding, Grade, Validity};
    use ioecho_trace::Integrity;

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
    fn units_and_figures_are_explained_one_by_one() {
        assert_eq!(page("IOPS").unwrap(), "# IOPS\n\nrequests per second");
        for word in ["ms", "MiB/s", "p99", "p99.9", "service time", "service-time", "drain"] {
            assert!(page(word).unwrap().len() > 30, "{word}");
        }
        assert_eq!(page("p98"), None);
        assert_eq!(page("stands for"), None);
    }

    #[test]
    fn every_kind_of_damage_is_explained_and_so_are_other_words_of_results() {
        let is_damage = |kind: &Integrity| kind.is_damage();
        let kinds = Integrity::ALL.into_iter().filter(is_damage).map(Integrity::name);
        let names = NameDamage::ALL.map(NameDamage::name);
        for word in kinds.chain(names).chain(["doubtful", "damage", "phase", "retried"]) {
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
        assert!(page("exit-codes").is_some());
    }
}
