//! `ioecho record`: records block devices, or what a command does with files, into a trace.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use ioecho_linux::record::{
    self, Ending, Interface, Options, RecordError, Recorder, Summary, Target,
};
use ioecho_trace::formats::{IssueEvent, write};
use ioecho_trace::recording::directory_beside;
use ioecho_trace::units::{counted, counted_in};

use crate::args::{RecordArgs, Segment};
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};
use crate::print::{tell, visible};
use crate::run::recording::{self, Outcome, Session, convert};
use ioecho_run::error::RunError;

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<u8> {
    if args.clean {
        let removed = record::clean().map_err(refused)?;
        for what in &removed {
            tell(&format!("removed {what}"));
        }
        if args.devices.is_empty() && !args.files {
            if removed.is_empty() {
                tell("nothing was left behind");
            }
            return Ok(exit::OK);
        }
    }
    let Some(output) = &args.output else { return Ok(exit::OK) };
    check_output(args, output)?;
    let targets = args.devices.iter().map(|path| Target::at(path));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    check_event(args, &targets)?;
    let options = options(args, output);
    if args.dry_run {
        return forecast(&targets, &options, &args.command);
    }
    let names = names(args, &targets);
    // From here on a signal ends the recording. Before, it would end the process without removing
    // the trace from the kernel.
    let began = SystemTime::now();
    let session = Session::new(args.duration, &args.command, args.quiet)?;
    let recorder = Recorder::start(targets, &options).map_err(refused)?;
    recorder.notes().iter().for_each(|note| tell(&format!("note: {note}")));
    let interface = recorder.interface();
    if !args.quiet {
        let until = match (args.duration, args.command.is_empty()) {
            (Some(duration), _) => format!("for {duration}"),
            (None, true) => "until Ctrl-C".to_owned(),
            (None, false) => "until the command ends".to_owned(),
        };
        let names = names.join(", ");
        tell(&format!("recording {} by {}, {until}", visible(&names), interface.name()));
    }
    let followed = recorder.follow_this_thread().map_err(|error| refused(error).into());
    let number = match followed.and_then(|()| session.run()) {
        Ok(number) => number,
        Err(error) => {
            // Nothing was recorded yet. The next attempt must not find this directory in its way.
            recorder.stop();
            let _ = fs::remove_dir_all(&options.directory);
            return Err(error);
        }
    };
    let Outcome { summary, command, stop } = session.follow(recorder, number)?;
    if !args.quiet {
        tell(&text(&summary));
    }
    let is_good = summary.ending.is_good();
    if !is_good {
        let why = visible(summary.ending.phrase());
        tell(&format!("warning: the recording ended early: {why}"));
    }
    for loss in losses(&summary) {
        tell(&loss);
    }
    if let Ending::Misplaced(_) = &summary.ending {
        tell(&format!(
            "note: nothing was written to {}; where the recording is there yet, `ioecho convert` \
             takes its directory",
            output.display()
        ));
        return Ok(exit::INCOMPLETE);
    }
    if is_empty(&summary, interface) {
        return nothing(args, output, &names, is_good);
    }
    let imported = convert::convert(args, output, began, &stop)?;
    if let Some(status) = command.filter(|status| !(args.quiet && status.success())) {
        tell(&format!("the command ended with {status}"));
    }
    Ok(match (imported, command) {
        _ if !is_good => exit::INCOMPLETE,
        (code, _) if code != exit::OK => code,
        _ if !summary.is_whole() => exit::EVENTS_LOST,
        (_, Some(status)) if !status.success() => exit::COMMAND_FAILED,
        _ => exit::OK,
    })
}

/// What is recorded, by name.
fn names(args: &RecordArgs, targets: &[Target]) -> Vec<String> {
    if args.files {
        let program = args.command.first().map(|program| program.to_string_lossy());
        return vec![format!("the file operations of {}", program.unwrap_or_default())];
    }
    targets.iter().map(|target| target.name().to_owned()).collect()
}

/// The recorder's error, with the flag that follows its advice.
#[expect(clippy::needless_pass_by_value, reason = "so `map_err` gives it")]
fn refused(error: RecordError) -> RunError {
    let refused =
        recording::refused(&error, |interface| format!("--interface {}", interface.name()));
    match error {
        RecordError::Reserve { .. } => {
            RunError::new(refused.kind(), format!("{refused} (--reserve SIZE)"))
        }
        _ => refused,
    }
}

/// Prints a warning for everything that is missing in the recording.
fn losses(summary: &Summary) -> Vec<String> {
    let mut losses = Vec::new();
    let elsewhere = summary.dropped.saturating_add(summary.taken);
    if let buffers @ 1.. = summary.lost().saturating_sub(elsewhere) {
        losses.push(format!(
            "warning: {} no room in the kernel's buffers\n  = help: give it more with --buffer, \
             and write to a faster disk",
            counted_in(buffers, "event was lost: it found", "events were lost: they found")
        ));
    }
    if let dropped @ 1.. = summary.dropped {
        losses.push(format!(
            "warning: {} could not be written\n  = help: write to a disk with more room, or keep \
             more of it free with --reserve",
            counted_in(dropped, "event was lost: it", "events were lost: they")
        ));
    }
    if let taken @ 1.. = summary.taken {
        losses.push(format!(
            "warning: {} out of this recording's buffers\n  = help: a trace instance named \
             ioecho-… is a recording's; read none of its files that end in _pipe or _raw",
            counted_in(
                taken,
                "event was lost: another program has read it",
                "events were lost: another program has read them"
            )
        ));
    }
    if summary.blind.0 > 0 {
        losses.push(format!(
            "warning: for {} events were kept from coming by somebody; the recording has gaps",
            summary.blind
        ));
    }
    losses
}

/// Whether there surely was no event. A recorder that failed may not have counted all events. The
/// kernel counts the events of a trace instance, but may refuse to tell. With blktrace, this
/// program counts the records. They may include notes on processes, which are no events.
fn is_empty(summary: &Summary, interface: Interface) -> bool {
    let is_counted = matches!(summary.ending, Ending::Asked | Ending::DeviceGone(_))
        && (summary.bytes.0 == 0 || interface == Interface::Blktrace);
    is_counted && summary.events() == 0 && summary.is_whole()
}

/// Says that there was no event, and removes the empty recording. An empty trace could not be read,
/// and an empty recording would be in the way of the next one.
fn nothing(
    args: &RecordArgs,
    output: &Path,
    names: &[String],
    is_good: bool,
) -> anyhow::Result<u8> {
    if !args.keep_raw {
        let raw = directory_beside(output);
        fs::remove_dir_all(&raw).with_context(|| format!("removing {}", raw.display()))?;
    }
    let names = names.join(", ");
    let text = format!(
        "no request came to {names} while it was recorded; nothing was written\n  = help: is it \
         the device that the load goes to? (`lsblk` shows what stands on what)"
    );
    let code = if is_good { exit::TRACE } else { exit::INCOMPLETE };
    Err(Coded::error(code, text))
}

/// Refuses an output that could not be written after the load.
fn check_output(args: &RecordArgs, output: &Path) -> anyhow::Result<()> {
    if output == Path::new("-") {
        let text = "a recording is kept beside its output until it is converted, and the standard \
                    output has no place beside it\n  = help: name a file with -o";
        return Err(Coded::error(exit::USAGE, text));
    }
    Gate::default().check(output, Writing::Replacing)?;
    // A recording cannot be made again: what happened then is over.
    if !args.force && fs::symlink_metadata(output).is_ok() {
        let text = format!(
            "{} is there already\n  = help: name another file with -o, or replace this one with \
             --force",
            output.display()
        );
        return Err(Coded::error(exit::OUTPUT, text));
    }
    write::check(args.to, output)?;
    Ok(())
}

/// Refuses to wait for events that cannot come.
fn check_event(args: &RecordArgs, targets: &[Target]) -> anyhow::Result<()> {
    let without = |target: &&Target| !target.has_scheduler();
    match targets.iter().find(without).filter(|_| args.event == IssueEvent::Inserted) {
        None => Ok(()),
        Some(target) => {
            let name = target.name();
            let text = format!(
                "{}: has no I/O scheduler that requests could be inserted into, so most of them \
                 would be missing\n  = help: take --event queued or issued, or choose a scheduler \
                 (`cat /sys/block/{}/queue/scheduler`)",
                target.path().display(),
                target.disk_of_partition().unwrap_or(name)
            );
            Err(Coded::error(exit::USAGE, text))
        }
    }
}

fn options(args: &RecordArgs, output: &Path) -> Options {
    let recorder = concat!("ioecho ", env!("CARGO_PKG_VERSION"));
    let usual = Options::new(&directory_beside(output), recorder);
    let (segment_bytes, segment_time) = match args.segment {
        None => (usual.segment_bytes, usual.segment_time),
        Some(Segment::Size(bytes)) => (bytes, usual.segment_time),
        Some(Segment::Time(time)) => (usual.segment_bytes, time),
    };
    Options {
        interface: args.interface,
        calls: args.files,
        buffer: args.buffer,
        events: args.events(),
        reserve: args.reserve,
        segment_bytes,
        segment_time,
        ..usual
    }
}

/// Prints the plan of a dry run.
fn forecast(targets: &[Target], options: &Options, command: &[OsString]) -> anyhow::Result<u8> {
    if let Some(program) = command.first().filter(|program| !is_program(program)) {
        let text = format!("cannot run {}: there is no such program", program.display());
        return Err(Coded::error(exit::USAGE, text));
    }
    let plan = Recorder::plan(targets, options).map_err(refused)?;
    for target in targets {
        let kind = match target.disk_of_partition() {
            Some(disk) => format!(", a partition of {disk}"),
            None => String::new(),
        };
        let bios = if target.is_bio_based() { ", without a request queue: bios only" } else { "" };
        tell(&format!("device        {}: {}{kind}{bios}", target.name(), target.size()));
    }
    tell(&format!("interface     {}: {}", plan.interface.name(), plan.why));
    let (buffer, rule) = (plan.buffer, &plan.buffer_rule);
    tell(&format!(
        "buffers       {buffer} for each of {}: {rule}",
        counted(plan.cpus as u64, "processor")
    ));
    if options.calls {
        tell(&format!("events        {}", counted(plan.events.len() as u64, "tracepoint")));
    } else if !plan.events.is_empty() {
        tell(&format!("events        {}", plan.events.join(", ")));
    }
    tell(&format!("recording     {}, until it is converted", options.directory.display()));
    if !command.is_empty() {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        tell(&format!("command       {}, until it ends", visible(&words.join(" "))));
    }
    plan.notes.iter().for_each(|note| tell(&format!("note: {note}")));
    Ok(exit::OK)
}

/// Whether execvp(3) would find a program of this name.
fn is_program(name: &OsStr) -> bool {
    let is_executable = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        return is_executable(Path::new(name));
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    !name.is_empty() && std::env::split_paths(&places).any(|place| is_executable(&place.join(name)))
}

/// Prints the result of the recording.
fn text(summary: &Summary) -> String {
    let Summary { bytes, cpu, wall, fullest, .. } = summary;
    let share = cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9) * 100.0;
    format!(
        "recorded {} in {wall}, {} lost; {bytes}; {cpu} of processor time ({share:.2} %); \
         buffers at most {:.1} % full",
        counted(summary.events(), "event"),
        summary.lost(),
        f64::from(*fullest) / 10.0,
    )
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Bytes;

    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_cause() {
        let totals = |lost| vec![ioecho_trace::recording::Totals { cpu: 0, read: 9, lost }];
        let of = |lost, dropped, blind| {
            let blind = ioecho_trace::Nanos(blind);
            losses(&Summary { cpus: totals(lost), dropped, blind, ..Summary::default() })
        };
        assert!(of(0, 0, 0).is_empty());
        let taken = Summary { cpus: totals(9), taken: 9, ..Summary::default() };
        let taken = losses(&taken);
        assert!(taken.len() == 1 && taken[0].contains("9 events were lost: another program"));
        let both = of(7, 3, 0);
        assert!(both[0].contains("4 events were lost: they found no room in the kernel's"));
        assert!(both[1].contains("3 events were lost: they could not be written"));
        assert!(of(3, 3, 0).len() == 1 && of(0, 0, 5)[0].contains("kept from coming"));
    }

    #[test]
    fn a_command_is_looked_for_as_the_system_would() {
        let is = |name: &str| is_program(OsStr::new(name));
        assert!(is("sh") && is("/bin/sh"));
        for name in
            ["", "no-program-has-this-name", "/bin/no-program-either", "/bin", "/etc/passwd"]
        {
            assert!(!is(name), "{name:?}");
        }
    }

    #[test]
    fn a_recording_is_empty_only_if_that_is_sure() {
        let of = |ending, bytes, interface| {
            let summary = Summary { ending, bytes: Bytes(bytes), ..Summary::default() };
            is_empty(&summary, interface)
        };
        let (tracefs, blktrace) = (Interface::Tracefs, Interface::Blktrace);
        assert!(of(Ending::Asked, 0, tracefs));
        assert!(of(Ending::DeviceGone("loop0 was removed".to_owned()), 0, tracefs));
        assert!(!of(Ending::Asked, 1, tracefs), "what is there was not counted");
        assert!(of(Ending::Asked, 1, blktrace), "notes of processes");
        let failed = || Ending::Failed("the thread ended by itself".to_owned());
        assert!(!of(failed(), 0, tracefs) && !of(failed(), 0, blktrace));
    }
}
