//! Intervals in the columns of Vdbench's `flatfile.html`, for scripts that read those.
//!
//! The columns are the 34 that Vdbench 5.04.07 writes for raw devices, in the same order and units:
//! milliseconds, MiB, and a response time that covers only the call (in our terms the service
//! time). Values that this program cannot know are `n/a`, as in Vdbench. The last line is the
//! average of all intervals but the first, as in Vdbench. It includes the partial last interval.

use ioecho_stats::interval::Interval;
use ioecho_stats::picture::{Kind, Span};
use ioecho_trace::Nanos;

use crate::run::live::About;
use crate::run::live::processors::Shares;

/// The columns.
const NAMES: [&str; 34] = [
    "tod",
    "timestamp",
    "Run",
    "Interval",
    "reqrate",
    "rate",
    "MB/sec",
    "bytes/io",
    "read%",
    "resp",
    "read_resp",
    "write_resp",
    "resp_max",
    "read_max",
    "write_max",
    "resp_std",
    "read_std",
    "write_std",
    "xfersize",
    "threads",
    "rdpct",
    "rhpct",
    "whpct",
    "seekpct",
    "lunsize",
    "version",
    "compratio",
    "dedupratio",
    "queue_depth",
    "cpu_used",
    "cpu_user",
    "cpu_kernel",
    "cpu_wait",
    "cpu_idle",
];

/// Vdbench's word for a rate without limit.
const WITHOUT_LIMIT: &str = "9999988";

/// The name of a run that has none.
const RUN: &str = "ioecho";

/// The word for an unknown value.
pub(crate) const UNKNOWN: &str = "n/a";

/// The comment that Vdbench's readers skip, and the line of names.
pub(crate) fn header() -> String {
    format!("* Written by ioecho {}\n{}", env!("CARGO_PKG_VERSION"), NAMES.join(" "))
}

/// The line of an interval.
pub(super) fn line(interval: &Interval, about: &About, cpu: Option<&Shares>) -> String {
    cells(interval, RUN, &interval.number.to_string(), about, cpu).join(" ")
}

/// The line of an interval, or of several of this name, of a run that is over; what processors did
/// meanwhile is not stored.
pub(crate) fn line_of(interval: &Interval, run: &str, name: &str, about: &About) -> String {
    let run: String = run.split_whitespace().collect();
    cells(interval, &run, name, about, None).join(" ")
}

/// The last line: all intervals but the first.
pub(super) fn average(
    all_but_first: &Interval,
    last: u64,
    about: &About,
    cpu: Option<&Shares>,
) -> String {
    let name = format!("avg_{}-{last}", all_but_first.number);
    cells(all_but_first, RUN, &name, about, cpu).join(" ")
}

fn cells(
    interval: &Interval,
    run: &str,
    name: &str,
    about: &About,
    cpu: Option<&Shares>,
) -> [String; NAMES.len()] {
    let instant = jiff::Timestamp::from_nanosecond(interval.epoch_ns.into()).unwrap_or_default();
    let written = |format: &str| instant.strftime(format).to_string();
    let (reads, writes) = (interval.completed_of(Kind::READ), interval.completed_of(Kind::WRITE));
    let moved = (reads + writes).max(1) as f64;
    let bytes = interval.bytes_read.saturating_add(interval.bytes_written);
    let read_share = reads as f64 / moved * 100.0;
    let unknown = || UNKNOWN.to_owned();
    // Only requests that move data, because Vdbench has no others.
    let mut of_both = interval.spans(Span::Service, Kind::READ).clone();
    of_both.merge(interval.spans(Span::Service, Kind::WRITE));
    let of = |kind| interval.spans(Span::Service, kind);
    let deviation = |kinds: &[Kind]| short(interval.service_deviation(kinds) / 1e6);
    let cpu = |share: fn(&Shares) -> f64| cpu.map_or_else(unknown, |cpu| short(share(cpu)));
    let rate = |requests: u64| requests as f64 / interval.seconds();
    [
        written("%H:%M:%S%.3f"),
        written("%m/%d/%Y-%H:%M:%S-UTC"),
        run.to_owned(),
        name.to_owned(),
        interval.demanded_per_s().map_or(WITHOUT_LIMIT.to_owned(), |rate| format!("{rate:.0}")),
        short(rate(reads + writes)),
        short(bytes as f64 / f64::from(1 << 20) / interval.seconds()),
        format!("{:.0}", bytes as f64 / moved),
        short(read_share),
        ms(of_both.mean()),
        ms(of(Kind::READ).mean()),
        ms(of(Kind::WRITE).mean()),
        ms(of_both.max()),
        ms(of(Kind::READ).max()),
        ms(of(Kind::WRITE).max()),
        deviation(&[Kind::READ, Kind::WRITE]),
        deviation(&[Kind::READ]),
        deviation(&[Kind::WRITE]),
        format!("{:.0}", bytes as f64 / moved),
        about.in_flight_max.to_string(),
        format!("{read_share:.0}"),
        "0".to_owned(),
        "0".to_owned(),
        unknown(),
        short(about.capacity as f64 / f64::from(1 << 30)),
        unknown(),
        short(100.0 / f64::from(about.fill_random.max(1))),
        if about.dedup > 1.0 { short(about.dedup) } else { unknown() },
        short(interval.in_flight_mean()),
        cpu(Shares::used),
        cpu(|cpu| cpu.user),
        cpu(|cpu| cpu.kernel),
        cpu(|cpu| cpu.wait),
        cpu(|cpu| cpu.idle),
    ]
}

/// A span in milliseconds; zero of none, as in Vdbench.
pub(crate) fn ms(span: Option<Nanos>) -> String {
    short(span.map_or(0.0, |span| span.0 as f64 / 1e6))
}

/// At most four decimals and no zeroes at the end, as Vdbench writes them.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::live::tests::busy;

    fn about() -> About {
        About {
            capacity: 40 << 20,
            in_flight_max: 8,
            fill_random: 50,
            dedup: 1.0,
            ..About::default()
        }
    }

    #[test]
    fn lines_have_the_columns_of_vdbench_in_its_order() {
        let header = header();
        let (comment, names) = header.split_once('\n').unwrap();
        assert!(comment.starts_with('*'));
        assert_eq!(
            names,
            "tod timestamp Run Interval reqrate rate MB/sec bytes/io read% resp read_resp \
             write_resp resp_max read_max write_max resp_std read_std write_std xfersize threads \
             rdpct rhpct whpct seekpct lunsize version compratio dedupratio queue_depth cpu_used \
             cpu_user cpu_kernel cpu_wait cpu_idle"
        );
        let shares = Shares { user: 60.0, kernel: 3.25, wait: 0.0, idle: 36.75 };
        assert_eq!(
            line(&busy(), &about(), Some(&shares)),
            "22:13:20.500 11/14/2023-22:13:20-UTC ioecho 3 9 3 0.0117 4096 66.6667 1.7667 0.15 5 5 \
             0.2 5 2.2867 0.05 0 4096 8 67 0 0 n/a 0.0391 n/a 2 n/a 0.0053 63.25 60 3.25 0 36.75"
        );
    }

    #[test]
    fn the_average_names_the_intervals_that_it_covers() {
        let average = average(&busy(), 9, &about(), None);
        assert_eq!(average.split(' ').nth(3), Some("avg_3-9"));
        assert_eq!(average.split(' ').count(), NAMES.len());
    }

    #[test]
    fn an_interval_of_nothing_and_a_host_without_figures_keep_every_column() {
        let nothing = line(&Interval::default(), &About::default(), None);
        assert_eq!(nothing.split(' ').count(), NAMES.len());
        assert!(nothing.ends_with("0 n/a n/a n/a n/a n/a"), "{nothing}");
        assert!(!nothing.contains("NaN") && !nothing.contains("inf"), "{nothing}");
    }

    #[test]
    fn numbers_are_as_short_as_there() {
        assert_eq!(
            (short(66.0), short(0.064_46), short(-0.000_01)),
            ("66".into(), "0.0645".into(), "0".into())
        );
    }
}
