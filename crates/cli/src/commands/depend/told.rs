//! The result in words and as JSON.

use std::io::{self, Write};

use ioecho_replay::graph::statistics::{Figures, Spread};
use ioecho_trace::units::{counted, counted_in};
use ioecho_trace::{Header, Nanos};
use serde::Serialize;

use super::{DependArgs, Found};
use crate::print::{tell, visible};

/// The version of the JSON.
const VERSION: u32 = 1;

/// How many pairs of processes are listed.
const PAIRS_SHOWN: usize = 20;

/// The JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    version: u32,
    trace: String,
    /// Whether the trace named its parents itself.
    given: bool,
    threshold_ns: Option<i64>,
    /// How many think times the threshold was derived from. 0 if it was given, or if hfplayer's
    /// default was used.
    threshold_samples: u64,
    window_requests: u64,
    /// How many processes issued requests. 0 if no process is recorded.
    processes: u64,
    /// Pairs of processes, of which the first hands work to the second.
    hands_work_to: Vec<(u32, u32)>,
    /// Processes whose requests wait for nobody.
    open_processes: Vec<u32>,
    /// Processes that keep as many in flight all the time.
    steady_processes: Vec<u32>,
    figures: Figures,
}

impl Json {
    pub(super) fn of(args: &DependArgs, found: &Found) -> Self {
        let surveyed = found.surveyed.as_ref();
        let read_off = surveyed.filter(|_| args.threshold.is_none());
        Self {
            version: VERSION,
            trace: args.trace.display().to_string(),
            given: found.given.is_some(),
            threshold_ns: surveyed.map(|_| found.threshold.0),
            threshold_samples: read_off.map_or(0, |surveyed| surveyed.samples),
            window_requests: args.among,
            processes: surveyed.map_or(0, |surveyed| surveyed.process_count),
            hands_work_to: surveyed.map_or(Vec::new(), |surveyed| surveyed.processes.pairs()),
            open_processes: surveyed.map_or(Vec::new(), |surveyed| surveyed.processes.open()),
            steady_processes: surveyed.map_or(Vec::new(), |surveyed| surveyed.processes.deep()),
            figures: found.figures,
        }
    }
}

/// Prints warnings on the standard error.
pub(super) fn doubts(args: &DependArgs, found: &Found) {
    let doubts = &found.doubts;
    let warn = |count: u64, one: &str, more: &str, what: &str| {
        if count > 0 {
            tell(&format!("warning: {} {what}", counted_in(count, one, more)));
        }
    };
    let requests = |count: u64, what: &str| warn(count, "request", "requests", what);
    requests(
        doubts.clock_inversions,
        "issued before the one in front of it; taken as issued with that one",
    );
    requests(doubts.without_completion, "without a completion: nobody waits for such a request");
    requests(
        doubts.completed_before_issue,
        "completed before it was issued: nobody waits for such a request",
    );
    warn(
        doubts.gaps,
        "gap of the recording",
        "gaps of the recording",
        &format!("with {} cut there", counted(doubts.cut_chains, "chain")),
    );
    if doubts.beyond_window > 0 {
        let needed = found.surveyed.as_ref().map_or(0, |surveyed| surveyed.window_rows);
        let is_cut_off = found.surveyed.as_ref().is_some_and(|surveyed| surveyed.is_cut_off);
        let at_least = if is_cut_off { "more than " } else { "" };
        requests(
            doubts.beyond_window,
            &format!(
                "still in flight when {} others had been issued: nobody waits for such a request\n\
                 \x20 = help: the window is too small for this trace; set --among \
                 {at_least}{needed}",
                args.among
            ),
        );
    }
    let Some(given) = &found.given else { return };
    warn(
        given.missing_parents,
        "parent",
        "parents",
        &format!(
            "not in the trace, or more than {} requests away (--among): nobody waits for such a \
             parent",
            args.among
        ),
    );
    requests(given.duplicate_ids, "with the number of one before it: that number is the later one");
    warn(given.duplicate_parents, "parent", "parents", "named twice by one request, taken as one");
    requests(
        given.negative_thinks,
        "issued before the last parent had completed: the think time is taken as none",
    );
}

/// Prints the figures.
pub(super) fn text(
    out: &mut impl Write,
    args: &DependArgs,
    found: &Found,
    header: &Header,
) -> io::Result<()> {
    let figures = &found.figures;
    writeln!(out, "trace         {}", visible(&args.trace.display().to_string()))?;
    writeln!(out, "requests      {}", figures.requests)?;
    match &found.surveyed {
        None if found.given.is_some() => writeln!(out, "parents       as the trace names them")?,
        None => writeln!(out, "parents       the read that completed last, by DiskAccel's rule")?,
        Some(surveyed) => {
            let how = match (args.threshold, surveyed.samples) {
                (Some(_), _) => "as given".to_owned(),
                (None, 0) => {
                    "hfplayer's: too few requests certainly waited to read it off".to_owned()
                }
                (None, samples) => format!("read off {}", counted(samples, "think time")),
            };
            writeln!(out, "threshold     {} ({how})", found.threshold)?;
            processes(out, found, header)?;
        }
    }
    let most = figures.parents_max;
    writeln!(
        out,
        "links         {}, {} of a request at most",
        figures.links,
        counted(most, "parent")
    )?;
    writeln!(
        out,
        "open          {:.1} % of the requests wait for nobody and keep their instants",
        figures.open_share * 100.0
    )?;
    writeln!(out, "chains        {}", figures.chains)?;
    writeln!(
        out,
        "length        {} requests one behind the other",
        spread(figures.length, |n| { n.to_string() })
    )?;
    writeln!(
        out,
        "width         {:.1} requests at once on average, {} at most",
        figures.width_mean, figures.width_max
    )?;
    let ns = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX)).to_string();
    writeln!(
        out,
        "think times   {}; together {}",
        spread(figures.think_ns, ns),
        ns(figures.think_sum_ns)
    )
}

fn spread(spread: Spread, shown: impl Fn(u64) -> String) -> String {
    let Spread { p50, p90, p99, max } = spread;
    format!("p50 {}, p90 {}, p99 {}, max {}", shown(p50), shown(p90), shown(p99), shown(max))
}

fn processes(out: &mut impl Write, found: &Found, header: &Header) -> io::Result<()> {
    let Some(surveyed) = &found.surveyed else { return Ok(()) };
    if !surveyed.processes.are_known() {
        let is_deep = !surveyed.processes.deep().is_empty();
        let how = if is_deep { ", which keeps as many in flight all the time" } else { "" };
        return writeln!(
            out,
            "processes     not recorded: all requests count as those of one{how}"
        );
    }
    let pairs = surveyed.processes.pairs();
    let count = surveyed.process_count;
    let handing = counted_in(pairs.len() as u64, "pair hands", "pairs hand");
    let open = surveyed.processes.open();
    let waiting = match open.len() {
        0 => String::new(),
        1 => ", and 1 waits for nobody".to_owned(),
        more => format!(", and {more} wait for nobody"),
    };
    writeln!(out, "processes     {count}, of which {handing} work on{waiting}")?;
    let name = |pid: &u32| match header.processes.get(pid) {
        Some(name) => format!("{pid} ({})", visible(name)),
        None => pid.to_string(),
    };
    for (giver, taker) in pairs.iter().take(PAIRS_SHOWN) {
        writeln!(out, "              {} → {}", name(giver), name(taker))?;
    }
    if pairs.len() > PAIRS_SHOWN {
        writeln!(out, "              and {} more", pairs.len() - PAIRS_SHOWN)?;
    }
    for process in open.iter().take(PAIRS_SHOWN) {
        writeln!(out, "              {} waits for nobody", name(process))?;
    }
    for process in surveyed.processes.deep().iter().take(PAIRS_SHOWN) {
        writeln!(out, "              {} keeps as many in flight all the time", name(process))?;
    }
    Ok(())
}
