//! A trace through a shell command.
//!
//! Users of blkreplay have awk and perl scripts that transform loads (its `pipe_cmd`). They still
//! work: the command gets the lines of a load on its standard input, without prose, and its output
//! is read as a load. A load can express less than a trace; losses are noted.
//!
//! A command may print before it has read everything, or read everything before it prints. Writing
//! to it and reading from it in one thread would deadlock. So one thread feeds it, and another
//! keeps the end of its standard error.

mod running;

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ExitStatus};

use self::running::Running;

use super::{ArgumentError, Context, Kind, Transform};
use crate::batch::{Batch, Columns};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::formats::blkreplay::{self, LoadLines};
use crate::header::{Header, Notes};
use crate::secrets::text_shown;
use crate::stop::Stop;
use crate::stream::Source;
use crate::text;

/// `cmd COMMAND`.
pub const KIND: Kind = Kind {
    name: "cmd",
    value: "COMMAND",
    help: "Pipe the trace through a shell command as lines of a blkreplay load, 'start ; sector ; \
           length ; op ; 0.0 ; 0.0', and read back what it prints",
    spills: false,
    parse,
};

/// The number of bytes at the end of the standard error that are kept.
const TAIL_BYTES: usize = 4096;

/// The number of its lines that are shown.
const TAIL_LINES: usize = 10;

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let command = text.trim();
    if command.is_empty() {
        return Err(ArgumentError::new("the command is missing"));
    }
    if command.contains('\0') {
        return Err(ArgumentError::new("a command holds no zero byte"));
    }
    Ok(Box::new(Cmd { command: command.to_owned() }))
}

#[derive(Clone, Debug)]
struct Cmd {
    command: String,
}

impl Transform for Cmd {
    fn shown(&self, text: &str) -> String {
        text_shown(text)
    }

    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let before = source.header().clone();
        let (running, output) = Running::start(&self.command, source, &context.stop)?;
        // This waits for the first line of the output. If it is wrong, the command's own error is
        // reported first.
        let name = format!("output of '{}'", text_shown(&self.command));
        match blkreplay::open(output, Path::new(&name), &ReadOptions::default()) {
            Ok(output) => {
                let header = Header::default();
                let running = Some(running);
                let mut piped = Piped {
                    command: self.command.clone(),
                    before,
                    lost: Notes::default(),
                    output,
                    running,
                    stop: context.stop.clone(),
                    header,
                };
                piped.take_header();
                Ok(Box::new(piped))
            }
            Err(error) => {
                context.stop.check()?;
                Err(running.end().err().unwrap_or(error))
            }
        }
    }
}

/// The facts known when the whole trace was fed.
struct Fed {
    header: Header,
    lost: Notes,
}

/// Writes the lines of `source` until it ends or the command reads no more, as `head` does.
fn feed(mut source: Box<dyn Source>, mut input: ChildStdin) -> Result<Fed, TraceError> {
    let mut batch = Batch::new(source.header().columns);
    let mut load = LoadLines::default();
    while source.next_batch(&mut batch)? {
        load.lines.clear();
        load.batch(&batch);
        match input.write_all(&load.lines) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(TraceError::write(Path::new("input of the command"), error)),
        }
    }
    Ok(Fed { header: source.header().clone(), lost: load.lost() })
}

/// The last bytes that `pipe` gives.
fn tail(mut pipe: impl Read) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; TAIL_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut piece) {
        kept.extend_from_slice(&piece[..count]);
        let over = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn fault(command: &str, reason: &str) -> TraceError {
    TraceError::Unusable {
        path: format!("cmd '{}'", text_shown(command)).into(),
        reason: reason.to_owned(),
        remedy: "it gets lines like '0.449518165 ; 37766917 ; 14 ; W ; 0.0 ; 0.0' and prints such \
                 lines"
            .into(),
    }
}

fn failure(command: &str, status: ExitStatus, complaints: &str) -> TraceError {
    let lines: Vec<_> = complaints.trim().lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let mut said = String::new();
    for line in last {
        said.push_str("\n  | ");
        said.push_str(&text::shown(line.as_bytes()));
    }
    fault(command, &format!("the command failed: {status}{said}"))
}

/// A trace that goes through a command.
struct Piped {
    command: String,
    /// The header of the trace before the command.
    before: Header,
    /// The losses of the load that the command gets.
    lost: Notes,
    output: Box<dyn Source>,
    running: Option<Running>,
    stop: Stop,
    header: Header,
}

impl Piped {
    fn take_header(&mut self) {
        let after = self.output.header();
        let mut header = self.before.clone();
        header.columns = Columns { measured: false, ..after.columns };
        header.forget_run();
        // A load has one volume and no processes.
        header.volumes = header.volumes.first().cloned().into_iter().collect();
        header.processes.clear();
        for note in self.lost.iter() {
            let what = format!("{} (through the command)", note.what);
            header.losses.add(note.kind.of(&what), note.count, None);
        }
        for (into, from) in
            [(&mut header.losses, &after.losses), (&mut header.guesses, &after.guesses)]
        {
            for note in from.iter() {
                into.add_note(&note.within("the command's output"));
            }
        }
        header.transforms.push(format!("{} {}", KIND.name, text_shown(&self.command)));
        self.header = header;
    }
}

impl Source for Piped {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = match self.output.next_batch(batch) {
            Err(_) if self.stop.is_asked() => return Err(TraceError::Stopped),
            more => more?,
        };
        batch.measured = None;
        if !more && let Some(running) = self.running.take() {
            let fed = running.end()?;
            self.before = fed.header;
            self.lost = fed.lost;
            self.take_header();
        }
        if let Some(first) = self.header.volumes.first() {
            batch.volume.fill(first.id.0);
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, made, refusal, trace, with_context};
    use super::super::tests::{Given, once};
    use super::super::{Asked, apply};
    use super::*;
    use crate::{Op, Request};
    use std::time::{Duration, Instant};

    fn many(count: i64) -> Vec<Request> {
        (0..count).flat_map(|n| trace(&[(n / 100, Op::Write, n as u64 * 8, 8)])).collect()
    }

    fn error(command: &str, requests: &[Request]) -> String {
        with_context(&[], |context| {
            let asked: Asked = format!("cmd {command}").parse().unwrap();
            let given = Box::new(Given::new(requests, 1000));
            let mut source = match apply(&[asked], given, context) {
                Ok(source) => source,
                Err(error) => return error.to_string(),
            };
            let mut batch = Batch::default();
            loop {
                match source.next_batch(&mut batch) {
                    Ok(true) => {}
                    Ok(false) => return "no error".to_owned(),
                    Err(error) => return error.to_string(),
                }
            }
        })
    }

    fn ranges(requests: &[Request]) -> Vec<(i64, Op, u64, u64)> {
        requests.iter().map(|r| (r.issue.0, r.op, r.offset.0, r.length.0)).collect()
    }

    #[test]
    fn cat_changes_nothing_however_long_the_trace_is() {
        // More than any pipe holds, in both directions.
        let requests = many(30_000);
        let (piped, header) = made("cmd cat", &requests, 1000);
        assert_eq!(ranges(&piped), ranges(&requests));
        assert_eq!(header.transforms, ["cmd cat"]);
    }

    #[test]
    fn what_opens_a_store_is_no_part_of_what_is_said_of_the_trace() {
        let command = "cmd cat # http://me:word@host/x?sig=1";
        let asked: Asked = command.parse().unwrap();
        let (_, header) = once(command, &many(1), 1000);
        assert_eq!(header.transforms, ["cmd cat # http://host/x?…"]);
        assert_eq!(asked.to_string(), header.transforms[0]);
        let told = error("false # http://me:word@host/x", &many(1));
        assert!(told.contains("http://host/x") && !told.contains("word"), "{told}");
    }

    #[test]
    fn a_command_may_read_all_before_it_prints() {
        let requests = many(30_000);
        let (piped, _) = made("cmd sort -t';' -k1,1n -k2,2n -s", &requests, 1000);
        assert_eq!(ranges(&piped), ranges(&requests));
    }

    #[test]
    fn what_the_command_changes_is_changed() {
        let requests = trace(&[(0, Op::Read, 8, 8), (2, Op::Write, 16, 8)]);
        let (piped, _) = made("cmd awk -F';' '{ $2 *= 2; print }' OFS=';'", &requests, 1);
        assert_eq!(piped[1].offset.0, 32 * 512);
    }

    #[test]
    fn what_a_load_cannot_say_is_told() {
        let mut requests = trace(&[(0, Op::Read, 8, 8), (1, Op::Flush, 0, 0), (2, Op::Read, 9, 1)]);
        requests[0].latency = Some(crate::Nanos(1));
        let (piped, header) = made("cmd cat; echo junk\\;", &requests, 1);
        assert_eq!(piped.len(), 2);
        let told: Vec<_> = header.losses.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "1 flush (through the command)",
                "1 latency (through the command)",
                "2 processes, processors and measured times (through the command)",
                "1 junk line (in the command's output)",
            ]
        );
    }

    #[test]
    fn a_command_that_reads_a_part_is_none_that_failed() {
        let requests = many(30_000);
        let (piped, _) = made("cmd head -n 3", &requests, 1000);
        assert_eq!(piped.len(), 3);
    }

    #[test]
    fn a_failure_is_an_error_with_what_the_command_said() {
        let said = error("cat; echo it is broken >&2; exit 3", &many(3000));
        assert!(said.contains("the command failed: exit status: 3\n  | it is broken"), "{said}");
        let said = error("no-such-command-at-all", &many(30_000));
        assert!(said.contains("exit status: 127"), "{said}");
        let said = error("kill -9 $$", &many(3));
        assert!(said.contains("signal: 9"), "{said}");
        let said = error("true", &many(30_000));
        assert!(said.contains("output of 'true': there is no request in its 0 lines"), "{said}");
        // As much on the standard error as no pipe holds.
        let said = error("yes no | head -c 999999 >&2; echo end >&2; exit 1", &many(3));
        assert!(said.ends_with("prints such lines") && said.contains("| end"), "{said}");
        assert_eq!(error("cat", &many(3)), "no error");
    }

    #[test]
    fn whoever_wants_no_more_does_not_wait() {
        // More than the window holds in which requests are sorted.
        let requests = many(100_000);
        with_context(&[], |context| {
            let chain = ["cmd cat; sleep 600", "window 0s,1s"].map(|line| line.parse().unwrap());
            let given = Box::new(Given::new(&requests, 1000));
            let mut source = apply(&chain, given, context).unwrap();
            assert_eq!(all(&mut source).len(), 100);
        });
    }

    /// The time that it took to pipe three requests through `command`, and the header then.
    fn timed(command: &str) -> (Duration, Header) {
        let begin = Instant::now();
        let (piped, header) = with_context(&[], |context| {
            let asked: Asked = format!("cmd {command}").parse().unwrap();
            let given = Box::new(Given::new(&many(3), 1));
            let mut source = apply(&[asked], given, context).unwrap();
            (all(&mut source), source.header().clone())
        });
        assert_eq!(piped.len(), 3, "{command}");
        (begin.elapsed(), header)
    }

    fn left_behind(header: &Header) -> u64 {
        let note = format!("{} (through the command)", running::LEFT_BEHIND.words);
        header.losses.count_of(note)
    }

    #[test]
    fn what_a_command_left_behind_is_not_waited_for_and_is_told() {
        let holds_both = "cat; sleep 88 &";
        let holds_the_errors = "cat; sleep 88 > /dev/null &";
        let in_a_session_of_its_own = "cat; setsid sleep 9 &";
        for command in [holds_both, holds_the_errors, in_a_session_of_its_own] {
            let (took, header) = timed(command);
            assert!(took < Duration::from_secs(7), "{command}: {took:?}");
            assert_eq!(left_behind(&header), 1, "{command}");
        }
        // Output of background processes counts too, if it comes in time.
        let (_, header) = timed("exec 3<&0; (sleep 0.3; cat <&3) &");
        assert_eq!(left_behind(&header), 0);
    }

    #[test]
    fn whoever_is_asked_to_end_does_not_wait_for_a_command_that_says_nothing() {
        let stop = Stop::default();
        let asker = stop.clone();
        let asking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            asker.ask();
        });
        let begin = Instant::now();
        let context =
            Context { open: &|_| unreachable!(), spill_directory: std::env::temp_dir(), stop };
        let asked: Asked = "cmd cat > /dev/null; sleep 88".parse().unwrap();
        let result = apply(&[asked], Box::new(Given::new(&many(3), 1)), &context);
        assert!(matches!(result, Err(TraceError::Stopped)));
        assert!(begin.elapsed() < Duration::from_secs(20));
        asking.join().unwrap();
    }

    #[test]
    fn no_command_is_none() {
        assert_eq!(refusal("cmd"), "the command is missing");
    }
}
