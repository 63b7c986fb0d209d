//! Selecting requests by an expression.
//!
//! `op = write and offset in 1G..2G and not latency < 10ms`: every selection is a little different,
//! so there is a small language instead of many flags. An invalid expression is refused before
//! anything is read, with a mark below the place. If a request lacks a value, such as its latency,
//! every comparison with it is false.
//!
//! The way through: `crate::expression` (text → words with their places → joined questions) →
//! `language` (words → a checked question) → `evaluate` (a batch, column by column → which rows to
//! keep).

use self::evaluate::{Expression, Scratch};
use super::stage::known;
use super::{ArgumentError, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;
use crate::wording::Wording;

mod evaluate;
mod language;
#[cfg(test)]
mod tests;

/// `filter EXPR`.
pub const KIND: Kind = Kind {
    name: "filter",
    value: "EXPR",
    help: "Keep the requests of which EXPR is true, such as 'op in {read, write} and offset in \
           1G..2G and not (length < 4k or sync)'; it knows op, offset, length, end, time, latency, \
           pid, comm, cpu, volume, and the flags sync, fua, preflush, meta, readahead",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    // A line of provenance is one line.
    let text: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let expression =
        language::parse(&text).map_err(|fault| ArgumentError::new(fault.marked(&text)))?;
    Ok(Box::new(Filter { text, expression }))
}

#[derive(Clone, Debug)]
struct Filter {
    text: String,
    expression: Expression,
}

impl Transform for Filter {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let header = source.header();
        if let Some(what) = self.expression.asks_in_vain(header.columns) {
            return Err(TraceError::Asked {
                path: header.source.clone().into(),
                reason: format!("the filter asks for {what}, which this trace does not know")
                    .into(),
                remedy: Wording::default().command("info", "").text(" tells what a trace knows"),
            });
        }
        let (filter, scratch) = (self.clone(), Scratch::default());
        let mut filtered =
            Filtered { source, filter, scratch, keep: Vec::new(), header: Header::default() };
        filtered.take_header();
        Ok(Box::new(filtered))
    }
}

struct Filtered {
    source: Box<dyn Source>,
    filter: Filter,
    scratch: Scratch,
    keep: Vec<bool>,
    header: Header,
}

impl Filtered {
    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        self.filter.expression.resolve(&self.header);
        self.header.transforms.push(format!("{} {}", KIND.name, self.filter.text));
    }
}

impl Source for Filtered {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        loop {
            let more = self.source.next_batch(batch)?;
            // Names become known while the source is read.
            if !more || known(self.source.header()) != known(&self.header) {
                self.take_header();
            }
            if !more {
                return Ok(false);
            }
            self.filter.expression.evaluate(batch, &mut self.keep, &mut self.scratch);
            if self.keep.contains(&false) {
                batch.retain(&self.keep);
            }
            if !batch.is_empty() {
                return Ok(true);
            }
        }
    }
}
