//! The progress line of a run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ioecho_run::observer::Meters;
use ioecho_stats::histogram::Latencies;
use ioecho_trace::Nanos;

use crate::print::{is_watched, tell};

/// How often the line is drawn on a terminal. Rates over shorter times would jump.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// How often a line is printed where there is no terminal.
const PRINT_EVERY: Duration = Duration::from_secs(10);

/// The data for the line.
pub(crate) struct Watched {
    pub(crate) meters: Meters,
    /// Raised while the panels use the terminal.
    pub(crate) hidden: Option<Arc<AtomicBool>>,
}

/// The thread that draws. It ends when it is told to.
pub(crate) struct Progress {
    thread: JoinHandle<()>,
    end: Arc<AtomicBool>,
}

impl Progress {
    /// Starts drawing on standard error.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(crate) fn start(watched: Watched) -> io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let their_end = Arc::clone(&end);
        let draw = move || watch(&watched, &their_end);
        let thread = ioecho_linux::thread::start("ioecho-progress", draw)?;
        Ok(Self { thread, end })
    }

    /// Removes the line.
    pub(crate) fn finish(self) {
        self.end.store(true, Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

fn watch(watched: &Watched, end: &AtomicBool) {
    let terminal = is_watched();
    let every = if terminal { DRAW_EVERY } else { PRINT_EVERY };
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let (mut seen, mut before) = (Instant::now(), Nanos::ZERO);
    loop {
        thread::park_timeout(every.saturating_sub(seen.elapsed()));
        if end.load(Relaxed) {
            bar.finish_and_clear();
            return;
        }
        if seen.elapsed() < every {
            continue;
        }
        let now = now(&watched.meters);
        let line = line(watched, now, (now - before).max(Nanos::ZERO), seen.elapsed());
        (seen, before) = (Instant::now(), now);
        if watched.hidden.as_ref().is_some_and(|hidden| hidden.load(Relaxed)) {
            continue;
        }
        if terminal {
            bar.set_message(line);
            bar.tick();
        } else {
            tell(&line);
        }
    }
}

/// How far the replay has come.
fn now(meters: &Meters) -> Nanos {
    let clocks = meters.controls.iter().map(|control| control.now_ns.load(Relaxed));
    Nanos(clocks.max().unwrap_or_default().max(0))
}

/// The line at this instant of the replay; since the last one it has come so far, and so much time
/// has passed here.
fn line(watched: &Watched, now: Nanos, passed: Nanos, elapsed: Duration) -> String {
    let Meters { controls, demand, has_schedule, moments, duration, simulated } = &watched.meters;
    // A lane that hangs in a system call has a clock that stands still, and no device in simulated
    // time does requests by the clock on the wall.
    let span = if *simulated { passed.as_secs_f64() } else { elapsed.as_secs_f64() };
    let per_second = |count: u64| count as f64 / span.max(1e-3);
    // How long a second of the replay takes.
    let pace = if *simulated { elapsed.as_secs_f64() / span.max(1e-3) } else { 1.0 };
    let demanded = demand.lock().map_or(0, |mut demand| demand.due_until(now.0));
    let due =
        if *has_schedule { format!("due {:.0}/s, ", per_second(demanded)) } else { String::new() };
    let (achieved, lateness) = match moments.lock() {
        Ok(mut moments) => {
            let moments = std::mem::take(&mut *moments);
            (moments.completed, late(&moments.lateness))
        }
        Err(_) => (0, "p99 -".to_owned()),
    };
    let in_flight: u32 = controls.iter().map(|control| control.in_flight.load(Relaxed)).sum();
    let (total, left) = match *duration {
        Some(total) => {
            let left = (total - now).max(Nanos::ZERO).as_secs_f64() * pace;
            (format!(" of {:.0} s", total.as_secs_f64()), format!("{left:.0} s"))
        }
        None => (String::new(), "-".to_owned()),
    };
    // The line fits into 80 columns.
    format!(
        "{:.0} s{total} | {due}done {:.0}/s | late {lateness} | in flight {in_flight} | ETA \
         {left}",
        now.as_secs_f64(),
        per_second(achieved),
    )
}

/// How late requests were issued. Of too few of them the 99th percentile is the latest by another
/// name.
fn late(spans: &Latencies) -> String {
    let latest = || spans.max().map_or("p99 -".to_owned(), |latest| format!("max {latest}"));
    spans.known(0.99).map_or_else(latest, |p99| format!("p99 {p99}"))
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
