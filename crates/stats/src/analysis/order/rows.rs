//! Turns and seek distances as rows.

use super::Order;
use crate::analysis::kind::Kind;
use crate::analysis::row::Row;

impl Order {
    /// Hands out turns by second and seek distances. The first request of a part has no
    /// predecessor, so the rows of parts lack one for each volume and cut.
    pub(in crate::analysis) fn rows(&self, give: &mut impl FnMut(Row)) {
        let (start_ns, step_ns, turns) = self.tallies.turns_by_step();
        for (at, [reads, writes, all]) in turns.enumerate() {
            let time_ns = start_ns.saturating_add((at as i64).saturating_mul(step_ns));
            let row = |metric, value| Row::sum(metric, value).within(time_ns, step_ns);
            give(row("turns", all));
            give(row("turns.own", reads).op("read"));
            give(row("turns.own", writes).op("write"));
        }
        for (kind, metric, op) in [
            (Kind::All, "seek.log2", None),
            (Kind::Reads, "seek.log2.own", Some("read")),
            (Kind::Writes, "seek.log2.own", Some("write")),
        ] {
            for (least, count) in self.tallies.of(kind).distances() {
                let row = Row { key: Some(least), ..Row::sum(metric, count) };
                give(op.map_or(row.clone(), |op| row.op(op)));
            }
        }
    }
}
