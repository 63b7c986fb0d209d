//! How unevenly pages are accessed: the potential of a cache that keeps the most used ones.
//!
//! blkreplay's g44. Pages of equal counts lie side by side, so counting the counts says as much as
//! a sorted list of all pages.

use rustc_hash::FxHashMap;

use super::figures::{Frequency, FrequencyQuantile};
use super::table::Table;
use crate::analysis::kind::{ByKind, Kind};
use crate::analysis::shape::{Curve, Quantity};

/// Quantiles are halves of each other, from all accesses down to 1/2^6 of them.
const HALVINGS: u32 = 6;

/// Points per doubling of the rank, behind the first hundred.
const POINTS_PER_OCTAVE: f64 = 24.0;

/// The accesses of a page.
fn accesses(count: [u32; 2], kind: Kind) -> u64 {
    let [reads, writes] = count.map(u64::from);
    match kind {
        Kind::Reads => reads,
        Kind::Writes => writes,
        Kind::All => reads + writes,
    }
}

/// Counts below this have a place of their own; nearly all are.
const FEW: usize = 1 << 10;

/// How many pages have how many accesses.
struct Levels {
    few: Vec<u64>,
    many: FxHashMap<u64, u64>,
}

impl Levels {
    fn new() -> Self {
        Self { few: vec![0; FEW], many: FxHashMap::default() }
    }

    #[inline]
    fn add(&mut self, accesses: u64) {
        match self.few.get_mut(accesses as usize) {
            Some(pages) => *pages += 1,
            None => *self.many.entry(accesses).or_default() += 1,
        }
    }

    /// Accesses of a page, falling, and how many pages have so many.
    fn falling(self) -> Vec<(u64, u64)> {
        let mut levels: Vec<(u64, u64)> = self.many.into_iter().collect();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        let few = self.few.iter().enumerate().skip(1).filter(|(_, pages)| **pages > 0);
        levels.extend(few.map(|(accesses, pages)| (accesses as u64, *pages)).rev());
        levels
    }
}

/// Frequencies of the pages of a sample of which each stands for `weight`, of so many accesses.
pub(super) fn frequencies(table: &Table, weight: u64, exact: ByKind<u64>) -> ByKind<Frequency> {
    // The table is larger than the cache: it is gone through once for all kinds.
    let mut levels = ByKind::of(|_, _| Levels::new());
    for count in table.counts() {
        levels.reads.add(accesses(count, Kind::Reads));
        levels.writes.add(accesses(count, Kind::Writes));
        levels.all.add(accesses(count, Kind::All));
    }
    let levels = ByKind {
        reads: levels.reads.falling(),
        writes: levels.writes.falling(),
        all: levels.all.falling(),
    };
    ByKind::of(|kind, name| {
        let groups = table.groups_counts().map(|counts| {
            counts.iter().fold(0_u64, |sum, count| sum.saturating_add(accesses(*count, kind)))
        });
        Frequency {
            relative_error: error(groups, weight, *exact.get(kind)),
            ..frequency(name, levels.get(kind), weight)
        }
    })
}

/// How far off the accesses of a sample are, as a share. The sampled units are groups of pages: of
/// each the accesses `a` count with the weight `w`, and the standard error of the sum is the root
/// of Σa²·w·(w − 1) (Horvitz and Thompson, 1952, of independent inclusions). A unit outside the
/// sample that gets much is not in that sum, but the exact number of accesses knows of it.
fn error(groups: impl Iterator<Item = u64>, weight: u64, exact: u64) -> f64 {
    if weight <= 1 {
        return 0.0;
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    for accesses in groups {
        sum += accesses as f64;
        squares += (accesses as f64).powi(2);
    }
    let weight = weight as f64;
    let estimate = sum * weight;
    if estimate <= 0.0 {
        return f64::from(u8::from(exact > 0));
    }
    let standard = (squares * weight * (weight - 1.0)).sqrt() / estimate;
    let off = (estimate - exact as f64).abs() / (exact as f64).max(1.0);
    standard.max(off)
}

/// The frequency of levels: accesses of a page, falling, and how many pages have so many.
fn frequency(name: &str, levels: &[(u64, u64)], weight: u64) -> Frequency {
    let pages: u64 = levels.iter().map(|(_, pages)| pages).sum();
    let total: u64 = levels.iter().map(|(accesses, pages)| accesses * pages).sum();
    let quantile = |halvings: u32| {
        let (sum, cached) = hottest(levels, total.div_ceil(1 << halvings));
        let left = total - sum + cached;
        FrequencyQuantile {
            share: 0.5_f64.powi(halvings as i32),
            pages: cached.saturating_mul(weight),
            pages_share: cached as f64 / pages as f64,
            speedup: total as f64 / left as f64,
        }
    };
    Frequency {
        ranks: ranks(name, levels, weight),
        quantiles: if total == 0 {
            Vec::new()
        } else {
            (0..=HALVINGS).rev().map(quantile).collect()
        },
        most: levels.first().map_or(0, |(accesses, _)| *accesses),
        mean: if pages == 0 { 0.0 } else { total as f64 / pages as f64 },
        relative_error: 0.0,
    }
}

/// The fewest pages that get so many accesses: how many they get, and how many pages it are.
fn hottest(levels: &[(u64, u64)], wanted: u64) -> (u64, u64) {
    let (mut sum, mut cached) = (0, 0);
    for (accesses, pages) in levels {
        let taken = (wanted - sum).div_ceil(*accesses).min(*pages);
        sum += taken * accesses;
        cached += taken;
        if sum >= wanted {
            break;
        }
    }
    (sum, cached)
}

/// Accesses over ranks: the first and the last page of each level, thinned out behind the first
/// hundred.
fn ranks(name: &str, levels: &[(u64, u64)], weight: u64) -> Curve {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut rank = 0_u64;
    let mut next = 0.0;
    for (at, (accesses, pages)) in levels.iter().enumerate() {
        let last = rank + pages;
        for rank in [rank + 1, last] {
            let x = rank.saturating_mul(weight) as f64;
            let is_last = at + 1 == levels.len() && rank == last;
            let is_new = points.last().is_none_or(|(before, _)| *before < x);
            if is_new && (rank <= 100 || is_last || x >= next) {
                points.push((x, *accesses as f64));
                next = x * 2_f64.powf(1.0 / POINTS_PER_OCTAVE);
            }
        }
        rank = last;
    }
    Curve {
        name: name.to_owned(),
        x: Quantity::new("rank of the page", "1"),
        y: Quantity::new("accesses", "1"),
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_pages_are_found_and_what_a_cache_of_them_saves() {
        // One page with 6 accesses, one with 4, ten with 1.
        let figures = frequency("all", &[(6, 1), (4, 1), (1, 10)], 1);
        let half = figures.quantiles.iter().find(|at| (at.share - 0.5).abs() < 1e-9).unwrap();
        assert_eq!(half.pages, 2);
        assert!((half.speedup - 20.0 / 12.0).abs() < 1e-9);
        let all = figures.quantiles.last().unwrap();
        assert_eq!((all.pages, all.speedup), (12, 20.0 / 12.0));
        assert_eq!(figures.ranks.points, [(1.0, 6.0), (2.0, 4.0), (3.0, 1.0), (12.0, 1.0)]);
    }

    #[test]
    fn of_nothing_there_is_no_quantile() {
        let figures = frequency("all", &[], 1);
        assert!(figures.quantiles.is_empty() && figures.ranks.points.is_empty());
    }

    #[test]
    fn a_curve_of_a_million_ranks_has_few_points_and_falls() {
        let levels: Vec<_> = (1..2000).rev().map(|accesses| (accesses, 500)).collect();
        let points = frequency("all", &levels, 1).ranks.points;
        assert!(points.len() < 800, "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1));
        assert_eq!(points.last().unwrap().0 as u64, 1999 * 500);
    }
}
