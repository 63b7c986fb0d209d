//! Simulated time.
//!
//! A run on the machine's clock cannot be repeated. This clock stands still until somebody waits,
//! so that every instant of a run follows from its input and its seed.

use std::cell::Cell;
use std::rc::Rc;

use ioecho_trace::Nanos;

use crate::clock::Clock;

/// Time that passes only when somebody waits for it, and a little when somebody looks.
///
/// Copies show the same time: several devices and an engine share one.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    now: Rc<Cell<i64>>,
    /// What a look at the clock takes. Without it, a loop that spins would spin for ever.
    cost_ns: i64,
}

impl SimClock {
    /// A clock at zero that takes `cost` for every look.
    pub fn new(cost: Nanos) -> Self {
        Self { now: Rc::default(), cost_ns: cost.0 }
    }

    /// Lets time pass until `instant`. It never goes back.
    pub fn advance_to(&self, instant: Nanos) {
        self.now.set(self.now.get().max(instant.0));
    }

    /// The time, without the cost of a look: what the device itself sees.
    pub(super) fn standing_ns(&self) -> i64 {
        self.now.get()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.now.set(self.now.get() + self.cost_ns);
        Nanos(self.now.get())
    }

    fn jumps(&self) -> bool {
        true
    }
}
