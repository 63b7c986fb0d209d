//! How well an artificial load is like the natural one, aspect by aspect.
//!
//! Both were measured by the same code. A distribution's distance is the largest difference of the
//! two cumulative distributions (Kolmogorov and Smirnov) where its values have an order, and the
//! share that would have to move (total variation) where they have none; a figure's distance is its
//! relative difference.

use ioecho_trace::log_linear::Histogram;
use ioecho_trace::{Bytes, Op};
use serde::Serialize;

use super::Figures;
use super::arrivals::GAP_BITS;

/// The sentence that every comparison ends with.
pub const LOST: &str = "An artificial load has the figures of the natural one and not its history: \
    which request follows which, phases of the day, data that is read because it was written, and \
    bursts at the same time as hot spots are lost. Trust a replay of the recording where these \
    matter.";

/// One aspect of both loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aspect {
    /// What it is.
    pub name: String,
    /// Of the natural load; `None` where it does not have it, or where only the distance is told.
    pub natural: Option<f64>,
    /// Of the artificial load.
    pub model: Option<f64>,
    /// How far they are from each other, in percent.
    pub distance_percent: f64,
    /// How that is measured.
    pub measure: Distance,
    /// The unit of both figures.
    pub unit: Unit,
}

/// What a distance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// (model − natural) / natural.
    Relative,
    /// The difference of two shares, in percentage points.
    Points,
    /// The largest difference of two cumulative distributions.
    KolmogorovSmirnov,
    /// Half the sum of the differences of all shares.
    TotalVariation,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number.
    Number,
    /// Requests per second.
    PerSecond,
    /// A share of one.
    Share,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The figure for people.
    pub fn shown(self, figure: Option<f64>) -> String {
        match (figure, self) {
            (None, _) => "-".to_owned(),
            (Some(figure), Self::Share) => format!("{:.1} %", figure * 100.0),
            (Some(figure), Self::Bytes) => Bytes(figure as u64).to_string(),
            (Some(figure), _) if figure.abs() < 10.0 => format!("{figure:.2}"),
            (Some(figure), _) if figure.abs() < 100.0 => format!("{figure:.1}"),
            (Some(figure), _) => format!("{figure:.0}"),
        }
    }
}

impl Aspect {
    fn relative(name: &str, unit: Unit, natural: f64, model: f64) -> Self {
        let difference = model - natural;
        let distance =
            if difference == 0.0 { 0.0 } else { difference / natural.abs().max(1e-12) * 100.0 };
        Self {
            name: name.to_owned(),
            natural: Some(natural),
            model: Some(model),
            distance_percent: distance,
            measure: Distance::Relative,
            unit,
        }
    }

    fn points(name: &str, natural: f64, model: f64) -> Self {
        Self {
            name: name.to_owned(),
            natural: Some(natural),
            model: Some(model),
            distance_percent: (model - natural) * 100.0,
            measure: Distance::Points,
            unit: Unit::Share,
        }
    }

    fn of_distributions(name: &str, measure: Distance, distance: f64) -> Self {
        Self {
            name: name.to_owned(),
            natural: None,
            model: None,
            distance_percent: distance * 100.0,
            measure,
            unit: Unit::Share,
        }
    }
}

/// Both loads, aspect by aspect.
pub fn compare(natural: &Figures, model: &Figures) -> Vec<Aspect> {
    let (at, am) = (&natural.arrivals, &model.arrivals);
    let relative =
        |name: &str, unit, natural: f64, model: f64| Aspect::relative(name, unit, natural, model);
    let mut all = vec![
        relative("request rate", Unit::PerSecond, at.rate_per_s, am.rate_per_s),
        Aspect::of_distributions(
            "gaps between requests",
            Distance::KolmogorovSmirnov,
            gaps_distance(&at.gaps, &am.gaps),
        ),
        relative("variation of gaps", Unit::Number, at.gap_variation, am.gap_variation),
    ];
    for (name, span_ns) in [
        ("dispersion in 1 ms", 1 << 20),
        ("dispersion in 0.13 s", 1 << 27),
        ("dispersion in 1.1 s", 1 << 30),
        ("dispersion in 69 s", 1 << 36),
    ] {
        if let (Some(natural), Some(model)) = (at.dispersion_at(span_ns), am.dispersion_at(span_ns))
        {
            all.push(relative(name, Unit::Number, natural, model));
        }
    }
    if let (Some(natural), Some(model)) = (at.hurst, am.hurst) {
        all.push(relative("Hurst parameter", Unit::Number, natural, model));
    }
    let count = |name: &str, natural: u64, model: u64| {
        relative(name, Unit::PerSecond, natural as f64, model as f64)
    };
    all.push(count("peak second", at.peak_second, am.peak_second));
    all.push(count("second, p99", at.second_p99, am.second_p99));
    all.push(Aspect::of_distributions(
        "operations and sizes",
        Distance::TotalVariation,
        mix_distance(natural, model),
    ));
    for (op, name) in [(Op::Read, "sequential reads"), (Op::Write, "sequential writes")] {
        if let Some(of_op) = natural.mix.of(op) {
            let share = model.mix.of(op).map_or(0.0, |of_op| of_op.sequential_share);
            all.push(Aspect::points(name, of_op.sequential_share, share));
        }
    }
    all.push(Aspect::points(
        "aligned to 4 KiB",
        natural.mix.aligned_share,
        model.mix.aligned_share,
    ));
    all.push(Aspect::points("places used again", natural.reuse.share, model.reuse.share));
    all.push(Aspect::of_distributions(
        "distances of reuse",
        Distance::KolmogorovSmirnov,
        cumulative_distance(&natural.reuse.powers, &model.reuse.powers),
    ));
    all.push(Aspect::points(
        "hottest tenth of the device",
        natural.places.hottest_tenth_share,
        model.places.hottest_tenth_share,
    ));
    let (sets, of_model) = (&natural.working_set, &model.working_set);
    let bytes = |name: &str, natural: f64, model: f64| relative(name, Unit::Bytes, natural, model);
    all.push(bytes("working set of 1 s", sets.second.mean_bytes, of_model.second.mean_bytes));
    all.push(bytes("working set of 60 s", sets.minute.mean_bytes, of_model.minute.mean_bytes));
    all.push(bytes("working set, whole", sets.total_bytes, of_model.total_bytes));
    all
}

/// How far two distributions of gaps are from each other, from 0 to 1: the largest difference of
/// the cumulative ones, where what lies in neighbouring bins is alike. Otherwise a gap at the
/// border of two bins would be as far from itself, less a nanosecond, as from any other.
fn gaps_distance(a: &Histogram<GAP_BITS>, b: &Histogram<GAP_BITS>) -> f64 {
    let cumulative = |gaps: &Histogram<GAP_BITS>| -> Vec<f64> {
        let counts = Vec::from(gaps.clone());
        let total = gaps.count().max(1) as f64;
        let mut sum = 0;
        let sums = counts.iter().map(|count| {
            sum += count;
            sum as f64 / total
        });
        sums.collect()
    };
    let (a, b) = (cumulative(a), cumulative(b));
    let of = |sums: &[f64], at: usize| sums.get(at).or(sums.last()).copied().unwrap_or_default();
    (0..a.len().max(b.len()))
        .map(|at| (of(&a, at) - of(&b, at + 1)).max(of(&b, at) - of(&a, at + 1)))
        .fold(0.0, f64::max)
}

fn cumulative_distance(a: &[f64], b: &[f64]) -> f64 {
    let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
    for at in 0..a.len().max(b.len()) {
        difference += a.get(at).unwrap_or(&0.0) - b.get(at).unwrap_or(&0.0);
        largest = largest.max(difference.abs());
    }
    largest
}

fn mix_distance(a: &Figures, b: &Figures) -> f64 {
    let shares = |figures: &Figures| -> std::collections::BTreeMap<(Op, Bytes), f64> {
        figures.mix.classes.iter().map(|class| ((class.op, class.length), class.share)).collect()
    };
    let (a, b) = (shares(a), shares(b));
    let of_a: f64 =
        a.iter().map(|(class, share)| (share - b.get(class).unwrap_or(&0.0)).abs()).sum();
    let of_b: f64 =
        b.iter().filter(|(class, _)| !a.contains_key(class)).map(|(_, share)| share).sum();
    f64::midpoint(of_a, of_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_distributions_lie_between_the_same_and_nothing_in_common() {
        let distance = |a: &[u64], b: &[u64]| gaps_distance(&a.to_vec().into(), &b.to_vec().into());
        assert!(distance(&[1, 2, 3], &[10, 20, 30]) < 1e-12);
        assert!((distance(&[5], &[0, 0, 7]) - 1.0).abs() < 1e-12);
        assert!(distance(&[0, 5], &[0, 0, 7]) < 1e-12);
        assert!((distance(&[1, 0, 1], &[3, 0, 1]) - 0.25).abs() < 1e-12);
        assert!(distance(&[], &[]) == 0.0);
        assert!((cumulative_distance(&[0.5, 0.5], &[0.75, 0.25]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn figures_are_shown_in_their_unit() {
        assert_eq!(Unit::Share.shown(Some(0.123)), "12.3 %");
        assert_eq!(Unit::Bytes.shown(Some(4096.0)), "4.00 KiB");
        assert_eq!(Unit::PerSecond.shown(Some(489.0)), "489");
        assert_eq!(Unit::Number.shown(None), "-");
        assert!(Aspect::relative("x", Unit::Number, 0.0, 0.0).distance_percent == 0.0);
    }
}
