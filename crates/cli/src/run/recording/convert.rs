//! Converts the kernel's records into the format that the user wants.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use ioecho_run::inputs::Inputs;
use ioecho_trace::formats::{ReadOptions, write};
use ioecho_trace::header::{NoteKind, Topic};
use ioecho_trace::recorded::{Before, BeforeKind, Now, name_of, shown};
use ioecho_trace::recording::directory_beside;
use ioecho_trace::stream::Labelled;
use ioecho_trace::transform::{Asked, KINDS, Load};
use ioecho_trace::units::counted;
use ioecho_trace::{Header, Source as _, Stop, stream};

use crate::args::RecordArgs;
use crate::exit;
use crate::opened::{self, tell_damage, tell_import};
use crate::outputs::Gate;
use crate::print::tell;

/// Converts the recording that was made for `output`, then removes it. The recording is kept if the
/// user wants that, or if it could not be read completely: then it holds more than the output. It
/// was made after `began`. Returns the exit code.
pub(crate) fn convert(
    args: &RecordArgs,
    output: &Path,
    began: SystemTime,
    stop: &Stop,
) -> anyhow::Result<u8> {
    let raw = directory_beside(output);
    let kept = || {
        let (raw, output) = (raw.display(), output.display());
        format!(
            "converting {raw} (it is kept; when the cause is gone: ioecho convert {raw} {output})"
        )
    };
    let load = Load { chain: unstack(args)?, ..Load::default() };
    // Only of calls it is known who waited for whom.
    let dependencies = args.files && write::keeps_dependencies(args.to, output);
    let options = ReadOptions { event: args.event, dependencies, ..ReadOptions::default() };
    let source = opened::trace_until(stop, &raw, &options, &load).with_context(kept)?;
    let mut source = Labelled::new(source, |header: &mut Header| complete(header, began));
    let sink = Gate::reading(Inputs::of([&*raw]))
        .trace(args.to, output, source.header())
        .with_context(kept)?;
    let (requests, written) = stream::copy(&mut source, sink).with_context(kept)?;
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

/// What lies on this host after its recording.
const AS_IT_IS: Topic<'static> = NoteKind::Assumed.of(
    "names that were there before the recording, whose sizes and kinds no call told, taken as they \
     are after it",
);

/// Completes what was there before the calls of a recording by what is there now, where that was
/// not changed since the recording `began`.
fn complete(header: &mut Header, began: SystemTime) {
    let Some(files) = &mut header.files else { return };
    let learned = files.complete(|before| now(before, began));
    header.guesses.add(AS_IT_IS, learned, None);
}

/// What a name stands for on this host, unless it has changed since then.
fn now(before: &Before, began: SystemTime) -> Option<Now> {
    let path = Path::new("/").join(OsStr::from_bytes(&name_of(&before.path)));
    if before.kind == BeforeKind::Symlink {
        let target = fs::read_link(path).ok()?;
        return Some(Now::Symlink { target: shown(target.as_os_str().as_bytes()) });
    }
    // The recording has what it found behind a link under the link's name.
    let data = fs::metadata(path).ok()?;
    if data.is_dir() {
        return Some(Now::Directory);
    }
    let is_as_before = data.is_file() && data.modified().is_ok_and(|modified| modified < began);
    is_as_before.then_some(Now::File { size: data.len() })
}

/// The transform that the user chose.
fn unstack(args: &RecordArgs) -> anyhow::Result<Vec<Asked>> {
    let kind = KINDS.iter().find(|kind| kind.name == "unstack").filter(|_| args.unstack);
    Ok(kind.map(|kind| Asked::new(kind, "")).transpose()?.into_iter().collect())
}
