//! Choosing an interface of the kernel, and cleaning up after killed recorders.

use super::blktrace::{self, BlktraceTracer};
use super::error::RecordError;
use super::interface::{Interface, InterfaceChoice};
use super::recorder::Options;
use super::target::Target;
use super::tracefs::{self, TracefsTracer};
use super::tracer::Tracer;

/// A tracer, and why it is this one, as a phrase.
pub(super) type Chosen = (Box<dyn Tracer>, String);

/// Attaches by the interface that is asked for.
pub(super) fn attach(targets: &[Target], options: &Options) -> Result<Chosen, RecordError> {
    if options.calls {
        let buffer = options.buffer.map(|bytes| bytes.0);
        let tracer = Box::new(TracefsTracer::attach_calls(buffer)?);
        return Ok((tracer, "it is the one that has system calls".to_owned()));
    }
    match options.interface {
        InterfaceChoice::Tracefs => Ok((by_tracefs(targets, options)?, "it was asked for".into())),
        InterfaceChoice::Blktrace => {
            Ok((by_blktrace(targets, options)?, "it was asked for".into()))
        }
        InterfaceChoice::Auto => match by_tracefs(targets, options) {
            Ok(tracer) => {
                let why =
                    "the first choice: it works on locked-down kernels too, and beside others";
                Ok((tracer, why.to_owned()))
            }
            Err(RecordError::Unavailable { reason, remedy, .. }) => {
                match by_blktrace(targets, options) {
                    Ok(tracer) => Ok((tracer, format!("tracefs cannot be used: {reason}"))),
                    // If neither can be used, the error and the remedy are those of the first
                    // choice.
                    Err(RecordError::Unavailable { .. }) => Err(RecordError::Unavailable {
                        interface: Interface::Tracefs,
                        reason,
                        remedy,
                    }),
                    Err(other) => Err(other),
                }
            }
            Err(other) => Err(other),
        },
    }
}

fn by_tracefs(targets: &[Target], options: &Options) -> Result<Box<dyn Tracer>, RecordError> {
    let buffer = options.buffer.map(|bytes| bytes.0);
    Ok(Box::new(TracefsTracer::attach(targets, buffer, options.events)?))
}

fn by_blktrace(targets: &[Target], options: &Options) -> Result<Box<dyn Tracer>, RecordError> {
    let buffer = options.buffer.map(|bytes| bytes.0);
    Ok(Box::new(BlktraceTracer::attach(targets, buffer)?))
}

/// Removes from the kernel the remains of killed recorders of ioecho, and returns what they were.
/// Leaves alone running recorders and other programs.
///
/// # Errors
///
/// [`RecordError::Unavailable`] where this user may not look for it or may not remove it.
pub fn clean() -> Result<Vec<String>, RecordError> {
    let trace = |name: String| format!("block trace of {name}");
    // Where one of them refuses, what the other left must go all the same.
    let (instances, traces) = (tracefs::clean(), blktrace::clean());
    Ok(instances?.into_iter().chain(traces?.into_iter().map(trace)).collect())
}

/// Who else traces these devices or any, as sentences.
pub(super) fn others(targets: &[Target]) -> Vec<String> {
    let recorders = tracefs::others().into_iter().map(|pid| {
        format!("another ioecho records too (process {pid}); each recording costs the load time")
    });
    let blktraces = targets.iter().filter(|target| target.is_traced_by_blktrace()).map(|target| {
        let name = target.name();
        format!(
            "{name} is traced by blktrace too, which costs the load time; `blktrace -d {} -k` \
             ends it",
            target.path().display()
        )
    });
    recorders.chain(blktraces).collect()
}
