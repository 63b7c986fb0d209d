//! A graph in the language of Graphviz.
//!
//! Format: <https://graphviz.org/doc/info/lang.html>

use std::fmt::Write as _;

use ioecho_trace::{Nanos, Request};

/// The most requests in a picture; a larger one is unreadable.
pub const REQUESTS_MAX: usize = 2_000;

/// A graph that is being drawn.
#[derive(Debug, Default)]
pub struct Dot {
    lines: String,
    requests: usize,
}

impl Dot {
    /// Adds a request with its number, the numbers of its parents and its think time. Returns
    /// whether there was room for it.
    pub fn add(
        &mut self,
        request: &Request,
        id: u64,
        parents: &[u64],
        think: Option<Nanos>,
    ) -> bool {
        if self.requests == REQUESTS_MAX {
            return false;
        }
        self.requests += 1;
        let op = request.op.name();
        let latency = request.latency.map_or("?".to_owned(), |latency| latency.to_string());
        // Writing into a string cannot fail.
        let _ =
            writeln!(self.lines, "  r{id} [label=\"{id}: {op}\\n{} + {latency}\"];", request.issue);
        for parent in parents {
            let think = think.map_or(String::new(), |think| think.to_string());
            let _ = writeln!(self.lines, "  r{parent} -> r{id} [label=\"{think}\"];");
        }
        true
    }

    /// The whole text.
    pub fn finish(self) -> String {
        format!(
            "// A request: its number and operation, when it was issued and how long it took.\n\
             // An edge: who waited for whom; the think time after the last parent.\n\
             digraph requests {{\n  rankdir=LR;\n  node [shape=box];\n{}}}\n",
            self.lines
        )
    }
}
