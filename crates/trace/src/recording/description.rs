//! The description that is needed to read a recording: the first file that is written.
//!
//! The layout of the kernel's pages and events changes from one kernel to the next, and a device's
//! number means something else after the next boot. So both are stored in the kernel's own words,
//! before the first event.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::calls::Calls;
use super::entry::Anchor;
use crate::units::Bytes;

/// The file with the [`Description`].
pub const DESCRIPTION_FILE: &str = "recording.json";

/// The file with an [`Entry`](super::Entry) in each line.
pub const LOG_FILE: &str = "log.jsonl";

/// The version of the directory's layout.
pub const DESCRIPTION_VERSION: u32 = 1;

/// The interface of the kernel that delivered the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// The `block_*` tracepoints, as raw pages of a private trace instance.
    Tracefs,
    /// The block trace ioctls (`BLKTRACESETUP`) and their relay files.
    Blktrace,
    /// A file that another recorder wrote.
    #[default]
    File,
}

impl Interface {
    /// The name, as it stands in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracefs => "tracefs",
            Self::Blktrace => "blktrace",
            Self::File => "file",
        }
    }
}

/// A device that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The name in the kernel, such as `sda` or `dm-3`.
    pub name: String,
    /// The kernel's internal `dev_t` as events carry it: major << 20 | minor
    /// (`include/linux/kdev_t.h`).
    pub number: u32,
    /// The size in bytes; `None` where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// The size of a logical block in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_block: Option<u32>,
    /// The size of a physical block in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_block: Option<u32>,
    /// Whether the device has no request queue of its own (device mapper, zram). Then a bio's
    /// completion is an event of its own, and no `block_rq_*` event ever comes.
    pub bio_based: bool,
    /// For a partition: the number of its disk. The kernel's events carry the disk's number and
    /// sectors of the disk. The reader keeps the requests that lie in the partition and counts from
    /// its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_of: Option<u32>,
    /// For a partition: its beginning on the disk in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_start: Option<Bytes>,
    /// Names of the devices that lie above this one, directly or through others (holders).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// Names of the devices that lie below this one, directly or through others (slaves, the disk
    /// of a loop device's file).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

/// The layout of a tracepoint's events in the pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFormat {
    /// The number with which each event begins (`common_type`).
    pub id: u16,
    /// The name of the tracepoint, such as `block_rq_issue`.
    pub name: String,
    /// The text of `events/SYSTEM/NAME/format`.
    pub format: String,
}

/// The descriptions that tracefs gives of its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracefs {
    /// The text of `events/header_page`.
    pub header_page: String,
    /// The recorded tracepoints.
    pub events: Vec<EventFormat>,
}

/// The content of `recording.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// [`DESCRIPTION_VERSION`]; a greater one is refused by readers that do not know it.
    pub version: u32,
    /// The interface that delivered the events.
    pub interface: Interface,
    /// The reason for this interface, as a phrase.
    #[serde(default)]
    pub why: String,
    /// The program that recorded and its version.
    #[serde(default)]
    pub recorder: String,
    /// Release of the kernel (`uname -r`).
    #[serde(default)]
    pub kernel: String,
    /// The clock of the events: `mono` is `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub clock: String,
    /// Whether the recorded machine is big-endian: pages are kept as they lay in its memory.
    #[serde(default)]
    pub big_endian: bool,
    /// The size in bytes of a page of the host, and of a page of the ring buffer.
    #[serde(default)]
    pub page_bytes: u32,
    /// The size in bytes of a sub-buffer of the ring buffer, header included
    /// (`buffer_subbuf_size_kb`).
    #[serde(default)]
    pub sub_buffer_bytes: u32,
    /// For tracefs: the layouts of pages and events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracefs: Option<Tracefs>,
    /// For a recording of system calls: whose they are. It has no devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// The recorded devices.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// The processors that were recorded.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// The size in bytes of the kernel's buffer for each processor.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// The rule from which the size of the buffer follows.
    #[serde(default)]
    pub buffer_rule: String,
    /// The instant at which the recording began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Anchor>,
}

impl Description {
    /// Writes `recording.json` into `directory`: under another name, synchronised, then renamed.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        let path = directory.join(DESCRIPTION_FILE);
        let draft = directory.join(format!("{DESCRIPTION_FILE}.draft"));
        // The directory is new, so an existing file would be somebody else's.
        let mut file = File::create_new(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(draft, path)?;
        File::open(directory)?.sync_all()
    }
}

/// The directory in which a recording for `output` is taken: the name of `output` with `.recording`
/// behind it.
pub fn directory_beside(output: &Path) -> PathBuf {
    let mut name = OsString::from(output);
    name.push(".recording");
    PathBuf::from(name)
}

/// The name of the file of a segment and a processor: `00000.cpu0`.
pub fn segment_file(segment: u32, cpu: u32) -> String {
    format!("{segment:05}.cpu{cpu}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_saved() {
        let directory = tempfile::tempdir().unwrap();
        let device = Device { name: "loop7".to_owned(), number: 7 << 20 | 7, ..Device::default() };
        let description = Description {
            version: DESCRIPTION_VERSION,
            interface: Interface::Tracefs,
            devices: vec![device],
            started: Some(Anchor { monotonic_ns: 5, wall_ns: 6 }),
            ..Description::default()
        };
        description.save(directory.path()).unwrap();
        let text = fs::read_to_string(directory.path().join(DESCRIPTION_FILE)).unwrap();
        assert_eq!(serde_json::from_str::<Description>(&text).unwrap(), description);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_are_named_by_what_they_hold() {
        assert_eq!(segment_file(3, 12), "00003.cpu12");
        let beside = directory_beside(Path::new("a/load.parquet"));
        assert_eq!(beside, Path::new("a/load.parquet.recording"));
    }
}
