//! What a command reads, file by file.
//!
//! A trace is often more than the file that was named: a directory of a recording, the set of files
//! that blktrace makes, a load in a library, and the traces that are merged into it.

use std::fs;
use std::path::{Path, PathBuf};

use ioecho_linux::ground::Ground;
use ioecho_trace::transform::{Asked, Load};

use crate::directory::{RunDirectory, is_result};
use crate::named::{above, file_named};

/// What stands before the number of a processor in the names of blktrace's files.
const PER_CPU: &str = ".blktrace.";

/// What a command reads.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The name as it was typed, and where the bytes of one of its files are.
    files: Vec<(String, Ground)>,
}

impl Inputs {
    /// These. A name that leads to no file, such as that of a generated load, is none.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        paths.into_iter().fold(Self::default(), Self::and)
    }

    /// A trace, and what is made of it.
    pub fn of_load(trace: &Path, load: &Load) -> Self {
        let others = load.chain.iter().filter_map(Asked::other_trace);
        others.fold(Self::of([trace]), Self::and)
    }

    /// What a directory lies on, which may have to be made yet.
    pub fn of_place(path: &Path) -> Self {
        let ground = Ground::of(path).into_iter();
        Self { files: ground.map(|ground| (path.display().to_string(), ground)).collect() }
    }

    /// This as well.
    #[must_use]
    pub fn and(mut self, path: &Path) -> Self {
        let name = path.display().to_string();
        let files = files_of(&file_named(path)).into_iter();
        self.files.extend(files.filter_map(|file| Some((name.clone(), Ground::of(&file).ok()?))));
        self
    }

    /// The first of them whose bytes change when this is written to, or the other way round.
    pub fn touched_by(&self, ground: &Ground) -> Option<&str> {
        let found = self.files.iter().find(|(_, input)| input.touches(ground));
        found.map(|(name, _)| name.as_str())
    }
}

/// The files that a path leads to.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let within = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut files = Vec::new();
    if path.is_dir() {
        files = within(path);
        if RunDirectory::at(path).is_some() {
            // What else somebody keeps there is not read, and the page is made again.
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
