//! The engines' telemetry (`--expert`), written to `inside.jsonl` and read from it.
//!
//! An engine hands over one block of counters per interval, through a separate ring with room for a
//! hundred of them; the thread that writes the results writes them too. Blocks without room are
//! counted, so the engine never waits.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ioecho_replay::engine::telemetry::{self as engine, Telemetry};
use ioecho_stats::telemetry::{Level, Line, Spans, Spent, TelemetryFigures, VERSION};
use ioecho_trace::units::counted;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::directory::RunDirectory;
use crate::regular;

/// Intervals in a ring: one second at the shortest interval, otherwise ten and more.
const RING: usize = 128;

/// The longest accepted line; a complete one has about 20 KiB at most.
const LINE_MAX: u64 = 1 << 20;

/// The engine's end of the ring.
pub struct TelemetrySender {
    producer: Producer<Telemetry>,
    /// Intervals without room since the last one with room. The writer reads this at the end,
    /// because no later interval can report them.
    missing: Arc<AtomicU64>,
}

impl TelemetrySender {
    /// Hands an interval over, or counts it as missing.
    pub fn send(&mut self, interval: &Telemetry) {
        let missing = self.missing.load(Relaxed);
        let interval = Telemetry { missing, ..*interval };
        let missing = match self.producer.push(interval) {
            Ok(()) => 0,
            Err(_) => missing + 1,
        };
        self.missing.store(missing, Relaxed);
    }
}

/// The writing end, with a ring for each target.
pub struct TelemetryWriter {
    consumers: Vec<Consumer<Telemetry>>,
    /// Recent intervals without room, by target.
    missing: Vec<Arc<AtomicU64>>,
    file: Option<BufWriter<File>>,
    run: RunDirectory,
    /// Whether the clock is that of the host.
    real: bool,
    /// The longest write since the last line of each target, ns.
    write_max: Vec<u64>,
    error: Option<io::Error>,
}

/// The rings of a run with this number of targets. `real`: the run uses the host's clock, so the
/// times of its threads have a meaning.
pub fn rings(
    run: &RunDirectory,
    targets: usize,
    real: bool,
) -> (Vec<TelemetrySender>, TelemetryWriter) {
    let missing: Vec<Arc<AtomicU64>> = (0..targets).map(|_| Arc::default()).collect();
    let (senders, consumers): (Vec<_>, Vec<_>) = missing
        .iter()
        .map(|missing| {
            let (producer, consumer) = RingBuffer::new(RING);
            (TelemetrySender { producer, missing: Arc::clone(missing) }, consumer)
        })
        .unzip();
    let write_max = vec![0; targets];
    let run = run.clone();
    (senders, TelemetryWriter { consumers, missing, file: None, run, real, write_max, error: None })
}

impl TelemetryWriter {
    /// Reports how long a write of results took.
    pub fn wrote(&mut self, took_ns: u64) {
        for most in &mut self.write_max {
            *most = (*most).max(took_ns);
        }
    }

    /// Writes the intervals that have arrived. After an error nothing more is written, and the run
    /// continues, because telemetry is not a result.
    pub fn write(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.try_write()
        {
            self.error = Some(error);
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        for (target, consumer) in self.consumers.iter_mut().enumerate() {
            while let Ok(interval) = consumer.pop() {
                let file = match &mut self.file {
                    Some(file) => file,
                    none => {
                        let file = self.run.new_file(&self.run.telemetry())?;
                        none.insert(BufWriter::new(file))
                    }
                };
                let write_max = self.real.then(|| std::mem::take(&mut self.write_max[target]));
                serde_json::to_writer(&mut *file, &line(target as u32, &interval, write_max))?;
                file.write_all(b"\n")?;
            }
        }
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    /// Writes the rest, after the engines have ended. Returns messages: the error that stopped the
    /// writing, and intervals at the end without room.
    pub fn finish(mut self) -> Vec<String> {
        self.write();
        let error = self.error.map(|error| format!("inside.jsonl ends before the run: {error}"));
        let missing = self.missing.iter().map(|missing| missing.load(Relaxed)).enumerate();
        let missing = missing.filter(|(_, missing)| *missing > 0).map(|(target, missing)| {
            let intervals = counted(missing, "interval");
            format!("inside.jsonl: the last {intervals} of target {target} found no room")
        });
        error.into_iter().chain(missing).collect()
    }
}

fn line(target: u32, telemetry: &Telemetry, write_max_ns: Option<u64>) -> Line {
    let [issuing_ns, awaiting_ns, blocked_ns, starved_ns] = telemetry.spent.map(|span| span.0);
    Line {
        version: VERSION,
        target,
        start_ns: telemetry.start.0,
        end_ns: telemetry.end.0,
        steps: telemetry.steps,
        spent: Spent { issuing_ns, awaiting_ns, blocked_ns, starved_ns },
        input_stalls: telemetry.input_stalls,
        look_ahead: level(telemetry.look_ahead),
        input: level(telemetry.input),
        results: level(telemetry.results),
        waiting: level(telemetry.waiting),
        in_flight: level(telemetry.in_flight),
        ahead_ns: level(telemetry.ahead),
        delay: spans(&telemetry.delay),
        preparation: spans(&telemetry.preparation),
        submission: spans(&telemetry.submission),
        unseen: spans(&telemetry.unseen),
        woken: telemetry.woken,
        write_max_ns,
        missing: telemetry.missing,
    }
}

fn level(level: engine::Level) -> Option<Level> {
    let engine::Level { looks, min, max, sum } = level;
    (looks > 0).then(|| Level { min, mean: sum as f64 / looks as f64, max })
}

fn spans(spans: &engine::Spans) -> Spans {
    Spans {
        count: spans.count,
        sum_ns: spans.sum,
        max_ns: spans.max,
        bins: spans.filled().collect(),
    }
}

/// The telemetry of a run; empty if it was not asked for. An incomplete last line of a killed run
/// counts as damaged, like any other broken line.
pub fn read(run: &RunDirectory) -> TelemetryFigures {
    let mut figures = TelemetryFigures::default();
    let Ok(file) = regular::open(&run.telemetry()) else { return figures };
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    loop {
        text.clear();
        match io::Read::take(&mut reader, LINE_MAX).read_until(b'\n', &mut text) {
            Ok(0) | Err(_) => return figures,
            Ok(_) => match serde_json::from_slice::<Line>(&text) {
                Ok(line) => figures.observe(&line),
                Err(_) => figures.unreadable += 1,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;

    fn directory() -> (tempfile::TempDir, RunDirectory) {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        (directory, run)
    }

    #[test]
    fn what_an_engine_tells_is_read_as_it_was_told() {
        let (_directory, run) = directory();
        let (mut senders, mut writer) = rings(&run, 2, true);
        let mut telemetry = Telemetry { end: Nanos(1_000), steps: 3, ..Telemetry::default() };
        telemetry.delay.add(Nanos(100));
        telemetry.look_ahead.add(7);
        senders[1].send(&telemetry);
        writer.wrote(55);
        assert_eq!(writer.finish(), Vec::<String>::new());
        let text = std::fs::read_to_string(run.telemetry()).unwrap();
        let line: Line = serde_json::from_str(&text).unwrap();
        assert_eq!((line.target, line.end_ns, line.steps), (1, 1_000, 3));
        assert_eq!((line.delay.max_ns, line.write_max_ns), (100, Some(55)));
        assert_eq!(line.look_ahead, Some(Level { min: 7, mean: 7.0, max: 7 }));
        assert_eq!((line.input, line.missing), (None, 0));
    }

    #[test]
    fn what_has_no_room_at_the_end_is_told() {
        let (_directory, run) = directory();
        let (mut senders, writer) = rings(&run, 2, false);
        for _ in 0..RING + 3 {
            senders[1].send(&Telemetry::default());
        }
        let told = writer.finish();
        assert_eq!(told, ["inside.jsonl: the last 3 intervals of target 1 found no room"]);
    }

    #[test]
    fn what_has_no_room_is_counted_and_a_torn_line_too() {
        let (_directory, run) = directory();
        let (mut senders, mut writer) = rings(&run, 1, false);
        for number in 0..RING as i64 + 5 {
            senders[0].send(&Telemetry { end: Nanos(number), ..Telemetry::default() });
        }
        writer.write();
        senders[0].send(&Telemetry::default());
        assert_eq!(writer.finish(), Vec::<String>::new());
        let mut file = File::options().append(true).open(run.telemetry()).unwrap();
        file.write_all(b"{\"version\":1,\"targ").unwrap();
        let figures = read(&run);
        assert_eq!((figures.missing, figures.unreadable), (5, 1));
    }
}
