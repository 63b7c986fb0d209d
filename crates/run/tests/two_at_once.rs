//! Two runs go on in one process, specified in JSON as another host would do, without a command
//! line, a terminal or a signal handler.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ioecho_run::directory::RunDirectory;
use ioecho_run::error::{Kind, Result};
use ioecho_run::execute::execute;
use ioecho_run::facts::{RunFacts, State};
use ioecho_run::observer::{Counter, Meters, Nobody, Observer, Stopping};
use ioecho_run::open::Files;
use ioecho_run::plan::ReplayPlan;
use ioecho_run::spec::ReplaySpec;
use ioecho_stats::run_summary::RunSummary;
use serde_json::json;

/// More time than any of these runs takes on any machine.
const FOR_EVER: Duration = Duration::from_mins(2);

/// A point at which runs wait for each other.
#[derive(Default)]
struct Rendezvous {
    arrived: Mutex<usize>,
    moved: Condvar,
}

impl Rendezvous {
    /// Waits until this was called `count` times by all runs together.
    fn meet(&self, count: usize) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.moved.notify_all();
        let waited = self.moved.wait_timeout_while(arrived, FOR_EVER, |here| *here < count);
        assert!(!waited.unwrap().1.timed_out(), "the other run never came so far");
    }
}

/// Waits for the other run at the beginning and at the end, and records what it sees.
struct Meeting {
    place: Arc<Rendezvous>,
    seen: Mutex<Vec<&'static str>>,
}

impl Observer for Meeting {
    fn tell(&self, _text: &str) {}

    fn begins(&self, _plan: &ReplayPlan, _facts: &RunFacts) -> Result<()> {
        self.place.meet(2);
        self.seen.lock().unwrap().push("begins");
        Ok(())
    }

    fn starts(&self, _meters: Meters) -> Result<Option<Box<dyn Counter>>> {
        self.seen.lock().unwrap().push("starts");
        Ok(None)
    }

    fn ends(&self) {
        self.seen.lock().unwrap().push("ends");
        self.place.meet(4);
    }
}

fn asked(count: u64, output: &Path) -> String {
    json!({
        "trace": format!("gen:random?rate=1000&count={count}&area=1M&seed={count}"),
        "targets": ["sim:size=1G"],
        "output": output,
    })
    .to_string()
}

fn replay(json: &str, observer: &Arc<dyn Observer>) -> RunSummary {
    let spec: ReplaySpec = serde_json::from_str(json).unwrap();
    let (plan, source) = ReplayPlan::new(spec, vec![json.to_owned()], &Files).unwrap();
    execute(&plan, source, &Stopping::default(), observer).unwrap().summary
}

#[test]
fn two_runs_go_on_at_once_and_know_nothing_of_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let place = Arc::<Rendezvous>::default();
    let counts = [700, 1900];
    let runs = counts.map(|count| {
        let output = directory.path().join(count.to_string());
        let meeting = Meeting { place: Arc::clone(&place), seen: Mutex::default() };
        let meeting = Arc::new(meeting);
        let json = asked(count, &output);
        let observer: Arc<dyn Observer> = meeting.clone();
        let thread = thread::spawn(move || replay(&json, &observer));
        (count, output, meeting, thread)
    });
    let mut numbers = BTreeSet::new();
    for (count, output, meeting, thread) in runs {
        let summary = thread.join().unwrap();
        assert_eq!((summary.recorded, summary.engine.issued), (count, count));
        assert_eq!(*meeting.seen.lock().unwrap(), ["begins", "starts", "ends"]);
        let run = RunDirectory::at(&output).unwrap();
        let facts = run.read_facts().unwrap();
        assert_eq!(facts.state, State::Complete);
        assert_eq!(facts.command, [asked(count, &output)]);
        let kept = run.read_summary().unwrap();
        assert_eq!((kept.recorded, kept.verdict), (count, summary.verdict));
        numbers.insert(facts.run.to_string());
    }
    assert_eq!(numbers.len(), counts.len(), "each has a number of its own");
}

#[test]
fn a_run_that_is_to_end_ends_and_the_other_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let stopping = Stopping::default();
    stopping.ask();
    let spec: ReplaySpec = serde_json::from_str(&asked(500, &path("stopped"))).unwrap();
    let (plan, source) = ReplayPlan::new(spec, Vec::new(), &Files).unwrap();
    let nobody: Arc<dyn Observer> = Arc::new(Nobody);
    let stopped = execute(&plan, source, &stopping, &nobody).unwrap().summary;
    assert!(!stopped.engine.incomplete.is_empty());
    let other = replay(&asked(500, &path("other")), &nobody);
    assert_eq!((other.recorded, other.engine.incomplete.as_str()), (500, ""));
}

#[test]
fn what_cannot_be_done_is_told_by_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    let kind = |json: &str| {
        let spec: ReplaySpec = serde_json::from_str(json).unwrap();
        ReplayPlan::new(spec, Vec::new(), &Files).err().unwrap().kind()
    };
    assert_eq!(kind("{}"), Kind::Usage);
    assert_eq!(kind(r#"{"trace": "/nowhere/load", "targets": ["sim"]}"#), Kind::Trace);
    let target = directory.path().join("none");
    let json = json!({"trace": "gen:random?rate=10&count=10&area=1M", "targets": [target]});
    assert_eq!(kind(&json.to_string()), Kind::Target);
}
