//! What can be typed behind `ioecho predict`.

use std::path::PathBuf;

use ioecho_replay::plan::TimingMode;
use ioecho_run::spec::{IN_FLIGHT, ReplaySpec};
use ioecho_stats::judge::IN_FLIGHT_DEFAULT;

use super::replay::{factor, timing, whole};
use super::{LoadArgs, ReadArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct PredictArgs {
    /// A trace in any known format, or the directory of a run
    pub(crate) trace: PathBuf,

    /// The device: the directory of a run on it, from whose results it is learnt, or a simulation
    /// (sim:model=ssd,…; docs/simulation.md)
    #[arg(long, value_name = "RUN|sim:…")]
    pub(crate) device: String,

    /// What decides when a request is issued
    #[arg(long, value_parser = timing(), default_value_t = TimingMode::Dependency)]
    pub(crate) timing: TimingMode,

    /// Replay this many times as fast as recorded; with --timing dependency, only requests that
    /// wait for no other
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) speedup: f64,

    /// With --timing dependency: divide think times by this, as a faster server would
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) server_speed: f64,

    /// Take a device that is this many times as fast as the one described or learnt
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) storage_speed: f64,

    /// Never have more requests in flight
    #[arg(
        long,
        value_name = "REQUESTS",
        default_value_t = IN_FLIGHT_DEFAULT,
        value_parser = clap::value_parser!(u32).range(whole(IN_FLIGHT))
    )]
    pub(crate) in_flight_max: u32,

    /// Keep the simulated run in this directory, with its report
    #[arg(long, short, value_name = "RUN")]
    pub(crate) output: Option<PathBuf>,

    /// Print JSON (stable, see docs/json.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl PredictArgs {
    /// The replay to simulate on this target, with its results in `output`.
    pub(crate) fn spec(&self, target: String, output: PathBuf) -> ReplaySpec {
        let load = self.load.asked();
        ReplaySpec {
            trace: self.trace.clone(),
            read: self.read.options(),
            start: load.window.start,
            duration: load.window.duration,
            transforms: load.chain,
            targets: vec![target],
            output: Some(output),
            timing: self.timing,
            speedup: self.speedup,
            server_speed: self.server_speed,
            in_flight_max: self.in_flight_max,
            ..ReplaySpec::default()
        }
    }
}
