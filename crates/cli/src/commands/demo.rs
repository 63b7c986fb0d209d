//! `ioecho demo`: a replay without a device, without root, and in less than half a minute.
//!
//! It replays some seconds of a recording that is part of the program (`examples/`) on a scratch
//! file. Reading the holes of a new file would measure only the file system, so the places that the
//! load reads are written first.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ioecho_replay::pattern::Pattern;
use ioecho_replay::{Io, Payload};
use ioecho_run::error::{Kind, RunError};
use ioecho_run::execute::execute;
use ioecho_run::observer::Observer;
use ioecho_run::plan::{ReplayPlan, dated};
use ioecho_run::spec::ReplaySpec;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::{Load, Window};
use ioecho_trace::{Batch, Bytes, Flags, Nanos, Op, Source};

use crate::args::DemoArgs;
use crate::commands::replay::conclude;
use crate::exit::{self, Coded};
use crate::opened::{self, Named};
use crate::outputs::{Gate, make_directory};
use crate::print::Out;
use crate::run::command;
use crate::run::live::LivePlan;
use crate::run::screen::Screen;
use crate::run::signals::stop_on_signals;

/// The recording: a minute of PostgreSQL under pgbench (`examples/pgbench.md`).
const RECORDING: &[u8] = include_bytes!("../../assets/pgbench.parquet");

/// The part that is replayed, in the trace's own time.
const WINDOW: Window =
    Window { start: Some(Nanos::from_secs(20)), duration: Some(Nanos::from_secs(12)) };

/// The size of the device on which it was recorded.
const SCRATCH: Bytes = Bytes(1 << 30);

pub(crate) fn run(args: &DemoArgs, out: &mut Out) -> anyhow::Result<u8> {
    let directory = args.output.clone().unwrap_or_else(|| dated("ioecho-demo"));
    if directory.join("run").exists() {
        let name = directory.display();
        let text = format!("{name} holds a demo already\n  = help: name another with -o");
        return Err(Coded::error(exit::OUTPUT, text));
    }
    let gate = Gate::default();
    make_directory(&directory)?;
    let trace = directory.join("pgbench.parquet");
    // The recording that a killed demo left is used again. Another file of this name is not
    // touched.
    if fs::symlink_metadata(&trace).is_err() {
        gate.put(&trace, RECORDING)?;
    } else if !fs::read(&trace).is_ok_and(|there| there == RECORDING) {
        let name = trace.display();
        let text = format!("{name} is there, and is no demo's\n  = help: name another with -o");
        return Err(Coded::error(exit::OUTPUT, text));
    }
    let scratch = directory.join("scratch.img");
    let target = if args.sim {
        format!("sim:size={}", SCRATCH.0)
    } else {
        writeln!(
            out,
            "preparing a scratch file of {SCRATCH} (removed afterwards): {}",
            scratch.display()
        )?;
        prepare(&gate, &trace, &scratch)?;
        scratch.display().to_string()
    };
    writeln!(
        out,
        "replaying {} of a recorded PostgreSQL load at its natural speed",
        WINDOW.duration.unwrap_or_default()
    )?;
    // Where there is no /sys nobody can tell who uses a file; this one was made a moment ago.
    let destroy = if args.sim { Vec::new() } else { vec![scratch.clone()] };
    let spec = ReplaySpec {
        trace,
        start: WINDOW.start,
        duration: WINDOW.duration,
        targets: vec![target],
        destroy,
        output: Some(directory.join("run")),
        allow_cached: true,
        scratch: true,
        ..ReplaySpec::default()
    };
    let (plan, source) = ReplayPlan::new(spec, command::words(), &Named)?;
    let stopping = stop_on_signals()?;
    let screen = Screen::new(LivePlan::default(), false, &stopping);
    let observer: Arc<dyn Observer> = Arc::new(screen);
    let finished = execute(&plan, source, &stopping, &observer);
    let _ = fs::remove_file(&scratch);
    let finished = finished?;
    conclude(&finished, out, args.verbose)?;
    writeln!(out, "next: ioecho replay TRACE --target DEVICE")?;
    // The demo has succeeded even if this host was too slow for its load.
    let incomplete = exit::of_run(&finished.summary) == exit::INCOMPLETE;
    Ok(if incomplete { exit::INCOMPLETE } else { exit::OK })
}

/// The part of the load that is replayed.
fn part() -> Load {
    Load { window: WINDOW, chain: Vec::new() }
}

/// Makes the scratch file, and fills the places that the load will touch with data that ioecho
/// recognises.
fn prepare(gate: &Gate, trace: &Path, scratch: &Path) -> anyhow::Result<()> {
    let mut source = opened::trace(trace, &ReadOptions::default(), &part())?;
    let mut batch = Batch::new(source.header().columns);
    let mut pattern = Pattern::new(0);
    let mut buffer = Vec::new();
    let fill = |file: &File,
                request: ioecho_trace::Request,
                buffer: &mut Vec<u8>,
                pattern: &mut Pattern| {
        buffer.resize(request.length.0 as usize, 0);
        let io = Io {
            tag: 0,
            request: 0,
            scheduled: Nanos::ZERO,
            op: Op::Write,
            flags: Flags::empty(),
            offset: request.offset,
            length: request.length,
        };
        pattern.fill(&io, buffer);
        file.write_all_at(buffer, request.offset.0)
    };
    let unwritable = |error: std::io::Error| {
        RunError::new(Kind::Output, format!("cannot write {}: {error}", scratch.display()))
    };
    let file = gate.new_file(scratch, unwritable)?;
    file.set_len(SCRATCH.0).map_err(unwritable)?;
    while source.next_batch(&mut batch)? {
        for request in batch.iter().filter(|request| request.op != Op::Flush) {
            if request.end() <= SCRATCH {
                fill(&file, request, &mut buffer, &mut pattern).map_err(unwritable)?;
            }
        }
    }
    Ok(file.sync_all().map_err(unwritable)?)
}
