//! Replays in which requests wait for one another: on simulated devices, so that durations are
//! exact.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fmt::Write as _;
use std::fs;

use fixture::{Fixture, said};

/// Requests of a loop: each took 1 ms, and the next one came 90 µs later.
const COUNT: u64 = 500;

/// A directory with the recording of such a loop (`loop`).
fn looped() -> Fixture {
    let fixture = Fixture::regular(1, 1);
    let mut load =
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration (guessed)\n".to_owned();
    for n in 0..COUNT {
        let us = n * 1090;
        let (secs, us) = (us / 1_000_000, us % 1_000_000);
        writeln!(load, "{secs}.{us:06}000 ; {} ; 8 ; R ; 0.0 ; 0.001", n % 64 * 8).unwrap();
    }
    fs::write(fixture.path("loop"), load).unwrap();
    fixture
}

/// Replays by dependencies on a device that takes this long for each; returns the summary and
/// `run.toml`.
fn replayed(
    fixture: &Fixture,
    trace: &str,
    run: &str,
    service: &str,
    options: &[&str],
) -> (serde_json::Value, toml::Table) {
    let target = format!("sim:size=64M,model=const,units=8,service={service}");
    let replay = ["replay", trace, "--timing", "dependency", "--target", &target, "-o", run, "-q"];
    let output = fixture.run(&[&replay[..], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary = fs::read(fixture.path(run).join("summary.json")).unwrap();
    let facts = fs::read_to_string(fixture.path(run).join("run.toml")).unwrap();
    (serde_json::from_slice(&summary).unwrap(), facts.parse().unwrap())
}

/// Asserts that the run took what the device took for each request, and so long a think time.
fn takes(summary: &serde_json::Value, think_us: u64) {
    let took = summary["achieved_duration_ns"].as_f64().unwrap() / 1e3;
    let service = summary["service_time"]["all"]["mean_ns"].as_f64().unwrap() / 1e3;
    let expected = (service + think_us as f64) * (COUNT - 1) as f64;
    assert!((took / expected - 1.0).abs() < 0.01, "{took} µs, not {expected} µs");
    assert_eq!(summary["recorded"], COUNT);
    assert_eq!(summary["verdict"]["finding"], "faithful", "{summary:#}");
    assert_eq!(summary["engine"]["timing"], "dependency");
}

#[test]
fn a_loop_takes_its_think_times_and_what_the_new_storage_takes() {
    let fixture = looped();
    for (run, service) in [("same", "1ms"), ("fast", "100us")] {
        let (summary, facts) = replayed(&fixture, "loop", run, service, &[]);
        takes(&summary, 90);
        let chains = facts["plan"]["chains"].as_str().unwrap();
        assert!(chains.starts_with("inferred by time alone"), "{chains}");
    }
}

#[test]
fn the_critical_path_says_what_the_run_took_its_time_for() {
    let fixture = looped();
    let (summary, _) = replayed(&fixture, "loop", "run", "100us", &[]);
    let path = &summary["critical_path"];
    let ns = |key: &str| path[key].as_u64().unwrap();
    assert_eq!((ns("requests"), ns("last_row")), (COUNT, COUNT - 1));
    assert_eq!((ns("think_ns"), ns("write_ns"), ns("flush_ns")), ((COUNT - 1) * 90_000, 0, 0));
    let mean = summary["service_time"]["all"]["mean_ns"].as_u64().unwrap();
    assert_eq!(ns("read_ns") / COUNT, mean);
    let told = said(&fixture.run(&["report", "run"]));
    let line = told.lines().find(|line| line.starts_with("critical path")).unwrap();
    assert!(line.contains("device, reads 55 %, think times 45 %"), "{line}");
    let page = fs::read_to_string(fixture.path("run/report.html")).unwrap();
    assert!(page.contains("Critical path"));
    // Without waits there is none.
    let output = fixture.run(&["replay", "loop", "-t", "sim:size=64M", "-o", "timed", "-q"]);
    let summary = fs::read_to_string(fixture.path("timed/summary.json")).unwrap();
    assert!(!summary.contains("critical_path"), "{}", said(&output));
}

#[test]
fn diskaccels_rule_lets_nobody_wait_for_a_write() {
    let fixture = looped();
    let output = fixture.run(&["depend", "loop", "--rule", "diskaccel", "-o", "linked.parquet"]);
    assert!(said(&output).contains("the read that completed last"), "{}", said(&output));
    let (summary, _) = replayed(&fixture, "linked.parquet", "run", "100us", &[]);
    takes(&summary, 90);
    let writes = fs::read_to_string(fixture.path("loop")).unwrap().replace("; R ;", "; W ;");
    fs::write(fixture.path("writes"), writes).unwrap();
    for (rule, open) in [("diskaccel", "100.0 %"), ("waits", "0.2 %")] {
        let told = said(&fixture.run(&["depend", "writes", "--rule", rule]));
        let line = told.lines().find(|line| line.starts_with("open")).unwrap();
        assert!(line.contains(open), "{line}");
    }
    let output = fixture.run(&["depend", "loop", "--rule", "diskaccel", "--threshold", "1us"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_run_gives_a_trace_the_completions_that_it_lacks() {
    let fixture = Fixture::regular(200, 1500);
    let old = "sim:size=64M,model=const,units=1,service=1ms";
    let output = fixture.run(&["replay", "load", "--target", old, "-o", "old", "-q"]);
    assert!(fixture.path("old/summary.json").exists(), "{}", said(&output));
    let (summary, facts) = replayed(&fixture, "old", "run", "100us", &[]);
    let chains = facts["plan"]["chains"].as_str().unwrap();
    assert!(chains.ends_with("completions are those of a replay"), "{chains}");
    assert!(summary.to_string().contains("with guessed latencies (99"), "{summary:#}");
    let page = fs::read_to_string(fixture.path("run/report.html")).unwrap();
    assert!(page.contains("whose completions are those of a replay"));
    let told = said(&fixture.run(&["depend", "old"]));
    assert!(told.contains("whose completions are those of a replay"), "{told}");
}

#[test]
fn a_faster_server_thinks_for_less_long_and_arrivals_do_not_matter_to_who_waits() {
    let fixture = looped();
    let options = ["--server-speed", "10", "--speedup", "3"];
    let (summary, facts) = replayed(&fixture, "loop", "run", "100us", &options);
    takes(&summary, 9);
    assert_eq!(facts["plan"]["server_speed"].as_float(), Some(10.0));
    let told = summary["verdict"]["summary"].as_str().unwrap();
    assert!(told.contains("Think times were divided by 10."), "{told}");
    assert!(told.contains("wait for no other came at 3 times"), "{told}");
}

#[test]
fn parents_that_a_trace_names_are_followed() {
    let fixture = looped();
    let output = fixture.run(&["depend", "loop", "-o", "linked.parquet"]);
    assert!(output.status.success(), "{}", said(&output));
    let (summary, facts) = replayed(&fixture, "linked.parquet", "run", "100us", &[]);
    takes(&summary, 90);
    assert_eq!(facts["plan"]["chains"].as_str(), Some("as the trace names them"));
    // A part has parents outside of it, so its own are inferred.
    let part = ["--start", "100ms", "--duration", "200ms"];
    let (_, facts) = replayed(&fixture, "linked.parquet", "part", "100us", &part);
    assert!(facts["plan"]["chains"].as_str().unwrap().starts_with("inferred"));
}

#[test]
fn a_dry_run_says_how_many_requests_wait() {
    let fixture = looped();
    let target = "sim:size=64M";
    let options = ["--timing", "dependency", "--target", target, "--dry-run"];
    let output = fixture.run(&[&["replay", "loop"][..], &options].concat());
    assert!(
        said(&output).contains("500 requests in the time that 499 of them take"),
        "{}",
        said(&output)
    );
}

/// A recording of requests that go to two volumes in turn, each of which waited for the one before
/// it: hfplayer's columns, with its annotations or without.
fn in_turn(annotated: bool) -> String {
    let mut text = "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,\
                    SEQID.I,LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,\
                    HOST_LUN.I,LATENCY_USECS.D"
        .to_owned();
    text += if annotated { ",DEP_PARENT_COUNT.I,DEP_PARENT_LIST.S\n" } else { "\n" };
    for n in 0..COUNT {
        let (us, lun, lba) = (n * 1090, 6 + n % 2, n % 64 * 8);
        write!(text, "{n},{us}.000,0,RD,0,0,{n},{lun},0,0,{lba},8,0,0,0,1000.000").unwrap();
        match n.checked_sub(1).filter(|_| annotated) {
            Some(parent) => writeln!(text, ",1,{parent}").unwrap(),
            None if annotated => writeln!(text, ",0,NA").unwrap(),
            None => writeln!(text).unwrap(),
        }
    }
    text
}

#[test]
fn a_chain_goes_on_across_targets() {
    let fixture = looped();
    let other = "sim:size=32M,model=const,units=8,service=300us";
    for (trace, annotated, made_by) in [("named", true, "depend"), ("inferred", false, "convert")] {
        let (csv, native) = (format!("{trace}.csv"), format!("{trace}.parquet"));
        fs::write(fixture.path(&csv), in_turn(annotated)).unwrap();
        let to: &[&str] = if annotated { &["-o", &native] } else { &[&native] };
        let output = fixture.run(&[&[made_by, &csv], to].concat());
        assert!(output.status.success(), "{}", said(&output));
        let run = format!("{trace}-run");
        let (summary, facts) = replayed(&fixture, &native, &run, "100us", &["--target", other]);
        let chains = facts["plan"]["chains"].as_str().unwrap();
        assert_eq!(chains.starts_with("as the trace names them"), annotated, "{chains}");
        takes(&summary, 90);
        let mean = summary["service_time"]["all"]["mean_ns"].as_f64().unwrap() / 1e3;
        // The transfer of 4 KiB beside.
        assert!((200.0..220.0).contains(&mean), "both devices in turn: {mean} µs");
        let path = &summary["critical_path"];
        assert_eq!((&path["requests"], &path["last_row"]), (&COUNT.into(), &(COUNT - 1).into()));
    }
    // A seed repeats the run exactly, though each target has a thread.
    let rows = |run: &str| {
        let csv = format!("{run}.rows.csv");
        let output = fixture.run(&["convert", run, &csv]);
        assert!(output.status.success(), "{}", said(&output));
        fs::read(fixture.path(&csv)).unwrap()
    };
    replayed(&fixture, "named.parquet", "again", "100us", &["--target", other]);
    assert_eq!(rows("named-run"), rows("again"));
}

#[test]
fn what_cannot_be_followed_is_refused_before_anything_is_issued() {
    let fixture = looped();
    fs::write(
        fixture.path("circle.csv"),
        "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,SEQID.I,\
         LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,\
         LATENCY_USECS.D,DEP_PARENT_COUNT.I,DEP_PARENT_LIST.S\n\
         0,0.000,0,RD,0,0,1,6,0,0,1,2,20000,0,0,20.000,1,1\n\
         1,50.000,50000,RD,0,50000,2,6,0,0,2,2,245000,0,0,245.000,1,0\n",
    )
    .unwrap();
    let sim = "sim:size=64M";
    for (trace, options, code, words) in [
        ("load", &["--speedup", "1"][..], 3, "does not say when requests completed"),
        ("circle.csv", &[], 3, "request 0 waits for request 1"),
        ("loop", &["--iops-scale", "2"], 2, "iops-scale"),
        ("loop", &["--follow-in-flight"], 2, "follow-in-flight"),
        ("loop", &["--verify", "paranoia"], 2, "would delay what waits for it"),
    ] {
        let replay =
            ["replay", trace, "--timing", "dependency", "--target", sim, "-o", "run", "-q"];
        let output = fixture.run(&[&replay[..], options].concat());
        assert_eq!(output.status.code(), Some(code), "{options:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{options:?}: {}", said(&output));
        assert!(!fixture.path("run").exists(), "{options:?}");
    }
}
