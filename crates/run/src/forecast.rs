//! A preview of a replay: the output of `--dry-run`.

use std::fmt;
use std::sync::Arc;

use ioecho_replay::plan::{PlanTotals, Planned, TargetLimits, Writes};
use ioecho_stats::judge;
use ioecho_trace::recorded::FoundBefore;
use ioecho_trace::units::counted;
use ioecho_trace::{Batch, Bytes, Op, Source};

use crate::error::{Kind, Result, RunError};
use crate::flows::{self, Readers};
use crate::plan::ReplayPlan;
use crate::target::Target;
use crate::{feeder, open};

/// The preview of a replay.
#[derive(Debug, Default)]
pub struct Forecast {
    totals: PlanTotals,
    wraparound: f64,
    refused: u64,
    /// Whether requests have times.
    timed: bool,
    /// Requests that wait for others, if that decides when they are issued.
    waiting: Option<u64>,
    /// Whether nobody knows how far the replay comes in a load without an end.
    endless: bool,
    /// The trees that loads on files change; how far these come depends on what is there.
    trees: Option<Vec<String>>,
    /// What a recorded load on files does, where it is one.
    recorded: Option<RecordedChanges>,
    changes: Vec<Changes>,
}

/// What a recorded load on files does to its directory.
#[derive(Clone, Debug, Default)]
struct RecordedChanges {
    target: String,
    /// What is made first.
    before: FoundBefore,
    writes: u64,
    bytes: u64,
    /// Calls that change names, or sizes of files.
    names: u64,
}

impl fmt::Display for RecordedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, before, writes, bytes, names } = self;
        writeln!(f, "made first    {before}")?;
        write!(
            f,
            "changed       {target}, by {} of {} together and {} that change names or sizes",
            counted(*writes, "write"),
            Bytes(*bytes),
            counted(*names, "call")
        )
    }
}

/// The changes to a target.
#[derive(Clone, Debug, Default)]
struct Changes {
    target: String,
    requests: u64,
    bytes: u64,
    range: Option<(u64, u64)>,
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { totals, wraparound, refused, timed, waiting, endless, trees, .. } = self;
        let Self { changes, recorded, .. } = self;
        if let Some(trees) = trees {
            writeln!(f, "would replay  loads on files, as far as what is there lets them come")?;
            let which = if trees.is_empty() { "nothing" } else { &trees.join(", ") };
            return write!(f, "changed       {which}");
        }
        if *endless {
            writeln!(f, "would replay  a load without an end, as far as it comes")?;
            let is_changed = !changes.is_empty();
            let what = if is_changed { "as much as it comes to" } else { "nothing" };
            return write!(f, "overwritten   {what}");
        }
        let last = totals.last_scheduled;
        let span = match (waiting, timed) {
            // Each is due at its instant, and goes when those are done that it waited for.
            (Some(waiting), true) => format!("{last}, {waiting} of them behind others"),
            (Some(waiting), false) => {
                format!("the time that {waiting} of them take one after another")
            }
            (None, true) => last.to_string(),
            (None, false) => "as little time as they take".to_owned(),
        };
        writeln!(
            f,
            "would replay  {} in {} ({refused} do not fit, {} left out, {} not mapped)",
            counted(totals.planned - refused, "request"),
            span,
            totals.left_out,
            totals.unmapped
        )?;
        if let Some(recorded) = recorded {
            return write!(f, "{recorded}");
        }
        let doubt = if judge::WRAPAROUND.contains(wraparound) {
            ""
        } else {
            "; outside 0.5 to 2, so the verdict will be suspect"
        };
        writeln!(
            f,
            "wraparound    factor {wraparound:.3}, {} wrapped{doubt}",
            counted(totals.wrapped, "request")
        )?;
        if changes.iter().all(|changes| changes.range.is_none()) {
            return write!(f, "overwritten   nothing");
        }
        let several = changes.len() > 1;
        let written = changes.iter().filter_map(|changes| Some((changes, changes.range?)));
        for (number, (changes, (from, to))) in written.enumerate() {
            let Changes { target, requests, bytes, .. } = changes;
            let on = if several { format!("on {target} ") } else { String::new() };
            let bytes = Bytes(*bytes);
            let line = if number > 0 { "\n" } else { "" };
            write!(
                f,
                "{line}overwritten   {on}what lies between bytes {from} and {to}, by {} of \
                 {bytes} together",
                counted(*requests, "request")
            )?;
        }
        Ok(())
    }
}

/// Reads the whole trace and previews its replay. Of a load without an end, which would be read for
/// ever, only that is told, unless the plan ends it.
pub fn forecast(plan: &ReplayPlan, source: &mut dyn Source) -> Result<Forecast> {
    let limits: Vec<_> = plan.targets.iter().map(Target::limits).collect();
    if !plan.flows.is_empty() {
        return of_flows(plan, &limits);
    }
    let mut planner = plan.planner(&limits, source.header())?;
    let mut batch = Batch::new(source.header().columns);
    let until = plan.until();
    let changes =
        plan.targets.iter().map(|target| Changes { target: target.name(), ..Changes::default() });
    let is_endless = open::refuse_endless(&plan.spec.trace, &plan.spec.load()).is_err();
    if is_endless && until.is_none() {
        let changes = changes.filter(|_| plan.timing.writes == Writes::Issue).collect();
        return Ok(Forecast { endless: true, changes, ..Forecast::default() });
    }
    let mut forecast = Forecast {
        timed: plan.timing.mode.has_schedule(),
        changes: changes.collect(),
        recorded: recorded(plan),
        ..Forecast::default()
    };
    let (mut planned, mut parents): (Vec<Planned>, _) = (Vec::new(), Vec::new());
    let mut links = plan.links();
    let mut cut = None;
    while cut.is_none() && source.next_batch(&mut batch)? {
        planned.clear();
        parents.clear();
        match &mut links {
            Some(links) => links.plan(&batch, &mut planner, &mut planned, &mut parents)?,
            None => cut = feeder::plan(&batch, &mut planner, until, &mut planned),
        }
        for planned in &planned {
            forecast.count(planned);
        }
    }
    forecast.waiting = links.map(|links| links.waiting());
    forecast.totals = cut.unwrap_or_else(|| planner.totals());
    forecast.wraparound = forecast.totals.wraparound;
    Ok(forecast)
}

/// The changes of a recorded load on files, if the plan has one.
fn recorded(plan: &ReplayPlan) -> Option<RecordedChanges> {
    let target = plan.targets.first()?;
    let Target::Tree(tree) = target else { return None };
    let before = tree.recorded.as_ref()?.found();
    Some(RecordedChanges { target: target.name(), before, ..RecordedChanges::default() })
}

impl Forecast {
    fn count(&mut self, planned: &Planned) {
        if planned.refusal.is_some() {
            self.refused += 1;
        } else if let Some(recorded) = &mut self.recorded {
            let is_write = planned.op == Op::Write;
            recorded.writes += u64::from(is_write);
            recorded.bytes += if is_write { planned.length.0 } else { 0 };
            recorded.names += u64::from(planned.op.changes_names());
        } else if planned.op.changes_data() {
            let changes = &mut self.changes[usize::from(planned.target)];
            changes.requests += 1;
            changes.bytes = changes.bytes.saturating_add(planned.length.0);
            let end = planned.end().0;
            let (from, to) = changes.range.unwrap_or((planned.offset.0, end));
            changes.range = Some((from.min(planned.offset.0), to.max(end)));
        }
    }
}

/// Previews a replay of flows, each to its end: how far they come together depends on the device.
fn of_flows(plan: &ReplayPlan, limits: &[TargetLimits]) -> Result<Forecast> {
    if plan.is_of_files() {
        let changes = |number: &usize| plan.flows.list().iter().any(|it| it.changes(*number));
        let changed = (0..plan.targets.len()).filter(changes);
        let trees = Some(changed.map(|number| plan.targets[number].name()).collect());
        return Ok(Forecast { trees, ..Forecast::default() });
    }
    let changes =
        plan.targets.iter().map(|target| Changes { target: target.name(), ..Changes::default() });
    if plan.flows.are_endless() {
        let changes = changes.filter(|_| plan.timing.writes == Writes::Issue).collect();
        return Ok(Forecast { endless: true, changes, ..Forecast::default() });
    }
    let timed = plan.timing.mode.has_schedule();
    let mut forecast = Forecast { timed, changes: changes.collect(), ..Forecast::default() };
    let stop = Arc::default();
    let (readers, inputs) = Readers::start(&plan.flows, limits, plan.timing, None, &stop)?;
    for (input, group) in inputs.into_iter().zip(plan.flows.groups(limits.len())) {
        let joint = flows::joint(&group, limits);
        let end = input.drain(&mut |planned| forecast.count(&joint.planned(planned)));
        flows::add(&mut forecast.totals, &end.totals);
        end.error.map_or(Ok(()), Err)?;
    }
    let end = readers.end().map_err(|_| RunError::new(Kind::Failure, "a reader panicked"))?;
    flows::add(&mut forecast.totals, &end.totals);
    end.error.map_or(Ok(()), Err)?;
    forecast.wraparound = forecast.totals.wraparound;
    Ok(forecast)
}
