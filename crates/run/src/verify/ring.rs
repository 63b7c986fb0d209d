//! The ring of intended writes, in a file of the run's directory.
//!
//! Data that a `write` has passed to the kernel outlive the process, and that is sufficient where
//! nothing but a kill is to be survived: no thread waits for a disk. The notes of a step are
//! written together, with the acknowledgements before them; slots that follow each other are one
//! `write`. A durable ring is synced before the changes of a step are issued, so that a power cut
//! cannot take the notes; with it the next changes are announced, and the steps that issue these
//! wait for no disk. A step changes a few pages, and the file does not grow. The disk space
//! is allocated at the start, so a disk that fills later cannot affect it. A ring that can no
//! longer be written is emptied, because an incomplete ring would raise false alarms.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ioecho_replay::Io;
use ioecho_replay::verify::{
    INTENT_BYTES, INTENTS_HEADER_BYTES, INTENTS_MAX, Intent, Intents, IntentsHeader, NOTED_AHEAD,
    RingSlots,
};
use ioecho_trace::{JournalMode, Nanos, Outcome};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::regular;

/// Changes of a step for which there is room without another allocation.
const PENDING: usize = 4096;

/// A ring during a run.
#[derive(Debug)]
pub(crate) struct RingFile {
    file: File,
    slots: RingSlots,
    /// Slots that are to be written, numbered in the order of their changes.
    pending: Vec<(u32, usize, [u8; INTENT_BYTES])>,
    /// What is written at once.
    buffer: Vec<u8>,
    broken: bool,
    /// Whether the notes must survive a power cut.
    is_durable: bool,
    /// Whether there are notes that are not on the disk yet.
    is_dirty: bool,
}

impl RingFile {
    /// Creates the ring of a target at `path`, for requests with tags below `tags`.
    pub(crate) fn create(
        directory: &RunDirectory,
        path: &Path,
        run: u64,
        target: u16,
        tags: u32,
        journal: JournalMode,
    ) -> Result<Self> {
        let is_durable = journal.is_durable();
        let make = || -> io::Result<File> {
            let mut file = directory.new_file(path)?;
            let header = IntentsHeader { run, slots: INTENTS_MAX, target, is_durable };
            file.write_all(&header.encode())?;
            io::copy(
                &mut io::repeat(0).take(u64::from(INTENTS_MAX) * INTENT_BYTES as u64),
                &mut file,
            )?;
            if is_durable {
                file.sync_all()?;
                directory.sync()?;
            }
            Ok(file)
        };
        let file = make().map_err(|error| {
            let text = format!(
                "cannot write {}: {error}\n  = help: verification takes 16 MiB in the run's \
                 directory for what is under way; name another with -o",
                path.display()
            );
            RunError::new(Kind::Output, text)
        })?;
        Ok(Self {
            file,
            slots: RingSlots::new(tags),
            pending: Vec::with_capacity(PENDING),
            buffer: Vec::with_capacity(PENDING * INTENT_BYTES),
            broken: false,
            is_durable,
            is_dirty: false,
        })
    }

    /// Takes a change of a slot, or finds that the ring does not hold everything any more.
    fn put(&mut self, changed: Option<(u32, [u8; INTENT_BYTES])>) {
        match changed {
            Some((slot, bytes)) => self.pending.push((slot, self.pending.len(), bytes)),
            None => self.give_up(),
        }
    }

    /// Writes what is pending; a slot that changed twice as it is now.
    fn write_down(&mut self) {
        if self.broken {
            self.pending.clear();
            return;
        }
        self.pending.sort_unstable_by_key(|(slot, number, _)| (*slot, *number));
        let mut is_written = true;
        for stretch in self.pending.chunk_by(|one, next| next.0 - one.0 <= 1) {
            let first = stretch[0].0;
            self.buffer.clear();
            for (slot, _, bytes) in stretch {
                self.buffer.truncate((slot - first) as usize * INTENT_BYTES);
                self.buffer.extend_from_slice(bytes);
            }
            let at = INTENTS_HEADER_BYTES as u64 + u64::from(first) * INTENT_BYTES as u64;
            is_written &= self.file.write_all_at(&self.buffer, at).is_ok();
        }
        self.pending.clear();
        if !is_written {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.broken = true;
        let _ = self.file.set_len(0);
        if self.is_durable {
            let _ = self.file.sync_all();
        }
    }
}

impl Intents for RingFile {
    fn note(&mut self, io: &Io, now: Nanos) {
        if self.broken || self.slots.was_announced(io) {
            return;
        }
        let noted = self.slots.note(io, now);
        self.put(noted);
        self.is_dirty = true;
    }

    fn acknowledge(&mut self, io: &Io, completed: Nanos, outcome: Outcome) {
        if self.broken {
            return;
        }
        let acknowledged = self.slots.acknowledge(io, completed, outcome);
        self.put(acknowledged);
    }

    fn rest(&mut self) {
        if !self.pending.is_empty() {
            self.write_down();
        }
    }

    fn keep(&mut self, request: u64) {
        self.slots.keep(request);
    }

    fn takes_flushes(&self) -> bool {
        self.is_durable
    }

    fn notes_ahead(&self) -> usize {
        if self.is_durable { NOTED_AHEAD } else { 0 }
    }

    fn commit(&mut self, upcoming: &mut dyn Iterator<Item = Io>, now: Nanos) {
        // Acknowledgements alone wait for the next notes: if the power fails before, their changes
        // count as in flight.
        let is_due = self.is_durable && std::mem::take(&mut self.is_dirty) && !self.broken;
        if is_due {
            // What begins with a flush is noted with the acknowledgements of what it flushes.
            let is_change = |io: &Io| io.op.changes_data() && !io.begins_with_flush();
            for io in upcoming.take(NOTED_AHEAD).filter(is_change) {
                if let Some((slot, bytes)) = self.slots.announce(&io, now) {
                    self.pending.push((slot, self.pending.len(), bytes));
                }
            }
        }
        self.rest();
        if is_due && !self.broken && self.file.sync_data().is_err() {
            self.give_up();
        }
    }

    fn end(&mut self) {
        if !self.broken {
            for (slot, bytes) in self.slots.withdraw() {
                self.pending.push((slot, self.pending.len(), bytes));
            }
            self.rest();
        }
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        self.rest();
    }
}

/// A ring after the run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// All of its notes, by the numbers of the requests, and whether a power cut spares them.
    Whole { intents: Vec<Intent>, is_durable: bool },
    /// It does not exist.
    Missing,
    /// It is not a ring, or belongs to another run or target.
    Foreign,
    /// It is incomplete: it was emptied because it could not be written, or was truncated later.
    Cut,
    /// This number of its places are neither empty nor contain a complete note. Their content is
    /// unknown, so the lack of a note proves nothing.
    Damaged(u64),
    /// It cannot be read.
    Unreadable(io::ErrorKind),
}

/// Reads a ring of this run and target.
pub(crate) fn read(path: &Path, run: u64, target: u16) -> Ring {
    read_whole(path, run, target).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ring::Missing,
        io::ErrorKind::UnexpectedEof => Ring::Cut,
        kind => Ring::Unreadable(kind),
    })
}

fn read_whole(path: &Path, run: u64, target: u16) -> io::Result<Ring> {
    let mut file = io::BufReader::new(regular::open(path)?);
    let mut header = [0; INTENTS_HEADER_BYTES];
    file.read_exact(&mut header)?;
    let header = IntentsHeader::decode(&header);
    let Some(header) = header.filter(|header| (header.run, header.target) == (run, target)) else {
        return Ok(Ring::Foreign);
    };
    let (mut intents, mut damaged) = (Vec::new(), 0);
    let mut slot = [0; INTENT_BYTES];
    for _ in 0..header.slots {
        file.read_exact(&mut slot)?;
        match Intent::decode(&slot) {
            Some(intent) => intents.push(intent),
            None => damaged += u64::from(slot != [0; INTENT_BYTES]),
        }
    }
    if damaged > 0 {
        return Ok(Ring::Damaged(damaged));
    }
    intents.sort_unstable_by_key(|intent| (intent.request, intent.order));
    Ok(Ring::Whole { intents, is_durable: header.is_durable })
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
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.intents(1);
        let mut ring = RingFile::create(&run, &path, 7, 1, 4, JournalMode::Kill).unwrap();
        ring.note(&io(0, 5), Nanos(1));
        ring.note(&io(1, 3), Nanos(2));
        ring.commit(&mut std::iter::empty(), Nanos(1));
        ring.acknowledge(&io(0, 5), Nanos(9), Outcome::Ok);
        ring.rest();
        let Ring::Whole { intents, is_durable: false } = read(&path, 7, 1) else {
            panic!("the ring is not whole")
        };
        let told: Vec<_> = intents.iter().map(|i| (i.request, i.acknowledged)).collect();
        assert_eq!(told, [(3, None), (5, Some((Nanos(9), Outcome::Ok)))]);
        assert_eq!(read(&path, 8, 1), Ring::Foreign);
        assert_eq!(read(&path, 7, 0), Ring::Foreign);
    }

    #[test]
    fn what_changes_in_one_step_is_written_together_and_as_it_is_last() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.intents(1);
        let mut ring = RingFile::create(&run, &path, 7, 1, 64, JournalMode::Kill).unwrap();
        for tag in 0..64 {
            ring.note(&io(tag, u64::from(tag)), Nanos(1));
        }
        // All but every third, from the last to the first.
        for tag in (0..64).rev().filter(|tag| tag % 3 != 0) {
            ring.acknowledge(&io(tag, u64::from(tag)), Nanos(9), Outcome::Ok);
        }
        ring.keep(1);
        // What is not handed over yet at the end is written all the same.
        drop(ring);
        let Ring::Whole { intents, .. } = read(&path, 7, 1) else { panic!("it is not whole") };
        assert_eq!(intents.len(), 64);
        for (intent, request) in intents.iter().zip(0..) {
            assert_eq!((intent.request, intent.order), (request, request + 1));
            assert_eq!(intent.acknowledged.is_some(), request % 3 != 0);
        }
    }

    #[test]
    fn a_durable_ring_notes_flushes_and_says_that_it_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.intents(1);
        let mut ring = RingFile::create(&run, &path, 7, 1, 4, JournalMode::Durable).unwrap();
        assert!(ring.takes_flushes());
        ring.note(&Io { op: Op::Flush, ..io(0, 5) }, Nanos(1));
        ring.commit(&mut std::iter::empty(), Nanos(1));
        ring.acknowledge(&io(0, 5), Nanos(9), Outcome::Ok);
        let Ring::Whole { intents, is_durable: true } = read(&path, 7, 1) else {
            panic!("the ring is not whole")
        };
        assert_eq!(intents[0].op, Op::Flush);
    }

    #[test]
    fn a_durable_ring_announces_what_comes_next_and_takes_back_what_did_not_come() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.intents(1);
        let mut ring = RingFile::create(&run, &path, 7, 1, 4, JournalMode::Durable).unwrap();
        let flags = Flags::PREFLUSH;
        let mut next =
            [io(0, 6), Io { op: Op::Read, ..io(0, 7) }, Io { flags, ..io(0, 8) }, io(0, 9)]
                .into_iter();
        ring.note(&io(0, 5), Nanos(1));
        ring.commit(&mut next, Nanos(1));
        // Noted already: no step waits for it.
        ring.note(&io(1, 6), Nanos(2));
        assert!(!ring.is_dirty && ring.pending.is_empty());
        ring.commit(&mut std::iter::once(io(0, 10)), Nanos(2));
        ring.acknowledge(&io(1, 6), Nanos(3), Outcome::Ok);
        ring.rest();
        let told = || match read(&path, 7, 1) {
            Ring::Whole { intents, .. } => intents
                .iter()
                .map(|it| (it.request, it.acknowledged.map(|(_, outcome)| outcome)))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(), [(5, None), (6, Some(Outcome::Ok)), (9, None)]);
        ring.end();
        assert_eq!(told(), [(5, None), (6, Some(Outcome::Ok)), (9, Some(Outcome::Dropped))]);
    }

    #[test]
    fn a_ring_that_does_not_hold_everything_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.intents(1);
        assert_eq!(read(&path, 7, 1), Ring::Missing);
        let mut ring = RingFile::create(&run, &path, 7, 1, 4, JournalMode::Kill).unwrap();
        ring.note(&io(0, 5), Nanos(1));
        ring.note(&io(1, 6), Nanos(1));
        ring.commit(&mut std::iter::empty(), Nanos(1));
        ring.file.write_all_at(&[0xFF], INTENTS_HEADER_BYTES as u64 + 33).unwrap();
        assert_eq!(read(&path, 7, 1), Ring::Damaged(1));
        ring.file.set_len(200).unwrap();
        assert_eq!(read(&path, 7, 1), Ring::Cut);
        ring.file.set_len(0).unwrap();
        assert_eq!(read(&path, 7, 1), Ring::Cut);
    }
}
