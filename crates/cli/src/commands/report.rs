//! `ioecho report`: the page of a run, or of a load.

use std::io::Write;
use std::path::PathBuf;

use ioecho_report::Page;
use ioecho_run::directory::RunDirectory;
use ioecho_run::facts::State;
use ioecho_run::inputs::Inputs;
use ioecho_run::place::refuse_stranger;
use ioecho_run::{everything, finalise, page};
use ioecho_trace::Stop;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;

use crate::args::ReportArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::commands::outcome::{print_outcome, tell_required};
use crate::commands::plot;
use crate::exit::{self, Coded};
use crate::opened::Named;
use crate::outputs::{Gate, Writing};
use crate::print::Out;
use crate::run::command;

pub(crate) fn run(args: &ReportArgs, out: &mut Out) -> anyhow::Result<u8> {
    let load = args.load.asked();
    let gate = Gate::reading(Inputs::of_load(&args.run, &load));
    if let Some(directory) = &args.figures {
        // The page is written before the pictures, so their directory is checked here.
        refuse_stranger(directory)?;
    }
    let Some(run) = RunDirectory::at(&args.run) else { return of_trace(args, &gate, out) };
    let gate = gate.and_page_of(&args.run);
    if let Some(path) = &args.output {
        gate.check(path, Writing::Over)?;
    }
    if !load.is_whole() {
        let text = format!(
            "{} is a run, and its verdict is on the whole of it\n  = help: take its \
             requests.parquet for a page of a part of it, which says that it is not judged",
            args.run.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    let is_unfinished = run.journal().exists() || !run.requests().exists();
    let summary = if is_unfinished && !run.summary().exists() {
        finalise::recover(&run)?
    } else {
        run.read_summary()?
    };
    let facts = run.read_facts()?;
    if facts.state == State::Running {
        // The run was killed just before its page was made.
        run.mark_finalised(facts, &summary)?;
        run.free_reserve();
    }
    let (options, load, stop) = (ReadOptions::default(), Load::default(), Stop::default());
    let found = everything::count(&Named, run.path(), &options, &load, &stop)?;
    let page = page::of_found(&run, &summary, &found)?;
    out.tells_of_files();
    print_outcome(out, &summary, Some(&page.picture), args.verbose)?;
    let unmet = tell_required(out, &args.require, &summary)?;
    let code = if unmet { exit::REQUIRED } else { exit::OK };
    let written = write_of_run(args, &gate, &run, &page).and_then(|report| {
        if let Some(directory) = &args.figures {
            plot::write_main(&gate, &args.run, &options, &load, &stop, &found, directory)?;
        }
        Ok(writeln!(out, "report        {}", report.display())?)
    });
    exit::unless_worse(code, written)
}

/// Writes the page to the chosen place, or into the run's directory. Returns the place.
fn write_of_run(
    args: &ReportArgs,
    gate: &Gate,
    run: &RunDirectory,
    page: &Page,
) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.output {
        gate.put(path, ioecho_report::html(page)?.as_bytes())?;
        return Ok(path.clone());
    }
    page::write(run, page)?;
    Ok(run.report())
}

/// The page of a trace that is no run.
fn of_trace(args: &ReportArgs, gate: &Gate, out: &mut Out) -> anyhow::Result<u8> {
    let load = args.load.asked();
    if args.run.is_dir() {
        let text = format!(
            "{} is no run: it holds no run.toml\n  = help: name a directory that `ioecho replay \
             -o` made, or a trace",
            args.run.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    if !args.require.is_empty() {
        let text = format!(
            "{} is no run: it has no verdict whose checks --require could ask for",
            args.run.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    if let Some(path) = &args.output {
        gate.check(path, Writing::Over)?;
    }
    let stop = stop_on_signals()?;
    let options = args.read.options();
    let found = everything::count(&Named, &args.run, &options, &load, &stop)?;
    let page = page::of_trace(&args.run, &found, &command::words());
    let path = args.output.clone().unwrap_or_else(|| {
        let name = page.title.trim_start_matches('-');
        PathBuf::from(format!("{}.html", if name.is_empty() { "load" } else { name }))
    });
    gate.put(&path, ioecho_report::html(&page)?.as_bytes())?;
    if let Some(directory) = &args.figures {
        plot::write_main(gate, &args.run, &options, &load, &stop, &found, directory)?;
    }
    out.tells_of_files();
    writeln!(out, "report        {}", path.display())?;
    let is_damaged = found.header.damage.is_some();
    Ok(if is_damaged { exit::DAMAGED } else { exit::OK })
}
