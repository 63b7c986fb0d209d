//! Figures of the pages of a load.

use serde::{Deserialize, Serialize};

use crate::analysis::kind::ByKind;
use crate::analysis::shape::{Bins, Curve, Series};

/// Working sets, access frequencies and the times between accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageFigures {
    /// The size of a page in bytes: 4,096.
    pub page_bytes: u64,
    /// Whether every page was looked at. If not, all counts of pages below are estimates.
    pub exact: bool,
    /// The share of all pages that was looked at; 1 where exact.
    pub sampled_share: f64,
    /// The standard error of the number of pages, as a share of it; 0 where exact. A window that
    /// holds one in n of all pages has √n times this error.
    pub relative_error: f64,
    /// Distinct pages over the whole load.
    pub pages: ByKind<u64>,
    /// Accesses to pages: a request counts for each page that it touches. Always exact.
    pub accesses: ByKind<u64>,
    /// Reads and writes longer than 64 MiB, of which only the first 64 MiB were looked at.
    pub shortened_requests: u64,
    /// Discards and writes of zeroes, which touch no page here.
    pub apart: Apart,
    /// The working sets, one of each length of window.
    pub working_sets: Vec<WorkingSet>,
    /// Distinct pages from the start of the load to the end of each step of at least a second.
    pub growth: ByKind<Series>,
    /// How often single pages are accessed.
    pub frequency: ByKind<Frequency>,
    /// Times between accesses to the same page.
    pub intervals: Intervals,
}

/// Requests that move no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// Requests that discard.
    pub discards: u64,
    /// Their bytes.
    pub discarded_bytes: u64,
    /// Requests that write zeroes without moving them.
    pub write_zeroes: u64,
    /// Their bytes.
    pub zeroed_bytes: u64,
}

/// Distinct pages in windows that follow each other and begin at multiples of their length
/// (blkreplay's g30 and g31 count start sectors; the manual means what is in use).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkingSet {
    /// The length of a window in nanoseconds; `None` of the whole load.
    pub window_ns: Option<i64>,
    /// Pages in each window. Where there are more than 131,072 windows a step is several of them
    /// and the value is their mean.
    pub pages: ByKind<Series>,
    /// The mean over all windows from the first to the last with a request.
    pub mean_pages: ByKind<f64>,
    /// Pages in the fullest window; also where a step of the series is several windows.
    pub most_pages: ByKind<u64>,
    /// The same in bytes.
    pub most_bytes: ByKind<u64>,
    /// When the fullest window begins, the first of those alike, in nanoseconds; `None` where no
    /// page is touched.
    pub most_at_ns: ByKind<Option<i64>>,
    /// Whether the fullest window is known. It is not where there are more than 131,072 windows of
    /// parts by volume, or of requests that go back by more than 4,096 windows: then `most_*` are
    /// lower bounds.
    pub most_exact: bool,
}

/// How often pages are accessed (blkreplay's g44).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Frequency {
    /// Accesses of a page over its rank, the most accessed first; at most a few hundred points,
    /// every change of the first hundred ranks among them.
    pub ranks: Curve,
    /// How few pages get how much.
    pub quantiles: Vec<FrequencyQuantile>,
    /// Accesses of the most accessed page.
    pub most: u64,
    /// Accesses of a page on average.
    pub mean: f64,
    /// The relative error of the accesses from which `ranks`, `quantiles` and `mean` are computed:
    /// the standard error of their sum in the sample (of Horvitz and Thompson), or how much that
    /// sum differs from the exact one if this is more; 0 where exact. A page with a large share of
    /// all accesses has far too much weight in a sample, or is missing: then this is large, and
    /// `most`, `ranks` and `quantiles` are not to be trusted.
    pub relative_error: f64,
}

/// The most accessed pages that together get a share of the accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FrequencyQuantile {
    /// The share of accesses: 1/64, 1/32 … 1.
    pub share: f64,
    /// So many pages get it.
    pub pages: u64,
    /// Their share of all pages that are accessed.
    pub pages_share: f64,
    /// How many times fewer accesses are left if these pages are kept in a cache, each fetched
    /// once: total ÷ (total − accesses of these pages + these pages), as blkreplay has it.
    pub speedup: f64,
}

/// Times from an access to a page to the next access of it, in ten bins per decade (Li, Wang, Lee
/// and Shi, IISWC 2020, whose terms these are).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Intervals {
    /// From a write to the next write, whatever reads lie between: the overwrite interval.
    pub overwrite: Bins,
    /// From a read to a read with nothing between.
    pub read_after_read: Bins,
    /// From a write to a read with nothing between.
    pub read_after_write: Bins,
    /// From a read to a write with nothing between.
    pub write_after_read: Bins,
    /// From a write to a write with nothing between.
    pub write_after_write: Bins,
}
