//! How fast a load or a run is counted, in requests a second on one core, each summary by itself
//! and all together.
//!
//! Takes the trace in `$IOECHO_LOAD`, of any format, and reads it into memory first:
//! `IOECHO_LOAD=linux-webserver-1.load.gz cargo bench -p ioecho-stats --bench analysis`. A recorded
//! load is wanted, or a run of it (its `requests.parquet`): one that is made up has no locality, or
//! too much.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use ioecho_stats::analysis::Summary;
use ioecho_stats::analysis::all::{Space, Time, in_pieces};
use ioecho_stats::analysis::arrivals::Arrivals;
use ioecho_stats::analysis::flight::Flight;
use ioecho_stats::analysis::order::Order;
use ioecho_stats::analysis::pages::Pages;
use ioecho_stats::analysis::places::Places;
use ioecho_stats::analysis::reuse::Reuse;
use ioecho_stats::analysis::seconds::{Seconds, WINDOW_S};
use ioecho_stats::analysis::sizes::Sizes;
use ioecho_stats::analysis::spans::Spans;
use ioecho_stats::analysis::steadiness::Steadiness;
use ioecho_stats::orders::Orders;
use ioecho_stats::run_summary::RunFigures;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Columns, TraceError};

/// Times each is counted; the fastest is told.
const ROUNDS: usize = 5;

fn read(path: &Path) -> Result<Vec<Batch>, TraceError> {
    let mut source = formats::open(path, &ReadOptions::default())?;
    let mut batches = Vec::new();
    loop {
        let mut batch = Batch::new(Columns::default());
        if !source.next_batch(&mut batch)? {
            return Ok(batches);
        }
        batches.push(batch);
    }
}

/// The time that this thread ran, where the kernel tells it, since others run beside it.
enum Busy {
    Ran(f64),
    Passed(Instant),
}

impl Busy {
    fn now() -> Self {
        ran().map_or_else(|| Self::Passed(Instant::now()), Self::Ran)
    }

    fn elapsed(&self) -> f64 {
        match self {
            Self::Ran(before) => ran().unwrap_or(*before) - before,
            Self::Passed(since) => since.elapsed().as_secs_f64(),
        }
    }
}

fn ran() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

fn one_by_one<S: Summary>(summary: &mut S, batch: &Batch) {
    for request in batch.iter() {
        summary.observe(&request);
    }
}

fn time<S: Default, F>(
    name: &str,
    batches: &[Batch],
    observe: impl Fn(&mut S, &Batch),
    figures: impl Fn(&S) -> F,
) {
    let requests: usize = batches.iter().map(Batch::len).sum();
    let (mut counted, mut asked) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let begin = Busy::now();
        let mut summary = S::default();
        for batch in batches {
            observe(&mut summary, batch);
        }
        counted = counted.min(begin.elapsed());
        let begin = Busy::now();
        black_box(figures(&summary));
        asked = asked.min(begin.elapsed());
    }
    let rate = requests as f64 / counted / 1e6;
    let each = counted * 1e9 / requests as f64;
    println!(
        "{name:>8}: {rate:6.2} M requests/s, {each:4.0} ns each; figures {:4.0} ms",
        asked * 1e3
    );
}

/// Nothing: what it costs to take requests out of batches.
#[derive(Clone, Default)]
struct None(u64);

impl Summary for None {
    fn observe(&mut self, request: &ioecho_trace::Request) {
        self.0 ^= black_box(request).offset.0;
    }

    fn merge(&mut self, _: &Self) {}
}

fn main() {
    let Some(load) = std::env::var_os("IOECHO_LOAD") else {
        println!("skipped: IOECHO_LOAD names no trace");
        return;
    };
    let batches = match read(Path::new(&load)) {
        Ok(batches) => batches,
        Err(error) => return eprintln!("{error}"),
    };
    time("nothing", &batches, one_by_one, |none: &None| none.0);
    let pages = |pages: &mut Pages, batch: &Batch| {
        in_pieces(batch, |requests| pages.observe_all(requests));
    };
    time("pages", &batches, pages, Pages::figures);
    time("reuse", &batches, one_by_one, Reuse::figures);
    time("places", &batches, one_by_one, Places::figures);
    time("order", &batches, one_by_one, Order::figures);
    time("sizes", &batches, one_by_one, Sizes::figures);
    time("space", &batches, Space::observe_batch, |_: &Space| ());
    let seconds = |seconds: &Seconds| seconds.figures(WINDOW_S);
    time("seconds", &batches, one_by_one, seconds);
    time("arrivals", &batches, one_by_one, Arrivals::figures);
    time("flight", &batches, one_by_one, Flight::figures);
    time("spans", &batches, one_by_one, Spans::figures);
    time("steady", &batches, one_by_one, Steadiness::figures);
    time("time", &batches, Time::observe_batch, |_: &Time| ());
    time("run", &batches, RunFigures::observe, |_: &RunFigures| ());
    time("orders", &batches, Orders::observe, |_: &Orders| ());
}
