//! The result of a check for the terminal: whether the replay was true, the reasons, and the
//! figures.

use std::io::{self, Write};

use ioecho_stats::fidelity::{
    Assessment, CROWDED_NS, ErrorFigures, Example, FidelityFigures, KindFigures, LateFigures,
    Reason, SideFigures, Spread,
};
use ioecho_trace::units::{counted, counted_in, times};
use ioecho_trace::{Bytes, Nanos};

use super::Known;
use crate::print::visible;

/// Printed for a figure that is not known.
const UNKNOWN: &str = "–";

pub(super) fn print(
    out: &mut impl Write,
    figures: &FidelityFigures,
    assessment: &Assessment,
    known: &Known,
) -> io::Result<()> {
    writeln!(out, "asked for     {}", visible(&known.asked_for.display().to_string()))?;
    let event = known.event.as_deref().map_or(String::new(), |event| format!(" ({event})"));
    let seen = visible(&known.seen_in.display().to_string());
    writeln!(out, "seen in       {seen}{}", visible(&event))?;
    print_outcome(out, figures, assessment, known)?;
    print_requests(out, figures, known)?;
    print_times(out, figures, known)?;
    print_order(out, figures)?;
    print_sides(out, figures)?;
    print_kinds(out, figures)?;
    print_examples(out, figures)
}

fn print_outcome(
    out: &mut impl Write,
    figures: &FidelityFigures,
    assessment: &Assessment,
    known: &Known,
) -> io::Result<()> {
    if assessment.faithful && figures.not_witnessed > 0 {
        writeln!(out, "outcome       faithful as far as it was witnessed")?;
    } else if assessment.faithful && (!known.damage.is_empty() || known.changed.is_some()) {
        writeln!(out, "outcome       faithful as far as it goes")?;
    } else if assessment.faithful {
        writeln!(out, "outcome       faithful")?;
    } else {
        let names: Vec<&str> = assessment.reasons.iter().map(|reason| reason.name()).collect();
        writeln!(out, "outcome       NOT FAITHFUL: {}", names.join(", "))?;
    }
    for broken in &assessment.broken {
        writeln!(out, "  - {}", broken.text)?;
    }
    if known.lost_events > 0 {
        let lost = counted(known.lost_events, "event");
        writeln!(out, "  note: the recorder lost {lost}; what lies there is not witnessed")?;
    }
    if !known.has_schedule {
        writeln!(out, "  note: the run had no schedule, so no instant and no order is judged")?;
    }
    let order = figures.order.as_ref().filter(|order| order.held_back > 0);
    if let Some(order) = order.filter(|_| assessment.findings.contains(&Reason::DeviceLimited)) {
        writeln!(
            out,
            "  finding: device-limited: {} came after later ones, held back behind what the device \
             had not done (--conflicts says how)",
            counted(order.held_back, "request")
        )?;
    }
    let few = [&figures.asked, &figures.seen].into_iter().find(|side| !side.completions_known());
    if let Some(SideFigures { requests, without_completion, .. }) =
        few.filter(|side| side.response_mean_ns.is_some())
    {
        writeln!(
            out,
            "  note: the completions of {without_completion} of {requests} requests are unknown; \
             response times are not compared"
        )?;
    }
    if let Some(load) = &known.other_load {
        writeln!(out, "  note: the verdict of the run found other load: {}", visible(load))?;
    }
    Ok(())
}

fn print_requests(
    out: &mut impl Write,
    figures: &FidelityFigures,
    known: &Known,
) -> io::Result<()> {
    let (asked, found) = (figures.asked.requests, figures.found);
    writeln!(out, "\nrequests      {asked} asked for, {found} seen at the device")?;
    writeln!(
        out,
        "              {} missing, {} extra ({} of them before the first or behind the last)",
        figures.missing, figures.extra, figures.extra_outside
    )?;
    if figures.not_witnessed > 0 {
        let count = figures.not_witnessed;
        let why = "the recording broke off before, or events were lost there";
        writeln!(out, "              {count} not witnessed: {why}")?;
    }
    if figures.split + figures.merged > 0 {
        writeln!(
            out,
            "              {} in {}, {} merged into {}",
            figures.split,
            counted(figures.pieces, "piece"),
            figures.merged,
            figures.unions
        )?;
    }
    for (why, count) in &figures.not_issued {
        writeln!(out, "              {count} not issued: {why}")?;
    }
    if figures.flushes_ended_above > 0 {
        writeln!(
            out,
            "              ended by the kernel: {}; the device has no volatile cache",
            counted_in(figures.flushes_ended_above, "flush", "flushes")
        )?;
    }
    let by = figures.extra_by_process.iter().take(5).map(|(pid, count)| {
        let name = known.processes.get(pid).map_or("", String::as_str);
        format!("{count} by {} ({pid})", if name.is_empty() { "process" } else { name })
    });
    let by: Vec<String> = by.collect();
    if !by.is_empty() {
        writeln!(out, "              extra: {}", visible(&by.join(", ")))?;
    }
    if known.elsewhere > 0 {
        writeln!(out, "              {} on devices that are no target", known.elsewhere)?;
    }
    if figures.windowed {
        let note = "longer than the window: what lies further apart than half a million requests \
                    is missing and extra";
        writeln!(out, "              {note}")?;
    }
    Ok(())
}

fn print_times(out: &mut impl Write, figures: &FidelityFigures, known: &Known) -> io::Result<()> {
    if !known.has_schedule {
        return print_lags(out, figures);
    }
    writeln!(
        out,
        "\n{:<24}{:>11}{:>11}{:>11}{:>11}{:>12}{:>11}",
        "issue-time error", "p50", "p99", "p99.9", "max", "early (1 %)", "late (1 %)"
    )?;
    print_error(out, "  at the device", figures.issue.as_ref())?;
    if figures.crowded > 0 && figures.crowded < figures.found {
        let within = Nanos(CROWDED_NS);
        let share = figures.crowded as f64 / figures.found as f64 * 100.0;
        print_error(out, "    in bursts", figures.issue_crowded.as_ref())?;
        print_error(out, "    apart", figures.issue_apart.as_ref())?;
        writeln!(out, "    ({share:.1} % due less than {within} behind another one: bursts)")?;
    }
    print_error(out, "  less its drift", figures.detrended.as_ref())?;
    print_error(out, "  as the engine says", figures.engine.as_ref())?;
    if let Some(ppm) = figures.drift_ppm {
        writeln!(out, "  drift                 {ppm:>+11.1} ppm")?;
    }
    if let Some(shift) = figures.shift_ns {
        let what = if figures.absolute { "delay of all" } else { "clocks apart" };
        writeln!(out, "  {what:<22}{:>11}", Nanos(shift).to_string())?;
    }
    if let Some(late) = figures.late.as_ref().filter(|late| late.requests > 0) {
        print_late(out, late, known)?;
    }
    if let Some(stalls) = figures.stalls.as_ref().filter(|stalls| stalls.stalls > 0) {
        writeln!(
            out,
            "  stood still for more than {}: {}, {} in all, the longest {} after {:.6} s",
            Nanos(stalls.beyond_ns),
            times(stalls.stalls),
            Nanos(stalls.total_ns),
            Nanos(stalls.longest_ns),
            Nanos(stalls.longest_at_ns).as_secs_f64()
        )?;
    }
    if figures.sampled_every > 1 {
        writeln!(out, "  percentiles of every {}th request", figures.sampled_every)?;
    }
    print_lags(out, figures)
}

fn print_late(out: &mut impl Write, late: &LateFigures, known: &Known) -> io::Result<()> {
    let LateFigures { requests, device, held_back, generator, host, .. } = late;
    let LateFigures { busy, idle, unknown, .. } = late;
    let of = if known.is_run {
        format!(
            "device {device}, of these held back {held_back}; generator {generator}, host {host}"
        )
    } else {
        format!("device busy {busy}, device idle {idle}, unknown {unknown}")
    };
    writeln!(out, "  later than {}: {requests} ({of})", Nanos(late.beyond_ns))
}

fn print_lags(out: &mut impl Write, figures: &FidelityFigures) -> io::Result<()> {
    let lags = [
        ("submission lag", &figures.submission_lag),
        ("completion lag", &figures.completion_lag),
        ("both lags", &figures.overhead),
    ];
    for (name, spread) in lags {
        if let Some(Spread { p50_ns, p99_ns, p999_ns, max_ns, .. }) = spread {
            let [p50, p99, p999, max] = [*p50_ns, *p99_ns, *p999_ns, *max_ns].map(shown);
            writeln!(out, "{name:<24}{p50:>11}{p99:>11}{p999:>11}{max:>11}")?;
        }
    }
    if figures.impossible > 0 {
        let count = figures.impossible;
        writeln!(out, "  {count} seen before they were handed over or done after: in no lag")?;
    }
    Ok(())
}

fn print_error(out: &mut impl Write, name: &str, error: Option<&ErrorFigures>) -> io::Result<()> {
    let Some(error) = error else { return Ok(()) };
    let sizes = [error.p50_ns, error.p99_ns, error.p999_ns, error.max_ns].map(shown);
    let [p50, p99, p999, max] = sizes;
    let (early, late) = (shown(error.early_p1_ns), shown(error.late_p99_ns));
    writeln!(out, "{name:<24}{p50:>11}{p99:>11}{p999:>11}{max:>11}{early:>12}{late:>11}")
}

fn shown(ns: i64) -> String {
    Nanos(ns).to_string()
}

fn print_order(out: &mut impl Write, figures: &FidelityFigures) -> io::Result<()> {
    let Some(order) = &figures.order else { return Ok(()) };
    writeln!(
        out,
        "\norder         {} reordered ({:.4} %), extent mean {:.2}, max {} (RFC 4737)",
        order.reordered,
        order.ratio * 100.0,
        order.extent_mean,
        order.extent_max
    )?;
    if order.held_back > 0 {
        writeln!(
            out,
            "              {} of them held back behind requests that they overlap, or for a \
             place; {} were not ({:.4} %)",
            order.held_back,
            order.of_others(),
            order.ratio_of_others() * 100.0
        )?;
    }
    if order.apart > 0 {
        let apart = order.apart;
        writeln!(out, "              {apart} came behind one due more than 1 ms later")?;
    }
    if let Some(ks) = figures.inter_arrival_ks {
        writeln!(out, "inter-arrival Kolmogorov-Smirnov distance {ks:.4}")?;
    }
    Ok(())
}

/// A row of the table of both sides: a name, the two values and their difference.
fn row(
    out: &mut impl Write,
    name: &str,
    sides: &[String; 2],
    error: Option<f64>,
) -> io::Result<()> {
    let error = error.map_or(String::new(), |error| format!("{:+.3} %", error * 100.0));
    writeln!(out, "  {name:<22}{:>14}{:>14}{error:>14}", sides[0], sides[1])
}

fn print_sides(out: &mut impl Write, figures: &FidelityFigures) -> io::Result<()> {
    let both = [&figures.asked, &figures.seen];
    writeln!(out, "\n{:<24}{:>14}{:>14}{:>14}", "", "asked for", "seen", "difference")?;
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    // If some requests were not witnessed, the others are compared, on both sides.
    let spans = [figures.due_span_ns, figures.seen.span_ns].map(|span| known(span.map(shown)));
    row(out, "first to last issue", &spans, figures.duration_error)?;
    let of = |value: fn(&SideFigures) -> Option<String>| both.map(|side| known(value(side)));
    let mut execution = of(|side| side.execution_ns.map(shown));
    if figures.not_witnessed > 0 {
        UNKNOWN.clone_into(&mut execution[0]);
    }
    row(out, "to last completion", &execution, figures.execution_error)?;
    let mean = of(|side| side.response_mean_ns.map(|mean| shown(mean as i64)));
    row(out, "response mean", &mean, figures.response_mean_error)?;
    let p99 = of(|side| side.response_p99_ns.map(shown));
    row(out, "response p99", &p99, figures.response_p99_error)?;
    let flight = of(|side| side.in_flight_mean.map(|mean| format!("{mean:.2}")));
    row(out, "in flight mean", &flight, None)?;
    let peak = of(|side| side.in_flight_max.map(|most| most.to_string()));
    row(out, "in flight max", &peak, None)
}

fn print_kinds(out: &mut impl Write, figures: &FidelityFigures) -> io::Result<()> {
    if figures.kinds.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<16}{:>11}{:>11}{:>9}{:>11}{:>11}{:>11}{:>11}",
        "kind", "asked for", "seen", "extra", "reordered", "issue p50", "p99", "max"
    )?;
    for (name, kind) in &figures.kinds {
        let error = kind.issue.as_ref();
        let [p50, p99, max] =
            [error.map(|e| e.p50_ns), error.map(|e| e.p99_ns), error.map(|e| e.max_ns)]
                .map(|ns| ns.map_or_else(|| UNKNOWN.to_owned(), shown));
        let (asked, found, extra) = (kind.asked, kind.found, kind.extra);
        let order = kind.reordered.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
        write!(out, "{name:<16}{asked:>11}{found:>11}{extra:>9}{order:>11}")?;
        writeln!(out, "{p50:>11}{p99:>11}{max:>11}")?;
    }
    let lags = |kind: &KindFigures| Some((kind.engine.clone()?, kind.submission_lag.clone()?));
    if figures.kinds.values().all(|kind| lags(kind).is_none()) {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<16}{:>17}{:>11}{:>22}{:>11}",
        "of these", "engine p50", "p99", "submission lag p50", "p99"
    )?;
    for (name, kind) in &figures.kinds {
        let Some((engine, lag)) = lags(kind) else { continue };
        let [p50, p99] = [engine.p50_ns, engine.p99_ns].map(shown);
        let [lag_p50, lag_p99] = [lag.p50_ns, lag.p99_ns].map(shown);
        writeln!(out, "{name:<16}{p50:>17}{p99:>11}{lag_p50:>22}{lag_p99:>11}")?;
    }
    Ok(())
}

fn print_examples(out: &mut impl Write, figures: &FidelityFigures) -> io::Result<()> {
    let lists = [("missing", &figures.first_missing), ("extra", &figures.first_extra)];
    for (name, places) in lists {
        for place in places {
            writeln!(out, "{name:<8}{}", example(place))?;
        }
    }
    Ok(())
}

fn example(place: &Example) -> String {
    let by = place.pid.map_or(String::new(), |pid| format!(", by {pid}"));
    format!(
        "{} of {} at byte {}, at {:.6} s{by}",
        place.op.name(),
        Bytes(place.length_bytes),
        place.offset_bytes,
        Nanos(place.at_ns).as_secs_f64()
    )
}
