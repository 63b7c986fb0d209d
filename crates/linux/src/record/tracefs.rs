//! Events of block devices or of system calls through a trace instance of our own.
//!
//! Tracefs has one set of buffers that everybody shares, and instances that belong to whoever makes
//! them: other programs' tracing is neither disturbed nor seen. Of an instance's buffer whole pages
//! are taken as they are (`trace_pipe_raw`), which costs a copy and no formatting.

mod calls;
mod instance;
mod probes;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ioecho_trace::recording::{
    Description, EventFormat, PAYLOAD_MAX, PageContents, PageLayout, Tracefs,
};
use rustix::io::Errno;

use super::buffer::Wanted;
use super::error::{RecordError, Remedy};
use super::filter::{self, Events};
use super::interface::Interface;
use super::ledger::Counting;
use super::mounted::{self, Held, KernelMount};
use super::owner::Owner;
use super::target::Target;
use super::tracer::{Contents, Counts, Meddling, Stream, Tracer};
use instance::Instance;
use probes::Probes;

/// Sub-buffers of this size are asked for, in KiB: sixteen times fewer system calls than with the
/// usual 4. Kernels before 6.8 have no choice, and a kernel short of memory in one piece has none.
const SUB_BUFFER_KIB: [u64; 3] = [64, 16, 4];

/// The files of an instance that control all its events. Not every kernel has all of them.
const OF_ALL: [&str; 7] = [
    "tracing_on",
    "tracing_cpumask",
    "trace_clock",
    "set_event_pid",
    "set_event_notrace_pid",
    "options/overwrite",
    "buffer_size_kb",
];

/// No text of a buffer's counters is longer.
const STATS_MAX: usize = 1 << 10;

/// A trace instance that records block events.
#[derive(Debug)]
pub(super) struct TracefsTracer {
    // Closed before the instance is removed, which is in use as long as they are open.
    pipes: Vec<File>,
    stats: Vec<File>,
    instance: Instance,
    /// Removed after the instance, which uses them.
    probes: Option<Probes>,
    streams: Vec<Stream>,
    layout: PageLayout,
    sub_buffer: usize,
    texts: Tracefs,
    buffer: Wanted,
    /// Files that others might write to, and what they said when the events began to come.
    settings: Vec<(String, String)>,
}

/// How the enabled events lie.
type Enabled = Result<Vec<EventFormat>, RecordError>;

impl TracefsTracer {
    /// Makes an instance and enables the tracepoints of these devices in it, with tracing off.
    /// `buffer` is the size of the buffer of each processor, in bytes.
    pub(super) fn attach(
        targets: &[Target],
        buffer: Option<u64>,
        events: Events,
    ) -> Result<Self, RecordError> {
        let instance = Instance::new(root()?)?;
        Self::over(None, instance, buffer, |instance, _| {
            instance.enable_filtered(&filter::chosen(targets, events))
        })
    }

    /// Sets up an instance, in which `enable` enables events. Where that fails, the instance goes
    /// before the probes that it uses, as the last argument of two does.
    fn over(
        mut probes: Option<Probes>,
        instance: Instance,
        buffer: Option<u64>,
        enable: impl FnOnce(&Instance, Option<&mut Probes>) -> Enabled,
    ) -> Result<Self, RecordError> {
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        // What is in the buffer stays, and what finds no room is counted.
        instance.write("options/overwrite", "0")?;
        // Names of processes stand in the events; the kernel need not watch each switch for them.
        // Not every kernel lets an instance choose that.
        let _ = instance.write("trace_options", "norecord-cmd");
        let cpus = instance.cpus()?;
        let mut buffer = Wanted::of(buffer, cpus.len())?;
        instance.set_buffer(&SUB_BUFFER_KIB, buffer.bytes)?;
        let capacity = instance.buffer_bytes()?;
        buffer.given(capacity);

        let header_page = instance.read("events/header_page")?;
        let layout = PageLayout::parse(&header_page, cfg!(target_endian = "big"));
        let layout = layout.zip(sub_buffer_bytes(&header_page));
        let (layout, sub_buffer) = layout.ok_or_else(|| {
            let source = io::Error::other(format!("a layout that is not known: {header_page}"));
            RecordError::system("understand", &instance.named("events/header_page"), source)
        })?;
        let events = enable(&instance, probes.as_mut())?;
        let texts = Tracefs { header_page, events };

        let (mut pipes, mut stats, mut streams) = (Vec::new(), Vec::new(), Vec::new());
        for cpu in cpus {
            pipes.push(instance.pipe(cpu)?);
            stats.push(instance.stats(cpu)?);
            streams.push(Stream { cpu, capacity });
        }
        let settings = Vec::new();
        Ok(Self {
            pipes,
            stats,
            instance,
            probes,
            streams,
            layout,
            sub_buffer,
            texts,
            buffer,
            settings,
        })
    }
}

/// The files of an instance by which somebody can keep events from it. The kernel itself changes
/// which processes an instance of `calls` follows, and of hundreds of calls not each is looked at.
fn settings(instance: &Instance, events: &[EventFormat], calls: bool) -> Vec<(String, String)> {
    let events = if calls { &[] } else { events };
    let of_each = events.iter().flat_map(|event| {
        ["enable", "filter"].map(|file| format!("events/block/{}/{file}", event.name))
    });
    let of_all = OF_ALL.into_iter().filter(|name| !(calls && *name == calls::FOLLOWED));
    let read = |name: String| instance.read(&name).ok().map(|text| (name, text));
    of_all.map(str::to_owned).chain(of_each).filter_map(read).collect()
}

impl Tracer for TracefsTracer {
    fn interface(&self) -> Interface {
        Interface::Tracefs
    }

    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn chunk_bytes(&self) -> usize {
        self.sub_buffer
    }

    fn describe(&self, description: &mut Description) {
        "mono".clone_into(&mut description.clock);
        description.sub_buffer_bytes = self.sub_buffer as u32;
        description.tracefs = Some(self.texts.clone());
        description.buffer_bytes = self.streams.first().map_or(0, |stream| stream.capacity);
        description.buffer_rule = self.buffer.rule();
    }

    fn start(&mut self) -> Result<(), RecordError> {
        self.instance.write("tracing_on", "1")?;
        let calls = self.probes.is_some();
        self.settings = settings(&self.instance, &self.texts.events, calls);
        Ok(())
    }

    fn read(&mut self, stream: usize, chunk: &mut [u8]) -> io::Result<usize> {
        loop {
            return match (&self.pipes[stream]).read(&mut chunk[..self.sub_buffer]) {
                Ok(length) if self.layout.is_empty(&chunk[..length]) => Ok(0),
                Ok(length) => Ok(self.layout.used(&chunk[..length])),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => Ok(0),
                    Some(Errno::INTR) => continue,
                    _ => Err(error),
                },
            };
        }
    }

    fn counting(&self) -> Counting {
        Counting::Exact
    }

    fn counts(&mut self, stream: usize) -> io::Result<Counts> {
        let mut text = [0; STATS_MAX];
        let length = self.stats[stream].read_at(&mut text, 0)?;
        Ok(counts(&String::from_utf8_lossy(&text[..length])))
    }

    fn contents(&self, chunk: &[u8]) -> Contents {
        let PageContents { events, first_ns, last_ns } = self.layout.contents(chunk);
        Contents { events, first_ns, last_ns }
    }

    fn meddling(&mut self) -> Option<Meddling> {
        if !self.instance.path("tracing_on").exists() {
            let path = self.instance.named("");
            return Some(Meddling::Gone(format!("{} is gone", path.display())));
        }
        self.settings.iter().find_map(|(name, before)| {
            let now = instance::read_text(&self.instance.path(name)).ok()?;
            (now != *before).then(|| {
                let (path, now, before) = (self.instance.named(name), now.trim(), before.trim());
                Meddling::Off(format!("{} says `{now}` and no more `{before}`", path.display()))
            })
        })
    }

    fn note(&self) -> Option<String> {
        self.buffer.note()
    }

    fn followed(&self) -> Option<PathBuf> {
        self.probes.as_ref().map(|_| self.instance.path(calls::FOLLOWED))
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        self.instance.write("tracing_on", "0")
    }

    fn detach(&mut self) -> Result<(), RecordError> {
        self.pipes.clear();
        self.stats.clear();
        self.instance.remove()?;
        self.probes.as_mut().map_or(Ok(()), Probes::remove)
    }
}

/// How long a page is, by the place and the length of its last field.
fn sub_buffer_bytes(header_page: &str) -> Option<usize> {
    let (_, data) = header_page.split_once("char data;")?;
    let value = |name: &str| {
        data.split(';').find_map(|part| part.trim().strip_prefix(name)?.parse::<usize>().ok())
    };
    let bytes = value("offset:")?.checked_add(value("size:")?)?;
    (bytes <= PAYLOAD_MAX).then_some(bytes)
}

/// What the text of a processor's `stats` counts. An event that found no room is dropped where
/// nothing is overwritten; the other two counters stay at zero then, and are no less a loss.
fn counts(stats: &str) -> Counts {
    let value = |name: &str| {
        stats.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    let lost = ["overrun:", "commit overrun:", "dropped events:"];
    Counts {
        read: value("read events:").unwrap_or(0),
        lost: lost.iter().filter_map(|name| value(name)).sum(),
    }
}

fn unavailable(reason: String, remedy: &str) -> RecordError {
    let remedy = Remedy::only(remedy);
    RecordError::Unavailable { interface: Interface::Tracefs, reason, remedy }
}

/// Where tracefs is, if this kernel has it and this user may look at it.
fn place() -> Result<Option<Held>, RecordError> {
    match mounted::tracefs() {
        Ok(KernelMount::At(root)) => Ok(Some(root)),
        Ok(KernelMount::Closed(root)) => {
            Err(refused(&root, &io::Error::other("only root may look at tracefs here")))
        }
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NODEV | Errno::NOENT) => Ok(None),
            Some(Errno::PERM | Errno::ACCESS) => {
                let reason = "tracefs is not mounted, and only root may look at it all the same";
                Err(unavailable(reason.to_owned(), AS_ROOT))
            }
            // Before Linux 5.2 a mount is there for everybody or not at all.
            Some(Errno::NOSYS) => Err(unavailable(
                "tracefs is not mounted".to_owned(),
                "`mount -t tracefs tracefs /sys/kernel/tracing` as root",
            )),
            _ => Err(unavailable(format!("tracefs cannot be mounted: {error}"), AS_ROOT)),
        },
    }
}

/// Where tracefs is, if it can be used.
fn root() -> Result<Held, RecordError> {
    let Some(root) = place()? else {
        return Err(unavailable(
            "this kernel has no tracefs".to_owned(),
            "use a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE",
        ));
    };
    match fs::read_dir(root.path("events/block")) {
        Ok(_) => Ok(root),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unavailable(
            format!("{} has no block events", root.named("").display()),
            "use a kernel with CONFIG_BLK_DEV_IO_TRACE",
        )),
        Err(error) => Err(refused(&root.named(""), &error)),
    }
}

/// What helps where this user may not.
const AS_ROOT: &str = "run as root";

/// Why tracefs cannot be used where the kernel refuses it.
fn refused(path: &Path, error: &io::Error) -> RecordError {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let (reason, remedy) = if lockdown.contains("[confidentiality]") {
        let reason = "the kernel is locked down for confidentiality, which forbids all tracing";
        (reason.to_owned(), "start the kernel with lockdown=integrity or without Secure Boot")
    } else {
        (format!("{}: {error}", path.display()), AS_ROOT)
    };
    unavailable(reason, remedy)
}

/// Removes the instances and then the probes of processes of ioecho that no longer live; answers
/// what they were.
pub(super) fn clean() -> Result<Vec<String>, RecordError> {
    let Some(root) = place()? else { return Ok(Vec::new()) };
    let mut removed = Vec::new();
    for name in instance::names(&root) {
        if Owner::of_name(&name).is_none_or(Owner::lives) {
            continue;
        }
        let directory = format!("{}/{name}", instance::INSTANCES);
        match fs::remove_dir(root.path(&directory)) {
            Ok(()) => removed.push(name),
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied) => {
                return Err(refused(&root.named(&directory), &error));
            }
            // One of a process of another container is open, and the kernel keeps it.
            Err(_) => {}
        }
    }
    let instances = removed.into_iter().map(|name| format!("trace instance {name}"));
    let probes = probes::clean(&root).into_iter().map(|group| format!("event probes {group}"));
    Ok(instances.chain(probes).collect())
}

/// The processes of ioecho that record now, other than this one.
pub(super) fn others() -> Vec<u32> {
    let Ok(Some(root)) = place() else { return Vec::new() };
    let owners = instance::names(&root).into_iter().filter_map(|name| Owner::of_name(&name));
    let mut pids: Vec<u32> =
        owners.filter(|owner| owner.lives() && *owner != Owner::this()).map(Owner::pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_long_as_its_fields() {
        let text =
            |size: &str| format!("\tfield: char data;\toffset:16;\tsize:{size};\tsigned:1;\n");
        assert_eq!(sub_buffer_bytes(&text("4080")), Some(4096));
        assert_eq!(sub_buffer_bytes(&text("65520")), Some(65536));
        assert_eq!(sub_buffer_bytes(&text("18446744073709551615")), None);
        assert_eq!(sub_buffer_bytes(""), None);
    }

    #[test]
    fn all_that_found_no_room_is_lost() {
        let stats = "entries: 12\noverrun: 1\ncommit overrun: 2\nbytes: 96\noldest event ts:   \
                     559.698676\nnow ts: 46668.801264\ndropped events: 4\nread events: 80\n";
        assert_eq!(counts(stats), Counts { read: 80, lost: 7 });
        assert_eq!(counts(""), Counts::default());
        assert_eq!(counts("read events: x\ndropped events: -1"), Counts::default());
    }
}
