//! The ring of what was about to be written, in a file of the run's directory.
//!
//! What a `write` has handed to the kernel outlives the process, and that is all that is asked for:
//! nothing waits for a disk. The room is taken at the start, so that a disk that fills up later
//! takes none of it. A ring that can no longer be written is emptied: half a truth would raise
//! false alarms.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ioecho_replay::Io;
use ioecho_replay::verify::{
    INTENT_BYTES, INTENTS_HEADER_BYTES, INTENTS_MAX, Intent, Intents, IntentsHeader, RingSlots,
};
use ioecho_trace::{Nanos, Outcome};

use crate::exit::{self, Coded};

/// A ring that is written while a run goes on.
#[derive(Debug)]
pub(crate) struct RingFile {
    file: File,
    slots: RingSlots,
    broken: bool,
}

impl RingFile {
    /// Makes the ring of a target at `path`, for requests with tags below `tags`.
    pub(crate) fn create(path: &Path, run: u64, target: u16, tags: u32) -> anyhow::Result<Self> {
        let make = || -> io::Result<File> {
            let mut file = File::create_new(path)?;
            file.write_all(&IntentsHeader { run, slots: INTENTS_MAX, target }.encode())?;
            io::copy(
                &mut io::repeat(0).take(u64::from(INTENTS_MAX) * INTENT_BYTES as u64),
                &mut file,
            )?;
            Ok(file)
        };
        let file = make().map_err(|error| {
            let text = format!(
                "cannot write {}: {error}\n  = help: verification takes 16 MiB in the run's \
                 directory for what is under way; name another with -o",
                path.display()
            );
            Coded::error(exit::OUTPUT, text)
        })?;
        Ok(Self { file, slots: RingSlots::new(tags), broken: false })
    }

    fn put(&mut self, slot: Option<(u32, [u8; INTENT_BYTES])>) {
        if self.broken {
            return;
        }
        let written = slot.is_some_and(|(slot, bytes)| {
            let at = INTENTS_HEADER_BYTES as u64 + u64::from(slot) * INTENT_BYTES as u64;
            self.file.write_all_at(&bytes, at).is_ok()
        });
        if !written {
            self.broken = true;
            let _ = self.file.set_len(0);
        }
    }
}

impl Intents for RingFile {
    fn note(&mut self, io: &Io, now: Nanos) {
        let slot = self.slots.note(io, now);
        self.put(slot);
    }

    fn acknowledge(&mut self, io: &Io, completed: Nanos, outcome: Outcome) {
        let slot = self.slots.acknowledge(io, completed, outcome);
        self.put(slot);
    }
}

/// What a ring holds, by the numbers of the requests; `None` if it is not there, or not of this run
/// and target.
pub(crate) fn read(path: &Path, run: u64, target: u16) -> Option<Vec<Intent>> {
    let mut file = io::BufReader::new(File::open(path).ok()?);
    let mut header = [0; INTENTS_HEADER_BYTES];
    file.read_exact(&mut header).ok()?;
    let header = IntentsHeader::decode(&header)?;
    if (header.run, header.target) != (run, target) {
        return None;
    }
    let mut intents = Vec::new();
    let mut slot = [0; INTENT_BYTES];
    for _ in 0..header.slots {
        file.read_exact(&mut slot).ok()?;
        intents.extend(Intent::decode(&slot));
    }
    intents.sort_unstable_by_key(|intent| (intent.request, intent.order));
    Some(intents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Flags, Op};

    fn io(tag: u32, request: u64) -> Io {
        Io {
            tag,
            request,
            scheduled: Nanos(0),
            op: Op::Write,
            flags: Flags::empty(),
            offset: Bytes(0),
            length: Bytes(512),
        }
    }

    #[test]
    fn what_was_noted_and_acknowledged_is_read_by_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let mut ring = RingFile::create(&path, 7, 1, 4).unwrap();
        ring.note(&io(0, 5), Nanos(1));
        ring.note(&io(1, 3), Nanos(2));
        ring.acknowledge(&io(0, 5), Nanos(9), Outcome::Ok);
        let intents = read(&path, 7, 1).unwrap();
        let told: Vec<_> = intents.iter().map(|i| (i.request, i.acknowledged)).collect();
        assert_eq!(told, [(3, None), (5, Some((Nanos(9), Outcome::Ok)))]);
        assert_eq!(read(&path, 8, 1), None);
        assert_eq!(read(&path, 7, 0), None);
        // A slot that was written in part is no intent.
        ring.file.write_all_at(&[0xFF; 10], INTENTS_HEADER_BYTES as u64).unwrap();
        assert_eq!(read(&path, 7, 1).unwrap().len(), 1);
    }
}
