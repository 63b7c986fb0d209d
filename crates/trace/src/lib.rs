//! The block I/O request, streams of requests, and the formats they are kept in.
//!
//! Everything that ioecho knows about a workload is a sequence of [`Request`]s: a recording, a
//! published trace, an artificial load, the result of a replay. Sequences are longer than memory,
//! so they travel as [`Batch`]es of columns from a [`Source`] through transforms into a [`Sink`].
//! The losses and guesses of a reader travel beside them in the [`Header`].
//!
//! The way through this crate: [`units`] → [`request`] → [`batch`] → [`stream`] → [`formats`] and
//! [`transform`].
#![forbid(unsafe_code)]

pub mod arguments;
pub mod batch;
pub mod calendar;
pub mod compression;
pub mod dependencies;
pub mod encoding;
pub mod error;
pub mod expression;
pub mod formats;
pub mod generate;
pub mod header;
pub mod log_linear;
pub mod order;
pub mod place;
pub mod recorded;
pub mod recording;
pub mod request;
pub mod secrets;
pub mod stacked;
pub mod stop;
pub mod stream;
pub mod syscalls;
pub mod text;
pub mod timing;
pub mod transform;
pub mod units;
pub mod verify_mode;
pub mod visible;
pub mod wording;
pub mod workload;

pub use batch::{Batch, Columns};
pub use dependencies::Dependency;
pub use error::TraceError;
pub use header::{Header, Volume};
pub use request::{Flags, Integrity, LateCause, Measured, Op, Origin, Outcome, Request};
pub use stop::Stop;
pub use stream::{Sink, Source};
pub use timing::TimingMode;
pub use units::{Bytes, Nanos, VolumeId};
pub use verify_mode::{JournalMode, VerifyMode};
