//! The witness on the report's page: figures side by side, and pictures.

use ioecho_report::{Listing, Witness, charts};
use ioecho_stats::fidelity::{ErrorFigures, FidelityFigures, Pair, Spread};
use ioecho_stats::run_summary::EngineFacts;
use ioecho_stats::witnessed::{Sight, WitnessPanels};
use ioecho_trace::recording::Recording;
use ioecho_trace::units::counted_in;
use ioecho_trace::{Header, Nanos};

use super::held::{self, Witnessed};
use super::seal;
use crate::directory::RunDirectory;
use crate::facts::{RunFacts, WitnessEntry};

/// The page's section on the witness of a run that ended at `end`; `None` without a witness.
pub(crate) fn section(
    run: &RunDirectory,
    facts: &RunFacts,
    engine: &EngineFacts,
    end: Nanos,
) -> Option<Witness> {
    let witnessed = Witnessed::of(facts)?;
    let entry = facts.witness.as_ref()?;
    if let Some(why) = seal::broken(run, Some(entry)) {
        let told = format!(
            "There is nothing to show of what the device saw: {why}. The verdict is that of the \
             time when it was there."
        );
        return Some(Witness { text: vec![told], ..Witness::default() });
    }
    if !held::holds(run) {
        let mut text =
            text(entry, &FidelityFigures { absolute: true, ..FidelityFigures::default() });
        let failure = engine.witness.as_ref().map(|seen| seen.failure.as_str());
        let failure = failure.filter(|why| !why.is_empty());
        if text.is_empty()
            && let Some(why) = failure
        {
            text.push(format!("A witness was asked for, and there is none: {why}."));
        }
        return (!text.is_empty()).then(|| Witness { text, ..Witness::default() });
    }
    let mut panels = WitnessPanels::new(end);
    let has_schedule = engine.has_schedule();
    let watch = &mut |pair: &Pair| panels.observe(&sight(pair, has_schedule));
    let found = held::figures(run, &witnessed, watch);
    let (figures, header) = match found {
        Ok(found) => found,
        // The run's own figures are valid without the witness.
        Err(error) => {
            let text = vec![format!("The witness cannot be read: {error:#}.")];
            return Some(Witness { text, ..Witness::default() });
        }
    };
    let tables = vec![requests(&figures), times(&figures), order(&figures), recorder(&header)];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty()).collect();
    let mut text = text(entry, &figures);
    if let Some(damage) = &header.damage {
        text.push(format!("The recording is damaged: {damage}."));
    }
    Some(Witness { text, tables, charts: charts::witness::all(&panels) })
}

fn sight(pair: &Pair, has_schedule: bool) -> Sight {
    Sight {
        due: has_schedule.then_some(pair.at),
        submitted: pair.engine.and_then(|engine| engine.submitted),
        completed: pair.engine.and_then(|engine| engine.completed),
        seen: pair.seen,
        latency: pair.seen_latency,
    }
}

/// Explanations that a reader needs before the figures.
fn text(entry: &WitnessEntry, figures: &FidelityFigures) -> Vec<String> {
    let mut text = Vec::new();
    if let Some(why) = &entry.incomplete {
        text.push(format!("The witness is incomplete: {why}."));
    }
    text.extend(entry.without.iter().map(|one| format!("{one}.")));
    if !figures.absolute {
        text.push(
            "The run's zero on the kernel's clock is not known: the median of all differences \
             was taken for the distance of the clocks, so that a constant delay cannot be seen."
                .to_owned(),
        );
    }
    if figures.not_witnessed > 0 {
        text.push(format!(
            "Where the recorder could see nothing, {} issued that no other figure counts.",
            counted_in(figures.not_witnessed, "request was", "requests were")
        ));
    }
    if figures.windowed {
        text.push(
            "The run is longer than what is compared at once: a request that reached the device \
             very late is missing and extra."
                .to_owned(),
        );
    }
    text
}

fn row(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

fn listing(columns: &[&str], rows: Vec<Vec<String>>, note: &str) -> Listing {
    Listing {
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
        note: note.to_owned(),
        ..Listing::default()
    }
}

/// The numbers of seen and unseen requests.
fn requests(figures: &FidelityFigures) -> Listing {
    let count = |name: &str, count: u64| row(name, [count.to_string()]);
    let whole = figures.found.saturating_sub(figures.split).saturating_sub(figures.merged);
    let mut rows = vec![
        count("asked for by the run", figures.asked.requests),
        count("seen as they were issued", whole),
    ];
    let others = [
        ("seen in pieces (splits)", figures.split),
        ("seen as parts of longer ones (merges)", figures.merged),
        ("missing: never seen", figures.missing_counted()),
        ("not witnessed: the recorder could see nothing then", figures.not_witnessed),
        ("flushes that ended above the device", figures.flushes_ended_above),
        ("extra: seen and not asked for", figures.extra),
    ];
    rows.extend(others.map(|(name, number)| count(name, number)));
    for (pid, number) in &figures.extra_by_process {
        rows.push(count(&format!("extra of process {pid}"), *number));
    }
    listing(&["requests", "number"], rows, "")
}

fn span(ns: i64) -> String {
    Nanos(ns).to_string()
}

/// Latencies and lateness.
fn times(figures: &FidelityFigures) -> Listing {
    let error = |name: &str, error: Option<&ErrorFigures>| {
        error.map(|error| {
            let ErrorFigures { p50_ns, p99_ns, p999_ns, max_ns, .. } = *error;
            row(
                name,
                [String::new()].into_iter().chain([p50_ns, p99_ns, p999_ns, max_ns].map(span)),
            )
        })
    };
    let spread = |name: &str, spread: Option<&Spread>| {
        spread.map(|spread| {
            let Spread { mean_ns, p50_ns, p99_ns, p999_ns, max_ns, .. } = *spread;
            let all = [mean_ns as i64, p50_ns, p99_ns, p999_ns, max_ns];
            row(name, all.map(span))
        })
    };
    let seen = &figures.seen;
    let service = seen.response_mean_ns.map(|mean| {
        let known = |ns: Option<i64>| ns.map_or_else(String::new, span);
        let rest = [seen.response_p50_ns, seen.response_p99_ns, seen.response_p999_ns];
        let cells = [span(mean as i64)].into_iter().chain(rest.map(known)).chain([String::new()]);
        row("service time of the device", cells)
    });
    let shift = figures.shift_ns.filter(|_| figures.absolute).map(|shift| {
        let rest = std::iter::repeat_n(String::new(), 3);
        row("delay of all (its median)", [String::new(), span(shift)].into_iter().chain(rest))
    });
    let rows = [
        error("issue-time error at the device, less the delay of all", figures.issue.as_ref()),
        error("the same as the engine says", figures.engine.as_ref()),
        shift,
        spread("submission lag: handed over until seen", figures.submission_lag.as_ref()),
        service,
        spread("completion lag: completed until noticed", figures.completion_lag.as_ref()),
        spread("both lags together", figures.overhead.as_ref()),
    ];
    listing(
        &["times", "mean", "50 %", "99 %", "99.9 %", "max"],
        rows.into_iter().flatten().collect(),
        "Errors are taken from the median delay, early or late; the pictures show whole delays. \
         The engine stamps a request just before the system call.",
    )
}

/// The order and the number in flight.
fn order(figures: &FidelityFigures) -> Listing {
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let mut rows = Vec::new();
    if let Some(order) = &figures.order {
        rows.extend([
            row("reordered (RFC 4737)", [order.reordered.to_string()]),
            row("of these held back for the device's sake", [order.held_back.to_string()]),
            row("of the others due more than 1 ms before", [order.apart.to_string()]),
            row("reordering ratio", [format!("{:.4} %", order.ratio * 100.0)]),
            row("mean extent, requests", [format!("{:.1}", order.extent_mean)]),
            row("largest extent, requests", [order.extent_max.to_string()]),
        ]);
    }
    rows.push(row("in flight at the device, mean", [known(figures.seen.in_flight_mean)]));
    if let Some(most) = figures.seen.in_flight_max {
        rows.push(row("in flight at the device, most", [most.to_string()]));
    }
    if let Some(mean) = figures.asked.in_flight_mean {
        rows.push(row("in flight in the recording, mean", [format!("{mean:.2}")]));
    }
    if let Some(error) = figures.duration_error {
        rows.push(row("error of the duration", [format!("{:.4} %", error * 100.0)]));
    }
    if let Some(drift) = figures.drift_ppm {
        rows.push(row("drift", [format!("{drift:.2} ppm")]));
    }
    listing(&["order and flight", "value"], rows, "")
}

/// The cost and the losses of the recorder.
fn recorder(header: &Header) -> Listing {
    let Some(recording) = &header.recording else { return Listing::default() };
    let Recording { interface, why, lost, gaps, cost, matching, .. } = recording;
    let lost: u64 = lost.values().fold(0, |sum, count| sum.saturating_add(*count));
    let mut rows = vec![
        row("interface", [format!("{} ({why})", interface.name())]),
        row("events lost", [lost.to_string()]),
        row("gaps", [gaps.len().to_string()]),
    ];
    if let Some(cost) = cost {
        let share = format!("{:.2} % of a processor", cost.cpu_share() * 100.0);
        rows.push(row("cost of the recorder", [share]));
        let bytes = ioecho_trace::Bytes(cost.bytes);
        rows.push(row("recorded", [format!("{bytes} in {}", span(cost.wall_ns as i64))]));
    }
    if let Some(matching) = matching {
        rows.push(row("requests without a completion", [matching.unmatched.to_string()]));
        rows.push(row("requests with an ambiguous completion", [matching.ambiguous.to_string()]));
    }
    listing(&["recorder", ""], rows, "")
}
