//! From what the kernel gave to the file that is wanted.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use ioecho_run::inputs::Inputs;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::recording::directory_beside;
use ioecho_trace::transform::{Asked, KINDS, Load};
use ioecho_trace::units::counted;
use ioecho_trace::{Stop, stream};

use crate::args::RecordArgs;
use crate::exit;
use crate::opened::{self, tell_damage, tell_import};
use crate::outputs::Gate;
use crate::print::tell;

/// Converts the recording that was made for `output`, and removes it unless it is to be kept or
/// could not be read whole: then it holds more than what was converted.
/// Answers the exit code that what was read asks for.
pub(crate) fn convert(args: &RecordArgs, output: &Path, stop: &Stop) -> anyhow::Result<u8> {
    let raw = directory_beside(output);
    let kept = || {
        let (raw, output) = (raw.display(), output.display());
        format!(
            "converting {raw} (it is kept; when the cause is gone: ioecho convert {raw} {output})"
        )
    };
    let options = ReadOptions { event: args.event, ..ReadOptions::default() };
    let load = Load { chain: unstack(args)?, ..Load::default() };
    let mut source = opened::trace_until(stop, &raw, &options, &load).with_context(kept)?;
    let sink = Gate::reading(Inputs::of([&*raw]))
        .trace(args.to, output, source.header())
        .with_context(kept)?;
    let (requests, written) = stream::copy(source.as_mut(), sink).with_context(kept)?;
    let code = if args.quiet { tell_damage(source.header()) } else { tell_import(source.header()) };
    for note in written.lost.iter() {
        tell(&format!("lost in {}: {note}", output.display()));
    }
    let of = if written.requests == requests {
        String::new()
    } else {
        format!(" of {}", counted(requests, "request"))
    };
    if !args.quiet {
        let written = written.requests;
        let all =
            if of.is_empty() { counted(written, "request") } else { format!("{written}{of}") };
        tell(&format!("{all} written to {}", output.display()));
    }
    drop(source);
    if code != exit::OK {
        tell(&format!("note: {} is kept, for it is damaged", raw.display()));
    } else if !args.keep_raw
        && let Err(error) = fs::remove_dir_all(&raw)
    {
        tell(&format!("warning: cannot remove {}: {error}", raw.display()));
    }
    Ok(code)
}

/// The transform that was asked for.
fn unstack(args: &RecordArgs) -> anyhow::Result<Vec<Asked>> {
    let kind = KINDS.iter().find(|kind| kind.name == "unstack").filter(|_| args.unstack);
    Ok(kind.map(|kind| Asked::new(kind, "")).transpose()?.into_iter().collect())
}
