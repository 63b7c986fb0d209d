//! `ioecho verify`: reads back what a run wrote, and says whether it is there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use ioecho_replay::verify::{After, Finding, PassProgress};
use ioecho_run::directory::RunDirectory;
use ioecho_run::verify::later::{Past, PastTarget, TargetFindings};
use ioecho_run::verify::result;
use ioecho_trace::units::counted;

use crate::args::VerifyArgs;
use crate::exit;
use crate::print::{Out, is_watched, tell};
use crate::run::signals;
use crate::typed::sentence;

/// Findings that are printed; all that are kept stand in `verify.json`.
const PRINTED: usize = 20;

/// How often to look whether the verification is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long one that is to end may take: it looks ten times a second whether it is, unless the
/// kernel holds it.
const STUCK: Duration = Duration::from_secs(1);

/// How often a line tells how far it is.
const PRINT_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &VerifyArgs, out: &mut Out) -> anyhow::Result<u8> {
    let mut past = Past::open(&args.run)?;
    past.retarget(&args.target)?;
    let after = args.after;
    let stop = Arc::new(AtomicBool::new(false));
    signals::raise(&stop)?;
    let past = Arc::new(past);
    let loud = !args.quiet && is_watched();
    let mut found = Vec::new();
    for target in &past.targets {
        found.push(patiently(&past, target, after, &stop, loud)?);
    }
    let (complete, damaged) = result::verdict(&found);
    let code = match (damaged, complete) {
        (true, _) => exit::DATA_DAMAGED,
        (false, true) => exit::OK,
        (false, false) => exit::INCOMPLETE,
    };
    if let Some(run) = RunDirectory::at(&args.run) {
        let kept = result::keep(&run, past.number, after.name(), &found);
        kept.unwrap_or_else(|error| tell(&format!("warning: {}", sentence(&error))));
    }
    if args.json {
        out.json(&result::whole(past.number, after.name(), &found))?;
    } else {
        for found in &found {
            out.write_all(text(found).as_bytes())?;
        }
        let verdict = match (damaged, complete) {
            (true, _) => "damaged",
            (false, true) => "intact",
            (false, false) => "not verified to the end",
        };
        writeln!(out, "verdict       {verdict}")?;
    }
    Ok(code)
}

/// Verifies a target in a thread of its own. A device that hangs holds that in the kernel, where no
/// signal reaches it: who is told to end then says so, and does not wait for it.
fn patiently(
    past: &Arc<Past>,
    target: &PastTarget,
    after: After,
    stop: &Arc<AtomicBool>,
    loud: bool,
) -> anyhow::Result<TargetFindings> {
    let (sender, end) = sync_channel(1);
    let (their_past, theirs, their_stop) = (Arc::clone(past), target.clone(), Arc::clone(stop));
    ioecho_linux::thread::start("verify", move || {
        let mut printed = Instant::now();
        let mut progress = |progress: PassProgress| {
            if loud && printed.elapsed() >= PRINT_EVERY {
                printed = Instant::now();
                let PassProgress { read, position } = progress;
                tell(&format!("read {read}, now at {position} of {}", theirs.path.display()));
            }
        };
        // Refused only where nobody waits for it any more.
        let _ = sender.send(their_past.verify(&theirs, after, &their_stop, &mut progress));
    })?;
    let mut asked = None;
    loop {
        match end.recv_timeout(LOOK_EVERY) {
            Ok(found) => return Ok(found?),
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("a thread panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Relaxed) && asked.get_or_insert_with(Instant::now).elapsed() > STUCK {
            tell(&format!(
                "warning: {} does not let go: this process ends when it answers or is taken away",
                target.path.display()
            ));
            return Ok(TargetFindings::nothing(target));
        }
    }
}

/// What was found on a target, in lines.
fn text(found: &TargetFindings) -> String {
    let TargetFindings { path, read, complete, figures, in_flight, notes, findings, .. } = found;
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<14}{value}");
    };
    line("target", format!("{}: {read} read", path.display()));
    if figures.sectors == 0 {
        let why = match (figures.table_errors, *complete) {
            (0, true) => "nothing: the run changed nothing here",
            (0, false) => "nothing",
            _ => "nothing: the table of versions fails",
        };
        line("checked", why.to_owned());
    } else {
        line(
            "checked",
            format!("{}, {} intact", counted(figures.sectors, "sector"), figures.intact),
        );
    }
    for (label, count, what) in [
        (
            "unknown",
            figures.unknown,
            "sectors beside them that the run did not write, or discarded",
        ),
        (
            "doubtful",
            figures.doubtful,
            "sectors without the stamp of prepare among others that bear it: lost, or zeroed, \
             discarded or overwritten since",
        ),
        ("shared", figures.shared, "sectors of blocks that are equal on purpose"),
        ("undecided", figures.undecided, "sectors that are wrong, if no discard came last"),
        ("in flight", *in_flight, "requests when the process ended: old or new is right"),
    ] {
        if count > 0 {
            line(label, format!("{count} {what}"));
        }
    }
    if figures.unreadable > 0 {
        line("unreadable", counted(figures.unreadable, "sector"));
    }
    for (kind, sectors) in figures.damaged.iter() {
        line(kind.name(), counted(sectors, "sector"));
    }
    for note in notes {
        line("note", note.clone());
    }
    let others: BTreeSet<u64> = findings.iter().filter_map(Finding::other_run).collect();
    for run in others.into_iter().take(3) {
        let text = format!(
            "the run {run:016x} wrote some of what is foreign: if it came later, that is no \
             damage, and it is the run to verify (ioecho verify DIRECTORY)"
        );
        line("note", text);
    }
    for finding in findings.iter().take(PRINTED) {
        line("", finding.to_string());
    }
    if figures.findings > PRINTED as u64 {
        let more = figures.findings - PRINTED as u64;
        let kept = if figures.findings > findings.len() as u64 { "the first of them " } else { "" };
        line("", format!("and {more} more: {kept}in verify.json"));
    }
    text
}
