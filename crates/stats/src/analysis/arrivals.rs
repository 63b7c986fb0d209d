//! Arrivals of requests: gaps, and burstiness at every scale of time.
//!
//! A mean rate says nothing about the queue that a load builds up: a thousand requests per second
//! at equal distances need no queue, the same thousand in one millisecond do. Three measures tell
//! them apart: the coefficient of variation of the gaps between requests (0 of a clock, 1 of
//! independent arrivals, more of bursts), the index of dispersion of counts (variance over mean of
//! the number of requests in equal spans; 1 of independent arrivals at every scale) and, from how
//! it grows with the scale, the Hurst parameter (0.5 of independent arrivals, towards 1 of bursts
//! on all scales).
//!
//! Spans are powers of two of nanoseconds, counted from the trace's zero, so that parts cut
//! anywhere agree on them; spans that are open at a cut are kept on both sides. The first and the
//! last span, which the trace covers only in part, do not count, because half a span would look
//! like a quiet one. Gaps and counts are those of each volume, pooled over volumes: a gap between
//! requests of two devices says nothing of either. Volumes whose numbers differ by a multiple of
//! [`QUEUES`] share counters.

use std::collections::BTreeMap;

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;
use super::bins::{decimal, decimal_edge, decimal_least};
use super::event::Event;
use super::flight::QUEUES;
use super::shape::{Bins, Curve, Quantity};

/// The shortest span is 2 to this power in nanoseconds, about a millisecond.
const FINEST: u32 = 20;

/// How many scales there are: up to 2^45 ns, ten hours.
const SCALES: usize = 26;

/// Of fewer spans no dispersion is estimated.
const SPANS_MIN: u64 = 16;

/// Requests in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    number: u64,
    requests: u64,
}

/// The counts of a scale. The first and the last span may continue in another part, so they are not
/// among the squares yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Scale {
    first: Option<Span>,
    last: Option<Span>,
    /// The sum of squares of the counts of the spans between.
    squares: u128,
}

impl Scale {
    /// Adds requests in a span that is not before those so far.
    fn add(&mut self, span: Span) {
        let square = |span: Span| u128::from(span.requests) * u128::from(span.requests);
        let Some(first) = &mut self.first else {
            self.first = Some(span);
            return;
        };
        match &mut self.last {
            None if span.number <= first.number => first.requests += span.requests,
            None => self.last = Some(span),
            Some(last) if span.number <= last.number => last.requests += span.requests,
            Some(last) => {
                self.squares += square(*last);
                *last = span;
            }
        }
    }

    fn merge(&mut self, later: &Self) {
        if let Some(first) = later.first {
            self.add(first);
        }
        if let Some(last) = later.last {
            self.add(last);
        }
        self.squares = self.squares.saturating_add(later.squares);
    }

    /// How many whole spans there are: those between the first and the last, which the trace
    /// covers in part alone.
    fn whole(&self) -> u64 {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.number - first.number - 1,
            _ => 0,
        }
    }

    /// Requests in the first span and in the last.
    fn at_the_ends(&self) -> u64 {
        self.first.into_iter().chain(self.last).map(|span| span.requests).sum()
    }
}

/// The arrivals of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OfVolume {
    /// Which volume it is, the first of those that share these counters.
    volume: Option<u32>,
    is_shared: bool,
    first: Option<i64>,
    last: i64,
    requests: u64,
    /// Gaps by decimal bin.
    gaps: Vec<u64>,
    /// Requests at the instant of the one before.
    together: u64,
    gap_squares: u128,
    scales: Vec<Scale>,
    /// Requests of the finest span that is under way.
    open: Span,
}

impl OfVolume {
    #[inline]
    fn add(&mut self, instant: i64) {
        let number = instant.max(0) as u64 >> FINEST;
        if self.first.is_none() {
            self.first = Some(instant);
            self.last = instant;
            self.open = Span { number, requests: 0 };
        } else {
            self.gap(instant);
        }
        self.requests += 1;
        if number > self.open.number {
            self.close();
            self.open = Span { number, requests: 0 };
        }
        self.open.requests += 1;
        self.last = self.last.max(instant);
    }

    fn gap(&mut self, instant: i64) {
        let gap = instant.saturating_sub(self.last).max(0) as u64;
        self.together += u64::from(gap == 0);
        let bin = decimal(gap);
        if bin >= self.gaps.len() {
            self.gaps.resize(bin + 1, 0);
        }
        self.gaps[bin] += 1;
        self.gap_squares = self.gap_squares.saturating_add(u128::from(gap) * u128::from(gap));
    }

    /// Ends the finest span.
    fn close(&mut self) {
        if self.open.requests == 0 {
            return;
        }
        self.scales.resize(SCALES, Scale::default());
        for (shift, scale) in self.scales.iter_mut().enumerate() {
            scale.add(Span { number: self.open.number >> shift, requests: self.open.requests });
        }
        self.open.requests = 0;
    }

    fn closed(&self) -> Self {
        let mut closed = self.clone();
        closed.close();
        closed
    }

    fn merge(&mut self, later: &Self) {
        let Some(first) = later.first else { return };
        if self.first.is_none() {
            self.clone_from(later);
            return;
        }
        self.is_shared |= later.is_shared || self.volume != later.volume;
        self.gap(first);
        add_gaps(&mut self.gaps, &later.gaps);
        self.together = self.together.saturating_add(later.together);
        self.gap_squares = self.gap_squares.saturating_add(later.gap_squares);
        self.requests = self.requests.saturating_add(later.requests);
        self.last = self.last.max(later.last);
        if !later.scales.is_empty() {
            self.close();
            for (mine, theirs) in self.scales.iter_mut().zip(&later.scales) {
                mine.merge(theirs);
            }
            self.open = Span { number: later.open.number.max(self.open.number), requests: 0 };
        } else if later.open.number > self.open.number {
            self.close();
            self.open = Span { number: later.open.number, requests: 0 };
        }
        self.open.requests = self.open.requests.saturating_add(later.open.requests);
    }
}

/// Gaps and counts of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    volumes: BTreeMap<u32, OfVolume>,
}

impl Summary for Arrivals {
    fn observe(&mut self, request: &Request) {
        self.add(&Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        for (queue, theirs) in &later.volumes {
            self.volumes.entry(*queue).or_default().merge(theirs);
        }
    }
}

impl Arrivals {
    pub(crate) fn add(&mut self, event: &Event) {
        self.of_volume(event.volume).add(event.scheduled);
    }

    /// From when to when requests of a volume were due, of each volume that is counted apart.
    pub fn stretches(&self) -> impl Iterator<Item = (u32, i64, i64)> {
        let apart = self.volumes.values().filter(|found| !found.is_shared);
        apart.filter_map(|found| Some((found.volume?, found.first?, found.last)))
    }

    /// Adds a request that is due at this instant, as one of the volume 0.
    pub(crate) fn add_at(&mut self, instant_ns: i64) {
        self.of_volume(0).add(instant_ns);
    }

    /// The index of dispersion at each scale that has at least [`SPANS_MIN`] whole spans.
    pub(crate) fn dispersions(&self) -> Vec<Dispersion> {
        dispersions(&self.closed())
    }

    /// Gaps between requests of a volume, over all volumes: the least of each decimal bin, and how
    /// many there are. Those below a nanosecond are in the first.
    pub(super) fn gaps_filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut gaps: Vec<u64> = Vec::new();
        for volume in self.volumes.values() {
            add_gaps(&mut gaps, &volume.gaps);
        }
        let bins = gaps.into_iter().enumerate().filter(|(_, count)| *count > 0);
        bins.map(|(bin, count)| (decimal_least(bin), count))
    }

    fn closed(&self) -> Vec<OfVolume> {
        self.volumes.values().map(OfVolume::closed).collect()
    }

    fn of_volume(&mut self, volume: u32) -> &mut OfVolume {
        let found = self.volumes.entry(volume % QUEUES).or_default();
        found.is_shared |= *found.volume.get_or_insert(volume) != volume;
        found
    }

    /// The figures.
    pub fn figures(&self) -> ArrivalFigures {
        let volumes = self.closed();
        let mut gaps: Vec<u64> = Vec::new();
        let (mut count, mut sum, mut squares) = (0, 0.0, 0.0);
        for volume in &volumes {
            add_gaps(&mut gaps, &volume.gaps);
            count += volume.requests.saturating_sub(1);
            sum += volume.last.saturating_sub(volume.first.unwrap_or(volume.last)) as f64;
            squares += volume.gap_squares as f64;
        }
        let mean = if count > 0 { sum / count as f64 } else { 0.0 };
        let variance = (squares / count.max(1) as f64 - mean * mean).max(0.0);
        let dispersions = dispersions(&volumes);
        let first = gaps.iter().position(|count| *count > 0).unwrap_or(0);
        let edges = (first..=gaps.len().max(first)).map(decimal_edge).collect();
        let point = |found: &Dispersion| (found.span_ns as f64 / 1e9, found.index);
        ArrivalFigures {
            volumes: volumes.len() as u64,
            gaps: Bins {
                name: "gaps".to_owned(),
                quantity: Quantity::new("gap to the request before", "ns"),
                edges,
                counts: gaps.split_off(first.min(gaps.len())),
            },
            simultaneous: volumes.iter().map(|volume| volume.together).sum(),
            gap_mean_ns: mean,
            gap_variation: (mean > 0.0).then(|| variance.sqrt() / mean),
            hurst: hurst(&dispersions),
            dispersion: Curve {
                name: "index of dispersion".to_owned(),
                x: Quantity::new("span", "s"),
                y: Quantity::new("variance of counts over their mean", "1"),
                points: dispersions.iter().map(point).collect(),
            },
        }
    }
}

/// Adds gaps to gaps.
fn add_gaps(gaps: &mut Vec<u64>, others: &[u64]) {
    gaps.resize(gaps.len().max(others.len()), 0);
    for (mine, theirs) in gaps.iter_mut().zip(others) {
        *mine = mine.saturating_add(*theirs);
    }
}

/// The index of dispersion of counts at a scale: their variance over their mean, 1 for a Poisson
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dispersion {
    /// The length of the spans in which requests are counted.
    pub span_ns: u64,
    /// Requests per span on average.
    pub mean: f64,
    /// The index.
    pub index: f64,
}

fn dispersions(volumes: &[OfVolume]) -> Vec<Dispersion> {
    let mut all = Vec::new();
    for shift in 0..SCALES {
        let (mut spans, mut requests, mut deviation) = (0, 0.0, 0.0);
        for volume in volumes.iter().filter(|volume| !volume.scales.is_empty()) {
            let scale = &volume.scales[shift];
            let count = scale.whole();
            if count == 0 {
                continue;
            }
            spans += count;
            let total = (volume.requests - scale.at_the_ends()) as f64;
            requests += total;
            deviation += scale.squares as f64 - total * total / count as f64;
        }
        if spans < SPANS_MIN || requests <= 0.0 {
            break;
        }
        let index = (deviation / requests).max(0.0);
        let span_ns = 1 << (FINEST as usize + shift);
        all.push(Dispersion { span_ns, mean: requests / spans as f64, index });
    }
    all
}

/// The Hurst parameter from the variance of counts over spans of several lengths: half the slope of
/// log variance over log length by least squares, over lengths with a request or more on average;
/// `None` of fewer than four of them (Leland, Taqqu, Willinger, Wilson: "On the self-similar nature
/// of Ethernet traffic", 1994).
pub(crate) fn hurst(scales: &[Dispersion]) -> Option<f64> {
    let points: Vec<(f64, f64)> = scales
        .iter()
        .filter(|scale| scale.mean >= 1.0 && scale.index > 0.0)
        .map(|scale| ((scale.span_ns as f64).ln(), (scale.index * scale.mean).ln()))
        .collect();
    if points.len() < 4 {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let product: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let square: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    Some((product / square / 2.0).clamp(0.0, 1.0))
}

/// How requests come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalFigures {
    /// Over how many volumes these figures are pooled; those that share counters are one.
    pub volumes: u64,
    /// Gaps between requests of a volume, ten bins per power of ten. Those below a nanosecond are
    /// in the first.
    pub gaps: Bins,
    /// Requests due at the same nanosecond as the one before.
    pub simultaneous: u64,
    /// The mean gap.
    pub gap_mean_ns: f64,
    /// Standard deviation over mean of the gaps; `None` of fewer than two requests or no time.
    pub gap_variation: Option<f64>,
    /// The Hurst parameter; `None` where there are too few scales to tell.
    pub hurst: Option<f64>,
    /// Index of dispersion of counts over the length of the spans.
    pub dispersion: Curve,
}
