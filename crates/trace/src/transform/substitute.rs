//! Reads instead of writes, or the other way about.
//!
//! The same load with more writes is another load for any storage, and easily made: by blkreplay's
//! module `pipe_subst` for all requests, here for a share of them too. Which ones is decided by a
//! seed and their number, so that the same are chosen again.
//!
//! Flags that the new operation cannot have are removed: FUA from a read, read-ahead from a write.
//! The recorded latency is that of the other operation, so it becomes unknown.

use super::exact::{Percent, mix};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::{Batch, UNKNOWN};
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::request::{Flags, Op};
use crate::stream::Source;

/// The operations with a range of data, by the names that they can be given.
const NAMES: [(&str, Op); 8] = [
    ("read", Op::Read),
    ("R", Op::Read),
    ("write", Op::Write),
    ("W", Op::Write),
    ("discard", Op::Discard),
    ("D", Op::Discard),
    ("write-zeroes", Op::WriteZeroes),
    ("Z", Op::WriteZeroes),
];

/// `substitute OP=OP[,OP=OP…][,share=PERCENT][,seed=N]`.
pub const KIND: Kind = Kind {
    name: "substitute",
    value: "OP=OP[,OP=OP...][,share=PERCENT][,seed=N]",
    help: "Replace operations: read=write makes writes of reads, swap stands for \
           read=write,write=read; operations are read, write, discard and write-zeroes (or R, W, \
           D, Z); share= takes that part of them, by seed",
    spills: false,
    parse,
};

/// The note on latencies that became unknown with a new operation.
const UNKNOWN_NOW: Topic<'static> =
    NoteKind::Beside.of("latencies of requests that are another operation now");

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let mut to = Op::ALL;
    match arguments.value::<String>("what to replace")?.as_deref() {
        None => {}
        Some("swap") => {
            to[usize::from(Op::Read.code())] = Op::Write;
            to[usize::from(Op::Write.code())] = Op::Read;
        }
        Some(other) => {
            return Err(ArgumentError::new(format!(
                "'{other}' says nothing; write read=write, write=read or swap"
            )));
        }
    }
    for (name, from) in NAMES {
        let Some(op) = arguments.choice(name, &NAMES)? else { continue };
        let entry = &mut to[usize::from(from.code())];
        if *entry != from {
            return Err(ArgumentError::new(format!("'{}' is replaced twice", from.name())));
        }
        *entry = op;
    }
    let share = arguments.setting("share")?.unwrap_or(Percent::ALL);
    let seed = arguments.setting("seed")?.unwrap_or(0);
    arguments.finish()?;
    if to == Op::ALL {
        return Err(ArgumentError::new("what to replace is missing: read=write or swap"));
    }
    Ok(Box::new(Substitute { to, share, seed }))
}

/// Operations for operations.
#[derive(Clone, Copy, Debug)]
pub struct Substitute {
    /// For each operation, by its code, the one that takes its place.
    pub to: [Op; Op::ALL.len()],
    /// The share of them that is replaced.
    pub share: Percent,
    /// The seed that decides which ones are replaced.
    pub seed: u64,
}

impl Substitute {
    /// Whether the request of this number is among the chosen.
    #[inline]
    fn chooses(threshold: Option<u64>, key: u64, number: u64) -> bool {
        threshold.is_none_or(|threshold| mix(key ^ number) < threshold)
    }

    /// The flags that requests of this operation cannot have.
    fn without(op: Op) -> Flags {
        match op {
            Op::Read => Flags::FUA | Flags::PREFLUSH,
            Op::Write => Flags::READAHEAD,
            _ => Flags::FUA | Flags::PREFLUSH | Flags::READAHEAD,
        }
    }
}

impl Transform for Substitute {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        Ok(Box::new(Stage::new(source, Replaced { substitute: *self, number: 0, unknown: 0 })))
    }
}

struct Replaced {
    substitute: Substitute,
    /// The number of requests so far, of any operation.
    number: u64,
    /// Latencies that are no longer known.
    unknown: u64,
}

impl Step for Replaced {
    fn told(&self) -> String {
        let Substitute { to, share, seed } = &self.substitute;
        let replaced: Vec<_> = Op::ALL
            .iter()
            .zip(to)
            .filter(|(from, to)| from != to)
            .map(|(from, to)| format!("{}={}", from.name(), to.name()))
            .collect();
        let chosen = match share.threshold() {
            None => String::new(),
            Some(_) => format!(",share={share},seed={seed}"),
        };
        format!("substitute {}{chosen}", replaced.join(","))
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        header.losses.add(UNKNOWN_NOW, self.unknown, None);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let Substitute { to, share, seed } = &self.substitute;
        let (threshold, key) = (share.threshold(), mix(*seed));
        for row in 0..batch.len() {
            let op = to[usize::from(batch.op[row].code())];
            let number = self.number + row as u64;
            if op != batch.op[row] && Substitute::chooses(threshold, key, number) {
                batch.op[row] = op;
                batch.flags[row] -= Substitute::without(op);
                if let Some(latency) = &mut batch.latency_ns {
                    self.unknown += u64::from(latency[row] != UNKNOWN);
                    latency[row] = UNKNOWN;
                }
            }
        }
        self.number += batch.len() as u64;
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Bytes, Nanos, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_become_writes_and_writes_reads_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 0..100), rows in 1_usize..40,
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, header) = made("substitute swap", &requests, rows);
            let expected: Vec<_> = requests.iter().map(|request| {
                let request = Request { measured: None, ..*request };
                match request.op {
                    Op::Read => Request {
                        op: Op::Write,
                        flags: request.flags - Flags::READAHEAD,
                        latency: None,
                        ..request
                    },
                    Op::Write => Request {
                        op: Op::Read,
                        flags: request.flags - Flags::FUA - Flags::PREFLUSH,
                        latency: None,
                        ..request
                    },
                    _ => request,
                }
            }).collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(&header.transforms, &["substitute read=write,write=read"]);
        }
    }

    #[test]
    fn a_share_is_about_that_share_the_same_with_a_seed_and_another_with_another() {
        let request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
        let requests = vec![request; 100_000];
        let writes = |line| -> Vec<bool> {
            made(line, &requests, 8192).0.iter().map(|request| request.op == Op::Write).collect()
        };
        let one = writes("substitute R=W,share=30,seed=1");
        let count = one.iter().filter(|write| **write).count();
        // Five standard deviations.
        assert!(count.abs_diff(30_000) < 725, "{count}");
        assert_ne!(one, writes("substitute R=W,share=30,seed=2"));
        let (_, header) = made("substitute R=W,share=30%", &requests, 8192);
        assert_eq!(header.transforms, ["substitute read=write,share=30,seed=0"]);
    }

    #[test]
    fn which_requests_a_seed_chooses_never_changes() {
        let request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
        let (all, _) = made("substitute R=W,share=25,seed=7", &[request; 30], 8);
        let writes = all.iter().enumerate().filter(|(_, request)| request.op == Op::Write);
        let numbers: Vec<_> = writes.map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 7, 8, 12, 15, 16, 18, 19, 27, 29]);
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        assert!(refused("substitute").starts_with("what to replace is missing"));
        assert!(refused("substitute read").contains("write read=write"));
        assert!(refused("substitute R=flush").contains("none of read, R, write"));
        assert_eq!(refused("substitute read=write,R=D"), "'read' is replaced twice");
        assert_eq!(refused("substitute swap,W=D"), "'write' is replaced twice");
        assert!(refused("substitute flush=read").contains("there is no setting 'flush'"));
    }
}
