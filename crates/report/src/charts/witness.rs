//! A run as its device saw it, compared with the engine's own account of the same requests.

use ioecho_stats::witnessed::WitnessPanels;

use crate::{Chart, Ink, Shape, Side, Stroke};

/// The pictures, first those over time; empty ones are left out.
pub fn all(panels: &WitnessPanels) -> Vec<Chart> {
    let mut charts = vec![map(panels), in_flight(panels), issue(panels), service(panels)];
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// How late requests reached the device.
fn map(panels: &WitnessPanels) -> Chart {
    let side = Side::logarithmic("delay", "ns");
    let early = panels.early();
    let early = if early > 0 { format!("; {early} of them early") } else { String::new() };
    let below = if panels.below_map() > 0 { "; the row of 100 ns holds what is less" } else { "" };
    let note = format!(
        "seen at the device less due, the constant delay included, over the instant at which each \
         request was due{below}{early}"
    );
    Chart::new("witness.issue.map", "At the device: delay of issue", Side::time(), side)
        .note(&note)
        .with(Shape::Grid(panels.map()), Ink::Read, Stroke::Steps)
}

/// The requests in flight.
fn in_flight(panels: &WitnessPanels) -> Chart {
    let side = Side::linear("requests in flight", "requests");
    let [device, engine] = panels.in_flight();
    Chart::new("witness.flight", "At the device: in flight, mean", Side::time(), side)
        .note("between both lies what waits between the system call and the device")
        .with(Shape::Series(engine), Ink::Write, Stroke::Dashed)
        .with(Shape::Series(device), Ink::Read, Stroke::Steps)
}

/// Percentiles of the delay of issue.
fn issue(panels: &WitnessPanels) -> Chart {
    curves(
        "witness.issue",
        "Delay of issue, at the device and as the engine says",
        "the constant delay included; what the device shows more is what lies between the system \
         call and the device",
        panels.issue(),
    )
}

/// Percentiles of service time.
fn service(panels: &WitnessPanels) -> Chart {
    curves(
        "witness.service",
        "Service time, of the device and as the engine measured it",
        "the distance is what the host adds: the way down, and until the engine looks",
        panels.service(),
    )
}

fn curves(
    name: &str,
    title: &str,
    note: &str,
    [device, engine]: [ioecho_stats::analysis::shape::Curve; 2],
) -> Chart {
    let x = Side::nines("share of requests");
    Chart::new(name, title, x, Side::logarithmic("time", "ns"))
        .note(note)
        .with(held(engine), Ink::Write, Stroke::Dashed)
        .with(held(device), Ink::Read, Stroke::Line)
}

/// A curve for a logarithmic side; values near zero are placed at the lower end.
fn held(mut curve: ioecho_stats::analysis::shape::Curve) -> Shape {
    for (_, ns) in &mut curve.points {
        *ns = ns.max(100.0);
    }
    Shape::Curve(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::witnessed::Sight;
    use ioecho_trace::Nanos;

    #[test]
    fn what_was_seen_is_drawn_and_of_nothing_nothing() {
        let mut panels = WitnessPanels::new(Nanos(1_000_000));
        assert!(all(&panels).is_empty());
        panels.observe(&Sight {
            due: Some(5),
            submitted: Some(10),
            completed: Some(900),
            seen: 20,
            latency: Some(500),
        });
        let charts = all(&panels);
        assert_eq!(charts.len(), 4);
        assert!(charts.iter().all(|chart| chart.layers.iter().all(|one| !one.shape.is_empty())));
    }
}
