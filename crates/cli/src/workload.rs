//! Reads described workloads for the commands that take them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ioecho_run::{regular, simulated};
use ioecho_trace::workload::model::{Storage, Told};
use ioecho_trace::workload::{self, Description, FaultKind, Faults, Form, Input, Reading};

use crate::exit::{self, Coded};
use crate::print::{tell, visible};

/// The largest file of a description.
const SIZE_MAX: u64 = 64 << 20;

/// How much of a file is read to recognise it.
const LOOKED_AT: u64 = 64 << 10;

/// The form of the description in a file, if it holds one. What cannot be read is left to others.
pub(crate) fn form_of(path: &Path) -> Option<Form> {
    let mut bytes = Vec::new();
    regular::open(path).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
    workload::recognised(&bytes)
}

/// Reads the description in these files; `Err` has the exit code, and its faults were told.
pub(crate) fn read(
    files: &[PathBuf],
    variables: BTreeMap<String, String>,
) -> anyhow::Result<Result<Description, u8>> {
    let inputs = files.iter().map(|file| input(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let reading = Reading { variables, ..Reading::default() };
    Ok(workload::read(&inputs, &reading, &included).map_err(|faults| tell_faults(&faults)))
}

/// The files among words, and the values of variables behind them.
pub(crate) fn words(words: &[String]) -> anyhow::Result<(Vec<PathBuf>, BTreeMap<String, String>)> {
    let (mut files, mut variables) = (Vec::new(), BTreeMap::new());
    for word in words {
        match variable(word).filter(|_| !Path::new(word).exists()) {
            Some((name, value)) => put(&mut variables, name, value)?,
            None => files.push(PathBuf::from(word)),
        }
    }
    if files.is_empty() {
        return Err(Coded::error(exit::USAGE, "no file is named, only values of variables"));
    }
    Ok((files, variables))
}

/// The values of variables of the description in a file; what holds none has no variables.
pub(crate) fn variables(
    words: &[String],
    form: Option<Form>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for word in words {
        let (name, value) = variable(word).ok_or_else(|| {
            Coded::error(exit::USAGE, format!("'{word}' gives no variable a value: NAME=VALUE"))
        })?;
        put(&mut variables, name, value)?;
    }
    if form.is_none() && !variables.is_empty() {
        let text = "only a described workload has variables\n  = help: leave out NAME=VALUE";
        return Err(Coded::error(exit::USAGE, text));
    }
    Ok(variables)
}

fn variable(word: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').filter(|(name, _)| is_name(name))
}

fn put(variables: &mut BTreeMap<String, String>, name: &str, value: &str) -> anyhow::Result<()> {
    if variables.insert(name.to_owned(), value.to_owned()).is_some() {
        let text = format!("the variable '{name}' is given twice");
        return Err(Coded::error(exit::USAGE, text));
    }
    Ok(())
}

fn input(file: &Path) -> anyhow::Result<Input> {
    let broken = |reason: String| {
        Coded::error(exit::TRACE, format!("{}: it cannot be read: {reason}", file.display()))
    };
    let opened = File::open(file).map_err(|error| broken(error.to_string()))?;
    let bytes = bounded(opened).map_err(|error| broken(error.to_string()))?;
    Ok(Input { name: file.display().to_string(), bytes })
}

fn included(by: &str, name: &str) -> Result<Input, String> {
    let directory = Path::new(by).parent().unwrap_or(Path::new(""));
    let path = directory.join(name);
    let broken = |error: io::Error| format!("{} cannot be included: {error}", path.display());
    let opened = regular::open(&path).map_err(broken)?;
    let bytes = bounded(opened).map_err(broken)?;
    Ok(Input { name: path.display().to_string(), bytes })
}

fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(bytes)
}

/// Tells everything that is wrong with a description. Returns the exit code.
pub(crate) fn tell_faults(faults: &Faults) -> u8 {
    tell(&faults.to_string());
    match faults.kind() {
        FaultKind::Syntax => exit::TRACE,
        FaultKind::Impossible => exit::USAGE,
    }
}

/// Tells what counts for nothing here, or otherwise than there.
pub(crate) fn tell_told(told: &[Told]) {
    for Told { place, what } in told {
        tell(&visible(&format!("told: {place}: {what}")));
    }
}

/// The size of a storage in bytes, if it is on this host or in a simulation.
pub(crate) fn size_of(storage: &Storage) -> Option<u64> {
    if let Some(described) = simulated::description(storage.path()) {
        return simulated::capacity(described).ok().map(|size| size.0);
    }
    let path = Path::new(storage.path());
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_file() {
        return Some(metadata.len());
    }
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let size = File::open(path).ok()?.seek(SeekFrom::End(0)).ok()?;
    (size > 0).then_some(size)
}
