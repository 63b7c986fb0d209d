//! What is told of a load on files: operations by their numbers, files, sizes, and names in the
//! place of bytes of a volume.

use std::cmp::Reverse;
use std::fmt::Write as _;

use ioecho_run::extent;
use ioecho_run::facts::RunFacts;
use ioecho_stats::analysis::AnalysisFigures;
use ioecho_stats::analysis::operations::{Named, OperationFigures};
use ioecho_stats::analysis::sizes::OpSizes;
use ioecho_stats::analysis::slowest::Slow;
use ioecho_trace::units::{counted, counted_in};
use ioecho_trace::{Bytes, Header, Op};

/// How many operations are shown, the most frequent first.
pub(super) const OPERATIONS_SHOWN: usize = 8;

/// Says which file lies at a place of a volume, and how far behind its begin the place is.
pub(super) type Names<'n> = &'n dyn Fn(u32, u64) -> Option<(String, u64)>;

/// The operations that occurred, the most frequent first.
pub(super) fn operations(figures: &AnalysisFigures) -> Vec<&OperationFigures> {
    let mut all: Vec<&OperationFigures> = figures.operations.iter().collect();
    all.sort_by_key(|of| Reverse(of.requests));
    all
}

/// An operation: how often, of how many files, how fast within so many seconds.
pub(super) fn operation(of: &OperationFigures, seconds: f64) -> String {
    let per = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let mut text = format!("{}: {}", of.op.name(), of.requests);
    if let Some(named) = &of.names {
        let of_directories = matches!(of.op, Op::Mkdir | Op::Rmdir | Op::Readdir);
        let (one, several) =
            if of_directories { ("directory", "directories") } else { ("file", "files") };
        let _ = write!(text, " of {}{}", about(named), counted_in(named.count, one, several));
    }
    let _ = write!(text, ", {:.1}/s", per(of.requests - of.failed));
    if of.bytes > 0 {
        let _ = write!(text, ", {}/s", Bytes(per(of.bytes) as u64));
    }
    if of.failed > 0 {
        let _ = write!(text, ", {} failed", of.failed);
    }
    text
}

fn about(named: &Named) -> &'static str {
    if named.relative_error > 0.0 { "about " } else { "" }
}

/// How many files the load is about, and how many its trees have.
pub(super) fn files(
    figures: &AnalysisFigures,
    header: &Header,
    run: Option<&RunFacts>,
) -> Option<String> {
    if let Some(recorded) = &header.files {
        return Some(format!("{} in calls", counted(recorded.names() as u64, "name")));
    }
    let named = figures.files?;
    let targets = run.into_iter().flat_map(|run| &run.targets);
    let whole: u64 = targets.filter_map(extent::shape).map(|shape| shape.files()).sum();
    let of_whole = if whole > 0 { format!(" of {whole}") } else { String::new() };
    Some(format!("{}{}{of_whole} touched", about(&named), named.count))
}

/// The sizes of reads and of writes.
pub(super) fn sizes(figures: &AnalysisFigures) -> Option<String> {
    let told = |of: &OpSizes| {
        let (least, most) = (Bytes(of.min_bytes), Bytes(of.max_bytes));
        let name = of.op.name();
        if least == most {
            format!("{name} {least}")
        } else {
            format!("{name} {least} to {most}, mean {}", Bytes(of.mean_bytes as u64))
        }
    };
    let is_of_data = |of: &&OpSizes| matches!(of.op, Op::Read | Op::Write);
    let told: Vec<String> = figures.sizes.operations.iter().filter(is_of_data).map(told).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// What a slow request asked for, and where.
pub(super) fn place(slow: &Slow, names: Names<'_>) -> String {
    let op = slow.op.name();
    let bytes = format!("{} (byte {})", Bytes(slow.offset), slow.offset);
    let size = Bytes(slow.length);
    match names(slow.volume, slow.offset) {
        // What concerns a name has no place within.
        Some((path, _)) if slow.op.is_of_files() => format!("{op} of {path}"),
        Some((path, within)) => format!("{op} of {size} at {} in {path}", Bytes(within)),
        None if slow.op.is_of_files() => {
            format!("{op} of what lies at {bytes} of volume {}", slow.volume)
        }
        None => format!("{op} of {size} at {bytes} of volume {}", slow.volume),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(op: Op, names: Option<u64>) -> OperationFigures {
        let names = names.map(|count| Named { count, relative_error: 0.0 });
        OperationFigures { op, requests: 40, failed: 0, bytes: 0, names }
    }

    #[test]
    fn an_operation_says_how_often_and_of_how_many_files() {
        let told = |of: &OperationFigures| operation(of, 2.0);
        assert_eq!(told(&figures(Op::Open, Some(1))), "open: 40 of 1 file, 20.0/s");
        assert_eq!(told(&figures(Op::Readdir, Some(2))), "readdir: 40 of 2 directories, 20.0/s");
        let read = OperationFigures { bytes: 8192, failed: 10, ..figures(Op::Read, None) };
        assert_eq!(told(&read), "read: 40, 15.0/s, 4.00 KiB/s, 10 failed");
        let mut many = figures(Op::Create, Some(1 << 20));
        many.names = Some(Named { count: 1 << 20, relative_error: 0.01 });
        assert_eq!(told(&many), "create: 40 of about 1048576 files, 20.0/s");
    }
}
