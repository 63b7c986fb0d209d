//! Rates that follow each other.
//!
//! A day has a peak, and a test wants the minute before it too. `100@10s,100-5k@20s` is ten seconds
//! at a hundred requests per second, then twenty in which the rate rises; then it begins again, as
//! long as the load lasts.

use super::{Process, Rate};
use crate::arguments::ArgumentError;
use crate::generate::random::Random;
use crate::units::Nanos;

/// The most rates of a course.
const SPANS_MAX: usize = 10_000;

/// The fewest requests of a course: fewer would make a search of each instant.
const REQUESTS_MIN: f64 = 0.01;

/// Rates, and how long each holds or takes to change.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Changing {
    spans: Vec<(Rate, Nanos)>,
}

impl Changing {
    /// The rates in a text; `None` if it names one rate alone.
    pub(in crate::generate) fn parse(text: &str) -> Result<Option<Self>, ArgumentError> {
        if !text.contains('@') {
            return Ok(None);
        }
        let refuse = |part: &str, reason: &str| {
            let text = format!("rate: '{part}': {reason} (as in 100@10s,100-5k@20s)");
            ArgumentError::new(text)
        };
        let mut spans = Vec::new();
        for part in text.split(',') {
            let Some((rate, span)) = part.split_once('@') else {
                return Err(refuse(part, "every rate has a time behind '@'"));
            };
            let rate = rate.parse::<Rate>().map_err(|error| refuse(part, &error))?;
            let span = span.parse::<Nanos>().map_err(|error| refuse(part, &error.to_string()))?;
            if span < Nanos::from_millis(1) {
                return Err(refuse(part, "a time is at least 1ms"));
            }
            spans.push((rate, span));
        }
        if spans.len() > SPANS_MAX {
            return Err(ArgumentError::new("rate: there are more than 10000 rates"));
        }
        let changing = Self { spans };
        if changing.requests() < REQUESTS_MIN {
            return Err(ArgumentError::new("rate: these rates make less than 0.01 requests"));
        }
        Ok(Some(changing))
    }

    /// How many requests one course makes on average.
    fn requests(&self) -> f64 {
        let of = |(rate, span): &(Rate, Nanos)| {
            let (from, to) = rate.ends();
            f64::midpoint(from, to) * span.as_secs_f64()
        };
        self.spans.iter().map(of).sum()
    }

    /// A rate that stands for all where one is asked for: the first.
    pub(in crate::generate) fn mean(&self) -> Rate {
        self.spans.first().map_or(Rate::DEFAULT, |(rate, _)| *rate)
    }

    /// The instants at these rates.
    pub(super) fn course(&self, process: &Process) -> Result<Course, ArgumentError> {
        let gap = match process {
            Process::Constant => Gap::Constant,
            Process::Poisson => Gap::Poisson,
            Process::Uniform => Gap::Uniform,
            _ => {
                return Err(ArgumentError::new(
                    "rate: rates that change go with dist=constant, poisson or uniform only",
                ));
            }
        };
        let spans = self.spans.iter().map(|(rate, span)| {
            let (from, to) = rate.ends();
            let length_ns = span.0 as f64;
            Span { rate: from / 1e9, slope: (to - from) / 1e9 / length_ns, length_ns }
        });
        Ok(Course { spans: spans.collect(), gap, at: 0, base: 0.0, within: 0.0, begun: false })
    }
}

impl std::fmt::Display for Changing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, (rate, span)) in self.spans.iter().enumerate() {
            write!(f, "{}{rate} for {span}", if number == 0 { "" } else { ", then " })?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    Constant,
    Poisson,
    Uniform,
}

/// A span of time with its rate in requests per nanosecond.
#[derive(Clone, Copy, Debug)]
struct Span {
    rate: f64,
    /// How the rate grows per nanosecond.
    slope: f64,
    length_ns: f64,
}

/// Instants at rates that follow each other, again and again.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Course {
    spans: Vec<Span>,
    gap: Gap,
    /// The span, where it begins, and how much of it has gone, in nanoseconds.
    at: usize,
    base: f64,
    within: f64,
    begun: bool,
}

impl Course {
    pub(super) fn next(&mut self, random: &mut Random) -> Option<i64> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        // Requests are due where their expected number has grown by so many.
        let mut more = match self.gap {
            Gap::Constant if is_first => 0.0,
            Gap::Constant => 1.0,
            Gap::Poisson => random.exponential(),
            Gap::Uniform => 2.0 * random.unit(),
        };
        loop {
            let span = self.spans[self.at];
            let rate = span.rate + span.slope * self.within;
            let left = span.length_ns - self.within;
            let grows = (rate + span.slope * left / 2.0) * left;
            if more <= grows {
                let root = (rate * rate + 2.0 * span.slope * more).max(0.0).sqrt();
                if more > 0.0 {
                    self.within = (self.within + 2.0 * more / (rate + root)).min(span.length_ns);
                }
                let now = self.base + self.within;
                return (now < i64::MAX as f64).then_some(now as i64);
            }
            more -= grows;
            self.base += span.length_ns;
            self.within = 0.0;
            self.at = (self.at + 1) % self.spans.len();
            if self.base >= i64::MAX as f64 {
                return None;
            }
        }
    }
}
