//! All rows of an analysis.
//!
//! Figures that cannot be put together from rows (levels in flight at a cut, runs, dispersion) are
//! not here: they need the whole analysis of each part.

use ioecho_trace::Header;
use ioecho_trace::log_linear::greatest;

use super::all::{Analysis, Time};
use super::breakdown::Share;
use super::event::Group;
use super::row::{How, Row, signed};
use super::shape::Series;
use crate::histogram::THREE_DIGITS;

const OPS: [&str; 3] = ["read", "write", "other"];

impl Analysis {
    /// Hands every row to `take`; those with nothing in them are left out.
    pub fn rows(&self, mut take: impl FnMut(Row)) {
        let mut give = |row: Row| {
            if row.counts() {
                take(row);
            }
        };
        let (time, space) = (self.time(), self.space());
        rows_of_seconds(time, &mut give);
        rows_of_spans(time, &mut give);
        rows_of_shares(time, &mut give);
        rows_of_levels(time, &mut give);
        for (volume, first_ns, last_ns) in time.arrivals().stretches() {
            let of = |metric, ns: i64| Row { value: ns, ..Row::sum(metric, 0).volume(volume) };
            give(of("first_ns", first_ns).how(How::Min));
            give(of("last_ns", last_ns).how(How::Max));
        }
        for (least, count) in time.arrivals().gaps_filled() {
            give(Row::sum("gap.log10", count).key(least));
        }
        space.sizes().rows(&mut give);
        space.order().rows(&mut give);
        space.places().rows(&mut give);
    }
}

fn rows_of_seconds(time: &Time, give: &mut impl FnMut(Row)) {
    let width_ns = time.seconds().width_s() as i64 * 1_000_000_000;
    for (at, second) in time.seconds().filled() {
        let time_ns = width_ns.saturating_mul(at as i64);
        let row = |metric, value| Row::sum(metric, value).within(time_ns, width_ns);
        let [demanded @ .., pushed_demanded] = second.demanded;
        let [achieved @ .., pushed_achieved] = second.achieved;
        for (op, amount) in OPS.into_iter().zip(demanded) {
            give(row("demanded.requests", amount.requests).op(op));
            give(row("demanded.bytes", amount.bytes).op(op));
        }
        give(row("demanded.pushed.requests", pushed_demanded.requests));
        give(row("demanded.pushed.bytes", pushed_demanded.bytes));
        for (op, amount) in OPS.into_iter().zip(achieved) {
            give(row("achieved.requests", amount.requests).op(op));
            give(row("achieved.bytes", amount.bytes).op(op));
        }
        give(row("achieved.pushed.requests", pushed_achieved.requests));
        give(row("achieved.pushed.bytes", pushed_achieved.bytes));
        for (op, spans) in OPS.into_iter().zip(second.service) {
            give(row("service.count", spans.count).op(op));
            give(row("service.sum_ns", spans.sum_ns).op(op));
            if spans.count > 0 {
                give(row("service.max_ns", spans.max_ns).op(op).how(How::Max));
            }
        }
        give(row("lateness.count", second.lateness.count));
        give(row("lateness.sum_ns", second.lateness.sum_ns));
        if second.lateness.count > 0 {
            give(row("lateness.max_ns", second.lateness.max_ns).how(How::Max));
        }
        give(row("failed.requests", second.failed));
    }
}

fn rows_of_spans(time: &Time, give: &mut impl FnMut(Row)) {
    for group in Group::ALL {
        for (metric, spans) in time.spans().named(group) {
            for (bin, count) in spans.filled() {
                let row = Row::sum(metric, count).op(group.word());
                give(row.key(greatest::<THREE_DIGITS>(bin)));
            }
        }
    }
}

fn rows_of_shares(time: &Time, give: &mut impl FnMut(Row)) {
    let mut each = |share: &Share, requests: &'static str, bytes: &'static str, of_volume| {
        let of = |row: Row| match share.id {
            Some(id) if of_volume => row.volume(id),
            Some(id) => row.key(u64::from(id)),
            None => row,
        };
        for (op, amount) in OPS.into_iter().zip([share.reads, share.writes]) {
            give(of(Row::sum(requests, amount.requests).op(op)));
            give(of(Row::sum(bytes, amount.bytes).op(op)));
        }
        give(of(Row::sum(requests, share.other).op("other")));
    };
    let (header, breakdown) = (Header::default(), time.breakdown());
    for share in breakdown.of_volumes(&header, usize::MAX) {
        each(&share, "volume.requests", "volume.bytes", true);
    }
    for share in breakdown.of_processes(&header, usize::MAX) {
        each(&share, "process.requests", "process.bytes", false);
    }
}

/// The most in flight and waiting on one volume, of which the levels at the beginning of a part are
/// not known.
fn rows_of_levels(time: &Time, give: &mut impl FnMut(Row)) {
    let figures = time.flight().figures();
    let mut each = |metric, series: &Series| {
        for (at, most) in series.values.iter().enumerate() {
            let Some(most) = most.filter(|most| *most > 0.0) else { continue };
            let step = signed(at as u64).saturating_mul(series.step_ns);
            let row = Row::sum(metric, most as u64).how(How::Max);
            give(row.within(series.start_ns.saturating_add(step), series.step_ns));
        }
    };
    // The last one is of all requests.
    figures.in_flight_most.last().into_iter().for_each(|of| each("in_flight", &of.series));
    figures.waiting_most.iter().for_each(|series| each("waiting", series));
}
