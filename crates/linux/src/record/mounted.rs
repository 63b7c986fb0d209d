//! Where the kernel's own file systems are.
//!
//! Tracefs is mounted by every larger distribution, and not in a small system or a container. It
//! may also be found below debugfs only. Where it is nowhere, whoever may record may mount it too.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::mounts::mounts;

/// The usual place of tracefs.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Where tracefs is; mounted at its usual place if it was nowhere.
pub(super) fn tracefs() -> io::Result<PathBuf> {
    tracefs_if_mounted().map_or_else(|| mount("tracefs", Path::new(TRACEFS)), Ok)
}

/// Where tracefs is, for whoever only looks: what is mounted stays for everybody.
pub(super) fn tracefs_if_mounted() -> Option<PathBuf> {
    // Debugfs mounts it below itself as soon as somebody looks.
    let below = || Some(place_of("debugfs")?.join("tracing"));
    place_of("tracefs").or_else(|| below().filter(|below| below.join("events").exists()))
}

/// Where a file system of this kind is mounted: at the usual place of several, if it is among them.
fn place_of(kind: &str) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = mounts()
        .into_iter()
        .filter(|mount| mount.kind == kind)
        .map(|mount| mount.point)
        .filter(|point| fs::read_dir(point).is_ok())
        .collect();
    places.sort_by_key(|place| !place.starts_with("/sys"));
    places.into_iter().next()
}

/// Mounts a file system that has no device (mount(2)).
fn mount(kind: &str, place: &Path) -> io::Result<PathBuf> {
    let name = CString::new(kind)?;
    let target = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: the three strings end with a zero byte and live through the call; these file systems
    // take no data, for which a null pointer stands.
    let answer = unsafe {
        libc::mount(
            name.as_ptr(),
            target.as_ptr(),
            name.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            std::ptr::null(),
        )
    };
    if answer == 0 { Ok(place.to_owned()) } else { Err(io::Error::last_os_error()) }
}
