//! The arguments of `ioecho record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ioecho_linux::record::{Events, InterfaceChoice};
use ioecho_trace::formats::{IssueEvent, Writable, write};
use ioecho_trace::{Bytes, Nanos};

use super::quantity::{positive_span, within};
use super::words;

/// The smallest kernel buffer of a processor.
const BUFFER_MIN: Bytes = Bytes(256 << 10);

/// The largest kernel buffer of a processor.
const BUFFER_MAX: Bytes = Bytes(16 << 30);

/// The shortest segment. Shorter ones cost more than they save.
const SEGMENT_MIN: Nanos = Nanos::from_secs(1);

/// The smallest segment. Smaller ones cost more than they save, too.
const SEGMENT_BYTES_MIN: Bytes = Bytes(1 << 20);

#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// The block devices; disks, partitions, loop devices, volumes
    #[arg(
        value_name = "DEVICE",
        group = "subject",
        required_unless_present_any = ["clean", "files"],
        requires = "output"
    )]
    pub(crate) devices: Vec<PathBuf>,

    /// What to write, in the format that its name says (docs/import.md lists them); must not be
    /// there, unless --force is given
    #[arg(long, short, value_name = "FILE", requires = "subject")]
    pub(crate) output: Option<PathBuf>,

    /// Record what COMMAND and all processes that come of it do with files, in place of devices, to
    /// be replayed on another file system; needs event probes in the kernel
    #[arg(
        long,
        group = "subject",
        requires = "output",
        requires = "command",
        conflicts_with_all = ["interface", "events", "event", "unstack"]
    )]
    pub(crate) files: bool,

    /// Replace the output if it is there
    #[arg(long)]
    pub(crate) force: bool,

    /// Write this format, whatever the name says
    #[arg(long, value_name = "NAME", value_parser = write::by_name)]
    pub(crate) to: Option<&'static Writable>,

    /// Record for this long [default: until Ctrl-C, or until the command ends]
    #[arg(long = "for", value_name = "TIME", value_parser = positive_span, requires = "subject")]
    pub(crate) duration: Option<Nanos>,

    /// The interface of the kernel
    #[arg(
        long,
        value_parser = words::interface(),
        default_value = InterfaceChoice::Auto.name()
    )]
    pub(crate) interface: InterfaceChoice,

    /// Which events the kernel records
    #[arg(long, value_parser = words::events(), default_value = Events::default().name())]
    events: Events,

    /// The event that counts as the issue of a request
    #[arg(long, value_parser = words::event(), default_value = IssueEvent::Queued.name())]
    pub(crate) event: IssueEvent,

    /// The kernel's buffer for each processor; all together at most a quarter of the memory that
    /// is available [default: 64M, less on hosts with many processors or little memory]
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub(crate) buffer: Option<Bytes>,

    /// Begin another segment of the recording after this size or this time, as in 1G or 30m
    /// [default: 256M and 10m]
    #[arg(long, value_name = "SIZE|TIME", value_parser = segment)]
    pub(crate) segment: Option<Segment>,

    /// End when the output's file system has less space left than this [default: a tenth of it,
    /// but at most 256M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) reserve: Option<Bytes>,

    /// Keep what the kernel gave, in FILE.recording, when it has been converted
    #[arg(long)]
    pub(crate) keep_raw: bool,

    /// Of requests that went through two of the recorded devices, one on the other, keep those to
    /// the upper one alone (docs/transforms.md)
    #[arg(long)]
    pub(crate) unstack: bool,

    /// Remove what recorders that were killed have left in the kernel; alone or before recording
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) clean: bool,

    /// Check everything and say what would be done; records nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Say only what is wrong or missing, and what a recorder before has left
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Run this command, and record until it ends
    #[arg(last = true, value_name = "COMMAND", requires = "subject")]
    pub(crate) command: Vec<OsString>,
}

impl RecordArgs {
    /// The events that the kernel records. If an insertion counts as the issue, these are all
    /// events, because insertions are not among those that are needed otherwise.
    pub(crate) fn events(&self) -> Events {
        if self.event == IssueEvent::Inserted { Events::All } else { self.events }
    }
}

/// When a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// At this size.
    Size(Bytes),
    /// After this time.
    Time(Duration),
}

fn segment(text: &str) -> Result<Segment, String> {
    let unclear = || "is no size and no time (write it like 256M or 10m)".to_owned();
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(unclear());
    }
    if let Ok(time) = text.parse::<Nanos>() {
        let nanoseconds = u64::try_from(time.0).unwrap_or(0);
        return if time < SEGMENT_MIN {
            Err(format!("must be at least {SEGMENT_MIN}"))
        } else {
            Ok(Segment::Time(Duration::from_nanos(nanoseconds)))
        };
    }
    let size: Bytes = text.parse().map_err(|_| unclear())?;
    if size < SEGMENT_BYTES_MIN {
        return Err(format!("must be at least {SEGMENT_BYTES_MIN}"));
    }
    Ok(Segment::Size(size))
}

fn buffer(text: &str) -> Result<Bytes, String> {
    within(text, BUFFER_MIN..=BUFFER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_size_or_a_time_by_its_unit() {
        assert_eq!(segment("256M"), Ok(Segment::Size(Bytes(256 << 20))));
        assert_eq!(segment("10m"), Ok(Segment::Time(Duration::from_mins(10))));
        assert_eq!(segment("1.5h"), Ok(Segment::Time(Duration::from_mins(90))));
        for wrong in ["", "7", "1.5", "x", "1K", "1ms", "-1s", "10 parsecs"] {
            assert!(segment(wrong).is_err(), "{wrong}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        _record: RecordArgs,
    }

    #[test]
    fn what_asks_for_a_recording_without_all_of_it_is_refused() {
        let is_taken = |line: &str| {
            let words = line.split_whitespace();
            <Typed as clap::Parser>::try_parse_from(words).is_ok()
        };
        for whole in [
            "x --clean",
            "x --clean /dev/a -o b",
            "x /dev/a -o b -- ls",
            "x /dev/a -o b --dry-run",
            "x --files -o b -- ls",
            "x --clean --files -o b --for 8h -- ls",
        ] {
            assert!(is_taken(whole), "{whole}");
        }
        for half in [
            "x",
            "x /dev/a",
            "x -o b",
            "x --clean /dev/a --for 8h",
            "x --clean -o b -- ls",
            "x --clean --for 8h",
            "x --clean --dry-run /dev/a -o b",
            "x --files",
            "x --files -o b",
            "x --files -- ls",
            "x --files /dev/a -o b -- ls",
            "x --files --unstack -o b -- ls",
            "x --files --interface blktrace -o b -- ls",
        ] {
            assert!(!is_taken(half), "{half}");
        }
    }

    #[test]
    fn buffers_are_neither_nothing_nor_everything() {
        assert_eq!(buffer("8M"), Ok(Bytes(8 << 20)));
        assert!(buffer("1K").is_err() && buffer("1T").is_err() && buffer("x").is_err());
    }
}
