//! A job for fio of a trace's figures: the nearest that its options come to.
//!
//! fio has one arrival process beside the constant one, percentages without decimals, one share of
//! sequences for each direction, and no reuse; the job says so in its comments. The syntax is that
//! of fio 3.33's HOWTO, which a test with the real fio checks.

use std::fmt::Write as _;

use ioecho_trace::Op;

use super::Figures;
use super::arrivals::Kind;
use super::line::decimal;

/// fio takes no more block sizes per direction (`BSSPLIT_MAX`).
const SIZES_MAX: usize = 64;

/// The job. `trace` is the name of what was measured, for its first line.
pub fn job(figures: &Figures, trace: &str, seed: u64) -> String {
    let share = |op| figures.mix.share_of(op);
    let (reads, writes) = (share(Op::Read), share(Op::Write));
    let moved = (reads + writes).max(f64::MIN_POSITIVE);
    let rw = match (reads > 0.0, writes > 0.0) {
        (true, true) => "randrw",
        (false, true) => "randwrite",
        _ => "randread",
    };
    let arrivals = &figures.arrivals;
    let seconds = arrivals.span_ns.div_ceil(1_000_000_000).max(1);
    let rate = |part: f64| (arrivals.rate_per_s * part).round().max(1.0) as u64;
    let random = |op| {
        let sequential = figures.mix.of(op).map_or(0.0, |of_op| of_op.sequential_share);
        100 - percent(sequential)
    };
    let mut job = String::new();
    // A name may hold anything, a comment ends with its line.
    let name: String = trace.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let _ = writeln!(job, "; An artificial load like {name}, by ioecho fit.");
    let _ = writeln!(
        job,
        "; Lost: bursts ({}; fio has constant and Poisson only),",
        arrivals.kind.told()
    );
    let _ = writeln!(job, "; places that are used again, shares of less than a percent.");
    let _ =
        writeln!(job, "; Name the target with --filename=; WITH WRITES IN IT THIS OVERWRITES IT.");
    let _ = writeln!(job, "[global]");
    let _ =
        writeln!(job, "ioengine=libaio\niodepth=256\ndirect=1\ntime_based=1\nruntime={seconds}");
    let _ = writeln!(job, "norandommap=1\nrandom_generator=tausworthe64\nrandseed={seed}");
    let _ = writeln!(job, "\n[fitted]");
    let _ = writeln!(job, "rw={rw}");
    if rw == "randrw" {
        let _ = writeln!(job, "rwmixread={}", percent(reads / moved));
    }
    let align = figures.mix.align.0;
    let begin = figures.places.begin.0 / align * align;
    let area = (figures.places.end.0 - begin).max(align).next_multiple_of(align);
    let _ = writeln!(job, "offset={begin}\nsize={area}\nblockalign={align}");
    let _ = writeln!(job, "bssplit={},{}", sizes(figures, Op::Read), sizes(figures, Op::Write));
    let (of_reads, of_writes) = (random(Op::Read), random(Op::Write));
    let _ = writeln!(job, "percentage_random={of_reads},{of_writes}");
    let theta = figures.places.zipf_exponent;
    // fio refuses an exponent of 1, and one of 0 says nothing.
    if theta >= 0.01 {
        let theta = if (theta - 1.0).abs() < 0.005 { 1.01 } else { theta };
        let _ = writeln!(job, "random_distribution=zipf:{}", decimal(theta, 3));
    }
    let _ = writeln!(job, "rate_iops={},{}", rate(reads), rate(writes));
    if arrivals.kind != Kind::Constant {
        let _ = writeln!(job, "rate_process=poisson");
    }
    if share(Op::Flush) > 0.0 && writes > 0.0 {
        let after = (writes / share(Op::Flush)).round().max(1.0);
        let _ = writeln!(job, "fsync={after}");
    }
    job
}

fn percent(share: f64) -> u64 {
    (share * 100.0).round().clamp(0.0, 100.0) as u64
}

/// The sizes of an operation with their percentages, which come to 100.
fn sizes(figures: &Figures, op: Op) -> String {
    let total = figures.mix.share_of(op);
    let mut classes: Vec<(u64, u64)> = figures
        .mix
        .classes
        .iter()
        .filter(|class| class.op == op && class.length.0 > 0)
        .map(|class| (class.length.0, percent(class.share / total)))
        .filter(|(_, percent)| *percent > 0)
        .collect();
    classes.sort_by_key(|(length, percent)| (std::cmp::Reverse(*percent), *length));
    classes.truncate(SIZES_MAX);
    let sum: u64 = classes.iter().map(|(_, percent)| percent).sum();
    match classes.first_mut() {
        None => {
            let largest = figures.mix.classes.iter().filter(|class| class.op == op);
            let common = largest.max_by(|a, b| a.share.total_cmp(&b.share));
            return format!("{}/100", common.map_or(4096, |class| class.length.0.max(512)));
        }
        // What rounding lost or won, the most frequent takes.
        Some((_, percent)) => *percent = (*percent + 100).saturating_sub(sum),
    }
    let parts: Vec<_> =
        classes.iter().map(|(length, percent)| format!("{length}/{percent}")).collect();
    parts.join(":")
}
