//! The formats, one file each, and the choice among them.
//!
//! A format is recognised by what the file holds, not by its name: recordings get renamed.

pub mod blkreplay;
pub mod blktrace;
pub mod native;

/// Which event of a kernel recording is the instant of issue (blktrace's letters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueEvent {
    /// Queued if the recording has such events, else inserted, else issued to the driver.
    #[default]
    Auto,
    /// `Q`: the request entered the block layer, as the file system or application sent it.
    Queued,
    /// `I`: it was inserted into the I/O scheduler's queue.
    Inserted,
    /// `D`: it was handed to the driver, after merging and scheduling.
    Issued,
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Stop at the first malformed line or record instead of counting it.
    pub strict: bool,
    /// For kernel recordings: the event to take.
    pub event: IssueEvent,
}
