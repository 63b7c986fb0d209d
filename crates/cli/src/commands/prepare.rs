//! `ioecho prepare`: fills a target with data before it is measured.
//!
//! An empty device answers from its tables, without reading its cells. A file full of holes answers
//! without any device. A filled target stays filled: replays overwrite it with data of the same
//! kind. So one fill per device is enough. A later run recognises the data.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ioecho_linux::target::sample;
use ioecho_linux::{
    Access, DeviceOptions, MonotonicClock, OpenOptions, OpenedTarget, open_device, target,
};
use ioecho_replay::fill::{Extent, fill_run, seed_of};
use ioecho_replay::map::Map;
use ioecho_replay::plan::{Planner, TargetLimits, Timing};
use ioecho_run::error::{Kind, RunError};
use ioecho_run::fill::{DEPTH, Filled, Job, fill, resume};
use ioecho_run::inputs::Inputs;
use ioecho_run::target::{Target, guard_all};
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Bytes, Op, Source};

use crate::args::{Part, PrepareArgs};
use crate::exit::{self, Coded};
use crate::opened;
use crate::outputs::Gate;
use crate::print::{Out, is_watched, tell};
use crate::run::signals;

/// How often a line is printed if there is no terminal.
const PRINT_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &PrepareArgs, out: &mut Out) -> anyhow::Result<u8> {
    let name = args.target.to_string_lossy();
    // An unreadable trace is refused before a file is made.
    let window = args.window.asked();
    let trace = match (&args.trace, args.part) {
        (Some(trace), Part::Touched) => {
            let load = Load { window, ..Load::default() };
            Some(opened::trace(trace, &args.read.options(), &load)?)
        }
        (Some(_), Part::All) => {
            let text = "--trace is for --part touched alone\n  = help: add --part touched, or \
                        leave --trace away to fill all";
            return Err(Coded::error(exit::USAGE, text));
        }
        (None, _) if !window.is_all() => {
            let text = "--start and --duration cut the trace of --part touched, and there is \
                        none\n  = help: add --part touched --trace TRACE, or leave them away to \
                        fill all";
            return Err(Coded::error(exit::USAGE, text));
        }
        (None, _) => None,
    };
    let inputs = Inputs::of(args.trace.as_deref());
    let made = make_file(args, &Gate::reading(inputs.clone()))?;
    let looked_at = Target::look_at(&name, false, args.allow_cached)?;
    let Target::Real { options, .. } = &looked_at else {
        return Err(Coded::error(exit::USAGE, "a simulated target needs no filling"));
    };
    if args.trace.as_ref().is_some_and(|trace| looked_at.is_file(trace)) {
        let text = format!("{name} is both the trace and the target");
        return Err(Coded::error(exit::USAGE, text));
    }
    looked_at.refuse_inputs(&inputs)?;
    let limits = looked_at.limits();
    writeln!(out, "target        {name}: {}", limits.capacity)?;
    guard_all(std::slice::from_ref(&looked_at), &args.destroy, &Wording::default())?;
    // From here on no other process can open the device, however long it takes to read the trace.
    let claimed = (!args.dry_run).then(|| target::claim(&args.target, *options)).transpose()?;
    let extent = match trace {
        Some(source) => touched(source, limits)?,
        None => Extent::all(limits.capacity, limits.block_size),
    };
    writeln!(
        out,
        "part          {} ({})",
        Bytes(extent.bytes_from(0)),
        if args.part == Part::All { "all of it" } else { "what the trace touches" }
    )?;
    let Some(opened) = claimed else { return Ok(exit::OK) };
    looked_at.look_again(&opened, &args.destroy, &Wording::default())?;
    write(args, opened, &extent, made, out)
}

/// The places that a replay of the trace touches on a target with these limits.
fn touched(mut source: Box<dyn Source>, limits: TargetLimits) -> anyhow::Result<Extent> {
    let mut extent = Extent::nothing(limits.capacity, limits.block_size);
    let map = Map::spread(&source.header().volumes, &[limits]);
    let mut planner = Planner::mapped(vec![limits], map, Timing::default());
    let mut batch = Batch::new(source.header().columns);
    let mut planned = Vec::new();
    while source.next_batch(&mut batch)? {
        planned.clear();
        for request in batch.iter() {
            planner.plan(&request, &mut planned);
        }
        for request in &planned {
            if request.op != Op::Flush && request.refusal.is_none() {
                extent.touch(request.offset, request.length);
            }
        }
    }
    Ok(extent)
}

fn is_simulated(args: &PrepareArgs) -> bool {
    let name = args.target.to_string_lossy();
    name == "sim" || name.starts_with("sim:")
}

/// A file that was made for a fill. Unless it is kept it is removed again, because an empty file
/// would be in the way of the next attempt.
struct MadeFile<'a>(Option<&'a Path>);

impl MadeFile<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for MadeFile<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // An error here would hide the error that led here.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the file if the user gave a size. Refuses a missing file otherwise.
fn make_file<'a>(args: &'a PrepareArgs, gate: &Gate) -> anyhow::Result<Option<MadeFile<'a>>> {
    let name = args.target.display();
    let Some(size) = args.size else {
        if args.target.exists() || is_simulated(args) {
            return Ok(None);
        }
        let text = format!(
            "{name}: there is no such file or device\n  = help: `lsblk` lists the devices; to \
             make a file: --size SIZE"
        );
        return Err(Coded::error(exit::TARGET, text));
    };
    let refused = |error: io::Error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let text = format!(
                "{name} is there already, so --size cannot make it\n  = help: leave --size away \
                 to fill what is there"
            );
            return RunError::new(Kind::Usage, text);
        }
        let text = format!(
            "cannot make {name} of {size}: {error}\n  = help: name a directory that is there and \
             may be written to, on a file system that has room for files of this size"
        );
        RunError::new(Kind::Target, text)
    };
    let file = gate.new_file(&args.target, refused)?;
    let made = MadeFile(Some(&args.target));
    file.set_len(size.0).map_err(refused)?;
    Ok(Some(made))
}

/// Fills the target, and prints how much was written.
fn write(
    args: &PrepareArgs,
    opened: OpenedTarget,
    extent: &Extent,
    made: Option<MadeFile<'_>>,
    out: &mut Out,
) -> anyhow::Result<u8> {
    let (seed, from) = if args.resume {
        let (seed, from) = resume(&opened, extent, args.seed)?;
        let done = extent.bytes_from(0) - extent.bytes_from(from);
        writeln!(out, "resumed       at byte {from}: {} were there", Bytes(done))?;
        (seed, from)
    } else {
        (args.seed.unwrap_or_else(random_seed), 0)
    };
    writeln!(out, "fill          number {:016x}, --seed {seed}", fill_run(seed))?;

    let stop = Arc::new(AtomicBool::new(false));
    signals::raise(&stop)?;
    out.tells_of_files();
    let left = extent.bytes_from(from);
    let clock = MonotonicClock::new();
    let options = DeviceOptions { in_flight_max: DEPTH, ..DeviceOptions::default() };
    let mut device = open_device(opened, &options, clock)?;
    if args.write_size > device.length_max() {
        let text = format!(
            "--write-size {}: this host has memory for writes of {} at most\n  = help: name less",
            args.write_size,
            device.length_max()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    if let Some(made) = made {
        made.keep();
    }
    let mut line = ProgressLine::new(left, args.quiet);
    let began = Instant::now();
    let job = Job { extent, from, seed, bundle: args.write_size.0 };
    let filled = fill(job, device.as_mut(), &clock, &stop, |written| line.show(written));
    line.finish();
    let Filled { bytes, complete } = filled?;
    let took = began.elapsed();
    drop(device);

    writeln!(
        out,
        "wrote         {} in {:.1} s, {}/s, and flushed",
        Bytes(bytes),
        took.as_secs_f64(),
        Bytes((bytes as f64 / took.as_secs_f64().max(1e-6)) as u64)
    )?;
    if !complete {
        let name = args.target.display();
        // Data behind the filled part may still be lost, so going on needs `--destroy` again.
        let destroy =
            if args.destroy.is_empty() { String::new() } else { format!(" --destroy {name}") };
        tell(&format!(
            "stopped by a signal\n  = help: go on with ioecho prepare {name} --resume{destroy}"
        ));
        return Ok(exit::INCOMPLETE);
    }
    let looking = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
    writeln!(out, "content       {}", sample(&target::open(&args.target, looking)?))?;
    Ok(exit::OK)
}

/// A seed that was not used before.
fn random_seed() -> u64 {
    let random = RandomState::new().build_hasher().finish();
    // A seed has fewer bits than the random number: those that the stamps on the target hold.
    seed_of(fill_run(random)).unwrap_or_default()
}

/// The progress line for a terminal.
struct ProgressLine {
    bar: Option<ProgressBar>,
    total: u64,
    began: Instant,
    printed: Instant,
    quiet: bool,
}

impl ProgressLine {
    fn new(total: u64, quiet: bool) -> Self {
        let bar = (!quiet && is_watched()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = "{bar:30} {binary_bytes} of {binary_total_bytes}, \
                            {binary_bytes_per_sec}, ETA {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self { bar, total, began: now, printed: now, quiet }
    }

    fn show(&mut self, written: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(written);
        } else if !self.quiet && self.printed.elapsed() >= PRINT_EVERY {
            self.printed = Instant::now();
            tell(&progress(written, self.total, self.began.elapsed()));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The progress line without a terminal.
fn progress(written: u64, total: u64, elapsed: Duration) -> String {
    let rate = written as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = if rate > 0.0 {
        format!("{:.0} s", (total - written.min(total)) as f64 / rate)
    } else {
        "-".to_owned()
    };
    format!(
        "{:.0} s | {} of {} | {}/s | ETA {left}",
        elapsed.as_secs_f64(),
        Bytes(written),
        Bytes(total),
        Bytes(rate as u64)
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_line_tells_rate_and_time_left() {
        let line = progress(1 << 30, 3 << 30, Duration::from_secs(10));
        assert_eq!(line, "10 s | 1.00 GiB of 3.00 GiB | 102 MiB/s | ETA 20 s");
        assert!(progress(0, 1, Duration::ZERO).ends_with("ETA -"));
    }

    #[test]
    fn a_made_file_goes_unless_it_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made");
        File::create_new(&path).unwrap();
        MadeFile(Some(&path)).keep();
        assert!(path.exists());
        drop(MadeFile(Some(&path)));
        assert!(!path.exists());
    }

    #[test]
    fn a_random_seed_can_be_typed() {
        assert!(random_seed() < 1 << 40);
    }
}
