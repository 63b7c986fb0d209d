//! `ioecho convert`: any trace in, any trace out.

use std::path::Path;

use anyhow::Context;
use ioecho_run::inputs::Inputs;
use ioecho_run::open;
use ioecho_trace::compression::STANDARD_OUTPUT;
use ioecho_trace::formats::write;
use ioecho_trace::transform::parts::{Parts, copy};
use ioecho_trace::units::counted;
use ioecho_trace::{Header, Source, stream};

use crate::args::ConvertArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{self, tell_damage, tell_import};
use crate::outputs::{Gate, Writing};
use crate::print::tell;
use crate::run::labelled::Labelled;

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<u8> {
    let load = args.load.asked();
    let gate = Gate::reading(Inputs::of_load(&args.input, &load));
    if !is_standard(&args.output) {
        gate.check(&args.output, Writing::Over)?;
    }
    open::refuse_endless(&args.input, &load)?;
    let stop = stop_on_signals()?;
    let mut options = args.read.options();
    // Transforms know nothing of links between requests, and most formats have no place for them.
    options.dependencies = load.is_whole() && write::keeps_dependencies(args.to, &args.output);
    let described =
        |source| -> Box<dyn Source> { Box::new(Labelled::new(stop.over(source), label(args))) };
    if let Some(parts) = opened::parts(&stop, &args.input, &options, &load, described)? {
        return into_parts(args, &gate, parts);
    }
    refuse_place(&args.output)?;
    let source = opened::trace_until(&stop, &args.input, &options, &load)?;
    // What a transform holds on disk is long, too.
    let mut source = Labelled::new(stop.over(source), label(args));
    let sink = gate.trace(args.to, &args.output, source.header())?;
    let copied = stream::copy(&mut source, sink);
    if copied.as_ref().is_err_and(exit::is_readers_leave) {
        // Whoever reads only the first lines has no error to see, but what is known by then.
        return Ok(tell_damage(source.header()));
    }
    let (requests, written) =
        copied.with_context(|| format!("converting {}", args.input.display()))?;
    let code = tell_import(source.header());
    let output = if is_standard(&args.output) {
        "the standard output".to_owned()
    } else {
        args.output.display().to_string()
    };
    for note in written.lost.iter() {
        tell(&format!("lost in {output}: {note}"));
    }
    let what = if written.requests == requests {
        counted(requests, "request")
    } else {
        format!("{} of {}", written.requests, counted(requests, "request"))
    };
    tell(&format!("{what} written to {output}"));
    Ok(code)
}

/// The place of a part's name in the name of an output.
const PLACE: &str = "{}";

/// Refuses a place for the name of a part where there is one trace: what divides it was forgotten.
fn refuse_place(output: &Path) -> anyhow::Result<()> {
    let name = output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(PLACE) {
        return Ok(());
    }
    let text = format!(
        "{}: {PLACE} stands for the name of a part, and this conversion makes one trace\n  = help: \
         divide it with --split or --derive as the last transform, or leave out {PLACE}",
        output.display()
    );
    Err(Coded::error(exit::USAGE, text))
}

/// Writes each part of a trace that was divided into an output of its own.
fn into_parts(args: &ConvertArgs, gate: &Gate, mut parts: Box<dyn Parts>) -> anyhow::Result<u8> {
    let name = args.output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(PLACE) {
        let output = args.output.display();
        let text = format!(
            "{output}: this conversion makes several traces\n  = help: put {PLACE} into the name \
             of the output, where the name of each part is to fixture, as in 'part-{PLACE}.parquet'"
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    let path = |part: &str| args.output.with_file_name(name.replace(PLACE, part));
    let written = copy(parts.as_mut(), &mut |part, header| gate.part(args.to, &path(part), header))
        .with_context(|| format!("converting {}", args.input.display()))?;
    let code = written.first().map_or(exit::OK, |_| tell_import(&parts.header(0)));
    for (part, written) in &written {
        let output = path(part);
        let output = output.display();
        for note in written.lost.iter() {
            tell(&format!("lost in {output}: {note}"));
        }
        tell(&format!("{} written to {output}", counted(written.requests, "request")));
    }
    Ok(code)
}

fn is_standard(output: &Path) -> bool {
    output == Path::new(STANDARD_OUTPUT)
}

/// Puts the description and the terms that the user gave it into the header of a trace.
fn label(args: &ConvertArgs) -> impl Fn(&mut Header) + Send + Clone + 'static {
    let (description, license) = (args.description.clone(), args.license.clone());
    move |header| {
        header.description = description.clone().or(header.description.take());
        header.license = license.clone().or(header.license.take());
    }
}
