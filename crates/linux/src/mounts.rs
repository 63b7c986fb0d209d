//! Mounts and swap areas.
//!
//! The kernel lets a mounted device be written to, which destroys the file system in use.
//! `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`) says what is mounted in this mount namespace;
//! mounts of containers are not in it, so the guard also asks for an exclusive open.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Dev;

use crate::sysfs::parse_dev;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `st_dev` of the files below; for btrfs and others not the number of a block device.
    pub(crate) dev: Dev,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The file system's type.
    pub(crate) kind: String,
    /// What is mounted: usually the path of a device.
    pub(crate) source: PathBuf,
    /// The options of the file system, with commas between.
    pub(crate) options: String,
}

impl Mount {
    /// Whether the block device `dev` is what is mounted here, by the file system's own number or
    /// by the number of the node that was mounted.
    pub(crate) fn is_of(&self, dev: Dev) -> bool {
        self.dev == dev || device_number(&self.source) == Some(dev)
    }
}

/// All mounts in this mount namespace.
pub(crate) fn mounts() -> Vec<Mount> {
    parse_mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// The paths of the swap areas in use, from `/proc/swaps`.
pub(crate) fn swaps() -> Vec<PathBuf> {
    parse_swaps(&fs::read("/proc/swaps").unwrap_or_default())
}

/// The number of the block device at `path`, if there is one.
pub(crate) fn device_number(path: &Path) -> Option<Dev> {
    if !path.is_absolute() {
        return None;
    }
    let data = fs::metadata(path).ok()?;
    (data.mode() & libc::S_IFMT == libc::S_IFBLK).then(|| data.rdev())
}

fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: the optional
/// fields in the middle end with a single dash.
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    Some(Mount {
        dev: parse_dev(std::str::from_utf8(fields.get(2)?).ok()?)?,
        point: unescape(fields.get(4)?),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        source: unescape(fields.get(dash + 2)?),
        options: fields
            .get(dash + 3)
            .map(|options| String::from_utf8_lossy(options).into_owned())
            .unwrap_or_default(),
    })
}

fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    text.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| line.split(|byte| *byte == b' ' || *byte == b'\t').next())
        .filter(|field| !field.is_empty())
        .map(unescape)
        .collect()
}

/// Undoes the kernel's `\040` for blanks, tabs, line ends and backslashes (`mangle_path`).
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits =
            tail.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) if first == b'\\' => {
                bytes.push(digits.iter().fold(0_u8, |value, d| value.wrapping_mul(8) + (d - b'0')));
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_and_without_optional_fields() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:4 - ext3 /dev/root \
                     rw,errors=continue\n\
                     37 35 0:44 / /with\\040blank rw - btrfs /dev/vdb rw\n";
        let mounts = parse_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].dev, makedev(98, 0));
        assert_eq!(mounts[0].point, Path::new("/mnt2"));
        assert_eq!(mounts[0].kind, "ext3");
        assert_eq!(mounts[1].point, Path::new("/with blank"));
        assert_eq!(mounts[1].source, Path::new("/dev/vdb"));
        assert_eq!(mounts[0].options, "rw,errors=continue");
    }

    #[test]
    fn swaps_are_read_without_their_heading() {
        let text =
            b"Filename\t\t\t\tType\t\tSize\n/dev/vda2 partition\t1\n/swap\\040file file\t1\n";
        assert_eq!(parse_swaps(text), [Path::new("/dev/vda2"), Path::new("/swap file")]);
    }

    #[test]
    fn this_process_has_a_root_mount() {
        assert!(mounts().iter().any(|mount| mount.point == Path::new("/")));
    }
}
