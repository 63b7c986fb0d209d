//! The generator's line for the figures of a trace.

use std::fmt::Write as _;

use ioecho_trace::Op;

use super::Figures;
use super::arrivals::Kind;
use super::mix::{ALIGNED, Class, GroupMix};

/// Classes of operation and size with a smaller share are left out; the rest keep their ratios.
const SHARE_MIN: f64 = 0.0005;

/// How many classes a line has at most.
const CLASSES_MAX: usize = 128;

/// With fewer requests the figures are mostly chance.
const REQUESTS_MIN: u64 = 100;

/// From fewer requests no law of fresh places is taken.
const FRESH_MIN: u64 = 1000;

/// The largest request of a load.
const LENGTH_MAX: u64 = 1 << 32;

/// Halvings whose bias lies so near to that of a Poisson process are one, at the end of the list.
const BIAS_MIN: f64 = 0.505;

/// The line for `ioecho_trace::generate` that makes a load of these figures, with this seed.
pub fn line(figures: &Figures, seed: u64) -> String {
    let mut line = String::from("gen:model?mix=");
    line.push_str(&mix(figures));
    let align = figures.mix.align.0;
    let mixed = align < ALIGNED;
    let groups = |of: fn(&GroupMix) -> f64| {
        let parts = figures.mix.per_op.iter().filter_map(|of_op| {
            let [whole, others] = [0, 1].map(|at| decimal(of(&of_op.groups[at]) * 100.0, 3));
            Some(format!("{}:{whole}/{others}", placed_letter(of_op.op)?))
        });
        parts.collect::<Vec<_>>().join(",")
    };
    let sequential = if mixed {
        groups(|group| group.sequential_share)
    } else {
        let parts = figures.mix.per_op.iter().filter_map(|of_op| {
            let percent = decimal(of_op.sequential_share * 100.0, 3);
            Some(format!("{}:{percent}", placed_letter(of_op.op)?))
        });
        parts.collect::<Vec<_>>().join(",")
    };
    if figures.mix.per_op.iter().any(|of_op| of_op.sequential_share >= 0.0005) {
        let _ = write!(line, "&sequential={sequential}&streams={}", streams(figures));
    }
    if mixed && figures.mix.aligned_share > 0.0 {
        let _ = write!(line, "&aligned={}", groups(|group| group.aligned_share));
    }
    let reuse: Vec<String> = figures
        .reuse
        .per_op
        .iter()
        .filter_map(|of_op| {
            let percents: Vec<f64> = of_op.powers.iter().map(|share| share * 100.0).collect();
            let last = percents.iter().rposition(|percent| *percent >= 0.005)?;
            let percents: Vec<_> =
                percents[..=last].iter().map(|percent| decimal(*percent, 2)).collect();
            Some(format!("{}:{}", placed_letter(of_op.op)?, percents.join("/")))
        })
        .collect();
    if !reuse.is_empty() {
        let _ = write!(line, "&reuse={}", reuse.join(","));
    }
    let unused: Vec<String> = figures
        .reuse
        .following_anew
        .iter()
        .filter(|(op, _)| figures.mix.of(*op).is_some())
        .filter_map(|(op, share)| {
            Some(format!("{}:{}", placed_letter(*op)?, decimal(share * 100.0, 2)))
        })
        .collect();
    if !unused.is_empty() {
        let _ = write!(line, "&unused={}", unused.join(","));
    }
    // With few requests outside of sequences every region looks hot or cold.
    let fresh = &figures.fresh_places;
    let places = if fresh.requests < FRESH_MIN { &figures.places } else { fresh };
    if places.regions > 1 && places.zipf_exponent >= 0.01 {
        let theta = decimal(places.zipf_exponent, 3);
        let _ = write!(line, "&zipf={theta}&regions={}", places.regions);
    }
    let begin = figures.places.begin.0 / ALIGNED * ALIGNED;
    let largest = figures.mix.classes.iter().map(|class| class.length.0).max().unwrap_or_default();
    let area = (figures.places.end.0 - begin).max(largest).max(4096).next_multiple_of(align);
    let _ = write!(line, "&align={align}&area={area}");
    if begin > 0 {
        let _ = write!(line, "&offset={begin}");
    }
    if figures.volumes > 1 {
        let _ = write!(line, "&volumes={}", figures.volumes.min(65_536));
    }
    line.push_str(&arrivals(figures));
    let _ = write!(line, "&seed={seed}");
    line
}

/// When requests come.
fn arrivals(figures: &Figures) -> String {
    let arrivals = &figures.arrivals;
    let (span, count) = (arrivals.span_ns.max(1), figures.requests.max(1));
    let rate = |requests: u64| (requests as f64 * 1e9 / span as f64).clamp(0.000_001, 1e7);
    if arrivals.kind == Kind::Constant {
        // Between n requests are n − 1 distances, and the last one is due when the time is over.
        let rate = decimal(rate(count.saturating_sub(1)), 9);
        return format!("&rate={rate}&dist=constant&count={count}");
    }
    let rate = decimal(rate(count), 6);
    let dist = dist(figures);
    format!("&rate={rate}&dist={dist}&duration={}s&count={count}", seconds(span))
}

/// The arrival process as the generator names it.
fn dist(figures: &Figures) -> String {
    let arrivals = &figures.arrivals;
    match arrivals.kind {
        Kind::Constant => return "constant".to_owned(),
        Kind::Poisson => return "poisson".to_owned(),
        Kind::OnOff | Kind::SelfSimilar => {}
    }
    let last = arrivals.biases.iter().rposition(|bias| *bias > BIAS_MIN);
    let biases: Vec<_> = arrivals.biases[..last.map_or(0, |last| last + 1)]
        .iter()
        .map(|bias| decimal(*bias, 3))
        .collect();
    if biases.is_empty() {
        "poisson".to_owned()
    } else {
        format!("cascade(bias={})", biases.join(":"))
    }
}

/// How many sequences run at once, over all operations by their requests.
fn streams(figures: &Figures) -> u64 {
    let following = |of_op: &super::mix::OpMix| of_op.requests as f64 * of_op.sequential_share;
    let sum: f64 = figures.mix.per_op.iter().map(following).sum();
    let weighted: f64 =
        figures.mix.per_op.iter().map(|of_op| following(of_op) * of_op.sequences).sum();
    if sum > 0.0 {
        (weighted / sum).round().clamp(1.0, super::mix::SEQUENCES as f64) as u64
    } else {
        1
    }
}

fn mix(figures: &Figures) -> String {
    let mut classes: Vec<_> =
        figures.mix.classes.iter().filter(|class| can_be_made(class)).collect();
    classes.sort_by(|a, b| b.share.total_cmp(&a.share));
    classes.truncate(CLASSES_MAX);
    if classes.first().is_some_and(|class| class.share >= SHARE_MIN) {
        classes.retain(|class| class.share >= SHARE_MIN);
    }
    let parts: Vec<String> = classes
        .iter()
        .filter_map(|class| {
            let share = decimal((class.share * 100.0).max(0.001), 3);
            let length = match class.length.0 {
                0 => String::new(),
                length if length > LENGTH_MAX => format!("{}m", LENGTH_MAX >> 20),
                length if length.is_multiple_of(1 << 20) => format!("{}m", length >> 20),
                length if length.is_multiple_of(1 << 10) => format!("{}k", length >> 10),
                length => length.to_string(),
            };
            Some(format!("{}{length}:{share}", letter(class.op)?))
        })
        .collect();
    // A trace without anything that could be generated still makes a line.
    if parts.is_empty() { "R4k:1".to_owned() } else { parts.join(",") }
}

/// Whether the generator has requests like these.
fn can_be_made(class: &Class) -> bool {
    letter(class.op).is_some() && (class.length.0 > 0 || class.op == Op::Flush)
}

/// Why there is no model of these figures, if there is none: what is missing and the remedy.
pub fn fault(figures: &Figures) -> Option<(String, &'static str)> {
    const LONGER: &str = "fit a trace of some minutes and some thousand requests";
    if figures.requests < REQUESTS_MIN {
        let text = format!(
            "{} request(s) are too few to model, of which {REQUESTS_MIN} is the least",
            figures.requests
        );
        return Some((text, LONGER));
    }
    if figures.arrivals.span_ns == 0 {
        return Some(("all requests are issued at one instant".to_owned(), LONGER));
    }
    if figures.places.end.0 > i64::MAX as u64 {
        let text = "places lie beyond 8 EiB, where no artificial load goes".to_owned();
        return Some((text, "bring them to where a device may have them, as `remap pack` does"));
    }
    if !figures.mix.classes.iter().any(can_be_made) {
        let text = "there is nothing but what cannot be generated (zones, empty requests)";
        return Some((text.to_owned(), "fit a trace with reads and writes"));
    }
    None
}

/// The letter of an operation; zones and operations on files cannot be generated.
const fn letter(op: Op) -> Option<char> {
    match op {
        Op::Read => Some('R'),
        Op::Write => Some('W'),
        Op::Flush => Some('F'),
        Op::Discard => Some('D'),
        Op::WriteZeroes => Some('Z'),
        _ => None,
    }
}

/// The letter of an operation that has a place.
const fn placed_letter(op: Op) -> Option<char> {
    match op {
        Op::Flush => None,
        op => letter(op),
    }
}

/// A number with at most so many decimals, and none that say nothing.
pub(super) fn decimal(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Nanoseconds in seconds, exactly.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
