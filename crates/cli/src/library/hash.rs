//! A hash over the requests of a load, which does not depend on the file.
//!
//! The hash of a file changes when another version writes it again, or with another compression.
//! Then nobody could show that two results come from the same load. This hash is over the requests
//! themselves: time, operation, place, length, volume and flags. Values that were measured during
//! the recording (latencies, processes) are not part of it, because they do not change a replay.
//!
//! It is a SHA-256 over the line `ioecho requests 1` and a line feed, followed by 31 bytes for each
//! request in the trace's order, numbers with their lowest byte first: issue in nanoseconds (8,
//! signed), operation (1, as in the native file), flags (2, as in the native file), volume (4),
//! offset in bytes (8), length in bytes (8).

use ioecho_run::digest::digits;
use ioecho_trace::{Batch, Request};
use sha2::{Digest as _, Sha256};

/// The beginning of every hash. It changes with the order of the columns.
const BEGINNING: &[u8] = b"ioecho requests 1\n";

/// The hash of all requests so far.
pub(crate) struct RequestsHash {
    hash: Sha256,
    rows: Vec<u8>,
}

impl RequestsHash {
    pub(crate) fn new() -> Self {
        Self { hash: Sha256::new_with_prefix(BEGINNING), rows: Vec::new() }
    }

    /// Adds the next requests.
    pub(crate) fn observe(&mut self, batch: &Batch) {
        self.rows.clear();
        for request in batch.iter() {
            self.push(&request);
        }
        self.hash.update(&self.rows);
    }

    fn push(&mut self, request: &Request) {
        let Request { issue, op, flags, offset, length, volume, .. } = request;
        self.rows.extend(issue.0.to_le_bytes());
        self.rows.push(op.code());
        self.rows.extend(flags.bits().to_le_bytes());
        self.rows.extend(volume.0.to_le_bytes());
        self.rows.extend(offset.0.to_le_bytes());
        self.rows.extend(length.0.to_le_bytes());
    }

    /// The hash in hexadecimal digits.
    pub(crate) fn digits(self) -> String {
        digits(self.hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Bytes, Columns, Flags, Nanos, Op, VolumeId};

    use super::*;

    fn hash(requests: &[Request], at_once: usize) -> String {
        let mut hash = RequestsHash::new();
        for part in requests.chunks(at_once) {
            let mut batch = Batch::new(Columns::default());
            for request in part {
                batch.push(request);
            }
            hash.observe(&batch);
        }
        hash.digits()
    }

    fn load() -> Vec<Request> {
        let request =
            |n: i64| Request::new(Nanos(n * 7), Op::Read, Bytes(n as u64 * 4096), Bytes(4096));
        (0..10).map(request).collect()
    }

    #[test]
    fn the_hash_knows_nothing_of_batches_and_of_latencies() {
        let mut with_latency = load();
        with_latency[3].latency = Some(Nanos(5));
        assert_eq!(hash(&load(), 10), hash(&load(), 3));
        assert_eq!(hash(&load(), 10), hash(&with_latency, 10));
    }

    #[test]
    fn whatever_changes_a_replay_changes_the_hash() {
        let changes: [fn(&mut Request); 6] = [
            |request| request.issue.0 += 1,
            |request| request.op = Op::Write,
            |request| request.flags = Flags::FUA,
            |request| request.volume = VolumeId(1),
            |request| request.offset.0 += 512,
            |request| request.length.0 += 512,
        ];
        for change in changes {
            let mut changed = load();
            change(&mut changed[9]);
            assert_ne!(hash(&load(), 10), hash(&changed, 10));
        }
        assert_ne!(hash(&load(), 10), hash(&load()[..9], 10));
    }

    #[test]
    fn the_hash_of_nothing_is_what_sha256sum_says_of_the_first_line() {
        // printf 'ioecho requests 1\n' | sha256sum
        assert_eq!(hash(&[], 1), EMPTY);
    }

    const EMPTY: &str = "dee499c55acbd1a122df8c77cd0012a3f39e5ba392d80e499dbb7d18c7f0ae73";
}
