//! Event probes: they read what lies behind the pointers that calls are given.
//!
//! A tracepoint of a call says where a name lies in the memory of the process, and not the name. An
//! event probe on the tracepoint reads it at that moment. Probes are in no instance: everybody sees
//! them, and they stay when their owner is killed. So their group bears the owner's name, like an
//! instance, and they are removed when no instance uses them any more.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Instant;

use ioecho_trace::recording::{BEHIND, ENTER, field_behind};

use super::instance::PATIENCE;
use super::unavailable;
use crate::record::error::RecordError;
use crate::record::mounted::Held;
use crate::record::owner::{Owner, new_name};

/// The file that lists all probes and takes new ones. Opened to be truncated it removes all, those
/// of others too.
const FILE: &str = "dynamic_events";

/// What helps where the kernel has no probes.
const REMEDY: &str = "record with `strace -f -ttt -T -y -o FILE COMMAND`, and convert that; or use \
                      a kernel with CONFIG_EPROBE_EVENTS and CONFIG_FTRACE_SYSCALLS";

/// The probes of a recording.
#[derive(Debug)]
pub(super) struct Probes {
    root: Held,
    /// Their group.
    pub(super) group: String,
    names: Vec<String>,
}

impl Probes {
    /// None so far.
    pub(super) fn new(root: Held) -> Self {
        // A group is named by letters, digits and underscores.
        Self { root, group: new_name().replace('-', "_"), names: Vec::new() }
    }

    /// Makes one on the beginning of a call, if the call is given names or numbers by pointers;
    /// answers whether it did. `format` says how the tracepoint's fields lie.
    pub(super) fn make(&mut self, call: &str, format: &str) -> Result<bool, RecordError> {
        let Some(fields) = fields(call, format) else { return Ok(false) };
        let (group, tracepoint) = (&self.group, format!("{ENTER}{call}"));
        let line = format!("e:{group}/{tracepoint} syscalls.{tracepoint} {fields}\n");
        append(&self.root, &line).map_err(|error| {
            let reason = format!("the kernel makes no event probe, which reads names: {error}");
            unavailable(reason, REMEDY)
        })?;
        self.names.push(tracepoint);
        Ok(true)
    }

    /// Removes them; no instance may have them enabled.
    pub(super) fn remove(&mut self) -> Result<(), RecordError> {
        let begun = Instant::now();
        while let Some(name) = self.names.last() {
            match append(&self.root, &format!("-:{}/{name}\n", self.group)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) if begun.elapsed() < PATIENCE => {
                    sleep(std::time::Duration::from_millis(10));
                    continue;
                }
                Err(error) => {
                    return Err(RecordError::system("write", &self.root.named(FILE), error));
                }
            }
            self.names.pop();
        }
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = self.remove();
    }
}

/// Whether this kernel may have probes.
pub(super) fn check(root: &Held) -> Result<(), RecordError> {
    if cfg!(not(target_arch = "x86_64")) {
        let reason = "the numbers of flags are known for x86-64 alone".to_owned();
        return Err(unavailable(reason, REMEDY));
    }
    for file in [FILE, "events/syscalls"] {
        if !root.path(file).exists() {
            let reason = format!("this kernel has no {}", root.named(file).display());
            return Err(unavailable(reason, REMEDY));
        }
    }
    Ok(())
}

fn append(root: &Held, line: &str) -> io::Result<()> {
    File::options().append(true).open(root.path(FILE))?.write_all(line.as_bytes())
}

/// The fields of a probe on a call: its arguments in their order, and what lies behind pointers;
/// `None` where no pointer matters.
fn fields(call: &str, format: &str) -> Option<String> {
    let mut words = Vec::new();
    let mut reads = false;
    let mut pointers = Vec::new();
    let arguments = format.lines().filter_map(|line| {
        let (declared, _) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let (kind, name) = declared.rsplit_once(' ')?;
        (!name.starts_with("common_") && name != "__syscall_nr").then_some((kind, name))
    });
    for (at, (kind, name)) in arguments.enumerate() {
        let is_name = matches!(kind, "const char *" | "char *") && name != "buf";
        if is_name {
            reads = true;
            words.push(format!("a{at}=+0(${name}):ustring"));
        } else {
            words.push(format!("a{at}=${name}"));
        }
        pointers.push(name);
    }
    for (_, at, bytes) in BEHIND.iter().filter(|(known, ..)| *known == call) {
        let name = pointers.get(*at)?;
        reads = true;
        words.push(format!("{}=+u{bytes}(${name})", field_behind(*at, *bytes)));
    }
    reads.then(|| words.join(" "))
}

/// Removes the probes of processes of ioecho that no longer live; answers their groups.
pub(super) fn clean(root: &Held) -> Vec<String> {
    let mut groups = Vec::new();
    let text = fs::read_to_string(root.path(FILE)).unwrap_or_default();
    for line in text.lines() {
        let Some((group, name)) = of_dead(line) else { continue };
        if append(root, &format!("-:{group}/{name}\n")).is_ok()
            && groups.last().is_none_or(|last| last != group)
        {
            groups.push(group.to_owned());
        }
    }
    groups
}

/// Group and name of a probe whose owner no longer lives.
fn of_dead(line: &str) -> Option<(&str, &str)> {
    let (group, rest) = line.strip_prefix("e:")?.split_once('/')?;
    let owner = Owner::of_name(&group.replace('_', "-"))?;
    (!owner.lives()).then_some((group, rest.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_has_the_arguments_of_its_call_and_what_they_point_to() {
        let openat = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
            \tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n";
        let of_openat = "a0=$dfd a1=+0($filename):ustring a2=$flags";
        assert_eq!(fields("openat", openat).unwrap(), of_openat);
        let openat2 = openat.replace("int flags", "struct open_how * how");
        let of_openat2 = "a0=$dfd a1=+0($filename):ustring a2=$how b2_0=+u0($how) b2_8=+u8($how)";
        assert_eq!(fields("openat2", &openat2).unwrap(), of_openat2);
        let write = "\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;\n";
        assert_eq!(fields("write", write), None, "data are no names");
    }

    #[test]
    fn probes_of_others_and_of_the_living_are_left() {
        let dead = format!("e:ioecho_{}_1_0/sys_enter_open syscalls.sys_enter_open", u32::MAX);
        let group = format!("ioecho_{}_1_0", u32::MAX);
        assert_eq!(of_dead(&dead), Some((group.as_str(), "sys_enter_open")));
        let own = format!("e:{}/x syscalls.x", new_name().replace('-', "_"));
        for line in [own.as_str(), "e:ioecho_x/y z", "e:mine/open x", "p:ioecho_1_1_0/x y", ""] {
            assert_eq!(of_dead(line), None, "{line}");
        }
    }
}
