//! When a place is used again, and how much is in use.
//!
//! The reuse distance of a place (the 4 KiB page where a request begins), in requests, determines
//! the hit ratio of a cache and, by Denning's theorem, the growth of the working set. Pages are
//! sampled by their hash, as SHARDS does (Waldspurger, Park, Garthwaite, Ahmad 2015): either all
//! requests to a page are seen or none, and when the table is full the sample is halved. With
//! 65,536 pages or more in it a share is off by half a percent or so; traces of fewer pages are
//! counted in full.

use ioecho_trace::{Op, Request};
use serde::Serialize;

use crate::count::sample::{Sample, Touch, mix};

/// The unit of what is in use.
const PAGE_SHIFT: u32 = 12;

/// How many pages a table has at most.
const PAGES_MAX: usize = 1 << 17;

/// Distances are told apart by powers of two, up to a million requests: the generator remembers no
/// more.
pub(super) const POWERS: usize = 20;

/// So many pages of a single request are looked at, 64 MiB.
const PAGES_OF_REQUEST: u64 = 1 << 14;

/// A page of a volume, hashed.
const fn page_of(volume: u32, page: u64) -> u64 {
    mix(page ^ (volume as u64) << 52)
}

/// Requests of an operation by reuse distance, in weights of the sample.
#[derive(Clone, Copy, Debug, Default)]
struct OfOp {
    /// Distances of 2^k to 2^(k+1) − 1 requests.
    powers: [f64; POWERS],
    /// Never before, or longer ago.
    fresh: f64,
}

impl OfOp {
    fn total(&self) -> f64 {
        self.powers.iter().sum::<f64>() + self.fresh
    }
}

/// Counts how places are used again.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    /// The number of the last request to each page.
    last: Sample<u64, PAGES_MAX>,
    requests: u64,
    /// All requests, and those that continue no sequence, by operation.
    all: OfOp,
    placed: [OfOp; Op::ALL.len()],
    /// Of those that do continue one, all and those to a page that was used before.
    following: [(f64, f64); Op::ALL.len()],
}

impl Reuse {
    /// Adds a request with a range; answers whether it is in the sample, follows nothing and goes
    /// where none went within the last million.
    pub fn add(&mut self, request: &Request, follows: bool) -> bool {
        let number = self.requests;
        self.requests += 1;
        let page = page_of(request.volume.0, request.offset.0 >> PAGE_SHIFT);
        let weight = self.last.weight() as f64;
        let power = match self.last.touch(page, number) {
            Touch::Outside => return false,
            Touch::First => None,
            Touch::Again(last) => {
                let power = (number - std::mem::replace(last, number)).ilog2() as usize;
                Some(power).filter(|power| *power < POWERS)
            }
        };
        let placed = &mut self.placed[usize::from(request.op.code())];
        for of in [&mut self.all, placed].into_iter().take(if follows { 1 } else { 2 }) {
            match power {
                Some(power) => of.powers[power] += weight,
                None => of.fresh += weight,
            }
        }
        if follows {
            // Within a page a sequence of small requests returns to it all the time.
            let within = !request.offset.0.is_multiple_of(1 << PAGE_SHIFT) && power == Some(0);
            let (all, again) = &mut self.following[usize::from(request.op.code())];
            *all += weight;
            *again += if power.is_some() && !within { weight } else { 0.0 };
        }
        power.is_none() && !follows
    }

    /// The figures.
    pub fn figures(&self) -> ReuseFigures {
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let total = self.all.total();
        let returning = total - self.all.fresh;
        let mut sum = 0.0;
        let median = self.all.powers.iter().position(|count| {
            sum += count;
            returning > 0.0 && sum * 2.0 >= returning
        });
        let per_op = Op::ALL.into_iter().zip(&self.placed).filter_map(|(op, of)| {
            let total = of.total();
            let powers = of.powers.iter().map(|count| share(*count, total)).collect();
            (total > 0.0).then_some(OpReuse { op, powers })
        });
        let following = Op::ALL.into_iter().zip(self.following);
        ReuseFigures {
            following_anew: following
                .map(|(op, (all, again))| (op, 1.0 - share(again, all)))
                .collect(),
            sampled_share: 1.0 / self.last.weight() as f64,
            share: share(returning, total),
            powers: self.all.powers.iter().map(|count| share(*count, total)).collect(),
            median_distance: median.map(|power| 1 << power),
            per_op: per_op.collect(),
        }
    }
}

/// How an operation's requests return to places, those apart that continue a sequence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpReuse {
    /// The operation.
    pub op: Op,
    /// The share that goes where a request went 2^k to 2^(k+1) − 1 requests before, for each k from
    /// 0.
    pub powers: Vec<f64>,
}

/// When places are used again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReuseFigures {
    /// The share of all pages that was looked at; 1 up to 131,072 pages.
    pub sampled_share: f64,
    /// The share of requests that begin in a page in which one of the last 2^20 began.
    pub share: f64,
    /// Of all requests, the shares by distance, as in [`OpReuse`].
    pub powers: Vec<f64>,
    /// Of those that return, the power of two in which the median of the distances lies.
    pub median_distance: Option<u64>,
    /// By operation.
    pub per_op: Vec<OpReuse>,
    /// By operation, the share of those that continue a sequence and go to a page anew.
    #[serde(skip)]
    pub(super) following_anew: Vec<(Op, f64)>,
}

/// Distinct pages within spans of time.
#[derive(Clone, Debug)]
struct Window {
    width_ns: Option<i64>,
    current: i64,
    first: i64,
    pages: Sample<(), PAGES_MAX>,
    /// The sum over windows, and the most of one.
    sum: f64,
    most: f64,
}

impl Window {
    fn new(width_ns: Option<i64>) -> Self {
        Self {
            width_ns,
            current: i64::MIN,
            first: 0,
            pages: Sample::default(),
            sum: 0.0,
            most: 0.0,
        }
    }

    fn begin(&mut self, issue_ns: i64) {
        let window = self.width_ns.map_or(0, |width| issue_ns.div_euclid(width));
        if self.current == i64::MIN {
            (self.current, self.first) = (window, window);
        } else if window > self.current {
            self.end();
            self.current = window;
        }
    }

    fn end(&mut self) {
        let pages = self.pages.count() as f64;
        self.sum += pages;
        self.most = self.most.max(pages);
        self.pages.clear();
    }

    /// Mean and most, in bytes; windows without a request count.
    fn figures(&self) -> InUse {
        let mut done = self.clone();
        done.end();
        let windows = (self.current.saturating_sub(self.first) as f64 + 1.0).max(1.0);
        let page = f64::from(1_u32 << PAGE_SHIFT);
        InUse { mean_bytes: done.sum / windows * page, most_bytes: done.most * page }
    }
}

/// Counts what is in use.
#[derive(Clone, Debug)]
pub struct WorkingSet {
    windows: [Window; 3],
}

impl Default for WorkingSet {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self { windows: [Some(second), Some(60 * second), None].map(Window::new) }
    }
}

impl WorkingSet {
    /// Adds a read or a write.
    pub fn add(&mut self, request: &Request) {
        for window in &mut self.windows {
            window.begin(request.issue.0);
        }
        let first = request.offset.0 >> PAGE_SHIFT;
        let last = (request.end().0.saturating_sub(1) >> PAGE_SHIFT).max(first);
        for page in first..=last.min(first + PAGES_OF_REQUEST - 1) {
            let page = page_of(request.volume.0, page);
            for window in &mut self.windows {
                window.pages.touch(page, ());
            }
        }
    }

    /// The figures.
    pub fn figures(&self) -> WorkingSetFigures {
        let [second, minute, all] = &self.windows;
        WorkingSetFigures {
            second: second.figures(),
            minute: minute.figures(),
            total_bytes: all.figures().most_bytes,
        }
    }
}

/// What is in use within a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct InUse {
    /// On average over all spans.
    pub mean_bytes: f64,
    /// The most of one.
    pub most_bytes: f64,
}

/// How much reads and writes touch, in pages of 4 KiB; of a request at most the first 64 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkingSetFigures {
    /// Within seconds.
    pub second: InUse,
    /// Within minutes.
    pub minute: InUse,
    /// Over the whole trace.
    pub total_bytes: f64,
}
