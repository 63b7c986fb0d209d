//! A host that does not keep to the protocol harms nothing, and is named.

use std::path::PathBuf;
use std::thread;

use super::{Site, json, said};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/hostile.sh");

/// A campaign on an honest host and one that is hostile in this way; the exit code, and what was
/// printed.
fn with(how: &str) -> (Site, i32, String) {
    let site = Site::new();
    let text = format!(
        "name='c'\nretries=0\nstart.skew='1s'\n[hosts]\ngood={{launch=[]}}\n\
         bad={{launch=['sh','{SCRIPT}','{how}']}}\n[devices]\n\
         d={{host=['good','bad'],path='sim:size=1M'}}\n[replay]\ndevice='d'\n\
         trace='gen:random?rate=100&duration=100ms&size=4k&area=1M'\n"
    );
    let output = site.run(&text);
    let code = output.status.code().unwrap();
    (site, code, said(&output))
}

/// An attempt that this hostile host costs: where it was made, why there is no result, and what was
/// printed. The honest host may be the one that a busy machine stops; then it is made anew.
fn costs(how: &str) -> (Site, PathBuf, String, String) {
    let mut tries = 0;
    loop {
        let (site, code, said) = with(how);
        assert_eq!(code, 40, "{how}: {said}");
        let [attempt] = &site.attempts()[..] else { panic!("{how}: {said}") };
        let attempt = attempt.clone();
        let end = json(&attempt.join("attempt.json"))["end"]["fault"].clone();
        let end = end.as_str().unwrap_or_else(|| panic!("{how}: {said}")).to_owned();
        tries += 1;
        if end.contains("bad") || tries == 5 {
            return (site, attempt, end, said);
        }
    }
}

/// Makes sure of each of these at the same time: they mostly wait.
fn each<const N: usize>(all: [(&str, &str); N], holds: impl Fn(&str, &str) + Sync) {
    thread::scope(|scope| {
        for (how, told) in all {
            let holds = &holds;
            scope.spawn(move || holds(how, told));
        }
    });
}

#[test]
fn a_host_that_does_not_speak_as_an_agent_is_refused_before_anything_runs() {
    let all = [
        ("rubbish", "makes no sense"),
        ("huge", "longer than 1048576 bytes"),
        ("nested", "makes no sense"),
        ("protocol", "protocol 2, and this is protocol 1"),
        ("build", "another build"),
        ("escape", "gone"),
    ];
    each(all, |how, told| {
        let (site, code, said) = with(how);
        assert_eq!(code, 5, "{how}: {said}");
        assert!(said.contains("bad: ") && said.contains(told), "{how}: {said}");
        assert!(!said.contains('\u{1b}'), "{how}: {said:?}");
        assert_eq!(site.attempts().len(), 0, "{how}");
    });
}

#[test]
fn a_host_that_lies_later_costs_the_attempt_and_nothing_else() {
    let all = [
        ("name", "'../../escaped' is no name for a file"),
        ("hash", "is not what its hash says"),
        ("bytes", "no room"),
        ("page", "evil.html is no file of a run"),
        ("early", "ended before it began"),
        ("clock", "does not tell the truth"),
        ("number", "nobody had asked"),
        ("deaf", "too late"),
    ];
    each(all, |how, told| {
        let (site, attempt, end, said) = costs(how);
        assert!(end.contains("bad") && end.contains(told), "{how}: {end}: {said}");
        assert!(!attempt.join("run").exists(), "{how}");
        assert!(!site.path("escaped").exists() && !attempt.join("escaped").exists(), "{how}");
        assert_eq!(site.kept(), 0, "{how}: the honest host keeps nothing");
    });
}

#[test]
fn a_host_that_falls_silent_or_never_stops_talking_is_given_up() {
    each([("silent", "silent for 15 s"), ("flood", "without a pause")], |how, told| {
        let (_site, _, end, said) = costs(how);
        assert!(end.contains("host-lost: bad") && end.contains(told), "{how}: {end}: {said}");
    });
}
