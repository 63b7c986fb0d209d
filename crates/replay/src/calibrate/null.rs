//! A device that takes no time.
//!
//! The limit of a generator shows only if nothing else is slow. This device completes every request
//! in the call that hands it over, in real time, and touches no data.

use std::io;

use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome};

use crate::clock::Clock;
use crate::device::{Completion, Device, Io, Payload};

/// A device that completes everything at once. `sleep` sleeps until an instant of the clock.
pub struct NullDevice<'a, C> {
    clock: &'a C,
    sleep: &'a mut dyn FnMut(Nanos),
    prepared: Vec<u32>,
    completed: Vec<Completion>,
}

impl<'a, C: Clock> NullDevice<'a, C> {
    /// A device for so many requests in flight.
    pub fn new(clock: &'a C, sleep: &'a mut dyn FnMut(Nanos), in_flight_max: usize) -> Self {
        Self {
            clock,
            sleep,
            prepared: Vec::with_capacity(in_flight_max),
            completed: Vec::with_capacity(in_flight_max),
        }
    }
}

impl<C: Clock> Device for NullDevice<'_, C> {
    fn capacity(&self) -> Bytes {
        Bytes(1 << 40)
    }

    fn block_size(&self) -> Bytes {
        Bytes(512)
    }

    fn length_max(&self) -> Bytes {
        Bytes(1 << 30)
    }

    fn supports(&self, op: Op) -> bool {
        op != Op::Zone && !op.is_of_files()
    }

    fn prepare(&mut self, io: &Io, _: &mut dyn Payload) {
        self.prepared.push(io.tag);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let now = self.clock.now();
        let count = self.prepared.len();
        self.completed.extend(self.prepared.drain(..).map(|tag| Completion {
            tag,
            submitted: now,
            completed: now,
            outcome: Outcome::Ok,
            integrity: Integrity::Unchecked,
        }));
        Ok((now, count))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.completed);
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.completed.is_empty() {
            (self.sleep)(until);
        }
        self.reap(completions)
    }

    fn describe(&self) -> String {
        "a device that takes no time".to_owned()
    }
}
