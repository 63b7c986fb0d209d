//! `ioecho predict`: how long a load would take on a device that is not at hand.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ioecho_run::directory::RunDirectory;
use ioecho_run::execute::execute;
use ioecho_run::observer::Observer;
use ioecho_run::page;
use ioecho_run::plan::ReplayPlan;
use ioecho_run::predict::{self, Device, Fit, Unseen};
use ioecho_run::spec::ReplaySpec;
use ioecho_stats::critical_path::CriticalPath;
use ioecho_stats::headline::as_recorded;
use ioecho_stats::histogram::{Percentiles, Summary};
use ioecho_stats::run_summary::RunSummary;
use ioecho_stats::trace_summary::TraceFigures;
use ioecho_stats::verdict::{Finding, Validity};
use ioecho_trace::Nanos;
use ioecho_trace::units::counted;
use serde::Serialize;

use crate::args::PredictArgs;
use crate::exit;
use crate::opened::Named;
use crate::print::{Out, tell, visible};
use crate::run::command;
use crate::run::live::LivePlan;
use crate::run::screen::Screen;
use crate::run::signals::stop_on_signals;

/// The version of the JSON.
const VERSION: u32 = 1;

pub(crate) fn run(args: &PredictArgs, out: &mut Out) -> anyhow::Result<u8> {
    let device = Device::named(&args.device);
    if let Device::Run(run) = &device {
        doubt(run);
    }
    let scratch = tempfile::tempdir().context("no directory for temporary files")?;
    let output = args.output.clone().unwrap_or_else(|| scratch.path().join("run"));
    let target = device.target(args.storage_speed);
    let spec = args.spec(target.clone(), output);
    let recorded = predict::recorded(&spec.trace, &spec.read, &spec.load(), &Named)?;
    let (plan, source) = ReplayPlan::new(spec, command::words(), &Named)?;
    let unseen = predict::unseen_of_load(&plan, &recorded)?;
    let stopping = stop_on_signals()?;
    let observer: Arc<dyn Observer> = Arc::new(Screen::new(LivePlan::default(), true, &stopping));
    let finished = execute(&plan, source, &stopping, &observer)?;
    let fit = match &device {
        Device::Run(run) => predict::fit(run, &scratch.path().join("fit"), &Named)?,
        Device::Model(_) => None,
    };
    let told = Told {
        plan: &plan.spec,
        device: &device,
        target,
        recorded,
        unseen,
        fit,
        predicted: &finished.summary,
    };
    if args.json {
        out.json(&told.json())?;
    } else {
        told.print(out)?;
    }
    if args.output.is_some() {
        let run = &finished.run;
        let page = page::of_run(run, &finished.summary);
        match page.map(|page| page::write(run, &page)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tell(&format!("warning: {error}")),
            Err(error) => tell(&format!("warning: there is no report: {error:#}")),
        }
    }
    let incomplete = exit::of_run(&finished.summary) == exit::INCOMPLETE;
    Ok(if incomplete { exit::INCOMPLETE } else { exit::OK })
}

/// Warns of a run whose figures are not its device's: a device that is learnt from it is none.
fn doubt(run: &Path) {
    let summary = RunDirectory::at(run).and_then(|run| run.read_summary().ok());
    let Some(verdict) = summary.map(|summary| summary.verdict) else { return };
    if verdict.validity == Validity::Invalid {
        let finding = verdict.told_finding().map_or("its checks say why", Finding::name);
        tell(&format!(
            "warning: the figures of {} are invalid ({finding}), and so is what is learnt of its \
             device",
            visible(&run.display().to_string())
        ));
    }
}

/// A prediction and what it is held against.
struct Told<'a> {
    plan: &'a ReplaySpec,
    device: &'a Device,
    target: String,
    recorded: TraceFigures,
    unseen: Vec<Unseen>,
    predicted: &'a RunSummary,
    fit: Option<Fit>,
}

/// The JSON output.
#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    device: String,
    timing: &'a str,
    requests: u64,
    recorded: Recorded<'a>,
    predicted: Predicted<'a>,
    /// What the run that was learnt from did not have.
    unseen: &'a [Unseen],
    fit: Option<Fit>,
}

/// The load as it was recorded.
#[derive(Serialize)]
struct Recorded<'a> {
    duration_ns: i64,
    requests_per_s: f64,
    latency: Option<&'a Summary>,
}

/// The load on the device.
#[derive(Serialize)]
struct Predicted<'a> {
    duration_ns: i64,
    requests_per_s: f64,
    service_time: Option<&'a Percentiles>,
    response_time: Option<&'a Percentiles>,
    critical_path: Option<CriticalPath>,
    finding: &'a str,
}

impl Told<'_> {
    /// The time from the first request to the last submission, and requests per second in it.
    fn predicted(&self) -> (i64, f64) {
        let duration_ns = self.predicted.achieved_duration_ns;
        (duration_ns, self.predicted.engine.issued as f64 * 1e9 / duration_ns.max(1) as f64)
    }

    fn json(&self) -> Json<'_> {
        let (duration_ns, requests_per_s) = self.predicted();
        Json {
            version: VERSION,
            device: self.target.clone(),
            timing: self.plan.timing.name(),
            requests: self.recorded.requests,
            recorded: Recorded {
                duration_ns: self.recorded.duration_ns,
                requests_per_s: self.recorded.mean_requests_per_s,
                latency: self.recorded.latency.as_ref(),
            },
            predicted: Predicted {
                duration_ns,
                requests_per_s,
                service_time: self.predicted.service_time.get("all"),
                response_time: self.predicted.response_time.get("all"),
                critical_path: self.predicted.critical_path,
                finding: self.predicted.verdict.finding.name(),
            },
            unseen: &self.unseen,
            fit: self.fit,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let recorded = &self.recorded;
        let (duration_ns, requests_per_s) = self.predicted();
        let [took, known] = [duration_ns, recorded.duration_ns].map(|ns| ns.max(1) as f64);
        let mut row = |name: &str, value: String| writeln!(out, "{name:<14}{}", visible(&value));
        row("load", counted(recorded.requests, "request"))?;
        row("device", self.target.clone())?;
        row(
            "duration",
            format!(
                "{} predicted, {} recorded: {}",
                Nanos(duration_ns),
                Nanos(recorded.duration_ns),
                as_recorded(took, known)
            ),
        )?;
        row(
            "throughput",
            format!(
                "{requests_per_s:.0} IOPS predicted, {:.0} recorded",
                recorded.mean_requests_per_s
            ),
        )?;
        if let Some(service) = self.predicted.service_time.get("all") {
            row("service time", format!("{} predicted", spans(service)))?;
        }
        if let Some(latency) = &recorded.latency {
            let p99 = latency.p99_ns.map_or(String::new(), |ns| format!(", p99 {}", span(ns)));
            row(
                "",
                format!(
                    "mean {}{p99}, max {} recorded",
                    span(latency.mean_ns),
                    span(latency.max_ns)
                ),
            )?;
        }
        // Where requests have their instants, a device that falls behind shows in nothing else.
        let response = self.predicted.response_time.get("all");
        if let Some(response) = response.filter(|_| self.predicted.engine.has_schedule()) {
            row("response time", format!("{} predicted", spans(response)))?;
        }
        if let Some(path) = &self.predicted.critical_path {
            row("critical path", path.sentence())?;
        }
        for unseen in &self.unseen {
            let Unseen { operation, requests, .. } = unseen;
            let like = unseen.like();
            row(
                "unseen",
                format!(
                    "{operation} ({requests}): the run had none, so it takes as long as {like}"
                ),
            )?;
        }
        if let Some(Fit { requests, duration, mean, p99 }) = self.fit {
            let percent = |error: f64| format!("{:+.1} %", error * 100.0);
            let p99 = p99.map_or(String::new(), |p99| format!(", p99 {}", percent(p99.error())));
            row(
                "fit",
                format!(
                    "the run itself, predicted: duration {}, mean service time {}{p99} ({})",
                    percent(duration.error()),
                    percent(mean.error()),
                    counted(requests, "request")
                ),
            )?;
        } else if matches!(self.device, Device::Run(_)) {
            row(
                "fit",
                "unknown: the results of that run cannot be replayed in its timing".to_owned(),
            )?;
        }
        row("", "docs/prediction.md says when not to believe it".to_owned())
    }
}

fn span(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

fn spans(found: &Percentiles) -> String {
    let p99 = found.p99_ns.map_or(String::new(), |ns| format!(", p99 {}", span(ns)));
    format!("mean {}{p99}, max {}", span(found.mean_ns), span(found.max_ns))
}
