//! Where a result may be written.
//!
//! A name that was typed twice, or completed one letter too early, names the recording of a day as
//! the place for a page on it. What is read is never written over, and what is no file is never
//! replaced by one: as root that would take a device away from everybody.

use std::fs;
use std::path::Path;

use crate::exit::{self, Coded};
use crate::library;
use crate::run::directory::RunDirectory;
use crate::run::target::same_file;

/// How an output comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// What stands there is written over: a pipe or a character device takes what is written.
    Over,
    /// A new file takes the place of what stands there.
    Replacing,
}

/// Refuses an output that is an input, belongs to a run that is one, or is no place for a file.
pub(crate) fn check<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
    writing: Writing,
) -> anyhow::Result<()> {
    let refuse = |why: &str| {
        let text = format!("{} {why}\n  = help: name another output", output.display());
        Err(Coded::error(exit::USAGE, text))
    };
    let Ok(there) = fs::metadata(output) else { return Ok(()) };
    for input in inputs {
        let input = &*library::file_named(input);
        if there.is_file() && same_file(output, input) {
            return refuse("is an input, which would be lost");
        }
        let Some(run) = RunDirectory::at(input) else { continue };
        if run.own_files().iter().any(|file| same_file(output, file)) {
            return refuse("belongs to a run that is an input, which would be lost");
        }
    }
    if there.is_dir() {
        return refuse("is a directory");
    }
    if is_block_device(&there) {
        return refuse("is a block device");
    }
    if writing == Writing::Replacing && !there.is_file() {
        return refuse("is no file, and a file would take its place");
    }
    Ok(())
}

fn is_block_device(there: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    there.file_type().is_block_device()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_and_what_is_no_file_are_no_outputs() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("trace"), "x").unwrap();
        fs::hard_link(path("trace"), path("link")).unwrap();
        fs::write(path("other"), "x").unwrap();
        let trace = path("trace");
        let allowed = |output: &Path, writing| check(output, [&*trace], writing).is_ok();
        assert!(allowed(&path("new"), Writing::Replacing));
        assert!(allowed(&path("other"), Writing::Replacing));
        assert!(!allowed(&path("trace"), Writing::Over));
        assert!(!allowed(&path("link"), Writing::Replacing));
        assert!(!allowed(directory.path(), Writing::Over));
        assert!(allowed(Path::new("/dev/null"), Writing::Over));
        assert!(!allowed(Path::new("/dev/null"), Writing::Replacing));
    }
}
