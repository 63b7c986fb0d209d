//! The outcome of a run, for a terminal of 80 columns and 24 lines.
//!
//! After a run a user looks at the last lines of the terminal. If these are percentiles of every
//! kind and thirty checks, nobody sees the line that matters. So three lines come first: the
//! finding, the achieved and the demanded rate, and how long requests took. Then follows one line
//! for each problem of this run. Everything else is printed on request (`--verbose`), and is in the
//! report.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ioecho_stats::headline::{Headline, Throughput, drained};
use ioecho_stats::picture::{RunPicture, Span};
use ioecho_stats::required::{self, Requirement};
use ioecho_stats::run_summary::{Finished, FlowFigures, Percentiles, PhaseFigures, RunSummary};
use ioecho_stats::verdict::{Check, Grade, Validity};
use ioecho_trace::units::{counted, three_digits};
use ioecho_trace::{Nanos, Op, Outcome};

use crate::print::{is_read, visible};

/// The width of a terminal, in columns. Every terminal is at least as wide.
const COLUMNS: usize = 80;
/// The column in which the text of a line begins, behind its label.
const INDENT: usize = 14;

/// Prints which required checks do not hold. Returns whether there is one.
pub(crate) fn tell_required(
    out: &mut dyn Write,
    required: &[Requirement],
    summary: &RunSummary,
) -> io::Result<bool> {
    let unmet = required::unmet(required, &summary.verdict);
    if let Some(line) = required::line(required, &unmet) {
        writeln!(out, "{line}")?;
    }
    Ok(!unmet.is_empty())
}

/// The flags that follow the advice of a check. The advice itself stands in a library, whose users
/// have no command line.
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

/// Prints the three lines, the problems of the run, and with `verbose` everything else. Without a
/// picture there is no throughput to print.
pub(crate) fn print_outcome(
    out: &mut dyn Write,
    summary: &RunSummary,
    picture: Option<&RunPicture>,
    verbose: bool,
) -> io::Result<()> {
    let headline = Headline::of(summary, &picture.unwrap_or(&RunPicture::new()).finish());
    let verdict = &summary.verdict;
    let validity = verdict.validity.name().to_uppercase();
    let finding =
        verdict.told_finding().map_or(String::new(), |finding| format!("{}, ", finding.name()));
    line(out, "finding", &format!("{} [{finding}{validity}]", headline.sentence))?;
    if let Some(throughput) = &headline.throughput {
        line(out, "throughput", &rates(throughput))?;
    }
    if !headline.percentiles.is_empty() {
        let is_host_owned = headline.is_host_owned(headline.span, 0.99);
        let of = |(kind, percentiles): &(&str, Percentiles)| {
            format!("{kind} {}", few(percentiles, is_host_owned))
        };
        let all: Vec<String> = headline.percentiles.iter().map(of).collect();
        let one = all.join("; ");
        // Reads and writes stand below each other where they do not fit beside each other.
        let lines =
            if is_read() && INDENT + one.chars().count() > COLUMNS { all } else { vec![one] };
        let labels = std::iter::once(headline.span.name()).chain(std::iter::repeat(""));
        for (label, text) in labels.zip(&lines) {
            line(out, label, text)?;
        }
    }
    if let Some(path) = &summary.critical_path {
        line(out, "critical path", &path.sentence())?;
    }
    for flow in &summary.per_flow {
        line(out, "flow", &of_flow(flow, summary.achieved_duration_ns))?;
    }
    // Opens, closes, reads and writes are what a flow does with its files: its own line has them.
    let is_told = |phase: &&PhaseFigures| {
        let op = phase.operation;
        verbose || op.is_of_files() && !matches!(op, Op::Open | Op::Close)
    };
    for phase in summary.per_phase.iter().filter(is_told) {
        line(out, "phase", &of_phase(phase))?;
    }
    let warned = warnings(out, summary)?;
    if verbose {
        details(out, summary)?;
    } else if warned || verdict.validity > Validity::Valid {
        let what = if warned { "CHECK" } else { verdict.finding.name() };
        let hint =
            format!("`ioecho explain {what}` says what to do; -v and the report tell all checks");
        line(out, "", &hint)?;
    }
    Ok(())
}

/// A flow in a line: who issued its requests, their rate, and how long they took.
fn of_flow(flow: &FlowFigures, run_ns: i64) -> String {
    let who = match flow.threads {
        Some(threads) => counted(threads.into(), "waiting client"),
        None => "open".to_owned(),
    };
    let response = flow.response_time.as_ref().map_or(String::new(), |response| {
        format!(", {} {}", Span::Response.name(), few(response, false))
    });
    let ended = flow.ended_before(run_ns);
    let ended = ended.map_or(String::new(), |after| format!(" until it ended after {after}"));
    format!("{} ({who}): {} IOPS{ended}{response}", flow.name, three_digits(flow.per_second))
}

/// A phase in a line: the rates until the first and until the last of its threads had finished.
fn of_phase(phase: &PhaseFigures) -> String {
    let name = phase.told(phase.flow.is_some());
    let rate = |finished: &Finished| {
        let rate = finished.per_second.map_or_else(|| "–".to_owned(), three_digits);
        (format!("{rate}/s"), Nanos(finished.after_ns))
    };
    let Some((first, first_after)) = phase.first.as_ref().map(rate) else {
        let calls = counted(phase.calls, "call");
        return format!("{name}: {calls}, and none of {} threads finished", phase.threads);
    };
    match (phase.threads, phase.last.as_ref().map(rate)) {
        (1, Some((last, after))) => {
            let calls = counted(phase.calls, "call");
            format!("{name}: {last}, one thread, {calls} in {after}")
        }
        (threads, last) => {
            let last = last.map_or_else(
                || "the last never did".to_owned(),
                |(last, after)| format!("{last} until the last had ({after})"),
            );
            format!(
                "{name}: {first} until the first of {threads} threads had finished \
                 ({first_after}), {last}"
            )
        }
    }
}

/// Prints a line with its label. On a terminal it is broken between words and continues below.
pub(crate) fn line(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let width = if is_read() { COLUMNS - INDENT } else { usize::MAX };
    // A label may be as wide as the column.
    let mut label = format!("{label} ");
    for part in broken(text, width) {
        writeln!(out, "{label:<INDENT$}{part}")?;
        label.clear();
    }
    Ok(())
}

/// Breaks a text into lines of at most so many letters, where its words are short enough. A number
/// and the word behind it, which is mostly its unit, stay together.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0_usize;
    for words in kept_together(text) {
        let length = words.chars().count();
        if used > 0 && used.saturating_add(1 + length) > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(last) = lines.last_mut() {
            if used > 0 {
                last.push(' ');
                used += 1;
            }
            last.push_str(words);
            used += length;
        }
    }
    lines
}

/// The parts of a text between which a line may be broken.
fn kept_together(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let spaces = all.match_indices(' ').map(|(at, _)| at);
        let end = spaces.into_iter().find(|at| !all[..*at].ends_with(|c: char| c.is_ascii_digit()));
        let (words, behind) = end.map_or((all, None), |at| (&all[..at], Some(&all[at + 1..])));
        rest = behind;
        Some(words)
    })
}

fn rates(throughput: &Throughput) -> String {
    let Throughput { achieved_requests, achieved_bytes, demanded } = *throughput;
    let mib = |bytes: f64| three_digits(bytes / 1_048_576.0);
    let achieved = three_digits(achieved_requests);
    match demanded {
        Some((requests, bytes)) => format!(
            "{achieved} IOPS of {} demanded, {} MiB/s of {}",
            three_digits(requests),
            mib(achieved_bytes),
            mib(bytes)
        ),
        None => format!("{achieved} IOPS, {} MiB/s; no rate was demanded", mib(achieved_bytes)),
    }
}

/// The percentiles that fit on the first screen.
fn few(percentiles: &Percentiles, is_host_owned: bool) -> String {
    let Percentiles { count, p50_ns, p99_ns, max_ns, .. } = *percentiles;
    let span = |ns: u64| Nanos(ns as i64);
    let Some(p99_ns) = p99_ns else {
        let of = counted(count, "request");
        return format!("p50 {}, max {} ({of}: too few for p99)", span(p50_ns), span(max_ns));
    };
    let whose = if is_host_owned { " (the host's)" } else { "" };
    format!("p50 {}, p99 {}{whose}, max {}", span(p50_ns), span(p99_ns), span(max_ns))
}

/// Prints a line for each problem of this run. Returns whether one of them was a check.
fn warnings(out: &mut dyn Write, summary: &RunSummary) -> io::Result<bool> {
    let RunSummary { verdict, engine, .. } = summary;
    // That memory was measured is what all figures are about, also where it was named.
    let is_told = |check: &&Check| {
        check.is_cause() && (check.grade >= Grade::Suspect || check.name == "storage")
    };
    let mut checks: Vec<&Check> = verdict.checks.iter().filter(is_told).collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.grade));
    for check in &checks {
        line(out, check.grade.name(), &visible(&format!("{}: {}", check.name, held(check))))?;
    }
    let left_out: Vec<String> = left_out(summary);
    if engine.issued != engine.planned || !left_out.is_empty() {
        requests(out, summary, &left_out)?;
    }
    if summary.engine.verify.is_some() {
        verified(out, summary)?;
    }
    Ok(!checks.is_empty())
}

/// The measured value of a check, and the value that was asked for.
fn held(check: &Check) -> String {
    let Check { measured, threshold, .. } = check;
    if threshold.is_empty() { measured.clone() } else { format!("{measured} (asked: {threshold})") }
}

/// The requests that were changed or left out, in words.
fn left_out(summary: &RunSummary) -> Vec<String> {
    let engine = &summary.engine;
    let counts = [
        (engine.dropped, "dropped on conflict"),
        (summary.failed, "failed"),
        (engine.left_out, "left out"),
        (engine.unmapped, "of volumes that the map does not name or that have no target"),
        (engine.rounded, "widened to whole blocks"),
        (engine.ended_after.map_or(0, |ended| ended.not_issued), "due and not issued at the end"),
    ];
    let told = counts.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, what)| format!("{count} {what}")).collect()
}

fn requests(out: &mut dyn Write, summary: &RunSummary, others: &[String]) -> io::Result<()> {
    let engine = &summary.engine;
    let text = if engine.incomplete.is_empty() {
        format!("{} of {} replayed", engine.issued, engine.planned)
    } else {
        format!("{} replayed, of {} that were read until then", engine.issued, engine.planned)
    };
    let parts: Vec<String> = [text].into_iter().chain(others.iter().cloned()).collect();
    line(out, "requests", &parts.join(", "))?;
    for (outcome, count) in summary.outcomes.iter().filter(|(outcome, _)| *outcome != "ok") {
        let of = |(op, counts): (&String, &BTreeMap<String, u64>)| {
            counts.get(outcome).map(|count| format!("{op} {count}"))
        };
        let by_op: Vec<String> = summary.failed_by_operation.iter().filter_map(of).collect();
        let by_op =
            if by_op.is_empty() { by_op.concat() } else { format!(": {}", by_op.join(", ")) };
        writeln!(out, "  {count} {}{by_op}", Outcome::told_of(outcome))?;
    }
    Ok(())
}

fn verified(out: &mut dyn Write, summary: &RunSummary) -> io::Result<()> {
    let Some(verify) = &summary.engine.verify else { return Ok(()) };
    let text = format!(
        "sectors, as often as looked at: {} intact, {} damaged, {} that cannot be told, {} never \
         written",
        verify.intact_sectors,
        verify.damaged_sectors.saturating_add(verify.unreadable_sectors),
        verify.unverifiable_sectors,
        verify.unknown_sectors
    );
    line(out, "verified", &text)?;
    for told in
        [verify.names_told(), verify.doubt_told(), verify.prereads_told()].into_iter().flatten()
    {
        writeln!(out, "  {told}")?;
    }
    Ok(())
}

/// Prints the whole summary: the verdict in its own words, checks with their advice, and all
/// percentiles.
fn details(out: &mut dyn Write, summary: &RunSummary) -> io::Result<()> {
    let RunSummary { verdict, engine, .. } = summary;
    line(out, "verdict", &verdict.summary)?;
    for check in &verdict.checks {
        let cause = check.explained_by.as_ref();
        let cause = cause.map_or(String::new(), |cause| format!(" (explained by {cause})"));
        line(
            out,
            &format!("  {}", check.grade.name()),
            &format!("{}{cause}: {}", check.name, held(check)),
        )?;
        if !check.advice.is_empty() {
            let Check { name, advice, .. } = check;
            let typed = FLAGS.iter().find(|(of, _)| of == name);
            let typed = typed.map_or(String::new(), |(_, flags)| format!("{flags}; "));
            line(out, "", &format!("{advice} ({typed}ioecho explain {name})"))?;
        }
    }
    let mut others = left_out(summary);
    for (count, what) in
        [(engine.pushed_back, "pushed back"), (engine.ordered, "held up others on conflict")]
    {
        if count > 0 {
            others.push(format!("{count} {what}"));
        }
    }
    requests(out, summary, &others)?;
    if let Some(percent) = summary.drain_percent {
        let percent = drained(percent);
        let text = format!(
            "{percent} of the demanded duration, from the last due instant to the last completion"
        );
        line(out, "drain", &text)?;
    }
    let spans = [
        (Span::Lateness, &summary.lateness),
        (Span::Service, &summary.service_time),
        (Span::Response, &summary.response_time),
    ];
    // Where nothing was due no request can be late, and response times are unknown.
    let is_known = |span| engine.has_due_instants() || span == Span::Service;
    for (span, by_kind) in spans.into_iter().filter(|(span, _)| is_known(*span)) {
        let name = span.name();
        for (kind, percentiles) in by_kind.iter().filter(|(kind, _)| *kind != "all") {
            writeln!(out, "{name:<14}{kind:<8} {}", shown(percentiles))?;
        }
    }
    Ok(())
}

fn shown(percentiles: &Percentiles) -> String {
    let span = |ns: u64| Nanos(ns as i64).to_string();
    // Of too few requests a percentile is the maximum by another name.
    let known = |ns: Option<u64>| ns.map_or("–".to_owned(), span);
    format!(
        "p50 {:<9}p99 {:<9}p99.9 {:<9}max {}",
        span(percentiles.p50_ns),
        known(percentiles.p99_ns),
        known(percentiles.p99_9_ns),
        span(percentiles.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::facts::EngineFacts;
    use ioecho_stats::run_summary::RunFigures;
    use ioecho_trace::TimingMode;

    fn printed(summary: &RunSummary, verbose: bool) -> String {
        let mut text = Vec::new();
        print_outcome(&mut text, summary, None, verbose).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_long_line_is_broken_between_words_and_no_word_is_lost() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("onetwothree four", 4), ["onetwothree", "four"]);
        assert_eq!(broken("one two", usize::MAX), ["one two"]);
        assert_eq!(broken("p99 response 96 min", 15), ["p99 response", "96 min"]);
        assert_eq!(broken("of 12 %", 5), ["of", "12 %"]);
    }

    #[test]
    fn checks_that_passed_are_for_those_who_ask() {
        let engine = EngineFacts { planned: 1, ..EngineFacts::default() };
        let summary = RunFigures::default().summary(engine);
        let (short, long) = (printed(&summary, false), printed(&summary, true));
        assert!(short.starts_with("finding       "), "{short}");
        for check in &summary.verdict.checks {
            let stands = |text: &str| text.contains(&format!("{}: ", check.name));
            assert_eq!(stands(&long), check.explained_by.is_none(), "{}", check.name);
            let is_told = check.grade >= Grade::Suspect && check.is_cause();
            assert_eq!(stands(&short), is_told, "{}", check.name);
        }
    }

    #[test]
    fn a_run_without_a_schedule_tells_no_lateness() {
        let engine = EngineFacts { timing: TimingMode::Afap, ..EngineFacts::default() };
        let mut summary = RunFigures::default().summary(engine);
        let one = Percentiles {
            count: 3,
            mean_ns: 1,
            p50_ns: 1,
            p90_ns: None,
            p99_ns: None,
            p99_9_ns: None,
            p99_99_ns: None,
            max_ns: 1,
        };
        for by_kind in
            [&mut summary.lateness, &mut summary.service_time, &mut summary.response_time]
        {
            by_kind.insert("read".to_owned(), one);
        }
        let text = printed(&summary, true);
        assert!(
            text.contains("service time  read p50 1 ns, max 1 ns (3 requests: too few for p99)")
        );
        assert!(!text.contains("\nlateness ") && !text.contains("response time"), "{text}");
    }
}
