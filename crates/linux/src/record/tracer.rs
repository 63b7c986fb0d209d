//! A recorder's interface to the kernel, for both ways of recording.
//!
//! Both interfaces keep a buffer for each processor, which is emptied in chunks or overflows.
//! Everything else is the same for both: when to empty them, where to store the chunks, the costs
//! and the losses. So it is implemented once, in the [`Recorder`](super::Recorder), and each
//! interface implements this trait.

use std::io;
use std::path::PathBuf;

use ioecho_trace::recording::Description;

use super::error::RecordError;
use super::interface::Interface;
use super::ledger::Counting;

/// One of the kernel's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// The processor whose events it holds.
    pub(super) cpu: u32,
    /// How many bytes it holds before it loses events.
    pub(super) capacity: u64,
}

/// What the kernel counted of one of its buffers, since the tracer was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Events that were read.
    pub(super) read: u64,
    /// Events that found no room.
    pub(super) lost: u64,
}

/// The content of a chunk, to compute what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// How many events.
    pub(super) events: u64,
    /// The instant of the first one, nanoseconds of `CLOCK_MONOTONIC`; zero where there is none.
    pub(super) first_ns: u64,
    /// The same of the last one.
    pub(super) last_ns: u64,
}

/// What another program did to a tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meddling {
    /// Events do not come, or not all of them: what was found, as a phrase.
    Off(String),
    /// The tracer is no more: what was found, as a phrase.
    Gone(String),
}

/// An attached tracer, which sees no event before [`start`](Self::start).
///
/// [`detach`](Self::detach) removes everything that it put into the kernel, and so does dropping
/// it: an implementation has a `Drop` that does the same.
pub(super) trait Tracer: Send {
    /// Which interface it is.
    fn interface(&self) -> Interface;

    /// The buffers. Their number and order do not change. The frames of stream `n` are kept in one
    /// file, in the order in which they were read.
    fn streams(&self) -> &[Stream];

    /// No chunk is longer than this many bytes.
    fn chunk_bytes(&self) -> usize;

    /// Puts what the interface knows into the description: its part of the kernel's texts, the
    /// size of its buffers, its clock.
    fn describe(&self, description: &mut Description);

    /// Lets events come.
    fn start(&mut self) -> Result<(), RecordError>;

    /// Takes the next chunk of a stream, as it goes into a frame, without waiting. Answers its
    /// length; zero where there is nothing to take now.
    fn read(&mut self, stream: usize, chunk: &mut [u8]) -> io::Result<usize>;

    /// How precisely [`counts`](Self::counts) counts for one stream.
    fn counting(&self) -> Counting;

    /// What the kernel counted of a stream.
    fn counts(&mut self, stream: usize) -> io::Result<Counts>;

    /// What is in a chunk that [`read`](Self::read) has given.
    fn contents(&self, chunk: &[u8]) -> Contents;

    /// Whether another program has suppressed events. `None` if not, or if that cannot be seen.
    fn meddling(&mut self) -> Option<Meddling>;

    /// A note on the set-up, as a sentence.
    fn note(&self) -> Option<String>;

    /// The kernel's file that takes the task whose calls are to come, and those of the tasks that
    /// it makes; `None` where events are not of tasks.
    fn followed(&self) -> Option<PathBuf> {
        None
    }

    /// Lets no more events come. Those that are there can still be read.
    fn stop(&mut self) -> Result<(), RecordError>;

    /// Takes everything out of the kernel again. A second call does nothing.
    fn detach(&mut self) -> Result<(), RecordError>;
}
