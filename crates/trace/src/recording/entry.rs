//! The log of a recording: one line of JSON for each entry.
//!
//! Losses, costs and the wall clock become known only during the recording. A killed recorder
//! leaves at most one broken line, the last.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// One instant by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which is the clock of the events.
    pub monotonic_ns: u64,
    /// Nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub wall_ns: i64,
}

/// The counts of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of the processor.
    pub cpu: u32,
    /// The number of events that were read.
    pub read: u64,
    /// The number of events that the kernel had no room for.
    pub lost: u64,
}

/// A line of `log.jsonl`. Instants are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "lowercase")]
pub enum Entry {
    /// The two clocks: first, then every minute, and last.
    Anchor(Anchor),
    /// The kernel had no room for `events` events of a processor between two instants. They were
    /// lost since the processor's entry before; the number is never a running sum.
    Lost {
        /// The number of the processor.
        cpu: u32,
        /// The number of lost events.
        events: u64,
        /// The instant of the last look at the counter before it had grown.
        from_ns: u64,
        /// The instant of the look at which it had grown.
        to_ns: u64,
    },
    /// The resources that the recorder itself has used since its start.
    Cost {
        /// The processor time of all its threads, in nanoseconds.
        cpu_ns: u64,
        /// The time gone by, in nanoseconds.
        wall_ns: u64,
        /// The number of bytes written.
        bytes: u64,
    },
    /// The name of a process.
    Process {
        /// The number of the process.
        pid: u32,
        /// The name of the process.
        name: String,
    },
    /// A segment was begun.
    Segment {
        /// The number of the segment, from 0.
        number: u32,
        /// The instant at which the segment was begun.
        monotonic_ns: u64,
    },
    /// The events are switched off; later ones are not recorded.
    Ending {
        /// The instant at which the events are switched off.
        monotonic_ns: u64,
    },
    /// The recording was stopped; a recording without this line was killed.
    Stopped {
        /// The reason for the end, as a phrase.
        why: String,
        /// Whether the user asked for the end; earlier versions said so in the phrase alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<bool>,
        /// The instant of the end.
        monotonic_ns: u64,
        /// The counts of each processor.
        cpus: Vec<Totals>,
    },
}

impl Entry {
    /// Appends the entry as a line, in one write.
    pub fn append(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        out.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_and_reads_back() {
        let entries = [
            Entry::Anchor(Anchor { monotonic_ns: 1, wall_ns: -2 }),
            Entry::Lost { cpu: 1, events: 2, from_ns: 3, to_ns: 4 },
            Entry::Cost { cpu_ns: 1, wall_ns: 2, bytes: 3 },
            Entry::Process { pid: 4, name: "a\nb".to_owned() },
            Entry::Segment { number: 1, monotonic_ns: 9 },
            Entry::Ending { monotonic_ns: 6 },
            Entry::Stopped {
                why: "asked to".to_owned(),
                asked: Some(true),
                monotonic_ns: 7,
                cpus: vec![Totals { cpu: 0, read: 5, lost: 0 }],
            },
        ];
        let mut lines = Vec::new();
        for entry in &entries {
            entry.append(&mut lines).unwrap();
        }
        let text = String::from_utf8(lines).unwrap();
        let read: Vec<Entry> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, entries);
        assert!(text.starts_with(r#"{"entry":"anchor","monotonic_ns":1,"wall_ns":-2}"#), "{text}");
    }
}
