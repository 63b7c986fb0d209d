//! `ioecho library add`: a load joins a library.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use ioecho_run::digest;
use ioecho_run::everything::{self, AllFigures};
use ioecho_run::{open, page};
use ioecho_stats::trace_summary::TraceSummary;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::generate::PREFIX;
use ioecho_trace::transform::Load;
use ioecho_trace::units::counted as counted_of;
use ioecho_trace::{Batch, Header, Source, Stop, TraceError, stream};

use super::refuse_url;
use crate::args::AddArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::library::{
    FACTS_FILE, Facts, LIBRARY_VERSION, LOAD_FILE, Library, Mix, Name, REPORT_FILE, Recorded,
    RequestsHash, SUMMED_FILES, SUMS_FILE, Steady,
};
use crate::opened::{self, Named, tell_import};
use crate::print::{Out, tell};
use crate::run::command;
use crate::run::labelled::Labelled;

pub(super) fn run(args: &AddArgs, out: &mut Out) -> anyhow::Result<u8> {
    refuse_url(&args.library)?;
    let name = name_of(args)?;
    let asked = args.load.asked();
    open::refuse_endless(&args.trace, &asked)?;
    let stop = stop_on_signals()?;
    // A trace that cannot be read is told before a directory is made.
    let source = opened::trace_until(&stop, &args.trace, &args.read.options(), &asked)?;
    let library = Library::open(&args.library)?;
    let staged = library.stage(&name)?;
    let load = staged.file(LOAD_FILE);
    let mut source = Labelled::new(stop.over(source), label(args));
    let sink = staged.trace(LOAD_FILE, source.header())?;
    let (_, written) = stream::copy(&mut source, sink)
        .with_context(|| format!("adding {}", args.trace.display()))?;
    let code = tell_import(source.header());
    for note in written.lost.iter() {
        tell(&format!("lost: {note}"));
    }
    let found = everything::count(&Named, &load, &ReadOptions::default(), &Load::default(), &stop)?;
    let facts = facts(args, &name, &load, &found, &stop)?;
    staged.write(FACTS_FILE, toml::to_string(&facts)?.as_bytes())?;
    staged.write(REPORT_FILE, report(&name, &load, &found)?.as_bytes())?;
    let mut sums = String::new();
    for file in SUMMED_FILES {
        let hash = digest::of_file(&staged.file(file)).map_err(|error| unread(&load, error))?;
        sums.extend([hash.as_str(), "  ", file, "\n"]);
    }
    staged.write(SUMS_FILE, sums.as_bytes())?;
    stop.check()?;
    library.publish(staged)?;
    let place = args.library.join(name.as_str());
    let requests = counted_of(facts.requests, "request");
    out.tells_of_files();
    writeln!(out, "{requests} added as {}", place.display())?;
    for (what, value) in [("--license", &facts.license), ("--origin", &facts.origin)] {
        if value.is_none() {
            tell(&format!("warning: nobody will know it without {what}, if it is published"));
        }
    }
    Ok(code)
}

/// What the load is to be called.
fn name_of(args: &AddArgs) -> anyhow::Result<Name> {
    if let Some(name) = &args.name {
        return Name::try_from(name.clone())
            .map_err(|reason| Coded::error(exit::USAGE, format!("--name: {reason}")));
    }
    // A generated load is what its line says, with all its dots and slashes.
    if let Some(line) = args.trace.to_str().and_then(|trace| trace.strip_prefix(PREFIX))
        && let Some(name) = Name::made_of(line)
    {
        return Ok(name);
    }
    let file = args.trace.file_name().map(|name| name.to_string_lossy().into_owned());
    let file = file.unwrap_or_default();
    // `linux.load.gz` is called `linux`.
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or_default();
    Name::made_of(stem).ok_or_else(|| {
        let text = "what shall the load be called?\n  = help: say it with --name";
        Coded::error(exit::USAGE, text)
    })
}

/// What is known of the load that was written to `file`.
fn facts(
    args: &AddArgs,
    name: &Name,
    file: &Path,
    found: &AllFigures,
    stop: &Stop,
) -> anyhow::Result<Facts> {
    let header = &found.header;
    let recorded = Recorded::of(header);
    let mut facts = Facts {
        version: LIBRARY_VERSION,
        name: name.clone(),
        description: header.description.clone(),
        origin: args.origin.clone(),
        license: header.license.clone(),
        added: jiff::Timestamp::now().to_string(),
        ioecho: env!("CARGO_PKG_VERSION").to_owned(),
        file_bytes: fs::metadata(file).map_err(|error| unread(file, error))?.len(),
        sha256: digest::of_file(file).map_err(|error| unread(file, error))?,
        requests_sha256: String::new(),
        requests: 0,
        duration_ns: 0,
        extent_bytes: 0,
        mean_requests_per_s: 0.0,
        peak_requests_per_s: 0,
        damage: header.damage.clone(),
        transforms: header.transforms.clone(),
        mix: Mix::default(),
        recorded: Recorded {
            device: args.device.clone().or(recorded.device),
            kernel: args.kernel.clone().or(recorded.kernel),
            ..recorded
        },
        steady: Steady::of(&found.analysis.steady),
    };
    let counted = counted(file, stop)?;
    facts.count(&counted.summary.figures());
    facts.requests_sha256 = counted.hash.digits();
    Ok(facts)
}

/// What is counted of a load, request by request in its own order.
pub(super) struct Of {
    pub(super) summary: TraceSummary,
    pub(super) hash: RequestsHash,
    pub(super) header: Header,
}

/// Reads the native file to its end.
pub(super) fn counted(file: &Path, stop: &Stop) -> anyhow::Result<Of> {
    let options = ReadOptions::default();
    let mut source = opened::trace_until(stop, file, &options, &Load::default())?;
    let (mut summary, mut hash) = (TraceSummary::default(), RequestsHash::new());
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        summary.observe(&batch);
        hash.observe(&batch);
    }
    Ok(Of { summary, hash, header: source.header().clone() })
}

/// The page of the load, which says nothing of the machine that it was made on.
fn report(name: &Name, load: &Path, found: &AllFigures) -> anyhow::Result<String> {
    let mut page = page::of_trace(load, found, &command::words());
    page.title = name.to_string();
    page.command = format!("ioecho report {name}/{LOAD_FILE}");
    Ok(ioecho_report::html(&page)?)
}

fn unread(path: &Path, error: std::io::Error) -> TraceError {
    TraceError::read(path, error)
}

/// Puts what the user says of a trace into its header, and takes the user's directories out of it.
fn label(args: &AddArgs) -> impl Fn(&mut Header) + Send + '_ {
    |header| {
        header.description = args.description.clone().or(header.description.take());
        header.license = args.license.clone().or(header.license.take());
        for header in header.merged.iter_mut().map(|merged| &mut merged.source) {
            without_directory(header);
        }
        without_directory(&mut header.source);
    }
}

/// What a file is called, wherever it was; a line of a generated load as it is.
fn without_directory(source: &mut String) {
    if !source.starts_with(PREFIX)
        && let Some(name) = Path::new(source.as_str()).file_name()
    {
        *source = name.to_string_lossy().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_does_not_say_where_its_user_keeps_things() {
        let mut source = "/home/me/customer/x.load".to_owned();
        without_directory(&mut source);
        assert_eq!(source, "x.load");
        let mut line = "gen:zipf?rate=5/s".to_owned();
        without_directory(&mut line);
        assert_eq!(line, "gen:zipf?rate=5/s");
    }
}
