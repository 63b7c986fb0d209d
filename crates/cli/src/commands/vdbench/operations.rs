//! The columns of `flatfile.html` that Vdbench has for runs on files: six for each operation.
//!
//! Rates of an interval have no deviation; those of an average have, over the intervals that it is
//! of. A last interval that the run's end cut short counts in neither deviation nor maximum,
//! because a rate within a few milliseconds says little. Maxima are those of the row's own
//! intervals: Vdbench's go on from the warm-up.

use ioecho_stats::interval::Interval;
use ioecho_stats::picture::{Kind, Span};
use ioecho_trace::{Nanos, Op};

use crate::run::live::flatfile::{UNKNOWN, ms, short};

/// The operations in Vdbench's order, under its names.
const OPERATIONS: [(&str, Op); 13] = [
    ("Read", Op::Read),
    ("Write", Op::Write),
    ("Mkdir", Op::Mkdir),
    ("Rmdir", Op::Rmdir),
    ("Create", Op::Create),
    ("Open", Op::Open),
    ("Close", Op::Close),
    ("Delete", Op::Delete),
    ("Getattr", Op::Getattr),
    ("Setattr", Op::Setattr),
    ("Access", Op::Access),
    ("Copy", Op::Copy),
    ("Move", Op::Move),
];

/// What is told of each operation.
const FIGURES: [&str; 6] = ["rate", "rate_std", "rate_max", "resp", "resp_std", "resp_max"];

/// The names of all columns, each behind a blank.
pub(super) fn names() -> String {
    let of = |(name, _)| FIGURES.map(|figure| format!(" {name}_{figure}")).concat();
    OPERATIONS.map(of).concat()
}

/// The columns of an interval, each behind a blank.
pub(super) fn of_interval(interval: &Interval) -> String {
    cells(interval, &[interval])
}

/// The columns of the average `whole` of these intervals, each of which but the last is as long as
/// `width`.
pub(super) fn of_average(whole: &Interval, intervals: &[Interval], width: Nanos) -> String {
    let is_full = |interval: &&Interval| interval.end.saturating_sub(interval.start) >= width;
    let full: Vec<&Interval> = intervals.iter().filter(is_full).collect();
    cells(whole, &full)
}

fn cells(whole: &Interval, intervals: &[&Interval]) -> String {
    let of = |(_, op): (&str, Op)| {
        let kind = Kind::of(op);
        let rate = |of: &Interval| of.completed_of(kind) as f64 / of.seconds();
        let rates: Vec<f64> = intervals.iter().map(|of| rate(of)).collect();
        let times = whole.spans(Span::Service, kind);
        let values = [
            short(rate(whole)),
            deviation(&rates).map_or(UNKNOWN.to_owned(), short),
            short(rates.iter().copied().reduce(f64::max).unwrap_or_else(|| rate(whole))),
            ms(times.mean()),
            short(whole.service_deviation(&[kind]) / 1e6),
            ms(times.max()),
        ];
        values.map(|value| format!(" {value}")).concat()
    };
    OPERATIONS.map(of).concat()
}

/// The standard deviation of a sample, as Vdbench's row `std` has it; `None` of fewer than two.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Measured};

    /// So many calls, each of which took a quarter of a millisecond, in a second.
    fn second(number: u64, calls: i64, op: Op) -> Interval {
        let start = Nanos::from_secs(number as i64 - 1);
        let end = Nanos(start.0 + 1_000_000_000);
        let mut interval = Interval::between(number, start, end);
        for call in 0..calls {
            let at = Nanos(start.0 + call);
            let measured = Measured { flow: 1, ..Measured::done(at, at, Nanos(at.0 + 250_000)) };
            interval.observe(op, Bytes(0), &measured);
        }
        interval
    }

    /// The values of an operation.
    fn of<'c>(name: &str, cells: &'c str) -> Vec<&'c str> {
        let names = names();
        let columns = names.split_whitespace().zip(cells.split_whitespace());
        let is_its = |column: &&str| column.split_once('_').is_some_and(|(of, _)| of == name);
        columns.filter(|(column, _)| is_its(column)).map(|(_, value)| value).collect()
    }

    #[test]
    fn an_interval_has_every_column_and_no_deviation_of_its_one_rate() {
        let cells = of_interval(&second(1, 40, Op::Getattr));
        assert_eq!(cells.split_whitespace().count(), OPERATIONS.len() * FIGURES.len());
        assert_eq!(cells.split_whitespace().count(), names().split_whitespace().count());
        assert_eq!(of("Getattr", &cells), ["40", UNKNOWN, "40", "0.25", "0", "0.25"]);
        assert_eq!(of("Move", &cells), ["0", UNKNOWN, "0", "0", "0", "0"]);
    }

    #[test]
    fn an_average_is_of_its_own_intervals_and_a_short_last_one_is_in_no_extreme() {
        // Vdbench's own example: the rates of `std_2-5` are these, and their deviation is 22.6.
        let calls = [97, 136, 158, 137, 143];
        let numbered = (2_u64..).zip(calls);
        let mut all: Vec<Interval> =
            numbered.map(|(number, calls)| second(number, calls, Op::Create)).collect();
        let mut last = second(7, 10, Op::Create);
        last.end = Nanos(last.start.0 + 1_000_000);
        all.push(last);
        let mut whole = Interval::between(2, Nanos::from_secs(1), all[5].end);
        for interval in &all {
            whole.merge(interval);
        }
        let cells = of_average(&whole, &all, Nanos::from_secs(1));
        let found = of("Create", &cells);
        assert!(found[0].starts_with("136."), "{found:?}");
        assert!((found[1].parse::<f64>().unwrap() - 22.6).abs() < 0.05, "{found:?}");
        assert_eq!(found[2..4], ["158", "0.25"]);
    }
}
