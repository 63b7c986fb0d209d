//! Draws an invented run, so that a report can be looked at without a device.
//!
//! `cargo run --release -p ioecho-report --example synthetic -- DIRECTORY [REQUESTS]` writes
//! `report.html`. The run has bursts, two modes of latency (cache and disk), a phase of overload,
//! pushed-back requests, flushes, discards and some errors.

use std::path::PathBuf;
use std::time::Instant;

use ioecho_report::{Page, Section, html};
use ioecho_stats::picture::RunPicture;
use ioecho_stats::run_summary::{RunFigures, TargetFigures, VerifyFigures};
use ioecho_stats::verdict::{Check, Finding, Grade, Validity, Verdict};
use ioecho_trace::{
    Batch, Bytes, Columns, Integrity, LateCause, Measured, Nanos, Op, Outcome, Request, TimingMode,
    VerifyMode,
};

/// A small generator of pseudo-random numbers (xorshift64*), so that every call draws the same run.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A span spread by a factor around its middle, in nanoseconds.
    fn around(&mut self, middle: f64, spread: f64) -> f64 {
        let bell = (0..4).map(|_| self.unit()).sum::<f64>() - 2.0;
        middle * spread.powf(bell)
    }
}

const LENGTH_SECS: f64 = 120.0;

fn request(dice: &mut Dice, secs: f64, backlog: f64, latency: bool) -> Request {
    let op = match dice.unit() {
        x if x < 0.62 => Op::Read,
        x if x < 0.965 => Op::Write,
        x if x < 0.985 => Op::Flush,
        _ => Op::Discard,
    };
    let service = match op {
        Op::Read if dice.unit() < 0.55 => dice.around(85e3, 2.0),
        Op::Read => dice.around(4.2e6, 1.9),
        Op::Write => dice.around(28e3, 2.2) + if dice.unit() < 0.004 { 3e7 } else { 0.0 },
        Op::Flush => dice.around(9e6, 1.6),
        _ => dice.around(300e3, 3.0),
    };
    let service = service * (1.0 + 6.0 * backlog.min(1.0));
    let scheduled = (secs * 1e9) as i64;
    let pushed_back = dice.unit() < 0.006;
    let mut lateness = dice.around(4e3, 1.8) + backlog * 9e8 * dice.unit();
    if pushed_back {
        lateness += dice.around(2e6, 3.0);
    }
    let submitted = Nanos(scheduled + lateness as i64);
    let outcome = match dice.unit() {
        x if x < 0.000_05 => Outcome::Error(5),
        x if x < 0.000_08 => Outcome::Border,
        _ => Outcome::Ok,
    };
    let length = if op == Op::Flush { 0 } else { 4096 << (dice.unit() * 5.0) as u32 };
    let mut request = Request::new(Nanos(scheduled), op, Bytes(0), Bytes(length));
    request.latency = latency.then_some(Nanos((service * 0.8) as i64));
    request.measured = Some(Measured {
        scheduled: Nanos(scheduled),
        submitted: outcome.was_issued().then_some(submitted),
        completed: outcome.was_issued().then_some(submitted + Nanos(service as i64)),
        target_offset: None,
        in_flight: 1 + (dice.unit() * (8.0 + 120.0 * backlog)) as u32,
        outcome,
        pushed_back,
        late_cause: match backlog {
            b if b > 0.01 => LateCause::InFlightCap,
            _ if pushed_back => LateCause::Conflict,
            _ => LateCause::None,
        },
        target: u16::from(dice.unit() < 0.3),
        integrity: Integrity::Unchecked,
        behind: 0,
        flow: 0,
    });
    request
}

/// The load over time: a slow wave, a burst every ten seconds, and an overload.
fn load(secs: f64) -> f64 {
    let wave = 1.0 + 0.4 * (secs / 19.0).sin();
    let burst = if secs % 10.0 < 0.7 { 3.0 } else { 0.0 };
    let overload = if (70.0..82.0).contains(&secs) { 2.5 } else { 0.0 };
    wave + burst + overload
}

fn check(name: &str, grade: Grade, measured: &str, threshold: &str, advice: &str) -> Check {
    Check {
        name: name.to_owned(),
        grade,
        measured: measured.to_owned(),
        threshold: threshold.to_owned(),
        advice: advice.to_owned(),
        explained_by: None,
    }
}

fn verdict() -> Verdict {
    Verdict {
        validity: Validity::Suspect,
        finding: Finding::DeviceLimited,
        summary:
            "The device could not take the load between 1:10 and 1:25: requests were submitted \
                  up to 0.9 s late because the cap on requests in flight was reached."
                .to_owned(),
        checks: vec![
            check("complete", Grade::Pass, "every request accounted for", "all", ""),
            check("duration", Grade::Pass, "120.4 s for 120.0 s", "± 1 %", ""),
            check(
                "lateness",
                Grade::Limited,
                "99 % ≤ 612 ms",
                "99 % ≤ 1 ms",
                "The device kept the replay waiting. Replay slower (--speed 0.5) to see at which \
                 load it keeps up.",
            ),
            check("host", Grade::Pass, "longest stall 0.4 ms", "10 ms", ""),
            check(
                "errors",
                Grade::Suspect,
                "errors on 0.005 % of requests",
                "none",
                "See the kernel's log for the device.",
            ),
            check("direct", Grade::NotApplicable, "simulated device", "O_DIRECT", ""),
        ],
    }
}

fn facts() -> Vec<Section> {
    let section = |heading: &str, rows: &[(&str, &str)]| Section {
        heading: heading.to_owned(),
        rows: rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    vec![
        section("Run", &[("started", "2026-05-04T11:02:33+02:00"), ("ioecho", "0.1.0")]),
        section(
            "Device",
            &[
                ("path", "/dev/nvme0n1"),
                ("model", "Example <SSD> \"Pro\" & Co"),
                ("size", "1.82 TiB"),
                ("scheduler", "none"),
                ("write cache", "write back"),
            ],
        ),
        section(
            "Host",
            &[
                ("kernel", "6.18.3"),
                ("cpu", "AMD EPYC 9354P, 64 threads"),
                ("governor", "performance"),
            ],
        ),
        section(
            "Trace",
            &[
                ("file", "webserver-2.ioecho"),
                ("sha-256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
                ("recorded", "2026-03-14, blktrace, CLOCK_MONOTONIC"),
            ],
        ),
        section(
            "Plan",
            &[
                (
                    "command",
                    "ioecho replay --speed 1 --conflict pushback webserver-2.ioecho /dev/nvme0n1",
                ),
                ("timing", "timed (open loop)"),
                ("in flight at most", "128"),
            ],
        ),
    ]
}

fn verification() -> VerifyFigures {
    let damaged = [("stale", 3), ("misdirected", 16), ("torn", 5)];
    let finding = |at: u64| {
        format!(
            "target 0, offset {at}: stale (holds what request 12 wrote, in place of what request \
             7314 wrote) (read by request 9120 at 62.1 s)"
        )
    };
    VerifyFigures {
        mode: VerifyMode::Reads.into(),
        requests: 613_204,
        sectors: 9_811_264,
        damaged: damaged.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        damaged_sectors: 24,
        unverifiable_sectors: 1_024,
        findings: 9,
        first_findings: [4096, 1_048_576, 99_614_720].map(finding).to_vec(),
        ..VerifyFigures::default()
    }
}

/// The figures of a run on two targets, by target.
fn targets(batches: &[Batch]) -> Vec<(String, TargetFigures)> {
    let mut figures = RunFigures::default();
    for batch in batches {
        figures.observe(batch);
    }
    let summary = figures.summary(figures.engine_facts());
    let name = |n: usize| format!("/dev/disk/by-id/nvme-EXAMPLE_{n}_<SERIAL>");
    summary.per_target.into_iter().enumerate().map(|(n, row)| (name(n), row)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "/tmp/rep".to_owned()));
    let wanted: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    std::fs::create_dir_all(&directory)?;

    let mut dice = Dice(42);
    let columns = Columns { latency: true, origin: false, measured: true, dependencies: false };
    let mut batches = vec![Batch::new(columns)];
    let (mut secs, mut backlog) = (0.0, 0.0_f64);
    let gap = LENGTH_SECS * 1.55 / wanted as f64;
    loop {
        let wait = gap / load(secs) * -(1.0 - dice.unit()).ln();
        secs += wait;
        if secs >= LENGTH_SECS {
            break;
        }
        // Demand above the device's limit makes the backlog grow; below, the backlog shrinks.
        backlog = (backlog + wait * (load(secs) - 3.2) * 0.09).clamp(0.0, 1.0);
        if batches.last().is_some_and(Batch::is_full) {
            batches.push(Batch::new(columns));
        }
        let request = request(&mut dice, secs, backlog, true);
        batches.last_mut().ok_or("no batch")?.push(&request);
    }

    let began = Instant::now();
    let mut picture = RunPicture::new();
    for batch in &batches {
        picture.observe(batch);
    }
    let observed = began.elapsed();
    let requests = picture.requests();
    let page = Page {
        timing: Some(TimingMode::Timed),
        verification: Some(verification()),
        targets: targets(&batches),
        title: "webserver-2.parquet → /dev/nvme0n1 <script>alert(1)</script>".to_owned(),
        verdict: Some(verdict()),
        facts: facts(),
        warnings: vec!["This run was made up: no device was measured.".to_owned()],
        picture,
        ..Page::default()
    };
    let began = Instant::now();
    let text = html(&page)?;
    let packed = began.elapsed();
    std::fs::write(directory.join("report.html"), &text)?;
    let rate = requests as f64 / observed.as_secs_f64() / 1e6;
    println!("{requests} requests observed in {observed:?}: {rate:.1} M/s");
    println!("report.html: {} bytes in {packed:?}", text.len());
    Ok(())
}
