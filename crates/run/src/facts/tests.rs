use super::*;
use ioecho_linux::target::{TargetContent, TargetKind, ToldBy, WrittenBy};
use ioecho_trace::Bytes;

/// A run of two targets with all optional facts.
fn whole() -> RunFacts {
    let content = TargetContent {
        samples: 1000,
        block: 4096,
        never_written: Some(0.5),
        told_by: Some(ToldBy::Statistics),
        runs: vec![WrittenBy { run: "1".to_owned(), prepared: true, share: 0.5 }],
        ..TargetContent::default()
    };
    let real = RealTarget {
        backend: "io_uring".to_owned(),
        path: "sdb".into(),
        canonical: "/dev/sdb".into(),
        kind: TargetKind::BlockDevice,
        device: "8:16".to_owned(),
        capacity: Bytes(1 << 30),
        logical_block: Bytes(512),
        physical_block: Bytes(4096),
        direct: true,
        allocated: None,
        file_system: None,
        mount_point: None,
        model: Some("Some disk".to_owned()),
        backing_file: None,
        scheduler: Some("none".to_owned()),
        rotational: Some(false),
        nr_requests: Some(256),
        max_sectors_kb: Some(1280),
        write_cache: Some("write back".to_owned()),
        discard_max: Some(Bytes(0)),
        discard_granularity: Some(Bytes(0)),
        write_zeroes_max: None,
        zoned: None,
        content,
    };
    RunFacts {
        version: RUN_VERSION,
        state: State::Incomplete,
        reason: Some("stopped by a signal".to_owned()),
        ioecho: Some("0.1.0".to_owned()),
        run: RunNumbers(vec![RunNumber(0xa1)]),
        started: "2026-11-22T18:51:26Z".to_owned(),
        ended: None,
        command: vec!["ioecho".to_owned(), "replay".to_owned()],
        zero_monotonic_ns: Some(-5),
        pid: Some(7),
        verdict: None,
        continues: Some(Continued {
            run: RunNumber(u64::MAX),
            path: "/runs/before".into(),
            after: After::PowerCut,
        }),
        plan: PlanFacts {
            trace: Some("load".into()),
            timing: Some(TimingMode::Load),
            speedup: Some(2.0),
            writes: Some(Writes::AsReads),
            alignment: Some(Alignment::Round),
            dedup: Some(1.0),
            verify: Some(VerifyMode::Paranoia),
            conflicts: Some(ConflictMode::Ordering),
            strong: Some(Strong::All),
            in_flight_max: Some(64),
            pacing: Some(PacingMode::Sleep),
            require: Some(vec!["lateness=limited".parse().unwrap()]),
            ..PlanFacts::default()
        },
        targets: vec![
            TargetEntry::Simulated(SimulatedTarget { simulated: "sim:size=1G".to_owned() }),
            TargetEntry::Real(Box::new(real)),
        ],
        host: HostDescription { cpu_count: Some(2), ..HostDescription::default() },
        witness: Some(WitnessEntry {
            interface: Some(Interface::Tracefs),
            targets: vec![WitnessedTarget { target: 1, device: "sdb".to_owned() }],
            ..WitnessEntry::default()
        }),
        merged: Vec::new(),
        trace: Header { source: "load".to_owned(), ..Header::default() },
    }
}

#[test]
fn what_was_written_is_what_is_read() {
    let facts = whole();
    let text = facts.text().unwrap();
    assert_eq!(RunFacts::read(&text), Ok(facts.clone()), "{text}");
    let witness = Some(WitnessEntry { without: vec!["a file".to_owned()], ..Default::default() });
    let (run, plan) = (RunNumbers(vec![RunNumber(1), RunNumber(2)]), PlanFacts::default());
    let entry = MergedEntry {
        name: "a".to_owned(),
        run: RunNumbers(vec![RunNumber(1)]),
        started: String::new(),
        shift_ns: -1,
        requests: 3,
        validity: Validity::Suspect,
        ioecho: None,
        plan: Some(facts.plan.clone()),
        host: Some(HostDescription::default()),
    };
    let merged = RunFacts { run, plan, witness, merged: vec![entry], ..facts };
    let text = merged.text().unwrap();
    assert!(text.contains("interface = \"\""), "{text}");
    assert_eq!(RunFacts::read(&text), Ok(merged), "{text}");
}

#[test]
fn words_and_keys_are_those_that_stand_in_files_since_the_first_version() {
    let text = whole().text().unwrap();
    for line in [
        "version = 1",
        "state = \"incomplete\"",
        "run = \"00000000000000a1\"",
        "run = \"ffffffffffffffff\"",
        "after = \"power-cut\"",
        "timing = \"load\"",
        "writes = \"as-reads\"",
        "alignment = \"round\"",
        "verify = \"paranoia\"",
        "conflicts = \"ordering\"",
        "strong = 2",
        "pacing = \"sleep\"",
        "require = [\"lateness=limited\"]",
        "simulated = \"sim:size=1G\"",
        "kind = \"block-device\"",
        "told_by = \"statistics of the device\"",
        "interface = \"tracefs\"",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
    }
}

#[test]
fn an_entry_that_mixes_targets_and_a_plan_that_lacks_a_key_are_refused() {
    let text = whole().text().unwrap();
    for (from, to, words) in [
        (
            "simulated = \"sim:size=1G\"",
            "simulated = \"sim\"\npath = \"sdb\"",
            "unknown field `path`",
        ),
        ("simulated = \"sim:size=1G\"", "", "targets[0]: missing field"),
        ("backend = ", "sort = 7\nbackend = ", "unknown field `sort`"),
        ("capacity = 1073741824", "capacity = -1", "targets[1].capacity: invalid value"),
        ("samples = 1000", "samples = true", "targets[1].content.samples: invalid type"),
        ("timing = \"load\"\n", "", "plan: missing field `timing`"),
        ("run = \"00000000000000a1\"", "run = \"+a1\"", "is no number of a run"),
        ("strong = 2", "strong = 3", "plan.strong: 3 is no level of conflicts"),
        ("require = [\"", "require = [\"x", "plan.require[0]: 'xlateness' is no check"),
    ] {
        assert!(text.contains(from), "{from}");
        let told = RunFacts::read(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn wherever_a_file_is_cut_it_is_read_as_nothing_else() {
    let text = whole().text().unwrap();
    // After it come only keys that a trace may lack.
    let last = text.find("format = ").unwrap();
    for end in 0..last {
        let told = RunFacts::read(&text[..end]).unwrap_err().to_string();
        assert!(told.contains("= help: use the ioecho that made it"), "{end}: {told}");
    }
}

#[test]
fn what_an_earlier_version_wrote_is_written_as_it_was() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/data/1aed565");
    for run in ["real", "simulated", "killed", "merged"] {
        let text = std::fs::read_to_string(data.join(run).join("run.toml")).unwrap();
        let again = RunFacts::read(&text).unwrap().text().unwrap();
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        assert_eq!(table(&again), table(&text), "{run}");
    }
}

#[test]
fn numbers_that_are_keys_and_numbers_beyond_i64_are_read_as_they_were_written() {
    use ioecho_trace::header::NoteKind;
    use ioecho_trace::recording::Recording;

    let lost = [(0, 3), (7, u64::MAX)].into_iter().collect();
    let recording = Some(Recording { lost, ..Recording::default() });
    let mut trace = Header { recording, ..whole().trace };
    trace.losses.add(NoteKind::Unreadable.of("lines"), u64::MAX, Some("one".to_owned()));
    let facts = RunFacts { trace, ..whole() };
    let text = facts.text().unwrap();
    assert_eq!(RunFacts::read(&text), Ok(facts), "{text}");
}
