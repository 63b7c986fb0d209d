//! The marks of an axis and their labels.

/// A mark of an axis: its place in the axis's own unit and its label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Marks of an axis of time from zero to `end_ns`, at most `most` of them, at whole multiples of a
/// round step; and the unit of the labels.
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

/// Marks of a logarithmic axis of spans: every power of ten from `low` to `high` nanoseconds, and
/// if those are fewer than three, also twice and five times each.
pub(crate) fn spans(low_ns: f64, high_ns: f64) -> Vec<Mark> {
    let exponents = 0..=18_i32;
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

/// Marks of an axis of nines from the left of the median to `end`.
pub(crate) fn nines(end: f64) -> Vec<Mark> {
    let mut marks = vec![(0.0, "0 %".to_owned()), (0.5_f64.log10().abs(), "50 %".to_owned())];
    let nines = ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %", "99.99999 %"];
    marks.extend((1_u32..).map(f64::from).zip(nines.map(str::to_owned)));
    let inside = marks.into_iter().filter(|(at, _)| *at <= end + 1e-9);
    inside.map(|(at, label)| Mark { at, label }).collect()
}

/// The divisor and the unit that make values readable, given the largest value `highest`.
pub(crate) fn unit_of(unit: &str, highest: f64) -> (f64, String) {
    const SPANS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    const SIZES: [(f64, &str); 5] = [
        (1_099_511_627_776.0, "TiB"),
        (1_073_741_824.0, "GiB"),
        (1_048_576.0, "MiB"),
        (1_024.0, "KiB"),
        (1.0, "bytes"),
    ];
    let least = |table: &[(f64, &str)], highest: f64| {
        let fits = table.iter().find(|(factor, _)| highest >= 2.0 * factor);
        let (factor, name) = fits.or(table.last()).copied().unwrap_or((1.0, ""));
        (factor, name.to_owned())
    };
    match unit {
        "ns" => least(&SPANS, highest),
        "s" => {
            let (factor, name) = least(&SPANS, highest * 1e9);
            (factor / 1e9, name)
        }
        "bytes" => least(&SIZES, highest),
        "bytes/s" => {
            let (factor, name) = least(&SIZES, highest);
            (factor, format!("{name}/s"))
        }
        other => (1.0, other.to_owned()),
    }
}

/// Marks of a linear axis that begins at `from`, at whole multiples of a round step; the last mark
/// is at least `highest`.
pub(crate) fn between(from: f64, highest: f64, most: usize) -> Vec<Mark> {
    let wide = highest - from;
    if !wide.is_finite() || wide <= 0.0 {
        return [from, from + 1.0].map(|at| Mark { at, label: plain(at) }).into();
    }
    let step = round_step(wide / most as f64);
    let first = (from / step - 1e-9).ceil();
    let last = (highest / step - 1e-9).ceil();
    let mark = |i: usize| {
        let at = (first + i as f64) * step;
        let label = if at < 0.0 { format!("−{}", with_prefix(-at)) } else { with_prefix(at) };
        Mark { at, label }
    };
    (0..=(last - first).max(0.0) as usize).map(mark).collect()
}

/// Marks of a logarithmic axis, a dozen at most: powers of ten, or powers of two for sizes.
pub(crate) fn decades(low: f64, high: f64, unit: &str) -> Vec<Mark> {
    match unit {
        "ns" => spans(low, high),
        "s" => spans(low * 1e9, high * 1e9)
            .into_iter()
            .map(|mark| Mark { at: mark.at / 1e9, label: mark.label })
            .collect(),
        "bytes" => {
            let first = (low.max(1.0).log2() - 1e-9).ceil() as i32;
            let last = (high.max(1.0).log2() + 1e-9).floor() as i32;
            let step = ((last - first) / 8).max(1) as usize;
            (first..=last)
                .step_by(step)
                .map(|e| 2_f64.powi(e))
                .map(|at| {
                    let (factor, unit) = unit_of("bytes", at * 2.0);
                    Mark { at, label: format!("{} {unit}", plain(at / factor)) }
                })
                .collect()
        }
        _ => {
            let first = (low.log10() - 1e-9).ceil() as i32;
            let last = (high.log10() + 1e-9).floor() as i32;
            let step = ((last - first) / 12).max(0) as usize + 1;
            (first..=last)
                .step_by(step)
                .map(|e| 10_f64.powi(e))
                .map(|at| Mark { at, label: with_prefix(at) })
                .collect()
        }
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * decade)
}

/// A number without the extra digits of rounding errors.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn with_prefix(value: f64) -> String {
    match value {
        v if v >= 1e15 => format!("{v:.0e}"),
        v if v >= 1e12 => format!("{} T", plain(v / 1e12)),
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
        assert_eq!(labels(&between(-30.0, 61.0, 5)), ["−20", "0", "20", "40", "60", "80"]);
        assert_eq!(labels(&between(5.0, 5.0, 5)), ["5", "6"]);
        assert_eq!(between(0.0, f64::INFINITY, 5).len(), 2);
    }

    #[test]
    fn values_are_told_in_a_fitting_unit() {
        assert_eq!(unit_of("ns", 3e6), (1e6, "ms".to_owned()));
        assert_eq!(unit_of("s", 0.003), (1e-3, "ms".to_owned()));
        assert_eq!(unit_of("bytes", 1e9).1, "MiB");
        assert_eq!(unit_of("requests", 1e9), (1.0, "requests".to_owned()));
        assert_eq!(
            labels(&decades(512.0, 4096.0, "bytes")),
            ["512 bytes", "1 KiB", "2 KiB", "4 KiB"]
        );
        assert_eq!(labels(&decades(0.1, 100.0, "1")), ["0.1", "1", "10", "100"]);
        assert!(decades(1e-300, 1e300, "1").len() <= 13);
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
    }
}
