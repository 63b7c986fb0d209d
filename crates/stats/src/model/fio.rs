//! A fio job with the figures of a trace, as near as fio's options allow.
//!
//! A job that silently does less than it says is worse than none. These rules follow from fio's
//! source and from runs of fio 3.33:
//!
//! * `rate_iops` counts with the smallest size, so that a constant rate of mixed sizes comes out
//!   many times too low; `rate`, in bytes, is kept whatever the sizes, and has fractions.
//! * `random_distribution=zipf` counts blocks of the smallest size and places them at multiples of
//!   `blockalign`: where that is larger, most lie beyond the end and the job ends silently. `zoned`
//!   has the shares of places as they are, and any alignment.
//! * Percentages are whole. So sizes are rounded in the order of size, which leaves the mean where
//!   it was.

use std::fmt::Write as _;

use ioecho_trace::{Bytes, Op};

use super::Figures;
use super::arrivals::Kind;
use super::mix::ALIGNED;

/// What every size is a multiple of: that of direct I/O.
const SECTOR: u64 = 512;

/// fio takes no more block sizes per direction (`BSSPLIT_MAX`).
const SIZES_MAX: usize = 64;

/// Below this rate fio's Poisson process, which has whole requests per second, is off by more than
/// 5 %.
const POISSON_MIN: f64 = 10.0;

/// How far the mean size of the job may differ from the trace's without a note, as a share of it.
const MEAN_UNTOLD: f64 = 0.05;

/// An operation's part of the job.
struct Part {
    rate_per_s: f64,
    /// Sizes and their percentages, which come to 100.
    sizes: Vec<(u64, u64)>,
}

impl Part {
    fn of(figures: &Figures, op: Op, lost: &mut Vec<String>) -> Option<Self> {
        let share = figures.mix.share_of(op);
        if share <= 0.0 {
            return None;
        }
        let classes: Vec<(u64, f64)> = figures
            .mix
            .classes
            .iter()
            .filter(|class| class.op == op && class.length.0 > 0)
            .map(|class| (class.length.0, class.share))
            .collect();
        let total: f64 = classes.iter().map(|(_, share)| share).sum();
        if total <= 0.0 {
            return None;
        }
        if classes.iter().any(|(length, _)| !length.is_multiple_of(SECTOR)) {
            lost.push(format!("{} sizes that are no multiples of 512 (rounded up)", op.name()));
        }
        let mean: f64 =
            classes.iter().map(|(length, share)| *length as f64 * share).sum::<f64>() / total;
        let part = Self { rate_per_s: figures.arrivals.rate_per_s * share, sizes: sizes(&classes) };
        if (part.mean() / mean - 1.0).abs() > MEAN_UNTOLD {
            lost.push(format!(
                "the mean size of {}s (here {}, there {}: percentages are whole)",
                op.name(),
                Bytes(part.mean() as u64),
                Bytes(mean as u64)
            ));
        }
        Some(part)
    }

    /// The mean size in bytes.
    fn mean(&self) -> f64 {
        self.sizes.iter().map(|(length, percent)| *length as f64 * *percent as f64).sum::<f64>()
            / 100.0
    }

    fn bssplit(&self) -> String {
        let parts: Vec<_> =
            self.sizes.iter().map(|(length, percent)| format!("{length}/{percent}")).collect();
        parts.join(":")
    }

    /// Bytes per second.
    fn bytes_rate(&self) -> u64 {
        (self.rate_per_s * self.mean()).round().max(1.0) as u64
    }
}

/// The job; `None` where nothing is read, written or discarded, so that fio has nothing to do.
/// `trace` is the name of what was measured, for its first line.
pub fn job(figures: &Figures, trace: &str, seed: u64) -> Option<String> {
    let mut lost = Vec::new();
    let reads = Part::of(figures, Op::Read, &mut lost);
    let writes = Part::of(figures, Op::Write, &mut lost);
    // Beside reads and writes fio has no discards.
    let trims = match (&reads, &writes) {
        (None, None) => Part::of(figures, Op::Discard, &mut lost),
        _ => None,
    };
    let parts = [reads.as_ref(), writes.as_ref(), trims.as_ref()];
    let rw = match parts {
        [Some(_), Some(_), _] => "randrw",
        [Some(_), None, _] => "randread",
        [None, Some(_), _] => "randwrite",
        [None, None, Some(_)] => "randtrim",
        [None, None, None] => return None,
    };
    let poisson = figures.arrivals.kind != Kind::Constant
        && parts.iter().flatten().all(|part| part.rate_per_s >= POISSON_MIN);
    tell_lost(figures, &parts, poisson, &mut lost);
    let mut job = head(figures, trace, seed, &lost);
    let _ = writeln!(job, "rw={rw}");
    if let (Some(reads), Some(writes)) = (&reads, &writes) {
        let share = reads.rate_per_s / (reads.rate_per_s + writes.rate_per_s);
        let _ = writeln!(job, "rwmixread={}", percent(share));
    }
    let align = match figures.mix.aligned_share {
        0.75.. => ALIGNED,
        _ => figures.mix.align.0.max(SECTOR),
    };
    let begin = figures.places.begin.0 / align * align;
    let largest = parts.iter().flatten().flat_map(|part| &part.sizes).map(|size| size.0).max();
    let area = (figures.places.end.0.saturating_sub(begin)).max(largest.unwrap_or(SECTOR));
    let area = area.checked_next_multiple_of(align).unwrap_or(area);
    let _ = writeln!(job, "offset={begin}\nsize={area}\nblockalign={align}");
    // fio assumes a size of 4096 for a direction without one, and counts with it.
    let of_any = parts.iter().flatten().next().map(|part| part.bssplit()).unwrap_or_default();
    let bssplit = parts.map(|part| part.map_or_else(|| of_any.clone(), Part::bssplit));
    let _ = writeln!(job, "bssplit={}", bssplit.join(","));
    let random = [Op::Read, Op::Write, Op::Discard].map(|op| {
        let sequential = figures.mix.of(op).map_or(0.0, |of_op| of_op.sequential_share);
        (100 - percent(sequential)).to_string()
    });
    let _ = writeln!(job, "percentage_random={}", random.join(","));
    let _ = writeln!(job, "random_distribution=zoned:{}", zones(&figures.places.hundredths));
    if poisson {
        let rates = parts.map(|part| match part {
            Some(part) => (part.rate_per_s.round() as u64).to_string(),
            None => String::new(),
        });
        let _ = writeln!(job, "rate_iops={}", rates.join(",").trim_end_matches(','));
        let _ = writeln!(job, "rate_process=poisson");
    } else {
        let rates = parts.map(|part| part.map_or_else(String::new, |p| p.bytes_rate().to_string()));
        let _ = writeln!(job, "rate={}", rates.join(",").trim_end_matches(','));
    }
    let flushes = figures.mix.share_of(Op::Flush);
    if writes.is_some() && flushes > 0.0 {
        let after = (figures.mix.share_of(Op::Write) / flushes).round().max(1.0);
        let _ = writeln!(job, "fsync={after}");
    }
    Some(job)
}

/// What stands before the job's own settings: what it is, what it lost, and what all jobs have.
fn head(figures: &Figures, trace: &str, seed: u64, lost: &[String]) -> String {
    // A name may hold anything, a comment ends with its line.
    let name: String = trace.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let mut job = format!("; An artificial load like {name}, by ioecho fit.\n");
    for lost in lost {
        let _ = writeln!(job, "; Lost: {lost}.");
    }
    let _ =
        writeln!(job, "; Name the target with --filename=; WITH WRITES IN IT THIS OVERWRITES IT.");
    let seconds = figures.arrivals.span_ns.div_ceil(1_000_000_000).max(1);
    let _ = writeln!(job, "[global]");
    let _ =
        writeln!(job, "ioengine=libaio\niodepth=256\ndirect=1\ntime_based=1\nruntime={seconds}");
    let _ = writeln!(job, "norandommap=1\nrandom_generator=tausworthe64\nrandseed={seed}");
    let _ = writeln!(job, "\n[fitted]");
    job
}

/// Says what the job does not have of these figures.
fn tell_lost(figures: &Figures, parts: &[Option<&Part>; 3], poisson: bool, lost: &mut Vec<String>) {
    let arrivals = &figures.arrivals;
    let mixed = parts.iter().flatten().any(|part| part.sizes.len() > 1);
    match arrivals.kind {
        Kind::Constant if mixed => lost.push(
            "equal distances of requests (they are in proportion to sizes; the mean rate is kept)"
                .to_owned(),
        ),
        Kind::Constant => {}
        Kind::Poisson if poisson => {}
        kind => {
            let instead = if poisson { "Poisson" } else { "constant, as the rate is low" };
            lost.push(format!("arrivals ({}; here {instead})", kind.told()));
        }
    }
    if figures.reuse.share >= 0.005 {
        let text = format!("places used again ({:.1} %)", figures.reuse.share * 100.0);
        lost.push(text);
    }
    if figures.volumes > 1 {
        lost.push(format!("{} volumes (all on one target)", figures.volumes));
    }
    for op in Op::ALL {
        let kept = match op {
            Op::Read | Op::Write => true,
            Op::Discard => parts[2].is_some(),
            Op::Flush => parts[1].is_some(),
            _ => false,
        };
        let share = figures.mix.share_of(op);
        if share > 0.0 && !kept {
            lost.push(format!("{} requests ({:.3} % of all)", op.name(), share * 100.0));
        }
    }
}

fn percent(share: f64) -> u64 {
    (share * 100.0).round().clamp(0.0, 100.0) as u64
}

/// Sizes with whole percentages that come to 100. In the order of size each ends where the rounded
/// sum of all shares up to it does, so what rounding takes from a size its neighbours get.
fn sizes(classes: &[(u64, f64)]) -> Vec<(u64, u64)> {
    let total: f64 = classes.iter().map(|(_, share)| share).sum();
    let mut sorted = classes.to_vec();
    sorted.sort_unstable_by_key(|(length, _)| *length);
    // In steps of 2 % there are at most 50.
    for step in [1, 2] {
        let units = 100 / step;
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        let (mut sum, mut given) = (0.0, 0);
        for (length, share) in &sorted {
            sum += share;
            let end = (sum / total * units as f64).round() as u64;
            let length = length.checked_next_multiple_of(SECTOR).unwrap_or(*length);
            match sizes.last_mut() {
                _ if end == given => {}
                Some(last) if last.0 == length => last.1 += (end - given) * step,
                _ => sizes.push((length, (end - given) * step)),
            }
            given = end;
        }
        if sizes.len() <= SIZES_MAX {
            return sizes;
        }
    }
    Vec::new()
}

/// Zones of a hundredth of the area each, with whole percentages that come to 100; neighbours of
/// the same share are one.
fn zones(hundredths: &[f64]) -> String {
    let total: f64 = hundredths.iter().sum();
    if total <= 0.0 {
        return "100/100".to_owned();
    }
    let mut zones: Vec<(u64, u64, u64)> = Vec::new();
    let (mut sum, mut given) = (0.0, 0);
    for share in hundredths {
        sum += share;
        let end = percent(sum / total);
        let access = end - given;
        given = end;
        match zones.last_mut() {
            Some(last) if last.2 == access => {
                last.0 += access;
                last.1 += 1;
            }
            _ => zones.push((access, 1, access)),
        }
    }
    let zones: Vec<_> =
        zones.iter().map(|(access, space, _)| format!("{access}/{space}")).collect();
    zones.join(":")
}
