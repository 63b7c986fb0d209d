//! Where an axis has its marks, and what they say.

/// A mark of an axis: its place in the axis's own unit and its label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Marks of an axis of time from zero to `end_ns`, at most `most` of them, at whole multiples of a
/// round step; and the unit that the labels are in.
pub(crate) fn time(end_ns: i64, most: usize) -> (Vec<Mark>, &'static str) {
    let end = end_ns.max(1) as f64;
    let (scale, unit) = match end_ns {
        ..2_000 => (1.0, "ns"),
        2_000..2_000_000 => (1e3, "µs"),
        2_000_000..2_000_000_000 => (1e6, "ms"),
        2_000_000_000..300_000_000_000 => (1e9, "s"),
        300_000_000_000..18_000_000_000_000 => (60e9, "min"),
        _ => (3600e9, "h"),
    };
    let step = round_step(end / scale / most as f64);
    let count = (end / scale / step + 1e-9).floor() as usize;
    let mark = |i: usize| {
        let value = i as f64 * step;
        Mark { at: value * scale, label: plain(value) }
    };
    ((0..=count).map(mark).collect(), unit)
}

/// Marks of a linear axis from zero; the last is the top of the axis and no less than `highest`.
pub(crate) fn linear(highest: f64, most: usize) -> Vec<Mark> {
    if highest.is_nan() || highest <= 0.0 {
        return [0.0, 0.5, 1.0].map(|at| Mark { at, label: plain(at) }).into();
    }
    let step = round_step(highest / most as f64);
    let count = (highest / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|i| i as f64 * step).map(|at| Mark { at, label: with_prefix(at) }).collect()
}

/// Marks of a logarithmic axis of counts and their means: powers of ten from a tenth, or
/// less where `mean` is less, to no less than `highest`. The first stands for all that is less.
pub(crate) fn counts(mean: f64, highest: f64) -> Vec<Mark> {
    let low = mean.clamp(1e-3, 0.1).log10().floor() as i32;
    let top = highest.max(10.0).log10().ceil() as i32;
    let sign = |e: i32| if e == low { "≤ " } else { "" };
    let mark = |at: f64, sign| Mark { at, label: format!("{sign}{}", with_prefix(at)) };
    (low..=top).map(|e| mark(10_f64.powi(e), sign(e))).collect()
}

/// Marks of a logarithmic axis of spans: every power of ten from `low` to `high` nanoseconds, and
/// twice and five times that where those are fewer than three.
pub(crate) fn spans(low_ns: f64, high_ns: f64) -> Vec<Mark> {
    let exponents = 0..=14_i32;
    let inside = |ns: &f64| (low_ns * 0.999..=high_ns * 1.001).contains(ns);
    let mark = |at: f64| {
        let (scale, unit) = match at {
            ns if ns >= 1e9 => (1e9, "s"),
            ns if ns >= 1e6 => (1e6, "ms"),
            ns if ns >= 1e3 => (1e3, "µs"),
            _ => (1.0, "ns"),
        };
        Mark { at, label: format!("{} {unit}", plain(at / scale)) }
    };
    let decades = || exponents.clone().map(|e| 10_f64.powi(e));
    if decades().filter(inside).count() >= 3 {
        return decades().filter(inside).map(mark).collect();
    }
    let steps = decades().flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * decade));
    steps.filter(inside).map(mark).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is no less than `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * decade)
}

/// A number without the digits that a sum of rounded steps brings in.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A rate in three digits or four.
pub(crate) fn rate(value: f64) -> String {
    let step = 10_f64.powf(value.max(1e-3).log10().floor() - 2.0);
    with_prefix((value / step).round() * step)
}

fn with_prefix(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{} G", plain(v / 1e9)),
        v if v >= 1e6 => format!("{} M", plain(v / 1e6)),
        v if v >= 1e3 => format!("{} k", plain(v / 1e3)),
        v => plain(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(marks: &[Mark]) -> Vec<&str> {
        marks.iter().map(|mark| mark.label.as_str()).collect()
    }

    #[test]
    fn a_time_axis_has_round_marks_in_a_fitting_unit() {
        let (marks, unit) = time(59_000_000_000, 8);
        assert_eq!((labels(&marks), unit), (vec!["0", "10", "20", "30", "40", "50"], "s"));
        assert_eq!(time(600_000_000_000, 8).1, "min");
        assert_eq!(time(0, 8).1, "ns");
    }

    #[test]
    fn a_linear_axis_reaches_its_highest_value() {
        assert_eq!(labels(&linear(1_700.0, 5)), ["0", "500", "1 k", "1.5 k", "2 k"]);
        assert_eq!(labels(&linear(0.25, 5)), ["0", "0.05", "0.1", "0.15", "0.2", "0.25"]);
        assert_eq!(labels(&linear(f64::NAN, 5)), ["0", "0.5", "1"]);
    }

    #[test]
    fn a_span_axis_is_marked_at_powers_of_ten() {
        assert_eq!(labels(&spans(100.0, 1e5)), ["100 ns", "1 µs", "10 µs", "100 µs"]);
        assert_eq!(labels(&spans(1e8, 2e11)), ["100 ms", "1 s", "10 s", "100 s"]);
    }

    #[test]
    fn a_short_axis_has_three_marks_at_least() {
        assert_eq!(labels(&spans(1e6, 1e7)), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(labels(&spans(8e2, 9e4)), ["1 µs", "2 µs", "5 µs", "10 µs", "20 µs", "50 µs"]);
        assert_eq!(labels(&counts(0.1, 0.0)), ["≤ 0.1", "1", "10"]);
        assert_eq!(labels(&counts(7.0, 600.0)), ["≤ 0.1", "1", "10", "100", "1 k"]);
        assert_eq!(labels(&counts(0.02, 3.0)), ["≤ 0.01", "0.1", "1", "10"]);
    }

    #[test]
    fn a_rate_is_rounded_to_three_digits() {
        assert_eq!([0.0, 3.149, 999.9, 8_333.3].map(rate), ["0", "3.15", "1 k", "8.33 k"]);
    }
}
