//! Block events as Linux prints them: tracefs (`trace`, `trace_pipe`), `trace-cmd report` and
//! `perf script`.
//!
//! It is the record that every kernel can make without a tool, and so the one that people send. The
//! three programs print the same tracepoints with the same words behind the name of the event, and
//! differ in what stands before it. So a line is read from its instant, the first word like
//! `1234.567890:`: behind it stand the event and its fields, before it processor and process. What
//! is made of the events is the business of [`blktrace`](super::blktrace), as for blkparse's text.
//!
//! What the text lacks: bytes below a sector, the wall clock, in most cases what is finer than a
//! microsecond, and any word on lines that somebody filtered out. What the tracer itself says it
//! lost or overwrote is counted as lost.
//!
//! Format: `include/trace/events/block.h` (the fields), `kernel/trace/trace_output.c`
//! (`trace_print_context`), `kernel/trace/trace.c` (`print_trace_header`, lost events) of Linux,
//! `tracecmd/trace-read.c` of trace-cmd and `tools/perf/builtin-script.c`; `docs/import.md`.

mod line;
#[cfg(test)]
mod tests;

use self::line::Dialect;
use super::blktrace::lines::{Parsed, Parser, Tongue as _};
use super::import::{self, Epoch, Facts, Look};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::stream::Source;

/// Block events as Linux prints them.
pub const FORMAT: Format = Format {
    name: "ftrace",
    title: "block events as tracefs, trace-cmd report and perf script print them",
    several: Several::Apart,
    recognise,
    open,
};

const REMEDY: &str = "record the events block_rq_issue and block_rq_complete (and block_bio_queue \
                      for what was asked for): their lines look like 'dd-25780 [000] ..... \
                      27804.055288: block_rq_issue: 7,4 WS 65536 () 0 + 128 [dd]'";

fn recognise(first_bytes: &[u8]) -> bool {
    let mut dialect = Dialect::default();
    import::looks_like(first_bytes, |line| match dialect.parse(line, false) {
        Ok(Parsed::Event(..) | Parsed::Passthrough(_)) => Look::Request,
        Ok(_) => Look::Other,
        Err(_) => Look::Strange,
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "ftrace",
        columns: Columns { latency: true, origin: true, measured: false, ..Columns::default() },
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let parser = Parser::new(opening.options.event, Dialect::default());
    import::lines(opening, parser, facts, REMEDY)
}
