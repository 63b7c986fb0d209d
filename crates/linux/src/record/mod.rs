//! Recording block events of the kernel.
//!
//! Only the kernel below the issuing program knows which requests a device really got, and when. A
//! recorder that is too slow loses events silently, one that is too eager slows the load, and a
//! killed one leaves remains in the kernel. This one counts the losses, sleeps as long as its
//! buffers allow, and cleans up after killed ones.
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
