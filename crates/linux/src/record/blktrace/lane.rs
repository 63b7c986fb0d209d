//! All buffers of one processor, merged by time.
//!
//! Each disk has a relay file of its own for the processor, and what comes out of each is in order.
//! A record can be passed on once no file can yield an earlier one: every other file either has a
//! record to compare with, or was found empty at a later instant. This is exact, since one
//! processor writes one record after the other.

use std::fs::File;
use std::io::{self, Read};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::relay::{Record, Relay};

/// The files of one processor.
#[derive(Debug)]
pub(super) struct Lane<R = File> {
    pub(super) cpu: u32,
    sources: Vec<Source<R>>,
    /// When all files were found empty for the last time.
    pub(super) fetched: Instant,
    /// Nanoseconds of `CLOCK_MONOTONIC` when the last look at the files began.
    looked_ns: u64,
    /// Why a file cannot be read any more, as long as nobody was told.
    pub(super) failure: Option<io::Error>,
}

#[derive(Debug)]
struct Source<R> {
    /// The number of the disk.
    disk: usize,
    relay: Relay<R>,
    /// Whether the last look found nothing more.
    is_empty: bool,
    /// Whether no record comes any more.
    has_ended: bool,
}

impl<R: Read> Lane<R> {
    pub(super) fn new(cpu: u32) -> Self {
        Self { cpu, sources: Vec::new(), fetched: Instant::now(), looked_ns: 0, failure: None }
    }

    /// Adds the file of a disk.
    pub(super) fn add(&mut self, disk: usize, file: R) {
        let relay = Relay::new(file);
        self.sources.push(Source { disk, relay, is_empty: false, has_ended: false });
    }

    /// Looks at all files at the instant `now_ns` and reads what there is room for. `is_last` where
    /// no event comes any more. Answers whether all of them are empty; each disk whose file failed
    /// is told to `failed`, once.
    pub(super) fn look(
        &mut self,
        now_ns: u64,
        is_last: bool,
        mut failed: impl FnMut(usize, io::Error),
    ) -> bool {
        self.looked_ns = now_ns;
        for source in self.sources.iter_mut().filter(|source| !source.has_ended) {
            match source.relay.fill() {
                Ok(is_empty) => {
                    source.is_empty = is_empty;
                    source.has_ended = is_empty && is_last;
                }
                Err(error) => {
                    (source.is_empty, source.has_ended) = (true, true);
                    failed(source.disk, error);
                }
            }
        }
        let is_empty = self.sources.iter().all(|source| source.is_empty);
        if is_empty {
            self.fetched = Instant::now();
        }
        is_empty
    }

    /// Takes as many records as may go on and fit into `chunk`. Answers their bytes, and whether
    /// there was no room for another.
    pub(super) fn take(&mut self, chunk: &mut [u8]) -> (usize, bool) {
        let mut length = 0;
        loop {
            // A record after this instant must wait.
            let mut bound = u64::MAX;
            let mut first: Option<(usize, Record)> = None;
            for (index, source) in self.sources.iter().enumerate() {
                match source.relay.next() {
                    Some(record) => {
                        if first.is_none_or(|(_, other)| record.time < other.time) {
                            first = Some((index, record));
                        }
                    }
                    None if source.has_ended => {}
                    None => bound = bound.min(if source.is_empty { self.looked_ns } else { 0 }),
                }
            }
            let alone = self.sources.len() == 1;
            match first {
                Some((index, record)) if alone || record.time <= bound => {
                    if record.length > chunk.len() - length {
                        return (length, true);
                    }
                    self.sources[index].relay.take(record, &mut chunk[length..]);
                    length += record.length;
                }
                _ => return (length, false),
            }
        }
    }

    /// What a read answers that has taken so many bytes. These bytes are out of the kernel and must
    /// be kept, so a failure is returned by the first read that took nothing.
    pub(super) fn answer(&mut self, taken: usize) -> io::Result<usize> {
        self.failure.take_if(|_| taken == 0).map_or(Ok(taken), Err)
    }

    /// Records given on, messages not counted.
    pub(super) fn events(&self) -> u64 {
        self.sources.iter().map(|source| source.relay.events).sum()
    }

    /// Gaps in the numbers of a disk's records.
    pub(super) fn missing(&self, disk: usize) -> u64 {
        let of_disk = self.sources.iter().filter(|source| source.disk == disk);
        of_disk.map(|source| source.relay.missing).sum()
    }

    /// The same of all disks.
    pub(super) fn missing_in_all(&self) -> u64 {
        self.sources.iter().map(|source| source.relay.missing).sum()
    }
}

impl Lane<File> {
    /// Whether a part of a buffer is full and can be read, without a look at anything else. Costs
    /// one system call.
    pub(super) fn has_full_part(&self) -> bool {
        let live = self.sources.iter().filter(|source| !source.has_ended);
        let mut files: Vec<PollFd<'_>> =
            live.map(|source| PollFd::new(source.relay.file(), PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Where poll fails, reading says why.
        poll(&mut files, Some(&at_once)).map_or(true, |ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::relay::RECORD_MAX;
    use super::super::relay::tests::{Parts, record};
    use super::*;

    /// Times of the records in some bytes, which are all without a payload.
    fn times(bytes: &[u8]) -> Vec<u64> {
        let time = |record: &[u8]| u64::from_ne_bytes(record[8..16].try_into().unwrap());
        bytes.chunks(48).map(time).collect()
    }

    fn records(times: &[u64]) -> Vec<u8> {
        let record = |(index, time): (usize, &u64)| record(7, index as u32 + 1, *time, 0);
        times.iter().enumerate().flat_map(record).collect()
    }

    fn lane(files: &[&[&[u64]]]) -> Lane<Parts> {
        let mut lane = Lane::new(0);
        for (disk, looks) in files.iter().enumerate() {
            // An empty part ends a look.
            let parts = looks.iter().flat_map(|times| [records(times), Vec::new()]);
            lane.add(disk, Parts(parts.collect()));
        }
        lane
    }

    fn look(lane: &mut Lane<Parts>, now_ns: u64, is_last: bool) -> Vec<u64> {
        lane.look(now_ns, is_last, |_, error| panic!("{error}"));
        let mut chunk = vec![0; 4 * RECORD_MAX];
        let (length, is_full) = lane.take(&mut chunk);
        assert!(!is_full);
        times(&chunk[..length])
    }

    #[test]
    fn records_of_several_disks_come_in_the_order_of_their_times() {
        let mut lane = lane(&[&[&[1, 4, 6]], &[&[2, 3, 9]]]);
        assert_eq!(look(&mut lane, 10, false), [1, 2, 3, 4, 6, 9]);
        assert_eq!(lane.events(), 6);
    }

    #[test]
    fn a_record_waits_until_no_earlier_one_can_come() {
        // The second disk is read a little after the first, and has seen more.
        let mut lane = lane(&[&[&[1], &[12]], &[&[2, 13], &[14]]]);
        assert_eq!(look(&mut lane, 10, false), [1, 2]);
        assert_eq!(look(&mut lane, 20, false), [12, 13, 14]);
    }

    #[test]
    fn at_the_end_nothing_waits() {
        let mut lane = lane(&[&[&[1]], &[&[2, 13]]]);
        assert_eq!(look(&mut lane, 10, true), [1, 2, 13]);
    }

    #[test]
    fn one_disk_alone_waits_for_nothing() {
        let mut lane = lane(&[&[&[1, 40]]]);
        assert_eq!(look(&mut lane, 10, false), [1, 40]);
    }

    #[test]
    fn a_chunk_holds_whole_records_only() {
        let mut lane = lane(&[&[&[1, 2, 3]]]);
        lane.look(9, false, |_, error| panic!("{error}"));
        let mut chunk = [0; 100];
        assert_eq!(lane.take(&mut chunk), (96, true));
        assert_eq!(lane.take(&mut chunk), (48, false));
        assert_eq!(lane.take(&mut chunk), (0, false));
    }

    #[test]
    fn a_file_that_fails_is_told_once_and_holds_up_nobody() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        let mut lane: Lane<Box<dyn Read>> = Lane::new(0);
        lane.add(0, Box::new(Broken));
        lane.add(1, Box::new(Parts([records(&[5])].into())));
        let mut failures = Vec::new();
        for now_ns in [10, 20] {
            lane.look(now_ns, false, |disk, error| failures.push((disk, error.to_string())));
        }
        assert_eq!(failures, [(0, "gone".to_owned())]);
        assert_eq!(lane.take(&mut [0; 100]), (48, false));
    }

    #[test]
    fn what_was_taken_comes_before_the_failure_and_the_failure_once() {
        let mut lane = lane(&[&[&[1]]]);
        lane.failure = Some(io::Error::other("gone"));
        assert_eq!(lane.answer(48).unwrap(), 48);
        assert_eq!(lane.answer(0).unwrap_err().to_string(), "gone");
        assert_eq!(lane.answer(0).unwrap(), 0);
    }
}
