//! The recorder's log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::error::TraceError;
use crate::formats::blktrace::gaps::Gaps;
use crate::recording::{Anchor, Cost, Entry, LOG_FILE, Totals};

/// The longest line in bytes; no recorder writes a longer one.
const LINE_MAX: u64 = 1 << 20;

/// The largest number of entries of each kind that are kept.
const ENTRIES_MAX: usize = 1 << 16;

/// The largest number of processors; Linux can be built for this many (`NR_CPUS`).
const CPUS_MAX: usize = 1 << 13;

/// Margin: a recording that ended has no event earlier than a second before its beginning, or later
/// than a second after its last entry.
const SLACK_NS: u64 = 1_000_000_000;

/// Margin after the last entry of a killed recorder, a day: it notes the time every minute, but the
/// last notes may never have reached the disk.
const UNENDED_NS: u64 = 86_400_000_000_000;

/// The notes of a recorder.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) anchors: Vec<Anchor>,
    /// The gaps of each processor.
    lost: BTreeMap<u32, Gaps>,
    pub(super) cost: Option<Cost>,
    pub(super) processes: Vec<(u32, String)>,
    /// The instant at which events were switched off.
    pub(super) ending: Option<u64>,
    /// The reason why the recording ended, and the instant of the end.
    pub(super) stopped: Option<(String, u64)>,
    /// Whether the user asked for the end.
    pub(super) asked: Option<bool>,
    totals: Vec<Totals>,
    /// The number of lines that are no entries.
    pub(super) broken: u64,
}

impl Log {
    /// Reads the log of a recording. A missing log is an empty one.
    pub(super) fn read(directory: &Path) -> Result<Self, TraceError> {
        let path = directory.join(LOG_FILE);
        match path.try_exists() {
            Ok(true) => expect_file(&path)?,
            Ok(false) => return Ok(Self::default()),
            Err(error) => return Err(TraceError::read(&path, error)),
        }
        let file = File::open(&path).map_err(|error| TraceError::read(&path, error))?;
        Self::of(BufReader::new(file)).map_err(|error| TraceError::read(&path, error))
    }

    fn of(mut reader: impl BufRead) -> io::Result<Self> {
        let (mut log, mut line) = (Self::default(), Vec::new());
        loop {
            line.clear();
            let read = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(log);
            }
            match serde_json::from_slice::<Entry>(&line) {
                Ok(entry) => log.add(entry),
                // Unknown entries of later versions are ignored.
                Err(_) if serde_json::from_slice::<serde_json::Value>(&line).is_ok() => {}
                Err(_) => log.broken += 1,
            }
        }
    }

    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Anchor(anchor) if self.anchors.len() < ENTRIES_MAX => self.anchors.push(anchor),
            Entry::Lost { cpu, events, from_ns, to_ns }
                if self.lost.len() < CPUS_MAX || self.lost.contains_key(&cpu) =>
            {
                self.lost.entry(cpu).or_default().add(from_ns, to_ns, events);
            }
            Entry::Cost { cpu_ns, wall_ns, bytes } => {
                self.cost = Some(Cost { cpu_ns, wall_ns, bytes });
            }
            Entry::Process { pid, name } if self.processes.len() < ENTRIES_MAX => {
                self.processes.push((pid, name));
            }
            Entry::Ending { monotonic_ns } => self.ending = Some(monotonic_ns),
            Entry::Stopped { why, asked, monotonic_ns, cpus } => {
                (self.stopped, self.asked) = (Some((why, monotonic_ns)), asked);
                self.totals = cpus;
            }
            _ => {}
        }
    }

    /// The processors with counted events, read or lost.
    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> {
        let counted = self.totals.iter().filter(|totals| totals.read > 0 || totals.lost > 0);
        counted.map(|totals| totals.cpu).chain(self.lost.keys().copied())
    }

    /// The number of events that a processor recorded, and the instant at which they were counted;
    /// `None` if the recorder ended before.
    pub(super) fn counted(&self, cpu: u32) -> Option<(u64, u64)> {
        let totals = self.totals.iter().find(|totals| totals.cpu == cpu)?;
        Some((totals.read, self.stopped.as_ref()?.1))
    }

    /// The instant at which events were switched on, the recorder's first note; `None` if the
    /// recorder ended before.
    pub(super) fn began(&self) -> Option<u64> {
        self.anchors.first().map(|anchor| anchor.monotonic_ns)
    }

    /// The latest instant in the notes; 0 if there are none.
    pub(super) fn last(&self) -> u64 {
        let stopped = self.stopped.as_ref().map(|stopped| stopped.1);
        let anchor = self.anchors.last().map(|anchor| anchor.monotonic_ns);
        let lost = self.lost.values().flat_map(Gaps::stretches).map(|stretch| stretch.to);
        stopped.into_iter().chain(anchor).chain(lost).max().unwrap_or(0)
    }

    /// The first and the last instant at which events may have been recorded; `started` is the
    /// start according to the description.
    pub(super) fn times(&self, started: Option<Anchor>) -> (u64, u64) {
        let first = started.map(|anchor| anchor.monotonic_ns);
        let slack = if self.stopped.is_some() { SLACK_NS } else { UNENDED_NS };
        let last = self.last();
        let last = if last > 0 { last.saturating_add(slack) } else { u64::MAX };
        (first.map_or(0, |first| first.saturating_sub(SLACK_NS)), last)
    }

    /// The gaps of a processor, as the recorder counted them.
    pub(super) fn gaps(&self, cpu: u32) -> Gaps {
        let mut gaps = self.lost.get(&cpu).cloned().unwrap_or_default();
        let total = self.totals.iter().find(|totals| totals.cpu == cpu);
        let more = total.map_or(0, |totals| totals.lost.saturating_sub(gaps.events()));
        if more > 0 {
            // The instants of these losses are not noted.
            let from = self.anchors.first().map_or(0, |anchor| anchor.monotonic_ns);
            gaps.add(from, self.stopped.as_ref().map_or(from, |stopped| stopped.1), more);
        }
        gaps
    }

    /// The wall clock (nanoseconds since 1970) at an instant, by the last pair of clocks before.
    pub(super) fn wall(&self, monotonic_ns: u64) -> Option<i64> {
        let before = self.anchors.iter().rfind(|anchor| anchor.monotonic_ns <= monotonic_ns);
        let anchor = before.or(self.anchors.first())?;
        let since = i128::from(monotonic_ns) - i128::from(anchor.monotonic_ns);
        i64::try_from(i128::from(anchor.wall_ns) + since).ok()
    }
}

/// Makes sure that `path` is a file before it is opened: opening a FIFO would wait for a writer.
pub(super) fn expect_file(path: &Path) -> Result<(), TraceError> {
    let metadata = fs::metadata(path).map_err(|error| TraceError::read(path, error))?;
    if metadata.is_file() {
        return Ok(());
    }
    Err(TraceError::Unusable {
        path: path.to_owned(),
        reason: "it is no regular file, and no recorder made it".to_owned(),
        remedy: "take it out of the recording's directory".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::blktrace::gaps::Stretch;

    #[test]
    fn a_log_is_read_with_what_is_not_known_and_with_a_torn_end() {
        let text = concat!(
            r#"{"entry":"anchor","monotonic_ns":100,"wall_ns":1000}"#,
            "\n",
            r#"{"entry":"weather","is":"fine"}"#,
            "\n",
            r#"{"entry":"lost","cpu":1,"events":5,"from_ns":110,"to_ns":120}"#,
            "\n",
            r#"{"entry":"anchor","monotonic_ns":200,"wall_ns":2000}"#,
            "\n",
            r#"{"entry":"stopped","why":"asked","monotonic_ns":300,"#,
            r#""cpus":[{"cpu":1,"read":9,"lost":7}]}"#,
            "\n",
            r#"{"entry":"anch"#,
        );
        let log = Log::of(text.as_bytes()).unwrap();
        let gaps = log.gaps(1);
        let stretch = |from, to, events| Stretch { from, to, events };
        assert_eq!(gaps.stretches(), [stretch(110, 120, 5), stretch(100, 300, 2)]);
        assert!(log.gaps(0).stretches().is_empty());
        assert_eq!(log.broken, 1);
        assert_eq!(log.wall(150), Some(1050));
        assert_eq!(log.wall(250), Some(2050));
        assert_eq!(log.wall(50), Some(950));
        assert_eq!(log.stopped, Some(("asked".to_owned(), 300)));
    }

    #[test]
    fn a_recording_has_a_first_and_a_last_instant() {
        let started = Some(Anchor { monotonic_ns: 5 * SLACK_NS, wall_ns: 0 });
        let mut log = Log::default();
        assert_eq!(log.times(None), (0, u64::MAX));
        assert_eq!(log.times(started), (4 * SLACK_NS, u64::MAX));
        log.anchors.push(Anchor { monotonic_ns: 6 * SLACK_NS, wall_ns: 0 });
        assert_eq!(log.times(started).1, 6 * SLACK_NS + UNENDED_NS);
        log.stopped = Some(("asked".to_owned(), 7 * SLACK_NS));
        assert_eq!(log.times(started), (4 * SLACK_NS, 8 * SLACK_NS));
        log.stopped = Some(("asked".to_owned(), u64::MAX));
        assert_eq!(log.times(started).1, u64::MAX);
    }

    #[test]
    fn whatever_one_processor_loses_the_losses_of_another_are_kept() {
        let line = |cpu, from_ns| {
            let entry = Entry::Lost { cpu, events: 1, from_ns, to_ns: from_ns + 1 };
            serde_json::to_string(&entry).unwrap() + "\n"
        };
        let mut text: String = (0..70_000).map(|from_ns| line(0, from_ns)).collect();
        text += &line(1, 70_000);
        text += r#"{"entry":"stopped","why":"asked","monotonic_ns":80000,"#;
        text += r#""cpus":[{"cpu":0,"read":9,"lost":70000},{"cpu":1,"read":9,"lost":1}]}"#;
        let log = Log::of(text.as_bytes()).unwrap();
        let stretches = [Stretch { from: 70_000, to: 70_001, events: 1 }];
        assert_eq!(log.gaps(1).stretches(), stretches);
        let gaps = log.gaps(0);
        assert_eq!((gaps.events(), gaps.stretches().last().unwrap().to), (70_000, 70_000));
        assert_eq!(log.cpus().filter(|cpu| *cpu == 1).count(), 2);
    }
}
