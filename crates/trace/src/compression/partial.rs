//! A file that appears only when it is complete.
//!
//! An interrupted conversion must neither leave a file that looks like its result nor destroy the
//! file that was there before.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Stdout, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::BUFFER_BYTES;

/// The number of bytes of a name that are kept in the name of its partial file: names have at most
/// 255 bytes.
const NAME_BYTES: usize = 200;

/// The name that stands for the standard output. A file of that name is `./-`.
pub const STANDARD_OUTPUT: &str = "-";

/// The partial files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// While this value lives, no file gets its name.
#[derive(Debug)]
pub struct NoneFinishes {
    _held: MutexGuard<'static, BTreeSet<PathBuf>>,
}

/// The partial files. A poisoned lock is harmless: the set of names is never half changed.
fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that appears under its name when it is finished. Until then it is `.NAME.PID.partial`
/// beside it; dropping it unfinished removes it. It takes over the permissions of the file that it
/// replaces.
///
/// The standard output (`-`), pipes and character devices such as `/dev/null` are written to
/// directly.
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<BufWriter<Output>>,
}

enum Output {
    File(File),
    /// A pipe or a character device, written to as it is.
    Special(File),
    Standard(Stdout),
}

impl PartialFile {
    /// Begins the file that is to become `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_OUTPUT) {
            let output = Output::Standard(io::stdout());
            let file = Some(BufWriter::with_capacity(BUFFER_BYTES, output));
            return Ok(Self { path: path.to_owned(), partial: PathBuf::new(), file });
        }
        if is_special(path)? {
            // Append, because the shell may have opened a file with content as standard output.
            let output = Output::Special(File::options().append(true).open(path)?);
            let file = Some(BufWriter::with_capacity(BUFFER_BYTES, output));
            return Ok(Self { path: path.to_owned(), partial: PathBuf::new(), file });
        }
        for number in 0_u32.. {
            let partial = partial_name(path, number)?;
            // Only a new file: an existing one may be a link to somebody's data.
            match File::create_new(&partial) {
                Ok(file) => {
                    unfinished().insert(partial.clone());
                    if let Ok(before) = fs::symlink_metadata(path)
                        && before.is_file()
                    {
                        file.set_permissions(before.permissions())?;
                    }
                    let file = Some(BufWriter::with_capacity(BUFFER_BYTES, Output::File(file)));
                    return Ok(Self { path: path.to_owned(), partial, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the partial files of this process, for a process that ends while a thread is still
    /// writing. As long as the result is held, no file gets its final name.
    pub fn remove_unfinished() -> NoneFinishes {
        let held = unfinished();
        for partial in held.iter() {
            let _ = fs::remove_file(partial);
        }
        NoneFinishes { _held: held }
    }

    /// Overwrites the first bytes, for formats with counts at the beginning. The standard output
    /// cannot do that.
    pub fn write_over_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::BrokenPipe.into()) };
        file.flush()?;
        match file.get_ref() {
            Output::File(file) => file.write_all_at(bytes, 0),
            Output::Special(_) | Output::Standard(_) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    /// Writes the rest and gives the file its name. The content reaches the disk before the name
    /// does, so that a crash leaves no file that only looks complete.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let written = file.flush().and_then(|()| match file.get_ref() {
            Output::File(file) => file.sync_all(),
            Output::Special(_) | Output::Standard(_) => Ok(()),
        });
        if !matches!(file.get_ref(), Output::File(_)) {
            return written;
        }
        drop(file);
        let mut unfinished = unfinished();
        let named = written.and_then(|()| fs::rename(&self.partial, &self.path));
        unfinished.remove(&self.partial);
        if named.is_err() {
            // The error that matters is the one at hand.
            let _ = fs::remove_file(&self.partial);
        }
        named
    }
}

/// Whether `path` is written to directly, because replacing a device or a pipe by a file would take
/// it away from everybody. A block device is refused: a trace on it would overwrite its content.
fn is_special(path: &Path) -> io::Result<bool> {
    let Ok(there) = fs::metadata(path) else { return Ok(false) };
    if there.file_type().is_block_device() {
        let text = "this is a block device, and a trace is written to a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // `/dev/stdout` is a link, possibly to a regular file.
    let is_systems =
        path.parent().and_then(|parent| parent.canonicalize().ok()).is_some_and(|at| {
            ["/dev", "/proc"].iter().any(|of_system| at.starts_with(of_system))
                && !at.starts_with("/dev/shm")
        });
    Ok(is_systems || !there.is_file() && !there.is_dir())
}

/// The name, unique to this process, of the file that is to become `path`; `number` counts the
/// attempts to find a free name.
fn partial_name(path: &Path, number: u32) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let name = &name[..name.len().min(NAME_BYTES)];
    let process = std::process::id();
    let ending = match number {
        0 => format!(".{process}.partial"),
        _ => format!(".{process}.{number}.partial"),
    };
    let partial = [b".", name, ending.as_bytes()].concat();
    Ok(path.with_file_name(OsStr::from_bytes(&partial)))
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), |f| f.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) | Self::Special(file) => file.write(bytes),
            Self::Standard(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) | Self::Special(file) => file.flush(),
            Self::Standard(output) => output.flush(),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        // The buffer belongs to an output that will not be completed.
        if let (Output::File(_), _) = file.into_parts() {
            // Nobody could handle an error here; a stale partial file does no harm.
            let _ = fs::remove_file(&self.partial);
            unfinished().remove(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::tests::decoded;
    use crate::compression::{Codec, Encoder};

    #[test]
    fn a_file_appears_when_it_is_finished_and_leaves_nothing_when_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.gz");
        let mut encoder = Encoder::new(PartialFile::create(&path).unwrap(), Codec::of_name(&path));
        encoder.write_all(b"half").unwrap();
        drop(encoder);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        let mut encoder = Encoder::new(PartialFile::create(&path).unwrap(), Codec::of_name(&path));
        encoder.write_all(b"whole").unwrap();
        assert!(!path.exists());
        encoder.finish().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(decoded(&fs::read(&path).unwrap()).0, b"whole");
    }

    #[test]
    fn a_link_that_stands_where_the_partial_file_goes_keeps_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("x.load"), directory.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        let links = [0, 1].map(|number| partial_name(&path, number).unwrap());
        for link in links.iter().chain([&directory.path().join("x.load.partial")]) {
            std::os::unix::fs::symlink(&precious, link).unwrap();
        }
        drop(PartialFile::create(&path).unwrap());
        let mut file = PartialFile::create(&path).unwrap();
        let mut other = PartialFile::create(&path).unwrap();
        other.write_all(b"other").unwrap();
        file.write_all(b"new").unwrap();
        drop(other);
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(links.iter().all(|link| link.is_symlink()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5);
    }

    #[test]
    fn an_output_that_is_a_link_is_replaced_and_its_target_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("x.load"), directory.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        PartialFile::create(&path).unwrap().finish().unwrap();
        assert!(!path.is_symlink() && fs::read(&path).unwrap().is_empty());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_pipe_gets_what_is_written_and_stays_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.load");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        let mut file = PartialFile::create(&path).unwrap();
        file.write_all(b"all of it").unwrap();
        file.finish().unwrap();
        assert_eq!(reader.join().unwrap(), b"all of it");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_belongs_to_the_system_is_written_to_and_never_replaced() {
        for path in ["/dev/null", "/proc/self/fd/1", "/dev/stdout"] {
            assert!(is_special(Path::new(path)).unwrap(), "{path}");
        }
        for path in ["/dev/shm/x", "/nowhere/x", "/tmp/x"] {
            assert!(!is_special(Path::new(path)).unwrap(), "{path}");
        }
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.load");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        PartialFile::create(&path).unwrap().finish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_name_as_long_as_names_can_be_is_written_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(255));
        PartialFile::create(&path).unwrap().finish().unwrap();
        assert!(path.exists());
    }
}
