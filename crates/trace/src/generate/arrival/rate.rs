//! The number of requests that are issued per second, exactly.
//!
//! At a constant rate the n-th request is due at n / rate: a rounded gap would drift away from the
//! rate in the course of a day. So gaps are fractions, and the remainder of each division is kept.

use std::str::FromStr;

use super::Drift;
use crate::generate::random::Random;
use crate::units::Nanos;

/// Nanoseconds of a second, times the parts in which a rate is counted.
const NANO_SECONDS: u64 = 1_000_000_000_000_000_000;

/// Requests per second, in billionths; of a sweep, the first rate and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) struct Rate {
    from: u64,
    to: u64,
}

impl Rate {
    /// A thousand requests per second.
    pub(in crate::generate) const DEFAULT: Self =
        Self { from: 1_000_000_000_000, to: 1_000_000_000_000 };

    /// The mean distance of two requests.
    pub(super) fn mean_gap_ns(&self) -> f64 {
        NANO_SECONDS as f64 / self.from as f64
    }

    /// The first and the last rate, if they differ.
    pub(super) fn rising(&self) -> Option<(u64, u64)> {
        (self.from != self.to).then_some((self.from, self.to))
    }

    /// The first and the last rate, in requests per second.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.from as f64 / 1e9, self.to as f64 / 1e9)
    }

    pub(super) fn steps(&self) -> Steps {
        Steps {
            next: 0,
            whole: NANO_SECONDS / self.from,
            part: NANO_SECONDS % self.from,
            left: 0,
            unit: self.from,
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `5000`, `22.44`, `5k`, `2M`, or a sweep `100-5k`.
    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| -> Result<u64, String> {
            let error = || {
                format!(
                    "'{text}' is no rate: a number of requests per second from 0.000001 to 10 \
                     million, such as 5000, 22.5, 5k, 2M or, rising, 100-5k"
                )
            };
            let text = text.trim();
            let (number, scale) = match text.as_bytes().last() {
                Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
                Some(b'M') => (&text[..text.len() - 1], 1_000_000),
                _ => (text, 1),
            };
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if number.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9
            {
                return Err(error());
            }
            let part: u64 = format!("{fraction:0<9}").parse().map_err(|_| error())?;
            let whole: u64 =
                if whole.is_empty() { 0 } else { whole.parse().map_err(|_| error())? };
            let rate = whole
                .checked_mul(1_000_000_000)
                .and_then(|rate| rate.checked_add(part))
                .and_then(|rate| rate.checked_mul(scale))
                .filter(|rate| (1_000..=10_000_000_000_000_000).contains(rate));
            rate.ok_or_else(error)
        };
        let (from, to) = match text.split_once('-') {
            Some((from, to)) if !from.trim().is_empty() => (one(from)?, one(to)?),
            _ => (one(text)?, one(text)?),
        };
        Ok(Self { from, to })
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |rate: u64| {
            let text = format!("{}.{:09}", rate / 1_000_000_000, rate % 1_000_000_000);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self.rising() {
            None => write!(f, "{}/s", one(self.from)),
            Some((from, to)) => write!(f, "{}/s changing to {}/s", one(from), one(to)),
        }
    }
}

/// Instants at equal distances: the n-th is n / rate, rounded down.
#[derive(Clone, Copy, Debug)]
pub(in crate::generate) struct Steps {
    next: u64,
    whole: u64,
    part: u64,
    /// The remainder of the divisions so far, below `unit`.
    left: u64,
    unit: u64,
}

impl Steps {
    #[inline]
    pub(super) fn next(&mut self) -> Option<i64> {
        let now = i64::try_from(self.next).ok()?;
        self.left += self.part;
        let carry = u64::from(self.left >= self.unit);
        self.left -= self.unit * carry;
        // Below 2^63 + 10^15.
        self.next += self.whole + carry;
        Some(now)
    }
}

/// Instants at a rate that changes linearly over the duration.
#[derive(Clone, Copy, Debug)]
pub(in crate::generate) struct Rising {
    from: f64,
    /// Billionths of a request per second, per nanosecond.
    slope: f64,
    duration: f64,
    poisson: bool,
    at: Drift,
    begun: bool,
}

impl Rising {
    pub(super) fn new((from, to): (u64, u64), duration: Nanos, poisson: bool) -> Self {
        let (from, to) = (from as f64, to as f64);
        let duration = duration.0 as f64;
        let slope = (to - from) / duration;
        Self { from, slope, duration, poisson, at: Drift::default(), begun: false }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> Option<i64> {
        if !std::mem::replace(&mut self.begun, true) && !self.poisson {
            return Some(0);
        }
        // The requests due until t are r(t) = from · t + slope · t² / 2; the next one is where that
        // has grown by one, or by a random number of mean one.
        let more = if self.poisson { random.exponential() } else { 1.0 };
        let now = self.at.now() as f64;
        let rate = self.from + self.slope * now.min(self.duration);
        let grown = more * NANO_SECONDS as f64;
        let under_root = rate * rate + 2.0 * self.slope * grown;
        if under_root <= 0.0 {
            return None;
        }
        self.at.advance(2.0 * grown / (rate + under_root.sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_be_in_thousands_or_millions() {
        let told = |text: &str| text.parse::<Rate>().map(|rate| rate.to_string());
        assert_eq!(told("2.5k").unwrap(), "2500/s");
        assert_eq!(told("10M").unwrap(), "10000000/s");
        assert_eq!(told("1k-2M").unwrap(), "1000/s changing to 2000000/s");
        for text in ["11M", "M", "2G", "5m"] {
            told(text).unwrap_err();
        }
    }
}
