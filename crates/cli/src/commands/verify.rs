//! `ioecho verify`: reads the data of a run back and compares them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use ioecho_replay::verify::{Finding, PassProgress};
use ioecho_run::verify::later::{PastTarget, Since, TargetFindings};
use ioecho_run::verify::result;
use ioecho_run::verify::subject::Subject;
use ioecho_trace::units::{counted, counted_in};

use crate::args::VerifyArgs;
use crate::exit;
use crate::print::{Out, is_watched, tell};
use crate::run::signals;
use crate::typed::sentence;

/// How many findings are printed. `verify.json` lists all findings that were kept.
const PRINTED: usize = 20;

/// How often to look whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long an interrupted verification may take to end. It looks for the signal ten times a
/// second. If it has not ended by then, the kernel holds it.
const STUCK: Duration = Duration::from_secs(1);

/// How often progress is printed.
const PRINT_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &VerifyArgs, out: &mut Out) -> anyhow::Result<u8> {
    read_back(args, out).map(|(code, _)| code)
}

/// Reads data back and tells what was found; answers the exit code and what was found.
pub(crate) fn read_back(
    args: &VerifyArgs,
    out: &mut Out,
) -> anyhow::Result<(u8, Vec<TargetFindings>)> {
    let mut subject = Subject::open(&args.run)?;
    subject.retarget(&args.target)?;
    let after = args.after.unwrap_or_else(|| subject.after());
    let since = Since { after, acknowledged: args.acknowledged };
    let stop = Arc::new(AtomicBool::new(false));
    signals::raise(&stop)?;
    let subject = Arc::new(subject);
    let loud = !args.quiet && is_watched();
    let mut found = Vec::new();
    for target in subject.targets() {
        found.push(patiently(&subject, target, since, &stop, loud)?);
    }
    let (complete, damaged) = result::verdict(&found);
    let code = match (damaged, complete) {
        (true, _) => exit::DATA_DAMAGED,
        (false, true) => exit::OK,
        (false, false) => exit::INCOMPLETE,
    };
    let kept = subject.keep(&args.run, after, &found);
    kept.unwrap_or_else(|error| tell(&format!("warning: {}", sentence(&error))));
    if args.json {
        out.json(&result::whole(subject.number(), after.name(), &found))?;
    } else {
        for found in &found {
            out.write_all(text(found).as_bytes())?;
        }
        let verdict = match (damaged, complete) {
            (true, _) => "damaged",
            (false, true) => undamaged(&found),
            (false, false) => "not verified to the end",
        };
        writeln!(out, "verdict       {verdict}")?;
    }
    Ok((code, found))
}

/// What the whole of a verification without damage shows: nothing is intact that was not judged.
fn undamaged(found: &[TargetFindings]) -> &'static str {
    let judged = |count: fn(&TargetFindings) -> u64| found.iter().any(|found| count(found) > 0);
    let (has_data, has_names) = (judged(|it| it.figures.intact), judged(|it| it.figures.names));
    match (has_data, has_names) {
        (true, _) => "intact",
        (false, true) => "its names are intact; of data nothing could be judged",
        (false, false) => "nothing could be judged: of what the run wrote, nothing is left",
    }
}

/// Verifies a target in a thread of its own. If a device hangs, the kernel holds that thread, and
/// no signal reaches it. After a signal the command then says so, and does not wait for the thread.
fn patiently(
    subject: &Arc<Subject>,
    target: &PastTarget,
    since: Since,
    stop: &Arc<AtomicBool>,
    loud: bool,
) -> anyhow::Result<TargetFindings> {
    let (sender, end) = sync_channel(1);
    let (their_subject, theirs, their_stop) =
        (Arc::clone(subject), target.clone(), Arc::clone(stop));
    ioecho_linux::thread::start("verify", move || {
        let mut printed = Instant::now();
        let mut progress = |progress: PassProgress| {
            if loud && printed.elapsed() >= PRINT_EVERY {
                printed = Instant::now();
                let PassProgress { read, position } = progress;
                tell(&format!("read {read}, now at {position} of {}", theirs.path.display()));
            }
        };
        // Sending fails only if the command has stopped waiting.
        let _ = sender.send(their_subject.verify(&theirs, since, &their_stop, &mut progress));
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

/// The findings on a target, in lines.
fn text(found: &TargetFindings) -> String {
    let TargetFindings { path, read, complete, figures, in_flight, notes, findings, .. } = found;
    let names = &found.names;
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<14}{value}");
    };
    line("target", format!("{}: {read} read", path.display()));
    if figures.sectors == 0 {
        let why = match (figures.table_errors, *complete) {
            (0, true) => "nothing: the run left no data here",
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
    if figures.names > 0 || !names.is_empty() {
        let damaged = figures.damaged_names.values().sum();
        let told = counted_in(damaged, "is not as it must be", "are not as they must be");
        line("names", format!("{} looked at, {told}", counted(figures.names, "name")));
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
    for (kind, names) in &figures.damaged_names {
        line(kind, counted(*names, "name"));
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
    let told = names.iter().map(ToString::to_string);
    for finding in told.chain(findings.iter().map(ToString::to_string)).take(PRINTED) {
        line("", finding);
    }
    let all = figures.findings + figures.damaged_names.values().sum::<u64>();
    if all > PRINTED as u64 {
        let more = all - PRINTED as u64;
        let is_kept = all == (findings.len() + names.len()) as u64;
        let kept = if is_kept { "" } else { "the first of them " };
        line("", format!("and {more} more: {kept}in verify.json"));
    }
    text
}
