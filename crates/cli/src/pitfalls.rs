//! The pages on the checks of the verdict, which are part of the program.
//!
//! A check shows in one line what was measured. A page explains why the problem fools people, how
//! it is measured, and how to avoid it. A user with a failed check may have no browser at hand.

/// A page: the name of its check, and its text.
macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../assets/pitfalls/", $name, ".md")))),*]
    };
}

/// The pages by the names of their checks.
pub(crate) const PAGES: &[(&str, &str)] = pages![
    "complete",
    "accounted",
    "lateness",
    "duration",
    "standstill",
    "percentiles",
    "demand",
    "issued",
    "failures",
    "conflicts",
    "integrity",
    "wraparound",
    "content",
    "page-cache",
    "storage",
    "compression",
    "in-flight",
    "lower-cache",
    "recording",
    "run-length",
    "same-load",
    "steady-state",
    "target-size",
    "scheduler",
    "queue-depth",
    "other-load",
    "alignment",
    "durability",
    "clock",
    "cpu",
    "recorder",
    "witness",
    "start-skew",
];

/// The page on a check.
pub(crate) fn page(name: &str) -> Option<&'static str> {
    PAGES.iter().find(|(of, _)| *of == name).map(|(_, text)| *text)
}

/// The subject of a check in a line: the heading of its page, `# name: line`.
pub(crate) fn line(name: &str) -> &'static str {
    let heading = page(name).and_then(|text| text.lines().next()).unwrap_or_default();
    let heading = heading.trim_start_matches('#').trim();
    heading.split_once(": ").map_or(heading, |(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::judge;

    fn directory() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pitfalls")
    }

    #[test]
    fn every_check_has_a_page_and_every_page_belongs_to_a_check() {
        let mut pages: Vec<String> = PAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut names = judge::names();
        let files = std::fs::read_dir(directory()).unwrap().flatten();
        let mut files: Vec<String> = files
            .filter_map(|file| file.file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
            .filter(|name| name != "README")
            .collect();
        for list in [&mut pages, &mut names, &mut files] {
            list.sort();
        }
        assert_eq!(pages, names, "the program carries a page for each check");
        assert_eq!(files, names, "docs/pitfalls holds a page for each check");
    }

    #[test]
    fn every_page_says_what_it_is_how_it_fools_how_it_is_measured_and_what_to_do() {
        for (name, text) in PAGES {
            let heading = text.lines().next().unwrap();
            assert!(heading.starts_with(&format!("# {name}: ")), "{name}: {heading}");
            for part in ["How it fools", "How it is measured", "Threshold", "What to do"] {
                assert!(text.contains(&format!("\n## {part}")), "{name} lacks '{part}'");
            }
            assert!(line(name).len() > 10, "{name}: {}", line(name));
        }
    }

    #[test]
    fn the_table_of_pitfalls_leads_to_every_page() {
        let table = std::fs::read_to_string(directory().join("README.md")).unwrap();
        for (name, _) in PAGES {
            assert!(table.contains(&format!("({name}.md)")), "{name} is not in the table");
        }
    }
}
