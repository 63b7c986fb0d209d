//! A target that was damaged after a run, or a run that was killed: `ioecho verify` names exactly
//! the damage.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_replay::journal::JournalReader;
use ioecho_replay::pattern::{SplitMix64, Stamp, expected_sector};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Nanos, Op, Outcome};

use fixture::{Fixture, said};

const TARGET_BYTES: usize = 8 << 20;
const SECTORS: usize = TARGET_BYTES / 512;

impl Fixture {
    /// Writes of 4 to 64 KiB, and a few reads, all over a small target.
    fn new(count: u64, step_us: u64) -> Self {
        let mut random = SplitMix64(count);
        let request = |n: u64| {
            let length = 8 * (1 + random.below(16));
            let sector = random.below((SECTORS as u64 - length) / 8) * 8;
            (sector, length, if n % 8 == 7 { 'R' } else { 'W' })
        };
        Self::of((0..count).map(request), step_us, TARGET_BYTES as u64)
    }

    /// Replays the load, whatever the verdict says of its timing.
    fn replay(&self, run: &str, options: &[&str]) {
        let output = self.run(&[&replay(run)[..], options].concat());
        let settled = self.path(run).join("requests.parquet").exists();
        assert!(settled && output.status.code() != Some(15), "{}", said(&output));
    }

    /// Verifies. Returns the exit code and the results for the first target in `verify.json`.
    fn verify(&self, run: &str, options: &[&str]) -> (i32, serde_json::Value) {
        let output = self.run(&[&["verify", run, "--json"][..], options].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let kept = fs::read(self.path(run).join("verify.json")).unwrap();
        assert_eq!(json, serde_json::from_slice::<serde_json::Value>(&kept).unwrap());
        (output.status.code().unwrap(), json["targets"][0].clone())
    }

    fn run_number(&self, run: &str) -> u64 {
        let facts = fs::read_to_string(self.path(run).join("run.toml")).unwrap();
        let facts: toml::Table = facts.parse().unwrap();
        u64::from_str_radix(facts["run"].as_str().unwrap(), 16).unwrap()
    }
}

fn replay(run: &str) -> [&str; 9] {
    ["replay", "load", "--target", "target", "--allow-cached", "--destroy", "target", "-qo", run]
}

/// A write of the run.
#[derive(Clone, Copy, Debug)]
struct Written {
    request: u64,
    scheduled: Nanos,
    first: usize,
    sectors: usize,
}

impl Written {
    /// The bytes that it wrote into this sector of the target.
    fn bytes(&self, run: u64, sector: usize) -> [u8; 512] {
        expected_sector(&Stamp {
            run,
            target: 0,
            position: sector as u64 * 512,
            request: self.request,
            scheduled: self.scheduled,
            index: (sector - self.first) as u32,
            random: 100,
            shared: false,
        })
    }
}

/// For each sector the last write, and the one before.
struct Owners {
    last: Vec<Option<Written>>,
    before: Vec<Option<Written>>,
}

impl Owners {
    fn new(writes: impl IntoIterator<Item = Written>) -> Self {
        let mut owners = Self { last: vec![None; SECTORS], before: vec![None; SECTORS] };
        for write in writes {
            for sector in write.first..write.first + write.sectors {
                owners.before[sector] = owners.last[sector].replace(write);
            }
        }
        owners
    }

    /// Writes of which every sector is still theirs and had another writer before. None of them
    /// lies beside another one.
    fn whole(&self) -> Vec<Written> {
        let mut whole = Vec::new();
        let mut sector = 0;
        while sector < SECTORS {
            let Some(write) = self.last[sector] else {
                sector += 1;
                continue;
            };
            let range = write.first..(write.first + write.sectors).min(SECTORS);
            let owned = range.clone().all(|sector| {
                self.last[sector].is_some_and(|last| last.request == write.request)
                    && self.before[sector].is_some()
            });
            if owned && range.start == sector {
                whole.push(write);
                // The neighbour is left out, because two findings side by side could be taken for
                // one.
                sector = range.end + 8;
            } else {
                sector += 1;
            }
        }
        whole
    }
}

fn settled_writes(fixture: &Fixture, run: &str) -> Vec<Written> {
    let path = fixture.path(run).join("requests.parquet");
    let mut source = formats::open(&path, &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let (mut writes, mut number) = (Vec::new(), 0);
    while source.next_batch(&mut batch).unwrap() {
        for request in batch.iter() {
            let measured = request.measured.unwrap();
            if request.op == Op::Write && measured.outcome == Outcome::Ok {
                writes.push(Written {
                    request: number,
                    scheduled: measured.scheduled,
                    first: measured.target_offset.unwrap().0 as usize / 512,
                    sectors: request.length.0 as usize / 512,
                });
            }
            number += 1;
        }
    }
    writes
}

/// Places to damage, each with the words of its finding.
type Places = Vec<(usize, usize)>;

/// Damages one of a number of places in a copy of the target.
type Damage<'a> = &'a dyn Fn(&mut [u8], usize) -> Places;

/// Every place has a finding of this kind, and there are no other findings.
fn named(target: &serde_json::Value, places: &Places, kind: &str) {
    let findings: Vec<(usize, usize, &str)> = target["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let at = |key: &str| finding[key].as_u64().unwrap() as usize / 512;
            (at("offset"), at("length"), finding["kind"].as_str().unwrap())
        })
        .collect();
    for (first, sectors) in places {
        for sector in *first..first + sectors {
            let hits: Vec<_> =
                findings.iter().filter(|(at, n, _)| (*at..at + n).contains(&sector)).collect();
            assert!(matches!(hits[..], [(.., k)] if *k == kind), "{sector} {kind}: {hits:?}");
        }
    }
    let expected: usize = places.iter().map(|(_, sectors)| sectors).sum();
    let found: usize = findings.iter().map(|(_, sectors, _)| sectors).sum();
    assert_eq!(found, expected, "{kind}: {findings:?}");
    assert_eq!(target["figures"]["damaged"], serde_json::json!({ kind: expected }));
}

#[test]
fn five_kinds_of_damage_at_twenty_places_each_are_found_and_named_right() {
    let fixture = Fixture::new(4000, 50);
    fixture.replay("run", &["--verify", "final"]);
    let (code, target) = fixture.verify("run", &[]);
    assert_eq!(code, 0, "{target}");
    assert_eq!(target["figures"]["intact"], target["figures"]["sectors"]);

    let run = fixture.run_number("run");
    let owners = Owners::new(settled_writes(&fixture, "run"));
    let whole = owners.whole();
    let large: Vec<Written> = whole.iter().filter(|write| write.sectors >= 2).copied().collect();
    assert!(large.len() >= 40, "the load leaves {} whole writes", large.len());
    let sound = fs::read(fixture.path("target")).unwrap();
    let old = |data: &mut [u8], first: usize, sectors: usize| {
        for sector in first..first + sectors {
            let bytes = owners.before[sector].unwrap().bytes(run, sector);
            data[sector * 512..][..512].copy_from_slice(&bytes);
        }
    };
    // To show that the test can make old versions, it makes the current ones and compares.
    for write in &whole {
        assert_eq!(write.bytes(run, write.first), sound[write.first * 512..][..512]);
    }

    let zero: Damage<'_> = &|data, n| {
        let sector = large[n].first + 1;
        data[sector * 512..][..512].fill(0);
        vec![(sector, 1)]
    };
    let flip: Damage<'_> = &|data, n| {
        let bit = n * 211 % 4096;
        data[large[n].first * 512 + bit / 8] ^= 1 << (bit % 8);
        vec![(large[n].first, 1)]
    };
    let swap: Damage<'_> = &|data, n| {
        let (a, b) = (large[2 * n].first * 512, large[2 * n + 1].first * 512);
        let (head, tail) = data.split_at_mut(b);
        head[a..a + 512].swap_with_slice(&mut tail[..512]);
        vec![(a / 512, 1), (b / 512, 1)]
    };
    let lose: Damage<'_> = &|data, n| {
        old(data, large[n].first, large[n].sectors);
        vec![(large[n].first, large[n].sectors)]
    };
    let tear: Damage<'_> = &|data, n| {
        let cut = 1 + n % (large[n].sectors - 1);
        old(data, large[n].first + cut, large[n].sectors - cut);
        vec![(large[n].first + cut, large[n].sectors - cut)]
    };
    for (kind, damage) in [
        ("zeroed", zero),
        ("flipped", flip),
        ("misdirected", swap),
        ("stale", lose),
        ("torn", tear),
    ] {
        let mut data = sound.clone();
        let places: Places = (0..20).flat_map(|n| damage(&mut data, n)).collect();
        fs::write(fixture.path("target"), data).unwrap();
        let (code, target) = fixture.verify("run", &[]);
        assert_eq!(code, 15, "{kind}");
        named(&target, &places, kind);
    }
}

#[test]
fn a_sound_target_is_intact_in_every_mode_and_at_any_time() {
    let fixture = Fixture::new(1500, 20);
    for (number, mode) in ["partial", "ordering", "drop", "allow"].iter().enumerate() {
        for (verify, depth) in
            [("off", "64"), ("preread", "64"), ("final", "1024"), ("paranoia", "16")]
        {
            let run = format!("{mode}-{verify}");
            let strong = ["0", "1", "2"][number % 3];
            let options = ["--conflicts", mode, "--strong", strong, "--verify", verify];
            fixture.replay(&run, &[&options[..], &["--in-flight-max", depth]].concat());
            for after in ["kill", "power-cut"] {
                let (code, target) = fixture.verify(&run, &["--after", after]);
                assert_eq!(code, 0, "{run} {after}: {target}");
                assert!(target["figures"]["sectors"].as_u64() > Some(8000));
            }
        }
    }
    // The run after it has overwritten the data since.
    let (code, target) = fixture.verify("allow-final", &[]);
    assert_eq!(code, 15);
    assert!(target["notes"].to_string().contains("was used since"), "{}", target["notes"]);
    assert_eq!(target["findings"][0]["kind"], "foreign");
}

/// Starts a run and kills it in the middle. Returns the writes in its journal.
fn killed(fixture: &Fixture, run: &str, options: &[&str]) -> Vec<Written> {
    let arguments = [&replay(run)[..], options].concat();
    let mut child =
        fixture.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let path = fixture.path(run).join("requests.journal");
    let until = Instant::now() + Duration::from_mins(1);
    while fs::metadata(&path).map_or(0, |data| data.len()) < 200_000 {
        assert!(Instant::now() < until, "no results after a minute");
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut reader = JournalReader::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut writes = BTreeMap::new();
    while let Some(record) = reader.next_record().unwrap() {
        let planned = record.planned;
        if planned.op == Op::Write && record.measured.outcome == Outcome::Ok {
            let write = Written {
                request: planned.seq,
                scheduled: planned.scheduled,
                first: planned.offset.0 as usize / 512,
                sectors: planned.length.0 as usize / 512,
            };
            writes.insert(planned.seq, write);
        }
    }
    writes.into_values().collect()
}

#[test]
fn after_a_kill_what_was_acknowledged_is_there_and_a_lost_write_is_found() {
    for verify in ["off", "reads"] {
        let fixture = Fixture::new(60_000, 50);
        let writes = killed(&fixture, "run", &["--verify", verify]);
        let (code, target) = fixture.verify("run", &[]);
        assert_eq!(code, 0, "{target}");
        assert!(target["figures"]["intact"].as_u64() > Some(1000));
        let noted = fixture.path("run/intents-0.ring").exists();
        assert_eq!(noted, verify != "off");
        assert_eq!(target["notes"].to_string().contains("no note"), !noted);
        let (code, _) = fixture.verify("run", &["--after", "power-cut"]);
        assert_eq!(code, 0);

        // The test undoes a write that is in the journal and was not overwritten.
        let run = fixture.run_number("run");
        let owners = Owners::new(writes);
        let mut data = fs::read(fixture.path("target")).unwrap();
        let lost = owners.whole().into_iter().find(|write| {
            let there = |sector: usize| data[sector * 512..][..512] == write.bytes(run, sector);
            (write.first..write.first + write.sectors).all(there)
        });
        let lost = lost.unwrap();
        for sector in lost.first..lost.first + lost.sectors {
            let bytes = owners.before[sector].unwrap().bytes(run, sector);
            data[sector * 512..][..512].copy_from_slice(&bytes);
        }
        fs::write(fixture.path("target"), data).unwrap();
        let (code, target) = fixture.verify("run", &[]);
        assert_eq!(code, 15);
        named(&target, &vec![(lost.first, lost.sectors)], "stale");
        let output = fixture.run(&["verify", "run"]);
        let text = said(&output);
        assert!(text.contains("verdict       damaged"), "{text}");
        assert!(
            text.contains(&format!("in place of what request {} wrote", lost.request)),
            "{text}"
        );
        // Nothing had made the write durable. So its loss in a power cut is no fault.
        assert_eq!(fixture.verify("run", &["--after", "power-cut"]).0, 0);
    }
}

#[test]
fn zeroes_of_discards_without_a_record_are_no_damage() {
    let fixture = Fixture::new(60_000, 50);
    let load = fs::read_to_string(fixture.path("load")).unwrap();
    let discard = |(n, line): (usize, &str)| {
        (if n % 3 == 0 { line.replace(" W ", " D ") } else { line.to_owned() }) + "\n"
    };
    let load: String = load.lines().enumerate().map(discard).collect();
    fs::write(fixture.path("load"), load).unwrap();
    killed(&fixture, "run", &["--verify", "off"]);
    for after in ["kill", "power-cut"] {
        let (code, target) = fixture.verify("run", &["--after", after]);
        assert_eq!(code, 0, "{after}: {target}");
    }
}

#[test]
fn a_damaged_ring_or_journal_is_told_and_raises_no_alarm() {
    let fixture = Fixture::new(60_000, 50);
    killed(&fixture, "run", &["--verify", "reads"]);
    let (ring, journal) =
        (fixture.path("run/intents-0.ring"), fixture.path("run/requests.journal"));
    let (sound_ring, sound_journal) = (fs::read(&ring).unwrap(), fs::read(&journal).unwrap());
    let expect = |code: i32, note: &str| {
        let (found, target) = fixture.verify("run", &[]);
        assert_eq!(found, code, "{note}: {target}");
        assert_eq!(target["figures"]["findings"], 0);
        assert_eq!(target["complete"], code == 0);
        assert!(target["notes"].to_string().contains(note), "{note}: {}", target["notes"]);
    };
    let mut damaged = sound_ring.clone();
    damaged[64 + 33] ^= 1;
    fs::write(&ring, damaged).unwrap();
    expect(0, "notes lost: 1");
    fs::write(&ring, &sound_ring[..5000]).unwrap();
    expect(0, "cut off");
    fs::remove_file(&ring).unwrap();
    expect(0, "is gone");
    let mut damaged = sound_journal.clone();
    for at in (1000..damaged.len() - 1000).step_by(5000) {
        damaged[at] ^= 4;
    }
    fs::write(&journal, damaged).unwrap();
    expect(13, "records lost: ");
    fs::write(&ring, sound_ring).unwrap();
    expect(13, "records lost: ");
    let mut foreign = sound_journal;
    foreign[16] ^= 1;
    fs::write(&journal, foreign).unwrap();
    let output = fixture.run(&["verify", "run"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("is of the run"), "{}", said(&output));
}

#[test]
fn what_was_flushed_must_survive_a_power_cut() {
    let fixture = Fixture::new(1500, 20);
    fixture.replay("run", &["--sync-writes"]);
    let run = fixture.run_number("run");
    let owners = Owners::new(settled_writes(&fixture, "run"));
    let lost = owners.whole()[0];
    let mut data = fs::read(fixture.path("target")).unwrap();
    for sector in lost.first..lost.first + lost.sectors {
        let bytes = owners.before[sector].unwrap().bytes(run, sector);
        data[sector * 512..][..512].copy_from_slice(&bytes);
    }
    fs::write(fixture.path("target"), data).unwrap();
    let (code, target) = fixture.verify("run", &["--after", "power-cut"]);
    assert_eq!(code, 15);
    named(&target, &vec![(lost.first, lost.sectors)], "stale");
}

#[test]
fn what_cannot_be_verified_is_refused_with_what_to_do() {
    let fixture = Fixture::new(50, 20);
    fixture.replay("run", &[]);
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let output = fixture.run(arguments);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(word) && text.contains("= help:"), "{text}");
    };
    refused(&["verify", "load"], 3, "is no run");
    File::create(fixture.path("small")).unwrap().set_len(1 << 20).unwrap();
    refused(&["verify", "run", "--target", "small"], 5, "not the same");
    refused(&["verify", "run", "--target", "small", "--target", "run"], 2, "the run wrote to");
    let simulated = ["replay", "load", "--target", "sim:size=8M", "-qo", "simulated"];
    fixture.run(&simulated);
    refused(&["verify", "simulated"], 2, "was simulated");
    fixture.run(&[&replay("equal")[..], &["--dedup", "2"]].concat());
    refused(&["verify", "equal"], 2, "--dedup");
    // A target that was renamed is found under its new name.
    fs::rename(fixture.path("target"), fixture.path("moved")).unwrap();
    fixture.run(&["verify", "run"]);
    assert_eq!(fixture.run(&["verify", "run"]).status.code(), Some(5));
    let output = fixture.run(&["verify", "run", "--target", "moved"]);
    assert_eq!(output.status.code(), Some(15), "{}", said(&output));
}
