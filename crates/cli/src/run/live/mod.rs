//! The outputs of a run while it goes on.
//!
//! A person wants to see that a long run goes well, a script wants a line per second, a collector
//! wants counters. None of this may disturb the run. So nothing here touches the issuing threads.
//! The writer's thread sees every result anyway, and adds it to the current interval ([`tally`]).
//! Closed intervals go to one place ([`board`]). Each consumer takes them from there in a thread of
//! its own: lines and metrics ([`outputs`]), the served page ([`serve`]), the panels in the
//! terminal ([`panels`]). A consumer that is too slow gets fewer and wider intervals. Intervals add
//! up ([`ioecho_stats::interval`]), so every sum stays complete.

pub(crate) mod board;
mod csv;
pub(crate) mod flatfile;
mod json;
mod metrics;
mod outputs;
#[cfg(feature = "live")]
mod panels;
mod processors;
mod serve;
mod tally;
mod view;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
#[cfg(feature = "live")]
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ioecho_report::Page;
use ioecho_trace::Nanos;

use crate::args::LiveArgs;
use crate::outputs::{Gate, Writing};
use crate::print::tell;
use board::Board;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_run::facts::RunFacts;
use ioecho_run::facts_beforehand;
use ioecho_run::observer::Meters;
use ioecho_run::plan::ReplayPlan;
#[cfg(feature = "live")]
use ioecho_run::plan::known_duration;
use ioecho_run::target::{Target, same_file};
use outputs::Outputs;
#[cfg(feature = "live")]
use panels::Panels;
use serve::Server;
use tally::Portrait;
pub(crate) use tally::Tally;
use view::View;

/// The outputs that the user chose.
#[derive(Clone, Debug, Default)]
pub(crate) struct LivePlan {
    /// The length of an interval in the replay's own time.
    pub(crate) interval: Nanos,
    /// The file for lines of CSV. `-` is the standard output, here and below.
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
    flatfile: Option<PathBuf>,
    metrics: Option<PathBuf>,
    serve: Option<SocketAddr>,
    /// Whether panels are shown.
    live: bool,
    /// How long the finished report is served.
    serve_after: Nanos,
    /// The gate for the files.
    gate: Gate,
}

impl LivePlan {
    /// The outputs that the user chose for this replay. Refuses files that would overwrite an
    /// input, a target, results or each other.
    pub(crate) fn new(args: &LiveArgs, plan: &ReplayPlan) -> Result<Self> {
        let mut gate = Gate::reading(plan.inputs.clone()).and_run(&plan.output);
        for target in &plan.targets {
            if let Target::Real { path, .. } = target {
                gate = gate.and_target(path, !plan.timing.writes.reads_only());
            }
        }
        let live = Self {
            interval: args.interval,
            csv: args.interval_csv.clone(),
            json: args.interval_json.clone(),
            flatfile: args.interval_flatfile.clone(),
            metrics: args.metrics.clone(),
            serve: args.serve,
            #[cfg(feature = "live")]
            live: args.live,
            #[cfg(not(feature = "live"))]
            live: false,
            serve_after: args.serve_after.unwrap_or_default(),
            gate,
        };
        live.check(plan)?;
        Ok(live)
    }

    /// Whether intervals are needed at all.
    pub(crate) fn is_asked(&self) -> bool {
        self.writes_files() || self.is_drawn()
    }

    /// Whether the whole run so far is drawn somewhere.
    fn is_drawn(&self) -> bool {
        self.serve.is_some() || self.live
    }

    fn writes_files(&self) -> bool {
        self.files().next().is_some()
    }

    /// The files, each with the flag that names it.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--interval-csv", &self.csv),
            ("--interval-json", &self.json),
            ("--interval-flatfile", &self.flatfile),
            ("--metrics", &self.metrics),
        ];
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    }

    /// Whether lines go to the standard output. Then nothing else may be printed there.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.files().any(|(_, path)| is_stdout(path))
    }

    fn check(&self, plan: &ReplayPlan) -> Result<()> {
        let refuse = |flag: &str, path: &Path, why: &str| {
            let text = format!("{flag} {} {why}\n  = help: name another file", path.display());
            Err(RunError::new(Kind::Usage, text))
        };
        let files: Vec<_> = self.files().collect();
        for (number, (flag, path)) in files.iter().enumerate() {
            if *flag == "--metrics" && is_stdout(path) {
                return refuse(flag, path, "must be a file: it is replaced again and again");
            }
            if files[..number].iter().any(|(_, other)| same_file(path, other)) {
                return refuse(flag, path, "is named twice");
            }
            if is_stdout(path) {
                continue;
            }
            let flows = plan.spec.flows.iter().map(|flow| &flow.load);
            if flows.chain([&plan.spec.trace]).any(|trace| same_file(path, trace)) {
                return refuse(flag, path, "is the trace");
            }
            if plan.targets.iter().any(|target| target.is_file(path)) {
                return refuse(flag, path, "is a target");
            }
            let writing = if *flag == "--metrics" { Writing::Replacing } else { Writing::Over };
            self.gate.check_flag(flag, path, writing)?;
        }
        Ok(())
    }
}

/// The facts on the run that lines need besides the intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// The run's directory.
    pub(crate) run: String,
    /// The targets, in order.
    pub(crate) targets: Vec<String>,
    /// Their sizes together, in bytes.
    pub(crate) capacity: u64,
    /// Most requests in flight on a target.
    pub(crate) in_flight_max: u32,
    /// To how much of its size written data can be compressed, in percent.
    pub(crate) fill_random: u8,
    /// How many blocks share one content on average.
    pub(crate) dedup: f64,
    /// Whether requests have instants at which they are due.
    pub(crate) has_schedule: bool,
    /// Whether time is simulated. Then the writer may wait for slow readers.
    pub(crate) simulated: bool,
}

impl About {
    /// The facts in the plan.
    pub(crate) fn of(plan: &ReplayPlan) -> Self {
        let capacities = plan.targets.iter().map(|target| target.limits().capacity.0);
        Self {
            run: plan.output.display().to_string(),
            targets: plan.targets.iter().map(Target::name).collect(),
            capacity: capacities.fold(0, u64::saturating_add),
            in_flight_max: plan.scheduler.in_flight_max,
            fill_random: plan.fill.random,
            dedup: plan.fill.dedup,
            has_schedule: plan.tells_demand(),
            simulated: plan.targets.iter().any(Target::is_simulated),
        }
    }
}

/// The threads and files of these outputs.
pub(crate) struct Live {
    board: Arc<Board>,
    outputs: Outputs,
    server: Option<Server>,
    view: Option<Arc<View>>,
    #[cfg(feature = "live")]
    panels: Mutex<Option<Panels>>,
    about: About,
    plan: LivePlan,
    /// Whether somebody asked the program to end.
    asked: Arc<AtomicBool>,
}

impl Live {
    /// Opens the files and the server. Returns `None` if no output was chosen.
    pub(crate) fn start(
        plan: &ReplayPlan,
        live: &LivePlan,
        facts: &RunFacts,
        asked: &Arc<AtomicBool>,
    ) -> Result<Option<Self>> {
        if !live.is_asked() {
            return Ok(None);
        }
        let about = About::of(plan);
        let board = Arc::new(Board::new(about.simulated, live.writes_files()));
        let outputs = Outputs::start(live, &about, &board, asked)?;
        let mut started = Self {
            board,
            outputs,
            server: None,
            view: None,
            #[cfg(feature = "live")]
            panels: Mutex::default(),
            about,
            plan: live.clone(),
            asked: Arc::clone(asked),
        };
        if live.is_drawn() {
            let view = Arc::new(View {
                board: Arc::clone(&started.board),
                figures: Arc::default(),
                engine: facts_beforehand(plan, facts),
                facts: facts.without_processes(),
                last: Mutex::default(),
            });
            started.server = started.serve(&view)?;
            #[cfg(feature = "live")]
            if live.live {
                let duration = known_duration(plan);
                let panels = Panels::start(Arc::clone(&view), duration, Arc::clone(asked));
                started.panels = Mutex::new(panels);
            }
            started.view = Some(view);
        }
        Ok(Some(started))
    }

    fn serve(&self, view: &Arc<View>) -> Result<Option<Server>> {
        let Some(address) = self.plan.serve else { return Ok(None) };
        let view = Arc::clone(view);
        let server = Server::start(address, view, self.about.clone(), self.plan.interval)?;
        tell(&format!("serving the run so far at http://{}/", server.address));
        if !address.ip().is_loopback() {
            tell("warning: whoever reaches that address can read the report; there is no password");
        }
        Ok(Some(server))
    }

    /// The tally of results, for the writer's thread.
    pub(crate) fn tally(&self, meters: &Meters) -> Tally {
        let controls = meters.controls.clone();
        let mut tally = Tally::new(self.plan.interval, controls, Arc::clone(&self.board))
            .simulated(self.about.simulated);
        if self.about.has_schedule {
            tally = tally.with_demand(Arc::clone(&meters.demand));
        }
        if let Some(view) = &self.view {
            tally = tally.with_portrait(Portrait::new(Arc::clone(&view.figures)));
        }
        tally
    }

    /// Ends the intervals: all lanes have ended, and the board has every result.
    pub(crate) fn run_ended(&self) {
        self.board.end();
        #[cfg(feature = "live")]
        drop(self.panels.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// A flag that is raised while panels use the terminal.
    pub(crate) fn has_terminal(&self) -> Option<Arc<AtomicBool>> {
        #[cfg(feature = "live")]
        {
            let panels = self.panels.lock().unwrap_or_else(PoisonError::into_inner);
            panels.as_ref().map(|panels| Arc::clone(&panels.shown))
        }
        #[cfg(not(feature = "live"))]
        None
    }

    /// Waits until all outputs are written, and shows the page, which is the run's own report.
    pub(crate) fn finish(mut self, page: Option<Page>) {
        self.end();
        if let (Some(view), Some(server), Some(page)) = (&self.view, &self.server, page) {
            view.finish(page);
            if self.plan.serve_after > Nanos::ZERO {
                tell(&format!(
                    "serving the report at http://{}/ for {} more; Ctrl-C ends it",
                    server.address, self.plan.serve_after
                ));
            }
            server.linger(self.plan.serve_after, &self.asked);
        }
    }

    fn end(&mut self) {
        self.run_ended();
        self.outputs.finish();
    }
}

impl Drop for Live {
    /// Ends the outputs of a failed run, too.
    fn drop(&mut self) {
        self.end();
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

#[cfg(test)]
mod tests {
    use ioecho_stats::interval::Interval;
    use ioecho_trace::{Bytes, Integrity, LateCause, Measured, Op, Outcome};

    use super::*;

    /// An interval with at least one event of each kind.
    pub(crate) fn busy() -> Interval {
        let mut interval = Interval::between(3, Nanos::from_secs(2), Nanos::from_secs(3));
        interval.epoch_ns = 1_700_000_000_500_000_000;
        interval.demanded = Some(9);
        interval.in_flight = 5;
        for (op, late_us, service_us, outcome) in [
            (Op::Read, 0, 100, Outcome::Ok),
            (Op::Read, 10, 200, Outcome::Ok),
            (Op::Write, 2_000, 5_000, Outcome::Ok),
            (Op::Write, 0, 10, Outcome::Error(5)),
        ] {
            let scheduled = Nanos::from_secs(2);
            let submitted = scheduled + Nanos::from_micros(late_us);
            let measured = Measured {
                scheduled,
                submitted: Some(submitted),
                completed: Some(submitted + Nanos::from_micros(service_us)),
                target_offset: None,
                in_flight: 4,
                outcome,
                pushed_back: false,
                late_cause: LateCause::InFlightCap,
                target: 0,
                integrity: Integrity::Unchecked,
                behind: 0,
                flow: 0,
            };
            interval.observe(op, Bytes(4096), &measured);
        }
        interval
    }
}
