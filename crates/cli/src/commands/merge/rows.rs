//! Merges parts that have rows alone, of one trace or of many: what a query would do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ioecho_stats::analysis::row::{Folded, Row};
use ioecho_stats::analysis::sketches::Distinct;
use ioecho_trace::Header;

use super::parts::{Covered, learn};
use crate::commands::analyze::part::{self, Footer, Stored};
use crate::outputs::Gate;

/// What is known of a trace.
#[derive(Default)]
struct OfTrace {
    rows: Folded,
    distinct: Distinct,
}

/// Merges parts, those that begin first being the first.
pub(super) fn merge(inputs: &[&Path], output: &Path, gate: &Gate) -> anyhow::Result<()> {
    let mut traces: BTreeMap<String, OfTrace> = BTreeMap::new();
    let (mut covered, mut header, mut first_ns) = (Covered::default(), None, None);
    for input in inputs {
        let part = part::open(input)?.ok_or_else(|| part::is_none(input))?;
        first_ns = first_ns.or(part.first_ns()?);
        match &mut header {
            None => header = Some(part.header()?),
            Some(known) => learn(known, part.header()?),
        }
        let mut stretches: BTreeMap<(String, u32), (i64, i64)> = BTreeMap::new();
        part.each(|stored| match stored {
            Stored::Row { trace, row } => {
                note_stretch(&mut stretches, &trace, &row);
                traces.entry(trace).or_default().rows.add(row);
                true
            }
            Stored::Pages { trace, of, span, sketch } => {
                traces.entry(trace).or_default().distinct.add(of, span, &sketch)
            }
        })?;
        for ((trace, volume), stretch) in &stretches {
            covered.refuse_overlap(trace, *volume, *stretch, input)?;
        }
        for ((trace, volume), (_, last_ns)) in stretches {
            covered.learn(&trace, volume, last_ns);
        }
    }
    // Of many traces there is no one header.
    let names: BTreeSet<&str> = traces.keys().map(String::as_str).collect();
    let header = header.filter(|_| names.len() == 1).unwrap_or_default();
    let trace = names.first().copied().filter(|_| names.len() == 1).map(str::to_owned);
    write(gate, output, (trace.as_deref(), &header, first_ns), traces)
}

fn write(
    gate: &Gate,
    output: &Path,
    (trace, header, first_ns): (Option<&str>, &Header, Option<i64>),
    traces: BTreeMap<String, OfTrace>,
) -> anyhow::Result<()> {
    let footer = Footer { trace, header, first_ns };
    part::write_table(gate, output, &footer, None, |table| {
        for (trace, of) in traces {
            table.distinct(&trace, &of.distinct)?;
            for row in of.rows.into_rows() {
                table.row(&trace, &row)?;
            }
        }
        Ok(())
    })
}

/// Notes from when to when requests of a volume were due.
fn note_stretch(stretches: &mut BTreeMap<(String, u32), (i64, i64)>, trace: &str, row: &Row) {
    let Some(volume) = row.volume else { return };
    let is_first = row.metric == "first_ns";
    if !is_first && row.metric != "last_ns" {
        return;
    }
    let entry = stretches.entry((trace.to_owned(), volume));
    let stretch = entry.or_insert((row.value, row.value));
    if is_first {
        stretch.0 = row.value;
    } else {
        stretch.1 = row.value;
    }
}
