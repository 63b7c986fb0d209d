//! What a replay would do: the answer of `--dry-run`.

use std::fmt;

use ioecho_replay::plan::{PlanTotals, Planned};
use ioecho_stats::judge;
use ioecho_trace::{Batch, Bytes, Source};

use crate::run::plan::ReplayPlan;
use crate::run::target::Target;

/// What a replay would do.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    totals: PlanTotals,
    wraparound: f64,
    refused: u64,
    changes: u64,
    changed_bytes: u64,
    changed: Option<(u64, u64)>,
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { totals, wraparound, refused, changes, .. } = self;
        writeln!(
            f,
            "would replay  {} requests in {} ({refused} do not fit, {} left out, {} not mapped)",
            totals.planned - refused,
            totals.last_scheduled,
            totals.left_out,
            totals.unmapped
        )?;
        let doubt = if judge::WRAPAROUND.contains(wraparound) {
            ""
        } else {
            "; outside 0.5 to 2, so the verdict will be suspect"
        };
        writeln!(
            f,
            "wraparound    factor {wraparound:.3}, {} requests wrapped{doubt}",
            totals.wrapped
        )?;
        match self.changed {
            None => write!(f, "overwritten   nothing"),
            Some((from, to)) => write!(
                f,
                "overwritten   what lies between bytes {from} and {to}, by {changes} requests of \
                 {} together",
                Bytes(self.changed_bytes)
            ),
        }
    }
}

/// Reads the whole trace and says what a replay would do.
pub(crate) fn forecast(plan: &ReplayPlan, source: &mut dyn Source) -> anyhow::Result<Forecast> {
    let limits: Vec<_> = plan.targets.iter().map(Target::limits).collect();
    let mut planner = plan.planner(&limits, source.header())?;
    let mut batch = Batch::new(source.header().columns);
    let mut forecast = Forecast::default();
    let mut planned: Vec<Planned> = Vec::new();
    while source.next_batch(&mut batch)? {
        planned.clear();
        for request in batch.iter() {
            planner.plan(&request, &mut planned);
        }
        for planned in &planned {
            if planned.refusal.is_some() {
                forecast.refused += 1;
            } else if planned.op.changes_data() {
                forecast.changes += 1;
                forecast.changed_bytes += planned.length.0;
                let end = planned.end().0;
                let (from, to) = forecast.changed.unwrap_or((planned.offset.0, end));
                forecast.changed = Some((from.min(planned.offset.0), to.max(end)));
            }
        }
    }
    forecast.totals = planner.totals();
    forecast.wraparound = forecast.totals.wraparound;
    Ok(forecast)
}
