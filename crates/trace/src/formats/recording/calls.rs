//! A raw recording of system calls, as a load on files.
//!
//! The way through: `lanes` (the events of all processors in the order of their time, by `layout`)
//! → `pairing` (a call's beginning and its return become a call that has returned, whose
//! arguments are `numbers`) → [`crate::syscalls`], as for the text of strace.

mod lanes;
mod layout;
mod numbers;
mod pairing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::lanes::Lanes;
use self::layout::Layouts;
use self::pairing::Pairing;
use super::log::Log;
use crate::batch::Columns;
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::formats::import::{Epoch, Facts, Feed, Imported, Intake, Told};
use crate::header::{DamageKind, NoteKind, Topic};
use crate::recording::{Calls, DESCRIPTION_FILE, Description, Gap, Recording};
use crate::stream::Source;

/// Events that found no room.
const LOST: Topic<'static> =
    NoteKind::LostByRecorder.of("events lost by the recorder, and with them what calls did");

/// Opens a recording of calls.
pub(super) fn open(
    path: &Path,
    directory: &Path,
    (description, whose): (Description, Calls),
    log: Log,
    files: BTreeMap<u32, Vec<PathBuf>>,
    options: &ReadOptions,
) -> Result<Box<dyn Source>, TraceError> {
    let links = options.reads_dependencies();
    let facts = Facts {
        format: "recording",
        columns: Columns { latency: true, origin: true, measured: false, dependencies: links },
        epoch: Epoch::Unix,
        whole_seconds: false,
    };
    let layouts = Layouts::of(&description, &directory.join(DESCRIPTION_FILE))?;
    let anchor = log.anchors.first().copied().or(description.started).unwrap_or_default();
    let to_wall = i128::from(anchor.wall_ns) - i128::from(anchor.monotonic_ns);
    let lanes = Lanes::open(directory, layouts, files, &log, options.strict);
    let pairing = Pairing::new(whose, links, to_wall);
    let feed = Called { lanes, pairing, description, log, taken: 0, is_described: false };
    let remedy = "record a command that does something with files";
    Imported::open(feed, path, options, facts, remedy)
}

/// The calls of a recording.
struct Called {
    lanes: Lanes,
    pairing: Pairing,
    description: Description,
    log: Log,
    /// Events taken so far.
    taken: u64,
    is_described: bool,
}

impl Called {
    /// Tells of the recording what is known before its first event.
    fn describe(&mut self, intake: &mut Intake) {
        let (description, log) = (&self.description, &self.log);
        let end = match &log.stopped {
            Some((why, _)) => format!("ended because {why}"),
            None => "never ended: the recorder was killed or goes on".to_owned(),
        };
        let header = &mut intake.header;
        header.description = Some(format!(
            "recording of the file operations of a command through {} on Linux {}, {end}",
            description.interface.name(),
            description.kernel,
        ));
        header.recorder = Some(description.recorder.clone()).filter(|name| !name.is_empty());
        header.recording = Some(Recording {
            interface: description.interface,
            why: description.why.clone(),
            kernel: description.kernel.clone(),
            clock: description.clock.clone(),
            cost: log.cost,
            stopped: log.stopped.as_ref().map(|(why, _)| why.clone()),
            asked: log.asked,
            ..Recording::default()
        });
        let broken = NoteKind::Unreadable.of("broken lines of the recorder's log");
        header.losses.add(broken, log.broken, None);
    }

    /// Tells what only the end tells: names, gaps, damage.
    fn end(&mut self, intake: &mut Intake) {
        self.pairing.end(intake);
        let first = self.pairing.first.unwrap_or(0);
        let of_trace = |at: u64| i64::try_from(i128::from(at) - i128::from(first)).unwrap_or(0);
        let mut gaps = Vec::new();
        let mut lost = BTreeMap::new();
        for (cpu, of_cpu) in self.lanes.gaps() {
            if of_cpu.events() > 0 {
                lost.insert(cpu, of_cpu.events());
            }
            gaps.extend(of_cpu.stretches().iter().map(|stretch| Gap {
                from_ns: of_trace(stretch.from),
                to_ns: of_trace(stretch.to),
                events: stretch.events,
            }));
        }
        gaps.sort_by_key(|gap| gap.from_ns);
        intake.header.losses.add(LOST, lost.values().sum(), None);
        if let Some(facts) = &mut intake.header.recording {
            facts.zero_monotonic_ns = self.pairing.first;
            facts.from_ns = self.log.began().map(of_trace);
            facts.until_ns = self.log.ending.map(of_trace);
            (facts.lost, facts.gaps) = (lost, gaps);
        }
        let mut damages = self.lanes.damages();
        if self.log.stopped.is_none() {
            if damages.is_empty() {
                intake.header.damage_kind = DamageKind::NeverEnded;
            }
            damages.push(super::source::NEVER_ENDED.to_owned());
        }
        if !damages.is_empty() {
            intake.header.damage = Some(damages.join("; "));
        }
    }
}

impl Feed for Called {
    const UNIT: &'static str = "events";

    fn fill(&mut self, intake: &mut Intake, rows: usize) -> Result<bool, TraceError> {
        if !std::mem::replace(&mut self.is_described, true) {
            self.describe(intake);
        }
        while intake.rows() < rows {
            let Some(seen) = self.lanes.next()? else {
                self.end(intake);
                return Ok(false);
            };
            self.taken += 1;
            self.pairing.take(self.lanes.layouts(), &seen, intake);
        }
        Ok(true)
    }

    fn tell(&self, told: &mut Told) {
        self.pairing.tell(told);
    }

    fn units(&self) -> u64 {
        self.taken
    }
}
