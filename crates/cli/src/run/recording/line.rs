//! The progress line of a recording.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ioecho_linux::record::Status;
use ioecho_trace::Bytes;

use crate::print::is_watched;

/// A line on the standard error, if that is a terminal.
pub(crate) struct Line {
    bar: Option<ProgressBar>,
    begun: Instant,
    seen: Instant,
    last: Status,
}

impl Line {
    /// `is_wanted` is false if the recorded command writes to the terminal.
    pub(crate) fn new(is_wanted: bool) -> Self {
        let bar = (is_wanted && is_watched()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self { bar, begun: now, seen: now, last: Status::default() }
    }

    /// Shows the state of the recording.
    pub(crate) fn show(&mut self, status: &Status) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(text(&self.last, status, self.seen.elapsed(), self.begun.elapsed()));
        bar.tick();
        self.seen = Instant::now();
        self.last = status.clone();
    }

    /// Prints a message without the line overwriting it.
    pub(crate) fn aside(&self, say: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The line fits into 80 columns.
fn text(last: &Status, now: &Status, since: Duration, all: Duration) -> String {
    let seconds = since.as_secs_f64().max(1e-3);
    let events = now.events.saturating_sub(last.events) as f64 / seconds;
    let bytes = now.bytes.0.saturating_sub(last.bytes.0) as f64 / seconds;
    let cpu = now.cpu.as_secs_f64() / all.as_secs_f64().max(1e-3) * 100.0;
    let lost = match now.lost {
        0 => "none lost".to_owned(),
        lost => format!("{lost} LOST"),
    };
    format!(
        "{:.0} s | {events:.0} events/s | {}, {}/s | {lost} | {cpu:.1} % of a processor",
        all.as_secs_f64(),
        now.bytes,
        Bytes(bytes as u64),
    )
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Nanos;

    use super::*;

    #[test]
    fn the_line_has_rates_of_the_last_second_and_losses_of_all() {
        let last = Status { events: 1000, bytes: Bytes(1 << 20), ..Status::default() };
        let cpu = Nanos::from_millis(100);
        let now = Status { events: 5000, bytes: Bytes(3 << 20), lost: 7, cpu, ..Status::default() };
        assert_eq!(
            text(&last, &now, Duration::from_secs(2), Duration::from_secs(10)),
            "10 s | 2000 events/s | 3.00 MiB, 1.00 MiB/s | 7 LOST | 1.0 % of a processor"
        );
    }
}
