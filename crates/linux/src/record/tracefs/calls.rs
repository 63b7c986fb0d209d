//! System calls on files of a command and of all processes that come of it.

use ioecho_trace::recording::{ENTER, EXIT, EventFormat, OF_TASKS, name_of_call};
use ioecho_trace::syscalls::read::{is_read_here, names};

use super::instance::Instance;
use super::probes::{self, Probes};
use super::{TracefsTracer, root};
use crate::record::error::RecordError;

/// The file of an instance that has the tasks whose events come; with them those that they make.
pub(super) const FOLLOWED: &str = "set_event_pid";

/// A task that there never is (`PID_MAX_LIMIT`). With no task in the list, events of all come.
const NOBODY: &str = "4194304";

/// The tracepoints of calls.
const SYSCALLS: &str = "syscalls";

impl TracefsTracer {
    /// Makes an instance in which calls on files are enabled, with tracing off and for no task.
    pub(in crate::record) fn attach_calls(buffer: Option<u64>) -> Result<Self, RecordError> {
        let root = root()?;
        probes::check(&root)?;
        let probes = Probes::new(root.clone());
        let instance = Instance::new(root)?;
        instance.write("options/event-fork", "1")?;
        instance.write(FOLLOWED, NOBODY)?;
        Self::over(Some(probes), instance, buffer, |instance, probes| {
            let mut formats = Vec::new();
            let mut probes = probes;
            for call in names().chain(["newstat", "newlstat", "newfstat"]) {
                let name = format!("{ENTER}{call}");
                let Some(plain) = instance.format(SYSCALLS, &name)? else { continue };
                let probed = match probes.as_deref_mut() {
                    Some(probes) => probed(instance, probes, call, &plain)?,
                    None => None,
                };
                if probed.is_none() {
                    instance.enable(SYSCALLS, &name)?;
                }
                formats.push(probed.unwrap_or(plain));
                enable(instance, SYSCALLS, &format!("{EXIT}{call}"), &mut formats)?;
            }
            for name in OF_TASKS {
                enable(instance, "sched", name, &mut formats)?;
            }
            Ok(formats)
        })
    }
}

/// Enables a tracepoint, if this kernel has it.
fn enable(
    instance: &Instance,
    system: &str,
    name: &str,
    formats: &mut Vec<EventFormat>,
) -> Result<(), RecordError> {
    if let Some(format) = instance.format(system, name)? {
        instance.enable(system, name)?;
        formats.push(format);
    }
    Ok(())
}

/// Enables a probe on a call in place of its tracepoint, if the call is given names.
fn probed(
    instance: &Instance,
    probes: &mut Probes,
    call: &str,
    plain: &EventFormat,
) -> Result<Option<EventFormat>, RecordError> {
    let is_named = is_read_here(name_of_call(call)) && !call.starts_with("exec");
    if !is_named || !probes.make(call, &plain.format)? {
        return Ok(None);
    }
    let format = instance.format(&probes.group, &plain.name)?;
    if format.is_some() {
        instance.enable(&probes.group, &plain.name)?;
    }
    Ok(format)
}
