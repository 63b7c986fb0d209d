//! The flows of a run that was killed.
//!
//! The rows of a journal bear the numbers of flows, and a run that was killed never wrote its facts
//! of them. What was asked for stands in `run.toml` from the first moment, so names, loads and
//! threads are made of that again.

use ioecho_replay::tree::FileLoad;
use ioecho_stats::facts::FlowFacts;

use super::spec::FlowSpec;
use crate::facts::{RunFacts, TargetEntry};

/// The flows of a run, as far as its facts from before its first request tell. How many files a
/// load had to choose from is among the results, and unknown.
pub(crate) fn recovered(facts: &RunFacts) -> Vec<FlowFacts> {
    let lines = facts.plan.flows.as_deref().unwrap_or_default();
    let targets: Vec<String> = facts.targets.iter().map(TargetEntry::name).collect();
    of_lines(lines, &targets, facts.plan.in_flight_max.unwrap_or(0))
}

/// The flows of these lines, on targets of these names.
fn of_lines(lines: &[String], targets: &[String], in_flight_max: u32) -> Vec<FlowFacts> {
    let flow = |(line, number): (&String, u16)| {
        let spec: FlowSpec = line.parse().ok()?;
        let load = spec.load.display().to_string();
        let of_files = load.parse::<FileLoad>().ok().filter(|load| load.arrivals.is_some());
        let on = spec.target.as_deref().unwrap_or("1");
        let mut on = on.split('+').map(|name| number_of(name, targets));
        Some(FlowFacts {
            flow: number,
            name: spec.name(number.into()),
            threads: spec.threads,
            think_ns: spec.threads.map(|_| spec.think.map_or(0, |think| think.0)),
            cap: spec.places(in_flight_max),
            share: spec.share,
            target: on.next().unwrap_or(0),
            others: on.collect(),
            along: of_files.map(|load| load.along()).unwrap_or_default(),
            files: None,
            load,
        })
    };
    lines.iter().zip(1..).filter_map(flow).collect()
}

/// The number of the target that a flow names, by its name or its number from 1.
fn number_of(named: &str, targets: &[String]) -> u16 {
    // A part of a target has settings behind its name.
    let named = named.split(",to=").next().unwrap_or(named);
    let named = named.split(",length=").next().unwrap_or(named);
    let by_name = targets.iter().position(|target| target == named);
    let by_number = || named.parse::<usize>().ok()?.checked_sub(1);
    by_name.or_else(by_number).and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Op;

    use super::*;

    #[test]
    fn the_flows_of_a_killed_run_are_those_that_were_asked_for() {
        let lines = [
            "oltp=gen:random?endless=yes;threads=32;think=1ms;share=70;on=/dev/b",
            "gen:random?rate=5k;on=1,to=4096,length=8192+2",
            "wr=files:write?rate=10&duration=5s;cap=4",
        ];
        let targets = ["/dev/a", "/dev/b"].map(str::to_owned);
        let [oltp, open, files] = &of_lines(&lines.map(str::to_owned), &targets, 64)[..] else {
            panic!("three lines are three flows")
        };
        assert_eq!((oltp.flow, oltp.name.as_str(), oltp.threads), (1, "oltp", Some(32)));
        assert_eq!((oltp.think_ns, oltp.cap, oltp.share), (Some(1_000_000), 32, Some(70.0)));
        assert_eq!((oltp.load.as_str(), oltp.target), ("gen:random?endless=yes", 1));
        assert_eq!((open.flow, open.name.as_str(), open.threads, open.cap), (2, "2", None, 64));
        assert_eq!((open.target, &open.others[..]), (0, &[1][..]));
        assert_eq!((files.cap, &files.along[..]), (4, &[Op::Open, Op::Close][..]));
    }
}
