//! Recording block events of the kernel.
//!
//! What a device really got, and when, only the kernel below the issuing program can say. Every
//! recorder loses events silently when it is too slow, slows down what it records when it is too
//! eager, and leaves things in the kernel when it is killed. This one counts what was lost, sleeps
//! as long as its buffers allow, and cleans up after those before it.
//!
//! A [`Target`] is a device, a [`Recorder`] records some of them into a directory
//! ([`ioecho_trace::recording`]) by one of two interfaces of the kernel, each behind the trait of
//! `tracer`.

mod attach;
mod blktrace;
mod buffer;
mod clocks;
mod error;
mod filter;
mod interface;
mod ledger;
mod mounted;
mod owner;
mod recorder;
mod store;
mod target;
mod tracefs;
mod tracer;
mod worker;

pub use attach::clean;
pub use error::{RecordError, Remedy};
pub use filter::Events;
pub use interface::{Interface, InterfaceChoice};
pub use recorder::{Ending, Options, Plan, Recorder, Status, Summary, end_all};
pub use target::Target;
