//! Files that belong to runs, libraries and recordings.
//!
//! Only another run can measure again what a run measured, and others may have compared with a load
//! of a library. So no output takes the name of one of their files, even if that file does not
//! exist: readers would take it for a result.

use std::path::{Path, PathBuf};

use ioecho_run::directory::{PAGE, RunDirectory, is_file_of_run};
use ioecho_trace::recording::DESCRIPTION_FILE;

use crate::library::{FACTS_FILE, INDEX_FILE, SUMMED_FILES, SUMS_FILE};

/// The owner of a file with this path, in words for a message. `made` is the directory of a run
/// that this command makes; `page_of` is a run whose page it makes.
pub(super) fn owner_of(path: &Path, made: Option<&Path>, page_of: Option<&Path>) -> Option<String> {
    // A path may be a link. Then its own name and that of its target are checked, because lines are
    // written through links.
    let led = path.canonicalize().ok();
    std::iter::once(path).chain(led.as_deref()).find_map(|path| {
        let name = path.file_name()?.to_str()?;
        let above = match path.parent()? {
            empty if empty.as_os_str().is_empty() => Path::new("."),
            above => above,
        };
        if is_file_of_run(name) {
            if made.is_some_and(|made| settled(made) == settled(above)) {
                return Some(format!("the run in {} that is to be made", above.display()));
            }
            let is_own_page =
                || name == PAGE && page_of.is_some_and(|run| settled(run) == settled(above));
            if RunDirectory::at(above).is_some() && !is_own_page() {
                return Some(format!("the run in {}", above.display()));
            }
        }
        let is_summed = SUMMED_FILES.contains(&name) || name == SUMS_FILE;
        if is_summed && above.join(FACTS_FILE).exists() && above.join(SUMS_FILE).exists() {
            return Some(format!("the load of a library in {}", above.display()));
        }
        if name == INDEX_FILE && path.exists() {
            return Some(format!("the library in {}", above.display()));
        }
        let is_recording = above.join(DESCRIPTION_FILE).exists() && path.exists();
        is_recording.then(|| format!("the recording in {}", above.display()))
    })
}

/// The path without links, as far as it exists.
fn settled(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut ancestors = path.ancestors();
    let there = ancestors.find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, settled)) => path.strip_prefix(above).map_or(path.clone(), |rest| {
            if rest.as_os_str().is_empty() { settled } else { settled.join(rest) }
        }),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_a_run_has_an_owner_whether_or_not_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let owner = |name: &str| owner_of(&path(name), None, None);
        assert_eq!(owner("summary.json"), None, "here is no run");
        fs::write(path("run.toml"), "").unwrap();
        for name in ["summary.json", "run.toml", "verify.json", "intents-3.ring", "report.html"] {
            assert!(owner(name).is_some_and(|owner| owner.starts_with("the run in")), "{name}");
        }
        assert_eq!(owner("my-own.json"), None);
        assert_eq!(owner_of(&path("report.html"), None, Some(directory.path())), None);
        assert!(owner_of(&path("summary.json"), None, Some(directory.path())).is_some());
    }

    #[test]
    fn a_run_that_is_to_be_made_has_its_files_already() {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("not/yet");
        let file = run.join("summary.json");
        assert!(owner_of(&file, Some(&run), None).is_some());
        assert_eq!(owner_of(&run.join("lines.csv"), Some(&run), None), None);
    }
}
