//! Several simulated devices in one lane.
//!
//! They share a clock, which may not pass the next completion of any of them. The first waits for
//! all of them: if other lanes are to keep in step, it is the one that does.

use std::io;

use ioecho_trace::{Bytes, Nanos, Op};

use super::device::SimDevice;
use crate::device::{Completion, Device, Io, Payload};
use crate::joint::Joint;

/// Simulated devices on one clock, side by side in one space of places.
#[derive(Debug)]
pub struct JoinedDevices {
    devices: Vec<SimDevice>,
    /// Which of them have requests that are prepared.
    asked: Vec<bool>,
    joint: Joint,
}

/// The payload of a request, as its lane knows it.
struct OfLane<'p> {
    io: &'p Io,
    payload: &'p mut dyn Payload,
}

impl Payload for OfLane<'_> {
    fn fill_from(&mut self, _: &Io, from: usize, buffer: &mut [u8]) {
        self.payload.fill_from(self.io, from, buffer);
    }
}

impl JoinedDevices {
    /// These devices, in the order of their places. There is one at least.
    pub fn new(devices: Vec<SimDevice>, joint: Joint) -> Self {
        let asked = vec![false; devices.len()];
        Self { devices, asked, joint }
    }
}

impl Device for JoinedDevices {
    fn capacity(&self) -> Bytes {
        self.joint.end()
    }

    fn block_size(&self) -> Bytes {
        self.devices.iter().map(SimDevice::block_size).max().unwrap_or(Bytes(1))
    }

    fn length_max(&self) -> Bytes {
        self.devices.iter().map(SimDevice::length_max).min().unwrap_or(Bytes::ZERO)
    }

    fn supports(&self, op: Op) -> bool {
        self.devices.iter().all(|device| device.supports(op))
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let (at, there) = self.joint.apart(io);
        self.devices[at].prepare(&there, &mut OfLane { io, payload });
        self.asked[at] = true;
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let mut all = (Nanos::MAX, 0);
        for (device, asked) in self.devices.iter_mut().zip(&mut self.asked) {
            if std::mem::take(asked) {
                let (stamp, count) = device.submit()?;
                all = (stamp.min(all.0), all.1 + count);
            }
        }
        Ok(all)
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.devices.iter_mut().try_for_each(|device| device.reap(completions))
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let Some((first, others)) = self.devices.split_first_mut() else { return Ok(()) };
        let next = others.iter().map(SimDevice::next_completion).min().unwrap_or(Nanos::MAX);
        first.wait(until.min(next), completions)?;
        others.iter_mut().try_for_each(|device| device.reap(completions))
    }

    fn describe(&self) -> String {
        let each: Vec<String> = self.devices.iter().map(Device::describe).collect();
        each.join(" + ")
    }
}
