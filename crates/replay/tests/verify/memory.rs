//! A device in memory whose sectors tests can damage.

use std::io;

use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome};

/// A clock that only counts how often it was looked at.
#[derive(Default)]
pub(crate) struct Ticks(std::cell::Cell<i64>);

impl Clock for Ticks {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 1);
        Nanos(self.0.get())
    }
}

#[derive(Default)]
pub(crate) struct MemoryDevice {
    pub(crate) bytes: Vec<u8>,
    /// Sectors that answer with an error.
    pub(crate) unreadable: Vec<u64>,
    prepared: Vec<(Io, Vec<u8>)>,
    kept: Vec<(u32, Vec<u8>)>,
    completions: Vec<Completion>,
    /// Sectors read.
    pub(crate) read: u64,
}

impl MemoryDevice {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], ..Self::default() }
    }
}

impl Device for MemoryDevice {
    fn capacity(&self) -> Bytes {
        Bytes(self.bytes.len() as u64)
    }

    fn block_size(&self) -> Bytes {
        Bytes(4096)
    }

    fn length_max(&self) -> Bytes {
        Bytes(64 << 20)
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn data(&mut self, tag: u32) -> &[u8] {
        self.kept.iter().find(|(of, _)| *of == tag).map_or(&[], |(_, data)| data)
    }

    fn release(&mut self, tag: u32) {
        self.kept.retain(|(of, _)| *of != tag);
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let mut data = vec![0; io.length.0 as usize];
        if io.op == Op::Write {
            payload.fill(io, &mut data);
        }
        self.prepared.push((*io, data));
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let count = self.prepared.len();
        for (io, data) in std::mem::take(&mut self.prepared) {
            let range = io.offset.0 as usize..(io.offset.0 + io.length.0) as usize;
            let mut outcome = Outcome::Ok;
            if io.op == Op::Write {
                self.bytes[range].copy_from_slice(&data);
            } else {
                let sectors = io.offset.0 / 512..(io.offset.0 + io.length.0) / 512;
                self.read += sectors.end - sectors.start;
                if self.unreadable.iter().any(|sector| sectors.contains(sector)) {
                    outcome = Outcome::Error(5);
                }
                self.kept.push((io.tag, self.bytes[range].to_vec()));
            }
            self.completions.push(Completion {
                tag: io.tag,
                submitted: Nanos(0),
                completed: Nanos(0),
                outcome,
                integrity: Integrity::Unchecked,
            });
        }
        Ok((Nanos(0), count))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        // The other way round: nobody may rely on an order.
        completions.extend(self.completions.drain(..).rev());
        Ok(())
    }

    fn wait(&mut self, _: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.reap(completions)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
