//! `ioecho convert`: any trace in, any trace out.

use anyhow::Context;
use ioecho_trace::formats::write;
use ioecho_trace::{Batch, Header, Source, TraceError, stream};

use crate::args::ConvertArgs;
use crate::commands::{tell, tell_import};
use crate::exit::{self, Coded};
use crate::run::directory::RunDirectory;
use crate::run::open;

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<u8> {
    refuse_same_file(args)?;
    open::refuse_endless(&args.input, &args.load)?;
    let source = open::trace(&args.input, &args.read.options(), &args.load)?;
    let mut source = Described::new(source, args);
    let sink = write::create_as(args.to, &args.output, source.header())?;
    let (requests, written) = stream::copy(&mut source, sink)
        .with_context(|| format!("converting {}", args.input.display()))?;
    let code = tell_import(source.header());
    let output = args.output.display();
    for note in written.lost.iter() {
        tell(&format!("lost in {output}: {} {}", note.count, note.what));
    }
    let of = if written.requests == requests { String::new() } else { format!(" of {requests}") };
    tell(&format!("{}{of} requests written to {output}", written.requests));
    Ok(code)
}

/// Writing over the file that is being read would lose both.
fn refuse_same_file(args: &ConvertArgs) -> anyhow::Result<()> {
    let input = RunDirectory::at(&args.input).map_or(args.input.clone(), |run| run.requests());
    let (Ok(input), Ok(output)) = (input.canonicalize(), args.output.canonicalize()) else {
        return Ok(());
    };
    if input == output {
        let name = args.input.display();
        let text = format!("{name} is both input and output\n  = help: write to another file");
        return Err(Coded::error(exit::USAGE, text));
    }
    Ok(())
}

/// A trace with the description and the terms that the user gave it.
struct Described<'a> {
    source: Box<dyn Source>,
    args: &'a ConvertArgs,
    header: Header,
}

impl<'a> Described<'a> {
    fn new(source: Box<dyn Source>, args: &'a ConvertArgs) -> Self {
        let mut described = Self { source, args, header: Header::default() };
        described.take_header();
        described
    }

    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        self.header.description = self.args.description.clone().or(self.header.description.take());
        self.header.license = self.args.license.clone().or(self.header.license.take());
    }
}

impl Source for Described<'_> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.source.next_batch(batch)?;
        if !more {
            self.take_header();
        }
        Ok(more)
    }
}
