//! A simulated device that a test looks over.
//!
//! A test of the engine sees what the engine asks of its device, and sometimes spoils the answer.
//! Everything else goes to the simulated device as it is. That part stands here once.

use std::io;

use ioecho_replay::sim::SimDevice;
use ioecho_replay::{Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Nanos, Op};

/// What a test does with the requests on their way to the device and back.
pub(crate) trait Overseer {
    /// A request is handed down.
    fn prepare(&mut self, device: &mut SimDevice, io: &Io, payload: &mut dyn Payload) {
        device.prepare(io, payload);
    }

    /// What was handed down is submitted.
    fn submit(&mut self, device: &mut SimDevice) -> io::Result<(Nanos, usize)> {
        device.submit()
    }

    /// These requests have completed.
    fn completed(&mut self, completions: &[Completion]) {
        let _ = completions;
    }

    /// The engine has waited until this instant at most.
    fn waited(&mut self, until: Nanos) {
        let _ = until;
    }

    /// As [`Device::draft`].
    fn draft(&mut self, io: &Io, until: Bytes, payload: &mut dyn Payload) -> bool {
        let _ = (io, until, payload);
        false
    }

    /// As [`Device::forget`].
    fn forget(&mut self, request: u64) {
        let _ = request;
    }

    /// As [`Device::expect`].
    fn expect(&mut self, due: Nanos, near: Nanos) {
        let _ = (due, near);
    }
}

/// The device with its overseer.
pub(crate) struct Over<O> {
    pub(crate) inner: SimDevice,
    pub(crate) by: O,
}

impl<O: Overseer> Device for Over<O> {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn block_size(&self) -> Bytes {
        self.inner.block_size()
    }

    fn length_max(&self) -> Bytes {
        self.inner.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        self.inner.supports(op)
    }

    fn draft(&mut self, io: &Io, until: Bytes, payload: &mut dyn Payload) -> bool {
        self.by.draft(io, until, payload)
    }

    fn forget(&mut self, request: u64) {
        self.by.forget(request);
    }

    fn expect(&mut self, due: Nanos, near: Nanos) {
        self.by.expect(due, near);
    }

    fn keep_data(&mut self, keep: bool) {
        self.inner.keep_data(keep);
    }

    fn data(&mut self, tag: u32) -> &[u8] {
        self.inner.data(tag)
    }

    fn release(&mut self, tag: u32) {
        self.inner.release(tag);
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        self.by.prepare(&mut self.inner, io, payload);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        self.by.submit(&mut self.inner)
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let from = completions.len();
        self.inner.reap(completions)?;
        self.by.completed(&completions[from..]);
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let from = completions.len();
        self.inner.wait(until, completions)?;
        self.by.completed(&completions[from..]);
        self.by.waited(until);
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
