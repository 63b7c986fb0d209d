//! Settings of the kernel that are files: sysfs, procfs, cgroups.
//!
//! The kernel takes the bytes of one write for one value. So a value is written at once, and the
//! file is neither made nor emptied.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a value to a file of the kernel that is there.
///
/// # Errors
///
/// As the kernel has it; also if it took a part of the value.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let written = file.write(value.as_bytes())?;
    if written == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The identity of this boot of the machine.
pub fn boot_id() -> io::Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("value");
        assert!(write(&file, "1").is_err());
        assert!(!file.exists());
        std::fs::write(&file, "").unwrap();
        write(&file, "1").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
    }

    #[test]
    fn a_boot_has_an_identity() {
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
