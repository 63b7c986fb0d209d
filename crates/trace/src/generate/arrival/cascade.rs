//! Arrivals by a cascade of biased halvings.
//!
//! A span of time with n requests is halved. One half, chosen at random, gets each request with
//! probability b, the other half gets the rest; and so on for the halves. This is the b-model of
//! Wang, Madhyastha, Chan, Papadimitriou and Faloutsos ("Data mining meets performance evaluation:
//! fast algorithms for modeling bursty traffic", 2002), with a bias for every scale. With one bias,
//! the variance of counts grows with the 2H-th power of the scale, H = (1 − log₂(b² + (1 − b)²)) /
//! 2; b = 0.5 is a Poisson process. A bias per scale keeps the burstiness that a recording has at
//! each (`stats` measures them by the same rule), which none of the processes with one parameter
//! can.

use crate::generate::random::{Random, Share};
use crate::units::Nanos;

/// Requests over a span, dealt downwards one part after the other.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Cascade {
    /// The bias of each scale, the whole span first. Below the last scale there is no bias.
    biases: Vec<Share>,
    span_ns: i64,
    requests_per_span: f64,
    carry: f64,
    /// The end of the current span.
    end: i64,
    /// Whether another span follows.
    more: bool,
    repeats: bool,
    /// Parts that are still to be dealt, the earliest last: at most two for every halving.
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    start: i64,
    width: i64,
    requests: u64,
    level: usize,
}

impl Cascade {
    pub(super) fn new(biases: &[f64], span: Nanos, mean_gap_ns: f64, repeats: bool) -> Self {
        Self {
            biases: biases.iter().map(|bias| Share::from_fraction(*bias)).collect(),
            span_ns: span.0.max(1),
            requests_per_span: span.0 as f64 / mean_gap_ns,
            // So that a single span is rounded to the nearest number.
            carry: 0.5,
            end: 0,
            more: true,
            repeats,
            parts: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> Option<i64> {
        const HALF: Share = Share::HALF;
        loop {
            let Some(part) = self.parts.last_mut() else {
                self.begin_span()?;
                continue;
            };
            match (part.requests, part.width) {
                (0, _) => {
                    self.parts.pop();
                }
                // A single request may be anywhere: at each scale either half is as likely.
                (1, width) => {
                    let start = part.start;
                    self.parts.pop();
                    return Some(start + random.below(width as u64) as i64);
                }
                (_, ..=1) => {
                    part.requests -= 1;
                    return Some(part.start);
                }
                (requests, width) => {
                    let Part { start, level, .. } = *part;
                    let bias = self.biases.get(level).copied().unwrap_or(HALF);
                    let bias = if random.next_u64() >> 63 == 0 { bias } else { bias.complement() };
                    let first = random.binomial(requests, bias);
                    let middle = width / 2;
                    *part = Part {
                        start: start + middle,
                        width: width - middle,
                        requests: requests - first,
                        level: level + 1,
                    };
                    self.parts.push(Part {
                        start,
                        width: middle,
                        requests: first,
                        level: level + 1,
                    });
                }
            }
        }
    }

    fn begin_span(&mut self) -> Option<()> {
        if !self.more {
            return None;
        }
        self.more = self.repeats;
        let start = self.end;
        self.end = start.checked_add(self.span_ns)?;
        let requests = self.requests_per_span + self.carry;
        self.carry = requests - requests.floor();
        let part = Part { start, width: self.span_ns, requests: requests as u64, level: 0 };
        self.parts.push(part);
        Some(())
    }
}
