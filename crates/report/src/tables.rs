//! The numbers beside the pictures: percentiles by kind, and the outcomes of the requests.

use std::collections::BTreeMap;

use ioecho_stats::histogram::{Latencies, QUANTILES};
use ioecho_stats::picture::{Kind, Span};
use ioecho_stats::run_summary::LATE;
use ioecho_stats::verdict::Grade;
use ioecho_trace::{LateCause, Nanos, Outcome, TimingMode};

use crate::{Page, Section, Subject};

/// A cell of a table.
pub(crate) struct Cell {
    pub(crate) text: String,
    /// There are too few requests to state this percentile.
    pub(crate) weak: bool,
    /// It is the percentile of requests that host or generator delayed.
    pub(crate) host_owned: bool,
}

/// The percentiles of one span of one kind of request.
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) total: bool,
    pub(crate) cells: Vec<Cell>,
}

/// The percentiles of one span.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// The tables of all three spans; spans without measurements have none.
pub(crate) fn percentiles(page: &Page) -> Vec<Table> {
    let picture = &page.picture;
    let is_load = page.subject == Subject::Load;
    let spans = Span::ALL.into_iter().filter(|span| page.tells(*span));
    let tables = spans.map(|span| {
        let headline = page.headline.as_ref();
        let is_host_owned =
            |share| headline.is_some_and(|headline| headline.is_host_owned(span, share));
        let of = |kind: Kind| row(kind.name(), false, picture.spans(span, kind), &is_host_owned);
        let mut rows: Vec<Row> = Kind::ALL.into_iter().filter_map(of).collect();
        if rows.len() > 1 {
            rows.extend(row("all", true, &picture.spans_of_all(span), &is_host_owned));
        }
        let meaning = match span {
            Span::Service if is_load => "from issue to completion, when the load was recorded",
            Span::Service => "from submission to completion: what the device took",
            Span::Response if is_unscheduled(page) => {
                "from submission to completion, for nothing was scheduled: while the device stood \
                 still nothing was asked of it, so long waits are few here (coordinated omission)"
            }
            Span::Response if page.timing.is_some_and(TimingMode::has_parents) => {
                "from the instant at which it was due to completion; while the device stood still \
                 the requests that waited for it were not due, so long waits are few here \
                 (coordinated omission), as in the application"
            }
            Span::Response => {
                "from the scheduled instant to completion: what a user of the device waits, free \
                 of coordinated omission"
            }
            Span::Lateness => "from the scheduled instant to submission: how late the replay was",
        };
        let name = if is_load { "recorded latency" } else { span.name() };
        Table { name, meaning, rows }
    });
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// Whether requests were issued as soon as there was a place for them. Checks that apply only to
/// such runs depend on this.
fn is_unscheduled(page: &Page) -> bool {
    let check = page.verdict.as_ref().and_then(|verdict| verdict.check("standstill"));
    check.is_some_and(|check| check.grade > Grade::NotApplicable)
}

fn row(
    kind: &'static str,
    total: bool,
    latencies: &Latencies,
    is_host_owned: &dyn Fn(f64) -> bool,
) -> Option<Row> {
    let summary = latencies.summary()?;
    let span = |ns: u64| Nanos(ns as i64).to_string();
    let sure = |text| Cell { text, weak: false, host_owned: false };
    let mut cells = vec![sure(grouped(summary.count)), sure(span(summary.mean_ns))];
    for (share, ns) in QUANTILES.into_iter().zip(summary.quantiles()) {
        let host_owned = ns.is_some() && is_host_owned(share);
        cells
            .push(Cell { text: ns.map_or("–".to_owned(), span), weak: ns.is_none(), host_owned });
    }
    cells.push(sure(span(summary.max_ns)));
    Some(Row { kind, total, cells })
}

/// The outcomes of the requests and the causes of lateness, as facts.
pub(crate) fn requests(page: &Page) -> Section {
    let picture = &page.picture;
    if page.subject == Subject::Load {
        let rows = vec![
            ("requests".to_owned(), grouped(picture.unmeasured())),
            ("duration".to_owned(), picture.demanded_end().to_string()),
        ];
        return Section { heading: "Requests".to_owned(), rows };
    }
    let mut rows = vec![("requests".to_owned(), grouped(picture.requests()))];
    // Two codes share a name only if the list of names is wrong; then their counts are added.
    let mut outcomes: BTreeMap<(bool, String), u64> = BTreeMap::new();
    for outcome in picture.outcomes() {
        *outcomes.entry((!outcome.ok, outcome.name)).or_default() += outcome.count;
    }
    let share = |count: u64| {
        let percent = 100.0 * count as f64 / (picture.requests().max(1) as f64);
        format!("{} ({percent:.3} %)", grouped(count))
    };
    let told = |((_, name), count): ((bool, String), u64)| (Outcome::told_of(&name), share(count));
    rows.extend(outcomes.into_iter().map(told));
    let causes = LateCause::ALL.into_iter().zip(picture.late_causes());
    for (cause, count) in causes.filter(|_| page.has_due_instants()) {
        let name = match cause {
            LateCause::None => "unexplained",
            LateCause::Conflict => "waited for an overlapping request",
            LateCause::InFlightCap => "cap on requests in flight reached",
            LateCause::Submission => "slow submission",
            LateCause::Input => "trace read too slowly",
            LateCause::Host => "host did not run the replay",
            LateCause::Generator => "ioecho was busy preparing others",
            LateCause::Backlog => "another target's backlog had reached its bound",
            LateCause::Verification => "verification read what it was to change",
            LateCause::File => "another thread of the load had the file",
        };
        if *count > 0 {
            let late = LATE.0 / 1_000_000;
            rows.push((format!("later than {late} ms: {name}"), share(*count)));
        }
    }
    if picture.unmeasured() > 0 {
        rows.push(("never replayed".to_owned(), grouped(picture.unmeasured())));
    }
    if page.has_schedule() {
        rows.push(("demanded duration".to_owned(), picture.demanded_end().to_string()));
    }
    if picture.achieved_end() > Nanos::ZERO {
        rows.push(("length of the run".to_owned(), picture.achieved_end().to_string()));
    }
    Section { heading: "Requests".to_owned(), rows }
}

/// A number in groups of three digits, separated by narrow no-break spaces.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::picture::RunPicture;
    use ioecho_trace::{Batch, Bytes, Columns, Measured, Op, Request};

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn a_percentile_of_too_few_requests_is_not_told() {
        let mut latencies = Latencies::new();
        (0..100).for_each(|ns| latencies.record(Nanos(ns)));
        let row = row("read", false, &latencies, &|share| share >= 0.9).unwrap();
        let weak: Vec<bool> = row.cells.iter().map(|cell| cell.weak).collect();
        assert_eq!(weak, [false, false, false, false, true, true, true, false]);
        // Only a percentile that is told is anybody's.
        let host_owned: Vec<bool> = row.cells.iter().map(|cell| cell.host_owned).collect();
        assert_eq!(host_owned, [false, false, false, true, false, false, false, false]);
    }

    #[test]
    fn requests_later_than_a_millisecond_are_told_by_cause() {
        let mut batch = Batch::new(Columns {
            latency: false,
            origin: false,
            measured: true,
            dependencies: false,
        });
        for (lateness, late_cause) in [
            (300_000, LateCause::Submission),
            (1_500_000, LateCause::Submission),
            (2_000_000, LateCause::None),
            (0, LateCause::None),
        ] {
            let mut request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
            request.measured = Some(Measured {
                scheduled: Nanos(0),
                submitted: Some(Nanos(lateness)),
                completed: Some(Nanos(lateness + 5)),
                target_offset: None,
                in_flight: 1,
                outcome: Outcome::Ok,
                pushed_back: false,
                late_cause,
                target: 0,
                integrity: ioecho_trace::Integrity::Unchecked,
                behind: 0,
                flow: 0,
            });
            batch.push(&request);
        }
        let mut picture = RunPicture::new();
        picture.observe(&batch);
        let rows = requests(&Page { picture, ..Page::default() }).rows;
        let late: Vec<_> = rows.iter().filter(|(name, _)| name.contains("later")).collect();
        let shown = |cause: &str| (format!("later than 1 ms: {cause}"), "1 (25.000 %)".to_owned());
        assert_eq!(late, [&shown("unexplained"), &shown("slow submission")]);
    }

    #[test]
    fn a_picture_of_nothing_has_no_percentiles() {
        assert!(percentiles(&Page::default()).is_empty());
        assert_eq!(requests(&Page::default()).rows[0].1, "0");
    }
}
