//! Overload made of a natural load: its heaviest stretches first.
//!
//! A day's recording holds a few minutes that overload a storage, somewhere. blkreplay's
//! `create_derived_load` (its manual, section 5.1.2) cuts the recording into snippets of one
//! length, sorts them by the number of their requests, and deals them in turn to `n` outputs. Each
//! output begins with the heaviest load and declines from there, so that a storage first collapses
//! and then recovers; `n` of them replayed in parallel are uncorrelated and yet natural.
//!
//! As in blkreplay, a snippet begins with its first request, and the next one begins at the instant
//! of its last. Unlike in blkreplay, the last snippet is kept, though it is mostly shorter than the
//! others, and a pause makes no empty snippets.

use std::sync::Arc;

use super::parts::{self, Divide, PARTS_MAX, Parts};
use super::reverse::{forget_measured, note_forgotten};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::order::spill::{CHUNK_ROWS, Spill};
use crate::stream::Source;
use crate::units::{Nanos, decimal_seconds};
use crate::wording::Wording;

/// `derive N`.
pub const KIND: Kind = Kind {
    name: "derive",
    value: "N[,snippet=TIME][,pick=K]",
    help: "Cut the trace into snippets [5m], sort them by IOPS, and deal them to N loads, the \
           heaviest first (blkreplay's create_derived_load); pick one of them, or convert to \
           an output with {} in its name",
    spills: true,
    parse,
};

/// The length of a snippet where none is given, as in blkreplay.
const SNIPPET: Nanos = Nanos::from_secs(300);

/// The largest number of snippets: each is remembered.
const SNIPPETS_MAX: usize = 1 << 20;

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let outputs: usize = arguments.demand("the number of loads")?;
    let snippet = arguments.setting("snippet")?.unwrap_or(SNIPPET);
    let pick: Option<usize> = arguments.setting("pick")?;
    arguments.finish()?;
    if !(1..=PARTS_MAX).contains(&outputs) {
        return Err(ArgumentError::new(format!("the number of loads is 1 to {PARTS_MAX}")));
    }
    if pick.is_some_and(|pick| !(1..=outputs).contains(&pick)) {
        return Err(ArgumentError::new(format!("pick is one of the loads, 1 to {outputs}")));
    }
    if snippet <= Nanos::ZERO {
        return Err(ArgumentError::new("a snippet must be longer than nothing"));
    }
    let pick = pick.or((outputs == 1).then_some(1));
    Ok(Box::new(Derive { outputs, snippet, pick }))
}

#[derive(Clone, Copy, Debug)]
struct Derive {
    outputs: usize,
    snippet: Nanos,
    /// The number of the wanted load, counted from 1; `None` for all.
    pick: Option<usize>,
}

impl Transform for Derive {
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let Some(pick) = self.pick else {
            let outputs = self.outputs;
            let remedy =
                Wording::from("say which with ").set("derive", format!("{outputs},pick=1")).text(
                    format!(" (to pick={outputs}), or convert to an output with {{}} in its name"),
                );
            return Err(parts::refuse(source.header(), remedy));
        };
        let dealt = Dealt::deal(*self, source, context)?;
        Ok(Box::new(dealt.load(pick - 1)))
    }

    fn divide(&self) -> Option<&dyn Divide> {
        self.pick.is_none().then_some(self)
    }
}

impl Divide for Derive {
    fn divide(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Parts>, TraceError> {
        let dealt = Dealt::deal(*self, source, context)?;
        let load = dealt.load(0);
        Ok(Box::new(All { dealt, part: 0, load }))
    }
}

/// A stretch of the trace.
#[derive(Clone, Copy, Debug)]
struct Snippet {
    /// The number of the snippet in the trace.
    number: i64,
    row: u64,
    rows: u64,
    first: Nanos,
    last: Nanos,
}

/// The snippets, the heaviest first.
struct Dealt {
    derive: Derive,
    spill: Arc<Spill>,
    header: Header,
    snippets: Vec<Snippet>,
}

impl Dealt {
    fn deal(
        derive: Derive,
        mut source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Self, TraceError> {
        let spill = Spill::of(&mut source, &context.spill_directory)?;
        let mut header = source.header().clone();
        forget_measured(&mut header);
        note_forgotten(&mut header, KIND.name, spill.measured_rows());
        let mut snippets: Vec<Snippet> = Vec::new();
        let mut instants = Vec::new();
        for chunk in 0..spill.rows().div_ceil(CHUNK_ROWS) {
            spill.read_instants(chunk, &mut instants)?;
            for (row, &instant) in (chunk * CHUNK_ROWS..).zip(&instants) {
                let number = instant.div_euclid(derive.snippet.0);
                match snippets.last_mut() {
                    Some(last) if last.number == number => {
                        last.rows += 1;
                        last.last = Nanos(instant);
                    }
                    _ => {
                        let (first, last) = (Nanos(instant), Nanos(instant));
                        snippets.push(Snippet { number, row, rows: 1, first, last });
                    }
                }
            }
            if snippets.len() > SNIPPETS_MAX {
                return Err(TraceError::Unusable {
                    path: header.source.into(),
                    reason: format!("it would be cut into more than {SNIPPETS_MAX} snippets"),
                    remedy: Wording::from("make them longer: ").set("derive", "N,snippet=TIME"),
                });
            }
        }
        // Stable: of two equal snippets the earlier one comes first.
        snippets.sort_by_key(|snippet| std::cmp::Reverse(snippet.rows));
        Ok(Self { derive, spill: Arc::new(spill), header, snippets })
    }

    /// Load number `part`, counted from 0.
    fn load(&self, part: usize) -> Load {
        let dealt = self.snippets.iter().skip(part).step_by(self.derive.outputs);
        let mut snippets: Vec<_> = dealt.copied().collect();
        snippets.reverse();
        Load {
            spill: Arc::clone(&self.spill),
            header: self.header(part),
            snippets,
            done: 0,
            begin: Nanos::ZERO,
        }
    }

    fn header(&self, part: usize) -> Header {
        let mut header = self.header.clone();
        let Derive { outputs, snippet, .. } = self.derive;
        let (snippet, pick) = (decimal_seconds(snippet), part + 1);
        header.transforms.push(format!("derive {outputs},snippet={snippet}s,pick={pick}"));
        header
    }
}

/// One of the loads.
struct Load {
    spill: Arc<Spill>,
    header: Header,
    /// The snippets that are left, the next one last.
    snippets: Vec<Snippet>,
    /// The number of rows of the next snippet that were given.
    done: u64,
    /// The instant at which the next snippet begins.
    begin: Nanos,
}

impl Source for Load {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let Some(snippet) = self.snippets.last() else {
            batch.reset(self.header.columns);
            return Ok(false);
        };
        let from = snippet.row + self.done;
        self.done += self.spill.read(from, snippet.row + snippet.rows, batch)?;
        batch.measured = None;
        let moved = self.begin.saturating_sub(snippet.first).0;
        for issue in &mut batch.issue_ns {
            *issue = issue.saturating_add(moved);
        }
        if self.done == snippet.rows {
            let span = snippet.last.saturating_sub(snippet.first);
            self.begin = self.begin.saturating_add(span);
            self.snippets.pop();
            self.done = 0;
        }
        Ok(true)
    }
}

/// All loads, one after the other.
struct All {
    dealt: Dealt,
    part: usize,
    load: Load,
}

impl Parts for All {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<Option<usize>, TraceError> {
        while !self.load.next_batch(batch)? {
            self.part += 1;
            // Fewer snippets than loads leave some without any.
            if self.part == self.dealt.derive.outputs {
                return Ok(None);
            }
            self.load = self.dealt.load(self.part);
        }
        Ok(Some(self.part))
    }

    fn name(&self, part: usize) -> String {
        let width = self.dealt.derive.outputs.to_string().len();
        format!("{:0width$}", part + 1)
    }

    fn header(&self, part: usize) -> Header {
        self.dealt.header(part)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{made, refusal, trace, unmeasured};
    use super::*;
    use crate::{Op, Request};
    use proptest::prelude::*;

    /// The loads by the words of the manual, computed directly.
    fn expected(requests: &[Request], outputs: usize, snippet: i64, pick: usize) -> Vec<Request> {
        let mut snippets: Vec<Vec<Request>> = Vec::new();
        for request in requests {
            let number = request.issue.0 / snippet;
            match snippets.last_mut() {
                Some(last) if last[0].issue.0 / snippet == number => last.push(*request),
                _ => snippets.push(vec![*request]),
            }
        }
        snippets.sort_by_key(|snippet| std::cmp::Reverse(snippet.len()));
        let mut load: Vec<Request> = Vec::new();
        for snippet in snippets.iter().skip(pick - 1).step_by(outputs) {
            let begin = load.last().map_or(Nanos::ZERO, |last| last.issue);
            let first = snippet[0].issue;
            load.extend(
                snippet
                    .iter()
                    .map(|request| Request { issue: begin + (request.issue - first), ..*request }),
            );
        }
        load
    }

    proptest! {
        #[test]
        fn snippets_are_dealt_heaviest_first(
            gaps in proptest::collection::vec(0_i64..9, 0..200), outputs in 1_usize..5,
            pick in 0_usize..5, snippet in 1_i64..40, rows in 1_usize..50,
        ) {
            let mut now = 0;
            let requests: Vec<_> = gaps.iter().enumerate().flat_map(|(index, gap)| {
                now += gap;
                trace(&[(now, Op::Read, index as u64, 1)])
            }).collect();
            let pick = pick % outputs + 1;
            let line = format!("derive {outputs},snippet={snippet}s,pick={pick}");
            let (load, header) = made(&line, &requests, rows);
            let expected = expected(&requests, outputs, snippet * 1_000_000_000, pick);
            let offsets = |requests: &[Request]| {
                requests.iter().map(|r| (r.issue, r.offset)).collect::<Vec<_>>()
            };
            prop_assert_eq!(offsets(&unmeasured(&load)), offsets(&expected));
            prop_assert_eq!(&header.transforms[0], &line);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(refusal("derive"), "the number of loads is missing");
        assert_eq!(refusal("derive 0"), "the number of loads is 1 to 1000");
        assert_eq!(refusal("derive 3,pick=4"), "pick is one of the loads, 1 to 3");
        assert_eq!(refusal("derive 3,snippet=0s"), "a snippet must be longer than nothing");
    }

    #[test]
    fn several_loads_do_not_stand_where_one_is_wanted() {
        super::super::testing::with_context(&[], |context| {
            let asked: super::super::Asked = "derive 3".parse().unwrap();
            let given = Box::new(super::super::tests::Given::new(&[], 1));
            let error = super::super::apply(&[asked], given, context).err().unwrap().to_string();
            assert!(error.contains("pick=1"), "{error}");
        });
    }
}
