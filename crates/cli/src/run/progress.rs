//! The progress line of a run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ioecho_run::observer::Meters;
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
    let mut seen = Instant::now();
    loop {
        thread::park_timeout(every.saturating_sub(seen.elapsed()));
        if end.load(Relaxed) {
            bar.finish_and_clear();
            return;
        }
        if seen.elapsed() < every {
            continue;
        }
        let line = line(watched, seen.elapsed());
        seen = Instant::now();
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

fn line(watched: &Watched, elapsed: Duration) -> String {
    let Meters { controls, demand, has_schedule, moments, duration } = &watched.meters;
    let clocks = controls.iter().map(|control| control.now_ns.load(Relaxed));
    let now = Nanos(clocks.max().unwrap_or_default().max(0));
    let per_second = |count: u64| count as f64 / elapsed.as_secs_f64().max(1e-3);
    let demanded = demand.lock().map_or(0, |mut demand| demand.due_until(now.0));
    let due =
        if *has_schedule { format!("due {:.0}/s, ", per_second(demanded)) } else { String::new() };
    let (achieved, lateness) = match moments.lock() {
        Ok(mut moments) => {
            let moments = std::mem::take(&mut *moments);
            (moments.completed, moments.lateness.quantile(0.99))
        }
        Err(_) => (0, None),
    };
    let in_flight: u32 = controls.iter().map(|control| control.in_flight.load(Relaxed)).sum();
    let lateness = lateness.map_or("-".to_owned(), |span| span.to_string());
    let (total, left) = match *duration {
        Some(total) => {
            let left = (total - now).max(Nanos::ZERO);
            (format!(" of {:.0} s", total.as_secs_f64()), format!("{:.0} s", left.as_secs_f64()))
        }
        None => (String::new(), "-".to_owned()),
    };
    // The line fits into 80 columns.
    format!(
        "{:.0} s{total} | {due}done {:.0}/s | late p99 {lateness} | in flight {in_flight} | ETA \
         {left}",
        now.as_secs_f64(),
        per_second(achieved),
    )
}
