//! `ioecho replay`: a trace on a target, with a verdict.

use std::io::Write;
use std::sync::Arc;

use ioecho_report::Page;
use ioecho_run::execute::{Finished, execute};
use ioecho_run::forecast::forecast;
use ioecho_run::observer::Observer;
use ioecho_run::plan::ReplayPlan;
use ioecho_run::{page, witness};
use ioecho_stats::required::{self, Requirement};
use ioecho_stats::run_summary::{Percentiles, RunSummary};
use ioecho_stats::verdict::Check;
use ioecho_trace::Nanos;
use ioecho_trace::units::counted;

use crate::args::ReplayArgs;
use crate::commands::{tell, tell_import};
use crate::exit;
use crate::opened::Named;
use crate::print::Out;
use crate::run::command;
use crate::run::live::LivePlan;
use crate::run::screen::Screen;
use crate::run::signals::stop_on_signals;

pub(crate) fn run(args: &ReplayArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (plan, mut source) = ReplayPlan::new(args.spec()?, command::words(), &Named)?;
    let live = LivePlan::new(&args.live, &plan)?;
    if args.safety.dry_run {
        writeln!(out, "{plan}\n{}", forecast(&plan, source.as_mut())?)?;
        for line in witness::planned(&plan)? {
            writeln!(out, "{line}")?;
        }
        plan.guard()?.iter().for_each(|warning| tell(warning));
        return Ok(tell_import(source.header()));
    }
    let takes_stdout = live.takes_stdout();
    let stopping = stop_on_signals()?;
    let screen = Arc::new(Screen::new(live, args.quiet, &stopping));
    let observer: Arc<dyn Observer> = screen.clone();
    let finished = execute(&plan, source, &stopping, &observer)?;
    // The outcome stands on standard error where lines for programs take the standard output.
    if takes_stdout {
        out.make_way();
    }
    let page = conclude(&finished, out)?;
    let unmet = tell_required(out, &plan.spec.require, &finished.summary)?;
    // Last: whoever reads slowly holds up nothing that matters.
    screen.finish(page);
    Ok(match exit::of_run(&finished.summary) {
        exit::OK if unmet => exit::REQUIRED,
        code => code,
    })
}

/// Draws the report, prints the outcome, and answers what was drawn. A report that cannot be made
/// or written (a full disk) is no reason to hide the outcome.
pub(crate) fn conclude(finished: &Finished, out: &mut Out) -> std::io::Result<Option<Page>> {
    let Finished { run, summary, .. } = finished;
    out.tells_of_files();
    let page = page::of_run(run, summary);
    let report = page.as_ref().map(|page| page::write(run, page));
    print_outcome(out, summary)?;
    match report {
        Ok(Ok(())) => writeln!(out, "report        {}", run.report().display())?,
        Ok(Err(error)) => tell(&format!("warning: {error}")),
        Err(error) => tell(&format!("warning: there is no report: {error:#}")),
    }
    Ok(page.ok())
}

/// Says whether what was required holds; answers whether something does not.
pub(crate) fn tell_required(
    out: &mut dyn Write,
    required: &[Requirement],
    summary: &RunSummary,
) -> std::io::Result<bool> {
    let unmet = required::unmet(required, &summary.verdict);
    if let Some(line) = required::line(required, &unmet) {
        writeln!(out, "{line}")?;
    }
    Ok(!unmet.is_empty())
}

/// What is typed to follow the advice of a check. The advice itself is for everybody who judges a
/// run, and not all of them type.
const FLAGS: [(&str, &str); 14] = [
    ("lateness", "--in-flight-max, --cpus"),
    ("demand", "--speedup"),
    ("issued", "--align round"),
    ("target-size", "--map"),
    ("lower-cache", "--cache-size"),
    ("steady-state", "--start"),
    ("in-flight", "--timing load, --follow-in-flight, --speedup"),
    ("same-load", "--window, --merge"),
    ("compression", "--fill-random, --dedup"),
    ("queue-depth", "--in-flight-max"),
    ("alignment", "--align round"),
    ("durability", "--filter"),
    ("cpu", "--cpus"),
    ("witness", "--conflicts"),
];

/// Prints the verdict first, then the figures.
pub(crate) fn print_outcome(out: &mut dyn Write, summary: &RunSummary) -> std::io::Result<()> {
    let RunSummary { verdict, engine, .. } = summary;
    let word = verdict.validity.name().to_uppercase();
    writeln!(out, "verdict       {word}. {}", verdict.summary)?;
    for check in &verdict.checks {
        if !check.advice.is_empty() {
            let Check { name, measured, threshold, .. } = check;
            let asked =
                if threshold.is_empty() { String::new() } else { format!(" (asked: {threshold})") };
            writeln!(out, "  {name:<13}{measured}{asked}")?;
            let typed = FLAGS.iter().find(|(of, _)| of == name);
            let typed = typed.map_or(String::new(), |(_, flags)| format!("{flags}; "));
            writeln!(out, "  {:<13}{} ({typed}ioecho explain {name})", "", check.advice)?;
        }
    }
    write!(out, "requests      {} of {} replayed", engine.issued, engine.planned)?;
    for (count, what) in [
        (engine.pushed_back, "pushed back"),
        (engine.dropped, "dropped on conflict"),
        (engine.ordered, "held up others on conflict"),
        (summary.failed, "failed"),
        (engine.left_out, "left out"),
        (engine.unmapped, "of volumes that the map does not name or that have no target"),
        (engine.rounded, "widened to whole blocks"),
    ] {
        if count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    writeln!(out)?;
    if let Some(verify) = &engine.verify {
        writeln!(
            out,
            "verified      {} intact, {} damaged, {} that cannot be told, {} never written",
            counted(verify.intact_sectors, "sector"),
            verify.damaged_sectors.saturating_add(verify.unreadable_sectors),
            verify.unverifiable_sectors,
            verify.unknown_sectors
        )?;
        for told in [verify.doubt_told(), verify.prereads_told()].into_iter().flatten() {
            writeln!(out, "  {told}")?;
        }
    }
    for (outcome, count) in summary.outcomes.iter().filter(|(outcome, _)| *outcome != "ok") {
        writeln!(out, "  {count} {outcome}")?;
    }
    for (name, by_kind) in [
        ("lateness", &summary.lateness),
        ("service time", &summary.service_time),
        ("response time", &summary.response_time),
    ] {
        for (kind, percentiles) in by_kind.iter().filter(|(kind, _)| *kind != "all") {
            writeln!(out, "{name:<14}{kind:<8} {}", shown(percentiles))?;
        }
    }
    Ok(())
}

fn shown(percentiles: &Percentiles) -> String {
    let span = |ns: u64| Nanos(ns as i64).to_string();
    format!(
        "p50 {:<9}p99 {:<9}p99.9 {:<9}max {}",
        span(percentiles.p50_ns),
        span(percentiles.p99_ns),
        span(percentiles.p99_9_ns),
        span(percentiles.max_ns)
    )
}
