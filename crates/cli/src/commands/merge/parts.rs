//! Merges parts of a trace.
//!
//! Parts that were cut by time must be merged in the order of time; parts by volume may be merged
//! in any order. Sorting them by their first requests is right for both, whatever the order of the
//! names. Their footers tell those, so only one part is in memory beside the whole, however many
//! there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_trace::header::Imported;
use ioecho_trace::{Header, Nanos};

use super::rows;
use crate::args::PartialArg;
use crate::commands::analyze::part::{self, Counted};
use crate::exit::{self, Coded};
use crate::outputs::Gate;

/// Merges the parts at `inputs` into `output`.
pub(crate) fn run(inputs: &[PathBuf], output: &Path, gate: &Gate) -> anyhow::Result<u8> {
    let mut ordered = Vec::with_capacity(inputs.len());
    let mut kinds: [Option<&Path>; 2] = [None; 2];
    for input in inputs {
        let part = part::open(input)?.ok_or_else(|| part::is_none(input))?;
        kinds[usize::from(part.is_rows())].get_or_insert(input);
        ordered.push((part.first_ns()?.unwrap_or(i64::MAX), input.as_path()));
    }
    ordered.sort_by_key(|(first_ns, _)| *first_ns);
    let ordered: Vec<&Path> = ordered.into_iter().map(|(_, input)| input).collect();
    match kinds {
        [Some(all), Some(rows)] => {
            let text = format!(
                "{} has rows alone, {} has more\n  = help: analyse one of them again as the other, \
                 or take the rows of each by `ioecho analyze PART --partial=rows -o ROWS`",
                rows.display(),
                all.display()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        [None, _] => rows::merge(&ordered, output, gate)?,
        [Some(_), None] => {
            if let Some(whole) = whole(&ordered)? {
                part::write(gate, output, &whole, PartialArg::All)?;
            }
        }
    }
    Ok(exit::OK)
}

fn whole(inputs: &[&Path]) -> anyhow::Result<Option<Counted>> {
    let mut whole: Option<(&Path, Counted)> = None;
    for input in inputs {
        let part = part::read(input)?.ok_or_else(|| part::is_none(input))?;
        let Some((first, merged)) = &mut whole else {
            whole = Some((input, part));
            continue;
        };
        if merged.analysis.settings() != part.analysis.settings() {
            let text = format!(
                "{} and {} were made with different --windows\n  = help: analyse one of them again \
                 with the windows of the other",
                first.display(),
                input.display()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        if merged.trace != part.trace {
            let text = format!(
                "{} is of the trace {}, {} of the trace {}\n  = help: if they are parts of one \
                 trace, analyse them with the same --trace NAME",
                first.display(),
                merged.trace,
                input.display(),
                part.trace
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        let mut covered: Covered = Covered::default();
        for (volume, _, last_ns) in merged.analysis.time().arrivals().stretches() {
            covered.learn(&merged.trace, volume, last_ns);
        }
        for (volume, first_ns, last_ns) in part.analysis.time().arrivals().stretches() {
            covered.refuse_overlap(&part.trace, volume, (first_ns, last_ns), input)?;
        }
        merged.analysis.merge(&part.analysis);
        learn(&mut merged.header, part.header);
    }
    Ok(whole.map(|(_, merged)| merged))
}

/// Until when the parts so far go, by trace and volume.
#[derive(Default)]
pub(super) struct Covered(BTreeMap<(String, u32), i64>);

impl Covered {
    pub(super) fn learn(&mut self, trace: &str, volume: u32, last_ns: i64) {
        let until = self.0.entry((trace.to_owned(), volume)).or_insert(last_ns);
        *until = last_ns.max(*until);
    }

    /// Refuses a part that covers a time on a volume which another part covers already. Its
    /// requests would count twice.
    pub(super) fn refuse_overlap(
        &self,
        trace: &str,
        volume: u32,
        (first_ns, last_ns): (i64, i64),
        input: &Path,
    ) -> anyhow::Result<()> {
        let Some(until_ns) = self.0.get(&(trace.to_owned(), volume)).copied() else {
            return Ok(());
        };
        // Two parts may both have requests at the instant of the cut. But a part that covers a
        // single instant may not lie within another.
        if first_ns < until_ns || (first_ns == until_ns && first_ns == last_ns) {
            let text = format!(
                "{} begins at {:.9} s on volume {volume}, where another part goes on to {:.9} s: \
                 its requests would count twice\n  = help: name each part once, and parts that \
                 were cut at the same instants",
                input.display(),
                Nanos(first_ns).as_secs_f64(),
                Nanos(until_ns).as_secs_f64()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        Ok(())
    }
}

/// Adds volumes and processes that are not known yet, damage, and what a reader went through, lost
/// and guessed. The history of a part, such as the window that cut it out, is not the history of
/// the whole.
pub(super) fn learn(known: &mut Header, other: Header) {
    let alike = known.transforms.iter().zip(&other.transforms).take_while(|(a, b)| a == b).count();
    known.transforms.truncate(alike);
    // Readers of parts of one file began at its beginning, and one of them went the furthest.
    let of_one_file = known.source == other.source;
    known.imported = match (known.imported.take(), other.imported) {
        (Some(mine), Some(theirs)) if of_one_file => {
            Some(if mine.units < theirs.units { theirs } else { mine })
        }
        (Some(mine), Some(theirs)) if mine.unit == theirs.unit => Some(Imported {
            units: mine.units.saturating_add(theirs.units),
            requests: mine.requests.saturating_add(theirs.requests),
            unit: mine.unit,
        }),
        (mine, theirs) => mine.or(theirs),
    };
    let notes = [(&mut known.losses, &other.losses), (&mut known.guesses, &other.guesses)];
    for (mine, theirs) in notes {
        if of_one_file {
            mine.catch_up(theirs);
        } else {
            theirs.iter().for_each(|note| mine.add_note(note));
        }
    }
    for volume in other.volumes {
        if known.volumes.iter().all(|mine| mine.id != volume.id) {
            known.volumes.push(volume);
        }
    }
    for (pid, name) in other.processes {
        known.processes.entry(pid).or_insert(name);
    }
    if known.damage.is_none() {
        (known.damage, known.damage_kind) = (other.damage, other.damage_kind);
    }
}
