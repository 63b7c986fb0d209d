//! Lines and tables with the names that Vdbench gives to columns.
//!
//! Columns are wide enough for their values and have a blank between them always, so that they can
//! be taken apart by blanks. A value that nothing is known of is `n/a`, and none is `NaN`.

use std::fmt::Write as _;

use ioecho_stats::interval::Interval;
use ioecho_stats::picture::{Kind, Span};
use ioecho_trace::Nanos;

use super::count::{BINS_US, Bins};

/// What is known of nothing.
const UNKNOWN: &str = "n/a";

/// A column: the two lines of its name, and its least width.
type Column = (&'static str, &'static str, usize);

/// Columns of the figures of an interval, behind its time and its number.
const FIGURES: [Column; 11] = [
    ("i/o", "rate", 10),
    ("MB/sec", "1024**2", 8),
    ("bytes", "i/o", 7),
    ("read", "pct", 6),
    ("resp", "time", 8),
    ("read", "resp", 8),
    ("write", "resp", 8),
    ("read", "max", 8),
    ("write", "max", 8),
    ("resp", "stddev", 8),
    ("queue", "depth", 6),
];

/// Columns of the processors.
const PROCESSORS: [Column; 2] = [("cpu%", "sys+u", 5), ("cpu%", "sys", 5)];

/// The width of a time of day.
const TIME: usize = 12;

/// The width of the number of an interval, or of the name of an average.
const NUMBER: usize = 12;

/// The least width of a figure of an operation on files.
const OPERATION: usize = 8;

/// The bars of a histogram are as long as this at 100 %.
const BAR: f64 = 50.0;

/// The head of a page of text.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!("<html><head><title>{title}</title></head><body><pre>\n{body}</pre></body></html>\n")
}

/// A text in which no letter begins a tag.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The time of day of an instant.
pub(super) fn time_of(epoch_ns: i64) -> String {
    written(epoch_ns, "%H:%M:%S%.3f")
}

/// The day of an instant.
fn day_of(epoch_ns: i64) -> String {
    written(epoch_ns, "%b %d, %Y")
}

fn written(epoch_ns: i64, format: &str) -> String {
    let instant = jiff::Timestamp::from_nanosecond(epoch_ns.into()).unwrap_or_default();
    instant.strftime(format).to_string()
}

/// The two lines of names of a table of intervals.
pub(super) fn names(epoch_ns: i64) -> String {
    let columns = || FIGURES.into_iter().chain(PROCESSORS);
    let line = |first: &str, second: &str, name: fn(Column) -> &'static str| {
        let mut line = format!("{first:<TIME$} {second:>NUMBER$}");
        for column in columns() {
            let width = column.2;
            let _ = write!(line, " {:>width$}", name(column));
        }
        line
    };
    let day = day_of(epoch_ns);
    let upper = line(&day, "interval", |column| column.0);
    let lower = line("", "", |column| column.1);
    format!("{upper}\n{lower}\n")
}

/// The line of an interval, or of an average of several.
pub(super) fn line(interval: &Interval, name: &str) -> String {
    let time = time_of(interval.epoch_ns);
    let unknown = PROCESSORS.map(|(.., width)| format!(" {UNKNOWN:>width$}")).concat();
    format!("{time:<TIME$} {name:>NUMBER$}{}{unknown}\n", figures(interval))
}

/// Rates and response times of operations on files in intervals, each under the name that it has in
/// its table; the last is their average. Empty where there were none: the columns of reads and
/// writes know nothing of them.
pub(super) fn operations(intervals: &[(String, &Interval)]) -> String {
    let occurs = |kind: &Kind| intervals.iter().any(|(_, it)| it.completed_of(*kind) > 0);
    let there = || Kind::ALL.into_iter().filter(|kind| kind.is_of_files()).filter(occurs);
    if there().next().is_none() {
        return String::new();
    }
    let width = |kind: Kind| kind.label().len().max(OPERATION);
    let mut text = format!("\n{:<TIME$} {:>NUMBER$}", "", "interval");
    for kind in there() {
        let width = width(kind);
        let _ = write!(text, " {0:>width$} {0:>width$}", kind.label());
    }
    let _ = write!(text, "\n{:<TIME$} {:>NUMBER$}", "", "");
    for kind in there() {
        let width = width(kind);
        let _ = write!(text, " {:>width$} {:>width$}", "rate", "resp");
    }
    text.push('\n');
    for (name, interval) in intervals {
        let _ = write!(text, "{:<TIME$} {name:>NUMBER$}", time_of(interval.epoch_ns));
        for kind in there() {
            let width = width(kind);
            let rate = interval.completed_of(kind) as f64 / interval.seconds();
            let ms = ms(interval.spans(Span::Service, kind).mean());
            let _ = write!(text, " {rate:>width$.1} {ms:>width$.3}");
        }
        text.push('\n');
    }
    text
}

fn ms(span: Option<Nanos>) -> f64 {
    span.map_or(0.0, |span| span.0 as f64 / 1e6)
}

/// The name of the average of these intervals.
pub(super) fn average_of(first: u64, last: u64) -> String {
    format!("avg_{first}-{last}")
}

/// The figures of an interval, each behind a blank.
fn figures(interval: &Interval) -> String {
    let (reads, writes) = (interval.completed_of(Kind::READ), interval.completed_of(Kind::WRITE));
    let requests = reads + writes;
    let some = requests.max(1) as f64;
    let bytes = interval.bytes_read.saturating_add(interval.bytes_written) as f64;
    let of = |kind| interval.spans(Span::Service, kind);
    let mut of_both = of(Kind::READ).clone();
    of_both.merge(of(Kind::WRITE));
    let values = [
        format!("{:.1}", requests as f64 / interval.seconds()),
        format!("{:.2}", bytes / f64::from(1 << 20) / interval.seconds()),
        format!("{:.0}", bytes / some),
        format!("{:.2}", reads as f64 / some * 100.0),
        format!("{:.3}", ms(of_both.mean())),
        format!("{:.3}", ms(of(Kind::READ).mean())),
        format!("{:.3}", ms(of(Kind::WRITE).mean())),
        format!("{:.2}", ms(of(Kind::READ).max())),
        format!("{:.2}", ms(of(Kind::WRITE).max())),
        format!("{:.3}", interval.service_deviation(&[Kind::READ, Kind::WRITE]) / 1e6),
        format!("{:.1}", interval.in_flight_mean()),
    ];
    let padded = values.iter().zip(FIGURES).map(|(value, (.., width))| format!(" {value:>width$}"));
    padded.collect()
}

/// A row of a table of shares: the part, its figures, and its requested share in percent.
pub(super) struct Share<'s> {
    pub(super) name: &'s str,
    pub(super) interval: &'s Interval,
    pub(super) requested: Option<f64>,
}

/// The table of shares of all parts of one kind, such as `WD`. `all` is their sum.
pub(super) fn shares(kind: &str, rows: &[Share<'_>], all: &Interval) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(14);
    let of_shares: [Column; 3] =
        [("skew", "requested", 10), ("skew", "observed", 10), ("skew", "delta", 8)];
    let mut text = String::new();
    for (first, is_upper) in [(String::new(), true), (format!("{kind}:"), false)] {
        let _ = write!(text, "{first:<width$}");
        for (upper, lower, width) in FIGURES.into_iter().chain(of_shares) {
            let _ = write!(text, " {:>width$}", if is_upper { upper } else { lower });
        }
        text.push('\n');
    }
    let whole = Share { name: "Total", interval: all, requested: None };
    for row in rows.iter().chain([&whole]) {
        let observed = row.interval.completed() as f64 / all.completed().max(1) as f64 * 100.0;
        let requested = row.requested.map(|share| format!("{share:.2}%"));
        let delta = row.requested.map(|share| observed - share).filter(|it| it.abs() > 0.1);
        let _ = write!(text, "{:<width$}{}", escaped(row.name), figures(row.interval));
        let _ = write!(text, " {:>10}", requested.as_deref().unwrap_or(UNKNOWN));
        let _ = write!(text, " {:>10}", format!("{observed:.2}%"));
        let delta = delta.map_or("-".to_owned(), |delta| format!("{delta:.2}%"));
        let _ = writeln!(text, " {delta:>8}");
    }
    text
}

/// The histograms of reads and writes together, of reads, of writes, and of each operation on files
/// that occurred.
pub(super) fn histograms(bins: &Bins) -> String {
    let of_data = [
        ("Reads and writes", bins.of_data()),
        ("Reads", bins.of(Kind::READ).into()),
        ("Writes", bins.of(Kind::WRITE).into()),
    ];
    let of_files = Kind::ALL.into_iter().filter(|kind| kind.is_of_files());
    let of_files = of_files.map(|kind| (kind.label(), bins.of(kind).into()));
    let tables = of_data
        .into_iter()
        .chain(of_files)
        .filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    tables.map(|(title, counts)| histogram(title, &counts)).collect::<Vec<_>>().join("\n")
}

fn histogram(title: &str, counts: &[u64]) -> String {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let mut text = format!("{title}:\n");
    let (count, share, sum) = ("count", "%%", "cum%%");
    let _ = writeln!(
        text,
        "   min(ms) &lt;    max(ms) {count:>13} {share:>8} {sum:>8}  +: its share, -: below"
    );
    let mut below = 0.0;
    for (bin, count) in counts.iter().enumerate() {
        let ms = |bin: Option<usize>| bin.map_or(0, |bin| BINS_US[bin]) as f64 / 1e3;
        let from = format!("{:.3}", ms(bin.checked_sub(1)));
        let to = if bin < BINS_US.len() { format!("{:.3}", ms(Some(bin))) } else { "max".into() };
        let share = *count as f64 / all * 100.0;
        let bar = |share: f64| (share / 100.0 * BAR).round() as usize;
        let (own, others) = ("+".repeat(bar(share)), "-".repeat(bar(below)));
        below += share;
        let _ = writeln!(
            text,
            "{from:>10} &lt; {to:>10} {count:>13} {share:>8.4} {below:>8.4}  {own}{others}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Measured, Op};

    #[test]
    fn names_and_values_stand_below_each_other_and_never_touch() {
        let mut interval = Interval::between(1, Nanos(0), Nanos(1_000_000_000));
        interval.bytes_read = u64::MAX;
        let line = line(&interval, &average_of(31, 330_000_000));
        let count = line.split_whitespace().count();
        assert_eq!(count, 2 + FIGURES.len() + PROCESSORS.len(), "{line}");
        assert!(!line.contains("NaN") && line.contains("avg_31-330000000"), "{line}");
        let names = names(0);
        let lines: Vec<&str> = names.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[0].starts_with("Jan 01, 1970     interval"), "{names}");
    }

    #[test]
    fn operations_on_files_have_their_rates_below_their_names_and_devices_have_no_table_of_them() {
        let mut interval = Interval::between(2, Nanos(0), Nanos(2_000_000_000));
        assert_eq!(operations(&[("2".to_owned(), &interval)]), "");
        let at = |ns: i64| Measured {
            flow: 1,
            ..Measured::done(Nanos(ns), Nanos(ns), Nanos(ns + 250_000))
        };
        (0..100).for_each(|ns| interval.observe(Op::Getattr, Bytes(0), &at(ns)));
        let text = operations(&[("2".to_owned(), &interval), (average_of(2, 2), &interval)]);
        let lines: Vec<&str> = text.trim_start().lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[0]), ["interval", "getattr", "getattr"]);
        assert_eq!(words(lines[1]), ["rate", "resp"]);
        assert_eq!(words(lines[2])[1..], ["2", "50.0", "0.250"]);
        assert_eq!(words(lines[3])[1..], ["avg_2-2", "50.0", "0.250"]);
    }

    #[test]
    fn a_histogram_has_every_bin_and_comes_to_a_hundred_percent() {
        let text = histogram("Reads", &[1; BINS_US.len() + 1]);
        assert_eq!(text.lines().count(), 2 + BINS_US.len() + 1);
        assert!(text.lines().last().unwrap().contains(" max "), "{text}");
        assert!(text.lines().last().unwrap().contains(" 100.0000 "), "{text}");
    }
}
