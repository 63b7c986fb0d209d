//! The most important figures of an analysis for a screen: sixty lines at most.

use std::io::{self, Write};
use std::path::Path;

use ioecho_run::extent;
use ioecho_run::facts::RunFacts;
use ioecho_stats::analysis::AnalysisFigures;
use ioecho_stats::analysis::breakdown::Share;
use ioecho_stats::analysis::flight::WAITING_MAX;
use ioecho_stats::analysis::seconds::{Amount, Totals};
use ioecho_stats::analysis::slowest::Slow;
use ioecho_stats::analysis::spans::SpanFigures;
use ioecho_stats::analysis::subset::Subset;
use ioecho_stats::picture::Span;
use ioecho_stats::steady::WINDOW;
use ioecho_trace::units::{counted, has_whole_second};
use ioecho_trace::{Bytes, Header, Nanos, Op};

use super::files::{self, Names, OPERATIONS_SHOWN};
use crate::commands::info::verdict_of;
use crate::print::visible;

/// How many volumes, and how many processes, are shown.
const SHARES_SHOWN: usize = 3;

/// How many windows of working sets are shown.
const WINDOWS_SHOWN: usize = 5;

/// How many of the slowest requests are shown.
const SLOWEST_SHOWN: usize = 3;

/// How many changes of level are shown.
const CHANGES_SHOWN: usize = 6;

/// Prints one line.
macro_rules! row {
    ($out:expr, $name:expr, $($value:tt)*) => {
        writeln!($out, "{:<14}{}", $name, visible(&format!($($value)*)))
    };
}

pub(super) fn print(
    mut out: impl Write,
    file: &Path,
    figures: &AnalysisFigures,
    header: &Header,
    run: Option<&RunFacts>,
) -> io::Result<()> {
    row!(out, "file", "{}", file.display())?;
    row!(out, "origin", "{}, {}", header.source, header.format)?;
    let duration = Nanos(figures.end_ns.saturating_sub(figures.first_ns));
    let kind = if figures.measured > 0 { "run" } else { "load" };
    row!(out, kind, "{} in {duration}", counted(figures.requests, "request"))?;
    if let Some(run) = run {
        row!(out, "verdict", "{}", verdict_of(run, file))?;
    }
    let has_schedule = run.is_none_or(|run| run.timing().has_schedule());
    print_throughput(&mut out, figures, has_schedule)?;
    if figures.is_of_files() {
        print_files(&mut out, figures, header, run)?;
    }
    print_arrivals(&mut out, figures)?;
    let has_data = figures.operations.iter().any(|of| matches!(of.op, Op::Read | Op::Write));
    if has_data || !figures.is_of_files() {
        print_space(&mut out, figures)?;
    }
    print_times(&mut out, figures)?;
    print_flight(&mut out, figures)?;
    print_steady(&mut out, figures, run)?;
    print_shares(&mut out, "volume", &figures.volumes)?;
    // Of files that were not recorded, the processes are the threads of each load, by number.
    if !figures.is_of_files() || header.files.is_some() {
        print_shares(&mut out, "process", &figures.programs)?;
    }
    let names = extent::files(run.map_or(&[], |run| &run.targets), header);
    for slow in figures.flight.slowest_service.iter().take(SLOWEST_SHOWN) {
        print_slow(&mut out, slow, &names)?;
    }
    if let Some(damage) = &header.damage {
        row!(out, "damaged", "{damage}")?;
    }
    Ok(())
}

/// How many of so many there are in a second.
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn rate(amount: Amount, seconds: f64) -> String {
    let per = |count| per_second(count, seconds);
    format!("{:.1} requests/s, {}/s", per(amount.requests), Bytes(per(amount.bytes) as u64))
}

fn print_throughput(
    out: &mut impl Write,
    figures: &AnalysisFigures,
    has_schedule: bool,
) -> io::Result<()> {
    let throughput = &figures.throughput;
    let until = |end_ns: i64| Nanos(end_ns.saturating_sub(figures.first_ns)).as_secs_f64();
    let mut lines = |name: &str, totals: &Totals, seconds: f64| -> io::Result<()> {
        let Totals { reads, writes, other, pushed_back } = *totals;
        let sum = Amount {
            requests: reads.requests + writes.requests + other.requests,
            bytes: reads.bytes.saturating_add(writes.bytes),
        };
        if figures.is_of_files() && sum.bytes == 0 {
            return row!(out, name, "{:.1} requests/s", per_second(sum.requests, seconds));
        }
        row!(out, name, "{}", rate(sum, seconds))?;
        if figures.is_of_files() {
            return Ok(());
        }
        row!(out, "  reads", "{}: {}", reads.requests, rate(reads, seconds))?;
        row!(out, "  writes", "{}: {}", writes.requests, rate(writes, seconds))?;
        if other.requests > 0 {
            row!(out, "  other", "{}", other.requests)?;
        }
        if pushed_back.requests > 0 {
            row!(out, "  pushed back", "{} reads and writes", pushed_back.requests)?;
        }
        Ok(())
    };
    if has_schedule {
        lines("demanded", &throughput.demanded, until(throughput.demanded_end_ns))?;
    }
    if throughput.answered {
        lines("achieved", &throughput.achieved, until(figures.end_ns))?;
    }
    if throughput.failed > 0 {
        row!(out, "failed", "{}", throughput.failed)?;
    }
    // The fullest part of a second says nothing beside a mean rate.
    let is_long = has_whole_second(Nanos(figures.first_ns), Nanos(throughput.demanded_end_ns));
    if !has_schedule || !is_long {
        return Ok(());
    }
    let (requests, bytes) = (throughput.peak_requests, throughput.peak_bytes);
    row!(
        out,
        "peak second",
        "{:.0} requests at {} s ({:.1} times the mean); {} at {} s",
        requests.per_s,
        requests.at_s,
        requests.to_mean,
        Bytes(bytes.per_s as u64),
        bytes.at_s
    )
}

/// Prints what was asked for of files.
fn print_files(
    out: &mut impl Write,
    figures: &AnalysisFigures,
    header: &Header,
    run: Option<&RunFacts>,
) -> io::Result<()> {
    let throughput = &figures.throughput;
    let end = if throughput.answered { figures.end_ns } else { throughput.demanded_end_ns };
    let seconds = Nanos(end.saturating_sub(figures.first_ns)).as_secs_f64();
    let all = files::operations(figures);
    for (at, of) in all.iter().take(OPERATIONS_SHOWN).enumerate() {
        let name = if at == 0 { "operations" } else { "" };
        row!(out, name, "{}", files::operation(of, seconds))?;
    }
    if let Some(more) = all.len().checked_sub(OPERATIONS_SHOWN).filter(|more| *more > 0) {
        row!(out, "", "and {more} more (--json lists them)")?;
    }
    if let Some(told) = files::files(figures, header, run) {
        row!(out, "files", "{told}")?;
    }
    match files::sizes(figures) {
        Some(told) => row!(out, "sizes", "{told}"),
        None => Ok(()),
    }
}

fn print_arrivals(out: &mut impl Write, figures: &AnalysisFigures) -> io::Result<()> {
    let arrivals = &figures.arrivals;
    let Some(variation) = arrivals.gap_variation else { return Ok(()) };
    let hurst = arrivals.hurst.map_or(String::new(), |hurst| format!(", Hurst {hurst:.2}"));
    let most = arrivals.dispersion.points.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let most = most.map_or(String::new(), |(span, index)| {
        format!(", dispersion up to {index:.1} (in spans of {span:.3} s)")
    });
    let mean = Nanos(arrivals.gap_mean_ns as i64);
    row!(out, "arrivals", "mean gap {mean}, variation {variation:.2}{hurst}{most}")
}

fn print_space(out: &mut impl Write, figures: &AnalysisFigures) -> io::Result<()> {
    let pages = &figures.pages;
    let about = match (pages.exact, pages.shortened_requests) {
        (true, 0) => "",
        (true, _) => "at least ",
        (false, _) => "about ",
    };
    let whole = Bytes(pages.pages.all.saturating_mul(pages.page_bytes));
    let [reads, writes] = [pages.pages.reads, pages.pages.writes]
        .map(|count| Bytes(count.saturating_mul(pages.page_bytes)));
    row!(out, "working set", "{about}{whole} in all; {reads} read, {writes} written")?;
    let windows = pages.working_sets.iter().filter_map(|set| Some((set, set.window_ns?)));
    for (set, window) in windows.take(WINDOWS_SHOWN) {
        let mean = Bytes((set.mean_pages.all * pages.page_bytes as f64) as u64);
        let most = Bytes(set.most_bytes.all);
        let least = if set.most_exact { "" } else { "at least " };
        let at = set.most_at_ns.all.map_or(String::new(), |at| format!(" at {}", Nanos(at)));
        // The last window may be short: of a few, a reader must know that.
        let pages = &set.pages.all;
        let windows = if pages.step_ns == window {
            counted(pages.values.iter().flatten().count() as u64, "window")
        } else {
            "windows".to_owned()
        };
        row!(out, "", "in {windows} of {}: mean {mean}, most {least}{most}{at}", Nanos(window))?;
    }
    if pages.shortened_requests > 0 {
        let longer = counted(pages.shortened_requests, "request");
        row!(out, "", "{longer} of more than 64 MiB, of which the first 64 MiB are counted")?;
    }
    let quarter = pages.frequency.all.quantiles.iter().find(|quantile| quantile.share >= 0.5);
    if let Some(half) = quarter {
        let share = half.pages_share * 100.0;
        let off = match pages.frequency.all.relative_error * 100.0 {
            error if error > 0.0 => format!(" (a sample; its accesses are off by {error:.0} %)"),
            _ => String::new(),
        };
        row!(out, "hot pages", "half of all accesses go to {share:.2} % of the pages{off}")?;
    }
    let caches = figures.reuse.caches_told().map(|cache| {
        let hits = cache.hit_ratio.all * 100.0;
        format!("{} {hits:.1} %", Bytes(cache.cache_bytes))
    });
    let caches: Vec<String> = caches.collect();
    if !caches.is_empty() {
        row!(out, "cache hits", "{}", caches.join(", "))?;
    }
    let order = &figures.order;
    if figures.is_of_files() {
        // Which request came before is chance where threads go to files of their own.
        let in_streams = order.sequential.all.in_stream * 100.0;
        return row!(out, "order", "{in_streams:.1} % of reads and writes in streams");
    }
    row!(
        out,
        "order",
        "{:.1} % turn back, {:.1} % sequential, {:.1} % in streams",
        order.turns.all.share * 100.0,
        order.sequential.all.strict * 100.0,
        order.sequential.all.in_stream * 100.0
    )
}

fn print_times(out: &mut impl Write, figures: &AnalysisFigures) -> io::Result<()> {
    // Of many operations on files the most frequent ones are shown, and how long they took alone.
    let operations = files::operations(figures);
    let shown: Vec<Op> = operations.iter().take(OPERATIONS_SHOWN).map(|of| of.op).collect();
    let is_shown = |of: &&SpanFigures| match of.group {
        _ if !figures.is_of_files() => true,
        Subset::All => true,
        Subset::OfFiles(op) => of.span == Span::Service && shown.contains(&op),
        _ => of.span == Span::Service,
    };
    for span in figures.spans.iter().filter(is_shown) {
        let times = &span.percentiles;
        let nanos = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX));
        let p50 = Some(times.p50_ns);
        let known = [("p50", p50), ("p99", times.p99_ns), ("p99.9", times.p99_9_ns)].into_iter();
        let told = known.filter_map(|(name, ns)| Some(format!("{name} {}, ", nanos(ns?))));
        let (told, max) = (told.collect::<String>(), nanos(times.max_ns));
        let (name, group, count) = (span.span.name(), span.group, times.count);
        row!(out, name, "{group}: {told}max {max} (of {count})")?;
    }
    Ok(())
}

fn print_flight(out: &mut impl Write, figures: &AnalysisFigures) -> io::Result<()> {
    let flight = &figures.flight;
    if let (Some(mean), Some(max)) = (flight.in_flight_mean, flight.in_flight_max) {
        let recorded = flight
            .recorded_mean
            .map_or(String::new(), |mean| format!("; recorded: mean {mean:.2}"));
        row!(out, "in flight", "mean {mean:.2}, most on a volume {max}{recorded}")?;
    }
    if let (Some(mean), Some(max)) = (flight.waiting_mean, flight.waiting_max) {
        let least = if max >= WAITING_MAX { "at least " } else { "" };
        row!(out, "waiting", "mean {mean:.2}, most on a volume {least}{max}")?;
    }
    let ranks: Vec<String> = flight
        .correlations
        .iter()
        .filter(|one| one.group == Subset::All)
        .filter_map(|one| Some(format!("{} {:.2}", one.name.name(), one.spearman?)))
        .collect();
    if !ranks.is_empty() {
        row!(out, "correlation", "{} (Spearman's)", ranks.join(", "))?;
    }
    Ok(())
}

/// Prints when service times were steady. The medians show only that the load was answered evenly.
/// Whether the device had reached its steady state is the verdict's question, which compares like
/// requests; for a run both are printed.
fn print_steady(
    out: &mut impl Write,
    figures: &AnalysisFigures,
    run: Option<&RunFacts>,
) -> io::Result<()> {
    for kind in &figures.steady.kinds {
        let steady = match kind.steady_from_ns {
            Some(from) => format!("steady from {} on", Nanos(from)),
            None if kind.rounds.values.len() < WINDOW => "too short to be steady".to_owned(),
            None => "never steady by SNIA's criterion".to_owned(),
        };
        let count = kind.changes_ns.len();
        let shown = kind.changes_ns.iter().take(CHANGES_SHOWN);
        let at: Vec<String> = shown.map(|at| Nanos(*at).to_string()).collect();
        let changes = match count {
            0 => "no change of level".to_owned(),
            _ if count > CHANGES_SHOWN => {
                format!("{count} changes of level, at {} …", at.join(", "))
            }
            _ => format!("changes of level at {}", at.join(", ")),
        };
        row!(out, "steady state", "medians of {}: {steady}; {changes}", kind.kind)?;
    }
    match run.and_then(steady_check) {
        Some((grade, measured)) => {
            let name = if figures.steady.kinds.is_empty() { "steady state" } else { "" };
            row!(out, name, "the verdict on like requests: {grade}: {measured}")
        }
        None => Ok(()),
    }
}

/// The verdict's sentence on the steady state of the run's device.
fn steady_check(run: &RunFacts) -> Option<(&str, &str)> {
    let found = run.verdict.as_ref()?.check("steady-state")?;
    Some((found.grade.name(), &found.measured))
}

fn print_shares(out: &mut impl Write, kind: &str, shares: &[Share]) -> io::Result<()> {
    // With one volume, all lines above are about this volume already.
    if shares.len() < 2 {
        return Ok(());
    }
    for share in shares.iter().take(SHARES_SHOWN) {
        let id = share.id.map_or(String::new(), |id| format!("{id} "));
        let name = match share.id {
            _ if share.name.is_empty() => String::new(),
            Some(_) => format!("({}) ", share.name),
            None => format!("{} ", share.name),
        };
        let (percent, p99) = (share.share * 100.0, share.service_p99_ns);
        let requests = counted(share.requests, "request");
        let p99 = p99.map_or(String::new(), |ns| format!(", p99 {}", Nanos(ns as i64)));
        row!(out, kind, "{id}{name}{percent:.1} %: {requests}{p99}")?;
    }
    if shares.len() > SHARES_SHOWN {
        row!(out, "", "and more (--json lists them)")?;
    }
    Ok(())
}

fn print_slow(out: &mut impl Write, slow: &Slow, names: Names<'_>) -> io::Result<()> {
    row!(
        out,
        "slow",
        "{} at {:.6} s: {}, {} in flight, {} due in that second",
        Nanos(slow.service_ns),
        Nanos(slow.submitted_ns).as_secs_f64(),
        files::place(slow, names),
        slow.in_flight,
        slow.due_in_second
    )
}
