//! How the time between requests is spent, and how long a silent device is waited for.
//!
//! The engine and the last look at everything written give up on a device after the same time, or
//! one of them would call silent what the other waits for.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

/// How the time to the next request is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacingMode {
    /// Sleep until near, then spin; how near is measured at the start.
    #[default]
    Hybrid,
    /// Spin.
    Spin,
    /// Sleep.
    Sleep,
}

impl PacingMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hybrid, Self::Spin, Self::Sleep];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Spin => "spin",
            Self::Sleep => "sleep",
        }
    }

    /// Whether the thread spins at any time.
    pub const fn spins(self) -> bool {
        match self {
            Self::Hybrid | Self::Spin => true,
            Self::Sleep => false,
        }
    }
}

/// How the engine spends the time between requests, and when it gives up.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// From the start of the engine to the replay's time zero.
    pub start_grace: Nanos,
    /// The replay's time zero on the clock, in place of `start_grace`: engines that run side by
    /// side share one.
    pub start_at: Option<Nanos>,
    /// Sleep until this long before a deadline, then spin: [`Nanos::ZERO`] never spins,
    /// [`Nanos::MAX`] never sleeps.
    pub spin: Nanos,
    /// How long the device may complete nothing while nothing else can go on. Then it is given up
    /// and the run ends.
    pub silence_max: Nanos,
    /// How many failed requests end the run; `None` is no number of them.
    pub errors_max: Option<u64>,
    /// The instant of the replay from which on nothing more is issued; requests in flight are
    /// waited for. `None`: the replay ends with its input.
    pub end_after: Option<Nanos>,
    /// How long an interval of the [`telemetry`](crate::engine::telemetry) is; `None`: there is
    /// none.
    pub telemetry_every: Option<Nanos>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            start_grace: Nanos::from_millis(100),
            start_at: None,
            spin: Nanos::from_micros(100),
            silence_max: Nanos::from_secs(120),
            errors_max: None,
            end_after: None,
            telemetry_every: None,
        }
    }
}
