//! Block events as Linux prints them: tracefs (`trace`, `trace_pipe`), `trace-cmd report` and
//! `perf script`.
//!
//! Every kernel can make this record without a tool, so users often send it. The three programs
//! print the same tracepoints with the same words after the name of the event, and differ in the
//! text before it. So a line is read from its instant on, the first word like `1234.567890:`: after
//! it come the event and its fields, before it processor and process. [`blktrace`](super::blktrace)
//! processes the events, as for blkparse's text.
//!
//! The text lacks bytes within a sector, the wall clock, mostly fractions of a microsecond, and any
//! sign of lines that a user filtered out. Events that the tracer itself reports as lost or
//! overwritten are counted as lost.
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
