//! Where the requests of a lane come from: a thread that reads a trace, or flows.

use ioecho_replay::Planned;
use ioecho_replay::engine::Input;

use crate::feeder::RingInput;
use crate::flows::FlowsInput;

/// Where the requests of a lane come from.
pub(crate) enum LaneFeed {
    /// From the thread that reads the trace.
    Ring(Box<RingInput>),
    /// From the flows that go to its target.
    Flows(FlowsInput),
}

impl LaneFeed {
    /// Waits for real time, as a simulation does.
    pub(crate) fn block(&mut self) {
        match self {
            Self::Ring(ring) => ring.blocking = true,
            Self::Flows(flows) => flows.blocking = true,
        }
    }

    /// The engine's side of it.
    pub(crate) fn as_input(&mut self) -> &mut dyn Input {
        match self {
            Self::Ring(ring) => ring.as_mut(),
            Self::Flows(flows) => flows,
        }
    }

    /// Shows the first requests without taking them.
    pub(crate) fn look_ahead(&mut self, look: impl FnOnce(&[Planned])) {
        match self {
            Self::Ring(ring) => ring.look_ahead(look),
            Self::Flows(flows) => flows.look_ahead(look),
        }
    }
}
