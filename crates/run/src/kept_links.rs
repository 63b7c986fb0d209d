//! Who waits for whom, kept for the results of a recorded load.
//!
//! Such results are a load again, whose calls may overlap only if it is known what each of them
//! needs. A row of the journal has one size, and a call may wait for dozens of others. So they are
//! written down beside it, before the calls are handed out: of what has a row, even of a run that
//! was killed, it is known here.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};

use ioecho_replay::plan::Planned;

use crate::directory::RunDirectory;
use crate::regular;

/// The bytes of a number: that of a call, how many it waits for, and theirs.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Writes them down. If that fails, there are none, and the results are replayed one at a time.
pub(crate) struct Keeping {
    run: RunDirectory,
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Keeping {
    pub(crate) fn new(run: &RunDirectory) -> Self {
        let mut keeping = Self { run: run.clone(), file: None, bytes: Vec::new() };
        match run.new_file(&run.links()) {
            Ok(file) => keeping.file = Some(file),
            Err(error) => keeping.give_up(&error),
        }
        keeping
    }

    /// Adds what each of the calls waits for: of each that does, `parents` has how many they are,
    /// and their numbers.
    pub(crate) fn add(&mut self, planned: &[Planned], parents: &[u64]) {
        let Some(file) = &mut self.file else { return };
        self.bytes.clear();
        let mut left = parents;
        for one in planned.iter().filter(|one| one.think.is_some()) {
            let of_it = left.first().map_or(0, |count| *count as usize + 1).min(left.len());
            let (its, rest) = left.split_at(of_it);
            left = rest;
            self.bytes.extend_from_slice(&one.seq.to_le_bytes());
            for number in its {
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        if let Err(error) = file.write_all(&self.bytes) {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.file = None;
        let _ = self.run.remove(&self.run.links());
        self.run.log(&format!("the results do not say which call waited for which: {error}"));
    }
}

/// Reads them, in the order of the calls.
pub(crate) struct Kept {
    reader: BufReader<File>,
    /// A call that was not asked for yet, and what it waits for.
    next: Option<u64>,
    parents: Vec<u64>,
    /// Calls with smaller numbers were asked for.
    from: u64,
}

impl Kept {
    /// Those of a run, if it has them.
    pub(crate) fn of(run: &RunDirectory) -> io::Result<Option<Self>> {
        let file = match regular::open(&run.links()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let reader = BufReader::with_capacity(1 << 18, file);
        Ok(Some(Self { reader, next: None, parents: Vec::new(), from: 0 }))
    }

    /// What the call of this number waits for; `None` where a later one was asked for before.
    pub(crate) fn parents(&mut self, number: u64) -> io::Result<Option<&[u64]>> {
        if number < self.from {
            return Ok(None);
        }
        self.from = number + 1;
        while self.next.is_none_or(|next| next < number) {
            if !self.read_next()? {
                return Ok(Some(&[]));
            }
        }
        Ok(Some(if self.next == Some(number) { &self.parents } else { &[] }))
    }

    /// Reads the next call; the last one may be cut off, and was not handed out then.
    fn read_next(&mut self) -> io::Result<bool> {
        self.parents.clear();
        let [Some(next), Some(count)] = [self.number()?, self.number()?] else {
            self.next = Some(u64::MAX);
            return Ok(false);
        };
        self.next = Some(next);
        for _ in 0..count {
            let Some(parent) = self.number()? else { break };
            self.parents.push(parent);
        }
        Ok(true)
    }

    fn number(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; NUMBER_BYTES];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(u64::from_le_bytes(bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use ioecho_replay::plan::{Planner, TargetLimits, Timing};
    use ioecho_trace::{Bytes, Nanos, Op, Request};

    use super::*;

    /// As many planned requests, of which those with these numbers wait for others.
    fn planned(count: u64, waiting: &[u64]) -> Vec<Planned> {
        let limits = TargetLimits {
            capacity: Bytes(1 << 20),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: Op::ALL.map(|_| true),
        };
        let mut planner = Planner::new(limits, Timing::default());
        let mut planned = Vec::new();
        for n in 0..count {
            let request = Request::new(Nanos(n as i64), Op::Read, Bytes(0), Bytes(4096));
            planner.plan(&request, &mut planned);
        }
        for one in &mut planned {
            one.think = waiting.contains(&one.seq).then_some(Nanos::ZERO);
        }
        planned
    }

    #[test]
    fn what_was_kept_is_found_for_the_calls_that_have_rows() {
        let home = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&home.path().join("run")).unwrap();
        assert!(Kept::of(&run).unwrap().is_none());
        let mut keeping = Keeping::new(&run);
        let all = planned(6, &[1, 3, 4]);
        keeping.add(&all[..3], &[1, 0]);
        keeping.add(&all[3..], &[2, 0, 1, 1, 3]);
        let asked = |numbers: &[u64]| {
            let mut kept = Kept::of(&run).unwrap().unwrap();
            let parents = |number: &u64| kept.parents(*number).unwrap().map(<[u64]>::to_vec);
            numbers.iter().map(parents).collect::<Vec<_>>()
        };
        let found = |parents: &[u64]| Some(parents.to_vec());
        assert_eq!(asked(&[0, 1, 2]), [found(&[]), found(&[0]), found(&[])]);
        assert_eq!(asked(&[3, 4, 5, 9]), [found(&[0, 1]), found(&[3]), found(&[]), found(&[])]);
        assert_eq!(asked(&[4, 1]), [found(&[3]), None]);
        // A kill cuts the last one off.
        let bytes = std::fs::read(run.links()).unwrap();
        std::fs::write(run.links(), &bytes[..bytes.len() - 20]).unwrap();
        assert_eq!(asked(&[3, 4]), [found(&[0, 1]), found(&[])]);
    }
}
