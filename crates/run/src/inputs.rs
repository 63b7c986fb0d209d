//! All files that a command reads.
//!
//! A trace is often more than the named file: the directory of a recording, the set of files of
//! blktrace, a load in a library, and the traces that are merged into it.

use std::fs;
use std::path::{Path, PathBuf};

use ioecho_linux::ground::Ground;
use ioecho_trace::transform::{Asked, Load};

use crate::directory::{RunDirectory, is_result};
use crate::named::{above, file_named};

/// The text before the number of a processor in the names of blktrace's files.
const PER_CPU: &str = ".blktrace.";

/// The files that a command reads.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The name that was typed, and the place of the bytes of one of its files.
    files: Vec<(String, Ground)>,
}

impl Inputs {
    /// The files of these paths. A name without a file, such as that of a generated load, is left
    /// out.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        paths.into_iter().fold(Self::default(), Self::and)
    }

    /// The files of a trace and of its transforms.
    pub fn of_load(trace: &Path, load: &Load) -> Self {
        let others = load.chain.iter().filter_map(Asked::other_trace);
        others.fold(Self::of([trace]), Self::and)
    }

    /// The place where a directory lies or will be created.
    pub fn of_place(path: &Path) -> Self {
        let ground = Ground::of(path).into_iter();
        Self { files: ground.map(|ground| (path.display().to_string(), ground)).collect() }
    }

    /// These inputs and one more path.
    #[must_use]
    pub fn and(mut self, path: &Path) -> Self {
        let name = path.display().to_string();
        let files = files_of(&file_named(path)).into_iter();
        self.files.extend(files.filter_map(|file| Some((name.clone(), Ground::of(&file).ok()?))));
        self
    }

    /// The first input that shares bytes with this place, so that writing to one changes the other.
    pub fn touched_by(&self, ground: &Ground) -> Option<&str> {
        let found = self.files.iter().find(|(_, input)| input.touches(ground));
        found.map(|(name, _)| name.as_str())
    }
}

/// The files of a path.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let within = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut files = Vec::new();
    if path.is_dir() {
        files = within(path);
        if RunDirectory::at(path).is_some() {
            // Other files in a run's directory are not read, and its page can be made again.
            files.retain(|file| is_result(file));
        }
    } else if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        let device = name.rsplit_once(PER_CPU).map_or(name, |(device, _)| device);
        let set = format!("{device}{PER_CPU}");
        let is_of_set = |file: &PathBuf| {
            file.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with(&set))
        };
        let above = above(path).unwrap_or(Path::new("."));
        if name != device || !path.exists() {
            files = within(above);
            files.retain(is_of_set);
        }
    }
    if path.exists() {
        files.push(path.to_owned());
    }
    files
}
