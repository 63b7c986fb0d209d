//! Merges the counts of parts of a trace.
//!
//! Parts that were cut by time must be merged in the order of time; parts by volume may be merged
//! in any order. Sorting them by their first requests is right for both, whatever the order of the
//! names. Their footers tell those, so only one part is in memory beside the whole, however many
//! there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_stats::analysis::Analysis;
use ioecho_trace::{Header, Nanos};

use crate::commands::analyze::part;
use crate::exit::{self, Coded};
use crate::outputs::Gate;

/// Merges the parts at `inputs` into `output`.
pub(crate) fn run(inputs: &[PathBuf], output: &Path, gate: &Gate) -> anyhow::Result<u8> {
    let mut ordered = Vec::with_capacity(inputs.len());
    for input in inputs {
        let part = part::open(input)?.ok_or_else(|| part::is_none(input))?;
        ordered.push((part.first_ns()?.unwrap_or(i64::MAX), input));
    }
    ordered.sort_by_key(|(first_ns, _)| *first_ns);
    let mut whole: Option<(&Path, Analysis, Header)> = None;
    for (_, input) in ordered {
        let (analysis, header) = part::read(input)?.ok_or_else(|| part::is_none(input))?;
        let Some((first, merged, known)) = &mut whole else {
            whole = Some((input, analysis, header));
            continue;
        };
        if merged.settings() != analysis.settings() {
            let text = format!(
                "{} and {} were made with different --windows\n  = help: analyse one of them again \
                 with the windows of the other",
                first.display(),
                input.display()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        refuse_overlap(merged, &analysis, input)?;
        merged.merge(&analysis);
        learn(known, header);
    }
    if let Some((_, analysis, header)) = whole {
        part::write(gate, output, &analysis, &header)?;
    }
    Ok(exit::OK)
}

/// Refuses a part that covers a time on a volume which another part covers already. Its requests
/// would count twice.
fn refuse_overlap(merged: &Analysis, part: &Analysis, input: &Path) -> anyhow::Result<()> {
    let covered: BTreeMap<u32, i64> = merged
        .time()
        .arrivals()
        .stretches()
        .map(|(volume, _, last_ns)| (volume, last_ns))
        .collect();
    for (volume, first_ns, last_ns) in part.time().arrivals().stretches() {
        let Some(until_ns) = covered.get(&volume).copied() else { continue };
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
    }
    Ok(())
}

/// Adds volumes and processes that are not known yet, and damage. The history of a part, such as
/// the window that cut it out, is not the history of the whole.
fn learn(known: &mut Header, other: Header) {
    let alike = known.transforms.iter().zip(&other.transforms).take_while(|(a, b)| a == b).count();
    known.transforms.truncate(alike);
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
