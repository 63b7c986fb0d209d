//! `ioecho convert`: reads any format and writes any format.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use ioecho_run::inputs::Inputs;
use ioecho_run::open;
use ioecho_trace::compression::STANDARD_OUTPUT;
use ioecho_trace::formats::write;
use ioecho_trace::stream::Labelled;
use ioecho_trace::transform::parts::{Parts, copy};
use ioecho_trace::units::counted;
use ioecho_trace::{Header, Source, stream};

use crate::args::ConvertArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{self, tell_damage, tell_import};
use crate::outputs::{Gate, Writing};
use crate::print::tell;
use crate::workload::{self, form_of, tell_told};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<u8> {
    let form = form_of(&args.input).filter(|_| args.read.format.is_none());
    let variables = workload::variables(&args.variables, form)?;
    if form.is_some() {
        return translated(args, variables);
    }
    let load = args.load.asked();
    let gate = Gate::reading(Inputs::of_load(&args.input, &load));
    if !is_standard(&args.output) {
        gate.check(&args.output, Writing::Over)?;
    }
    open::refuse_endless(&args.input, &load)?;
    let stop = stop_on_signals()?;
    let mut options = args.read.options();
    // Transforms do not keep links between requests, and most formats cannot store them.
    options.into_another = true;
    options.dependencies = load.is_whole() && write::keeps_dependencies(args.to, &args.output);
    let described =
        |source| -> Box<dyn Source> { Box::new(Labelled::new(stop.over(source), label(args))) };
    if let Some(parts) = opened::parts(&stop, &args.input, &options, &load, described)? {
        return into_parts(args, &gate, parts);
    }
    refuse_place(&args.output)?;
    let source = opened::trace_until(&stop, &args.input, &options, &load)?;
    // A transform may keep the trace on disk. Reading it back takes long, so a signal must end
    // that, too.
    let mut source = Labelled::new(stop.over(source), label(args));
    let sink = gate.trace(args.to, &args.output, source.header())?;
    let copied = stream::copy(&mut source, sink);
    if copied.as_ref().is_err_and(exit::is_readers_leave) {
        // If the reader of the output leaves early, that is no error. The losses that are known by
        // then are still told.
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

/// Stands for the name of a part in the name of an output.
const PLACE: &str = "{}";

/// Writes a described workload in our own form.
fn translated(args: &ConvertArgs, variables: BTreeMap<String, String>) -> anyhow::Result<u8> {
    let is_toml = args.output.extension().is_some_and(|ending| ending == "toml");
    if !is_toml || args.to.is_some() {
        let text = format!(
            "{} describes a workload, which is no trace\n  = help: convert it to a NAME.toml, or \
             look at its loads with `ioecho run {0} --dry-run`, which are traces",
            args.input.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    let gate = Gate::reading(Inputs::of_load(&args.input, &args.load.asked()));
    gate.check(&args.output, Writing::Over)?;
    let files = std::slice::from_ref(&args.input);
    let description = match workload::read(files, variables)? {
        Ok(description) => description,
        Err(code) => return Ok(code),
    };
    tell_told(&description.workload.told);
    gate.put(&args.output, description.to_toml().as_bytes())?;
    tell(&format!("the workload was written to {}", args.output.display()));
    Ok(exit::OK)
}

/// Refuses this placeholder if there is only one trace. The user probably forgot the transform that
/// divides it.
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

/// Writes each part of a divided trace into an output of its own.
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

/// Writes the user's description and licence into the header of a trace.
fn label(args: &ConvertArgs) -> impl Fn(&mut Header) + Send + Clone + 'static {
    let (description, license) = (args.description.clone(), args.license.clone());
    move |header| {
        header.description = description.clone().or(header.description.take());
        header.license = license.clone().or(header.license.take());
    }
}
