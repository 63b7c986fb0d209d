//! The JSON that Chrome and Perfetto show as a timeline, to look at single requests.
//!
//! A picture of a whole trace hides what one request did; a zoomable timeline shows it. Each device
//! is a process there, and each request a slice on it, from its issue to its completion. Requests
//! overlap in any order, so slices are asynchronous: `b` and `e` with the same `id`. A request of
//! unknown duration is an instant event.
//!
//! Times are in microseconds, with decimals, from the start of the trace or of the run. Measured
//! times take precedence over recorded ones.
//!
//! Format: "Trace Event Format" of the Chromium project, which Perfetto reads as "JSON trace";
//! files that open in both are of the form `{"traceEvents": [...]}`.

use rustc_hash::FxHashSet;

use super::Writable;
use super::write::{LineWriter, Lost, decimal, lines, volume_name};
use crate::header::Header;
use crate::request::{Flags, Op, Request};
use crate::units::{Nanos, VolumeId};

/// The JSON, as it is written.
pub const WRITABLE: Writable = Writable {
    name: "perfetto",
    title: "JSON for Perfetto and Chrome",
    endings: &[".perfetto.json", ".trace.json"],
    packs: true,
    create: |path, header| lines(path, header, Events::default()),
};

/// The events that were written so far.
#[derive(Default)]
struct Events {
    /// The number of requests so far: the `id` of the last one.
    requests: u64,
    /// Volumes, and operations on them, whose names were written.
    told: FxHashSet<(VolumeId, Option<Op>)>,
}

impl LineWriter for Events {
    fn begin(&mut self, header: &Header, lines: &mut Vec<u8>) {
        let source = json(&header.source);
        let version = json(concat!("ioecho ", env!("CARGO_PKG_VERSION")));
        let mut more = String::new();
        for (name, text) in [("description", &header.description), ("license", &header.license)] {
            if let Some(text) = text {
                more.extend([",\"", name, "\":", &json(text)]);
            }
        }
        for (number, line) in (1..).zip(&header.transforms) {
            let number: i32 = number;
            more.extend([",\"transform ", &number.to_string(), "\":", &json(line)]);
        }
        lines.extend_from_slice(
            format!(
                "{{\"displayTimeUnit\":\"ns\",\n\
                 \"otherData\":{{\"source\":{source},\"converter\":{version}{more}}},\n\
                 \"traceEvents\":["
            )
            .as_bytes(),
        );
    }

    fn keeps_transforms(&self) -> bool {
        true
    }

    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        _lost: &mut Lost,
    ) -> bool {
        self.tell_names(request, header, lines);
        self.requests += 1;
        let measured = request.measured.as_ref();
        let measured_begin = measured.map(|m| m.submitted.unwrap_or(m.scheduled));
        let begin = measured_begin.unwrap_or(request.issue);
        let duration = match measured {
            Some(measured) => measured.service_time(),
            None => request.latency,
        };
        let phase = if duration.is_some() { b'b' } else { b'n' };
        self.event(lines, request, phase, begin);
        lines.extend_from_slice(b",\"args\":{\"offset\":");
        decimal(lines, request.offset.0, 1, b'0');
        lines.extend_from_slice(b",\"length\":");
        decimal(lines, request.length.0, 1, b'0');
        if !request.flags.is_empty() {
            lines.extend_from_slice(b",\"flags\":\"");
            lines.extend_from_slice(flags(request.flags).as_bytes());
            lines.push(b'"');
        }
        if let Some(origin) = request.origin {
            let process = header.processes.get(&origin.pid).map(String::as_str);
            let process = json(process.unwrap_or(""));
            let text =
                format!(",\"pid\":{},\"process\":{process},\"cpu\":{}", origin.pid, origin.cpu);
            lines.extend_from_slice(text.as_bytes());
        }
        if let Some(measured) = measured {
            lines.extend_from_slice(b",\"late_us\":");
            micros(lines, measured.lateness().unwrap_or_default());
            let outcome = json(&measured.outcome.name());
            let pushed_back = measured.pushed_back;
            let text = format!(",\"outcome\":{outcome},\"pushed_back\":{pushed_back}");
            lines.extend_from_slice(text.as_bytes());
        }
        lines.extend_from_slice(b"}}");
        if let Some(duration) = duration {
            self.event(lines, request, b'e', begin.saturating_add(duration));
            lines.push(b'}');
        }
        true
    }

    fn end(&mut self, _header: &Header, lines: &mut Vec<u8>) {
        lines.extend_from_slice(b"\n]}\n");
    }
}

impl Events {
    /// Writes the name of the volume's process and the name of the operation's thread at their
    /// first request.
    fn tell_names(&mut self, request: &Request, header: &Header, lines: &mut Vec<u8>) {
        let process = process(request.volume);
        let mut tell = |of: Option<Op>, what: &str, name: &str| {
            if !self.told.insert((request.volume, of)) {
                return;
            }
            let comma = if self.told.len() > 1 { "," } else { "" };
            let (thread, name) = (of.map_or(0, thread), json(name));
            let text = format!(
                "{comma}\n{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
                 \"args\":{{\"name\":{name}}}}}"
            );
            lines.extend_from_slice(text.as_bytes());
        };
        tell(None, "process_name", &volume_name(header, request.volume));
        tell(Some(request.op), "thread_name", request.op.name());
    }

    /// Begins an event of the last request; the caller closes it.
    fn event(&self, lines: &mut Vec<u8>, request: &Request, phase: u8, at: Nanos) {
        lines.extend_from_slice(b",\n{\"ph\":\"");
        lines.push(phase);
        lines.extend_from_slice(b"\",\"cat\":\"io\",\"name\":\"");
        lines.extend_from_slice(request.op.name().as_bytes());
        lines.extend_from_slice(b"\",\"id\":");
        decimal(lines, self.requests, 1, b'0');
        lines.extend_from_slice(b",\"pid\":");
        decimal(lines, process(request.volume), 1, b'0');
        lines.extend_from_slice(b",\"tid\":");
        decimal(lines, thread(request.op), 1, b'0');
        lines.extend_from_slice(b",\"ts\":");
        micros(lines, at);
    }
}

/// The number of a volume's process. It is never 0, which some viewers take for the idle process.
fn process(volume: VolumeId) -> u64 {
    u64::from(volume.0) + 1
}

/// The number of an operation's thread.
fn thread(op: Op) -> u64 {
    u64::from(op.code()) + 1
}

fn flags(flags: Flags) -> String {
    let names: Vec<_> = flags.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.join("|")
}

/// Microseconds with all decimals.
fn micros(line: &mut Vec<u8>, span: Nanos) {
    if span.0 < 0 {
        line.push(b'-');
    }
    let ns = span.0.unsigned_abs();
    decimal(line, ns / 1_000, 1, b'0');
    line.push(b'.');
    decimal(line, ns % 1_000, 3, b'0');
}

/// `text` as a JSON string.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::any_request;
    use crate::formats::create;
    use crate::{Batch, Bytes, Columns, header::Volume};
    use proptest::prelude::*;
    use serde_json::Value;

    fn written(requests: &[Request], columns: Columns, name: &str) -> Vec<Value> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.trace.json");
        let volume = Volume { id: VolumeId(0), name: name.to_owned(), size: None };
        let header = Header { columns, volumes: vec![volume], ..Header::default() };
        let mut sink = create(&path, &header).unwrap();
        let mut batch = Batch::new(columns);
        batch.extend(requests);
        sink.write(&batch).unwrap();
        assert_eq!(sink.finish(&header).unwrap().requests, requests.len() as u64);
        let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        json["traceEvents"].as_array().unwrap().clone()
    }

    fn read(issue: i64, latency: Option<i64>) -> Request {
        let request = Request::new(Nanos(issue), Op::Read, Bytes(4096), Bytes(512));
        Request { latency: latency.map(Nanos), ..request }
    }

    #[test]
    fn a_request_is_a_slice_as_long_as_it_took_on_the_track_of_its_device() {
        let latency = Columns { latency: true, ..Columns::default() };
        let events = written(&[read(1_500, Some(2_001)), read(2_000, None)], latency, "sd\"a");
        let phases: Vec<_> = events.iter().map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(phases, ["M", "M", "b", "e", "n"]);
        assert_eq!(events[0]["args"]["name"], "sd\"a");
        assert_eq!(events[1]["args"]["name"], "read");
        let (begin, end) = (&events[2], &events[3]);
        assert_eq!((&begin["id"], &begin["pid"]), (&end["id"], &end["pid"]));
        assert_eq!(begin["pid"], events[0]["pid"]);
        assert_eq!((begin["ts"].as_f64(), end["ts"].as_f64()), (Some(1.5), Some(3.501)));
        assert_eq!(
            (&begin["args"]["offset"], &begin["args"]["length"]),
            (&4096.into(), &512.into())
        );
    }

    #[test]
    fn no_request_at_all_is_whole_json_too() {
        assert!(written(&[], Columns::default(), "").is_empty());
    }

    proptest! {
        #[test]
        fn any_requests_make_whole_json(
            requests in proptest::collection::vec(any_request(), 0..30), columns in 0..8_u8,
        ) {
            let columns = Columns {
                latency: columns & 1 != 0, origin: columns & 2 != 0, measured: columns & 4 != 0,
                dependencies: false,
            };
            let events = written(&requests, columns, "a");
            let begun = events.iter().filter(|event| event["ph"] != "M" && event["ph"] != "e");
            prop_assert_eq!(begun.count(), requests.len());
            let ids = |phase: &str| -> Vec<_> {
                let of_phase = events.iter().filter(|event| event["ph"] == phase);
                of_phase.map(|event| event["id"].clone()).collect()
            };
            prop_assert_eq!(ids("b"), ids("e"));
        }
    }
}
