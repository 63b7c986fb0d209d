//! `ioecho depend`: which request waited for which.
//!
//! The result is a guess about an application that cannot be asked. So the command prints the
//! figures that it rests on: the threshold for think times, the processes that hand work to each
//! other, the share of the load that stays open. If a trace names the parents itself, they are
//! used, and checked.

mod told;

use std::path::Path;

use ioecho_replay::graph::diskaccel::DiskAccel;
use ioecho_replay::graph::dot::{Dot, REQUESTS_MAX};
use ioecho_replay::graph::given::{Annotations, Cycle, GivenDoubts};
use ioecho_replay::graph::infer::{Inference, Rules};
use ioecho_replay::graph::statistics::{Figures, Statistics};
use ioecho_replay::graph::survey::Surveyed;
use ioecho_replay::graph::{Doubts, Waits};
use ioecho_run::chains::{
    are_estimated, gaps_of, note_estimated, refuse_without_completions, survey,
};
use ioecho_run::inputs::Inputs;
use ioecho_run::open;
use ioecho_run::target::same_file;
use ioecho_trace::formats::{ReadOptions, write};
use ioecho_trace::header::NoteKind;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Dependency, Header, Nanos, Request, Sink, Source, Stop, TraceError};

use crate::args::{DependArgs, Rule};
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{self, tell_import};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell};

/// The result, with the rules that led to it.
struct Found {
    /// The result of the first pass, or `None` if the parents come from elsewhere.
    surveyed: Option<Surveyed>,
    /// The threshold for think times.
    threshold: Nanos,
    figures: Figures,
    doubts: Doubts,
    given: Option<GivenDoubts>,
}

/// How the trace is read.
struct Reading<'a> {
    path: &'a Path,
    options: ReadOptions,
    load: Load,
    stop: Stop,
}

impl Reading<'_> {
    fn open(&self) -> anyhow::Result<Box<dyn Source>> {
        let source = opened::trace_until(&self.stop, self.path, &self.options, &self.load)?;
        Ok(Box::new(self.stop.over(source)))
    }
}

pub(crate) fn run(args: &DependArgs, out: &mut Out) -> anyhow::Result<u8> {
    let load = args.load.asked();
    let gate = Gate::reading(Inputs::of_load(&args.trace, &load));
    check_outputs(args, &gate)?;
    open::refuse_endless(&args.trace, &load)?;
    let mut options = args.read.options();
    let is_default = args.rule == Rule::default();
    options.dependencies = !args.infer && is_default && load.is_whole();
    let reading = Reading { path: &args.trace, options, load, stop: stop_on_signals()? };
    let mut source = reading.open()?;
    refuse_without_completions(&args.trace, source.header())?;
    let (found, header) = if source.header().columns.dependencies {
        given(args, &gate, source)?
    } else {
        let gaps = gaps_of(source.header(), &reading.load);
        let (surveyed, source) = match args.rule {
            Rule::Diskaccel => (None, source),
            Rule::Waits => {
                let surveyed = survey(&mut *source)?;
                drop(source);
                (Some(surveyed), reading.open()?)
            }
        };
        infer(args, &gate, source, surveyed, gaps)?
    };
    let code = tell_import(&header);
    told::doubts(args, &found);
    if args.json {
        out.json(&told::Json::of(args, &found))?;
    } else {
        told::text(out, args, &found, &header)?;
    }
    for path in [&args.output, &args.dot].into_iter().flatten() {
        tell(&format!("written: {}", path.display()));
    }
    Ok(code)
}

/// Refuses an output that could not be written at the end.
fn check_outputs(args: &DependArgs, gate: &Gate) -> anyhow::Result<()> {
    if args.trace == Path::new("-") {
        let text = "the standard input can be read once, and a trace is read twice to tell who \
                    waited for whom\n  = help: write it to a file first";
        return Err(Coded::error(exit::USAGE, text.to_owned()));
    }
    for path in [&args.output, &args.dot].into_iter().flatten() {
        gate.check(path, Writing::Over)?;
    }
    if let (Some(output), Some(dot)) = (&args.output, &args.dot)
        && same_file(output, dot)
    {
        let name = dot.display();
        let text = format!("{name} is named twice\n  = help: give -o and --dot a file each");
        return Err(Coded::error(exit::USAGE, text));
    }
    let Some(output) = &args.output else { return Ok(()) };
    write::check(args.to, output)?;
    if !write::keeps_dependencies(args.to, output) {
        let text = format!(
            "{}: this format has no place for parents and think times\n  = help: name it \
             NAME.parquet (ioecho's own) or NAME.hfplayer.csv",
            output.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    Ok(())
}

/// The outputs that are made from the links, request by request.
struct Outputs {
    statistics: Statistics,
    dot: Option<Dot>,
    sink: Option<Box<dyn Sink>>,
    batch: Batch,
}

impl Outputs {
    fn begin(args: &DependArgs, gate: &Gate, header: &Header) -> anyhow::Result<Self> {
        let mut header = header.clone();
        header.columns.dependencies = true;
        let sink =
            args.output.as_ref().map(|path| gate.trace(args.to, path, &header)).transpose()?;
        Ok(Self {
            statistics: Statistics::new(args.among),
            dot: args.dot.as_ref().map(|_| Dot::default()),
            sink,
            batch: Batch::new(header.columns),
        })
    }

    fn add(
        &mut self,
        request: &Request,
        id: u64,
        waits: Waits<'_>,
        parents: &[u64],
    ) -> anyhow::Result<()> {
        self.statistics.add(request, waits);
        if let Some(dot) = &mut self.dot
            && !dot.add(request, id, parents, waits.think)
        {
            let text = format!(
                "there are more than {REQUESTS_MAX} requests, and nobody reads such a picture\n  = \
                 help: take a part of the trace with --start and --duration, or leave out --dot"
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        if self.sink.is_some() {
            self.batch.push(request);
            self.batch.link_last(Dependency { id, think: waits.think, parents });
            if self.batch.is_full() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        if let Some(sink) = &mut self.sink {
            sink.write(&self.batch)?;
            self.batch.reset(self.batch.columns());
        }
        Ok(())
    }

    fn finish(
        mut self,
        args: &DependArgs,
        gate: &Gate,
        header: &Header,
    ) -> anyhow::Result<Figures> {
        self.flush()?;
        let figures = self.statistics.finish();
        if let Some(sink) = self.sink {
            let written = sink.finish(header)?;
            for note in written.lost.iter() {
                let output = args.output.as_deref().unwrap_or(Path::new(""));
                tell(&format!("lost in {}: {note}", output.display()));
            }
        }
        if let (Some(path), Some(dot)) = (&args.dot, self.dot) {
            gate.put(path, dot.finish().as_bytes())?;
        }
        Ok(figures)
    }
}

/// The rule by which parents are inferred.
enum Linker {
    Waits(Box<Inference>),
    DiskAccel(DiskAccel),
}

impl Linker {
    fn push(&mut self, request: &Request) -> Waits<'_> {
        match self {
            Self::Waits(inference) => inference.push(request),
            Self::DiskAccel(rule) => rule.push(request),
        }
    }

    fn cut(&mut self) {
        match self {
            Self::Waits(inference) => inference.cut(),
            Self::DiskAccel(rule) => rule.cut(),
        }
    }

    fn doubts(&self) -> Doubts {
        match self {
            Self::Waits(inference) => inference.doubts(),
            Self::DiskAccel(rule) => rule.doubts(),
        }
    }
}

/// Infers the parents of every request of `source`; without a first pass by DiskAccel's rule.
fn infer(
    args: &DependArgs,
    gate: &Gate,
    mut source: Box<dyn Source>,
    surveyed: Option<Surveyed>,
    gaps: Vec<Nanos>,
) -> anyhow::Result<(Found, Header)> {
    let mut threshold = Nanos::ZERO;
    let mut linker = match &surveyed {
        None => Linker::DiskAccel(DiskAccel::new(args.among)),
        Some(surveyed) => {
            threshold = args.threshold.unwrap_or(surveyed.threshold);
            let processes = surveyed.processes.clone();
            let rules = Rules { threshold, window_rows: args.among, processes };
            Linker::Waits(Box::new(Inference::new(rules)))
        }
    };
    let mut gaps = gaps.into_iter().peekable();
    let mut outputs = Outputs::begin(args, gate, source.header())?;
    let mut batch = Batch::new(source.header().columns);
    let mut requests = 0;
    while source.next_batch(&mut batch)? {
        if let Some(sink) = &mut outputs.sink {
            sink.learn(source.header());
        }
        for request in batch.iter() {
            while gaps.next_if(|end| *end <= request.issue).is_some() {
                linker.cut();
            }
            requests += 1;
            let waits = linker.push(&request);
            outputs.add(&request, waits.row, waits, waits.parents)?;
        }
    }
    let mut header = source.header().clone();
    if let Some(files) = &mut header.files {
        // Instants do not tell what a call needs.
        files.linked = false;
    }
    let how = match &linker {
        Linker::Waits(_) => format!(
            "requests whose parents were inferred, with a threshold of {} ns among {} requests",
            threshold.0, args.among
        ),
        Linker::DiskAccel(_) => format!(
            "requests that wait, by DiskAccel's rule, for the last read among {} requests",
            args.among
        ),
    };
    header.guesses.add(NoteKind::Assumed.of(&how), requests, None);
    if are_estimated(&header) {
        note_estimated(&mut header, requests);
    }
    let figures = outputs.finish(args, gate, &header)?;
    let doubts = linker.doubts();
    Ok((Found { surveyed, threshold, figures, doubts, given: None }, header))
}

/// Checks and keeps the parents that the trace names itself.
fn given(
    args: &DependArgs,
    gate: &Gate,
    mut source: Box<dyn Source>,
) -> anyhow::Result<(Found, Header)> {
    let circle = |Cycle(ids): Cycle| {
        let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
        let text = format!(
            "{}: requests wait for each other in a circle, so none of them could be issued: {}\n  \
             = help: mend the parents of one of them, or let ioecho infer them anew with --infer",
            args.trace.display(),
            ids.join(" → ")
        );
        Coded::error(exit::TRACE, text)
    };
    let mut annotations = Annotations::new(args.among);
    let mut outputs = Outputs::begin(args, gate, source.header())?;
    let mut batch = Batch::new(source.header().columns);
    loop {
        let has_more = source.next_batch(&mut batch)?;
        if let Some(sink) = &mut outputs.sink {
            sink.learn(source.header());
        }
        for (row, request) in batch.iter().enumerate() {
            if let Some(dependency) = batch.dependency(row) {
                let Dependency { id, think, parents } = dependency;
                annotations.push(&request, id, parents, think);
            }
            while let Some(given) = annotations.give(false).map_err(circle)? {
                outputs.add(given.request, given.id, given.waits, given.parents)?;
            }
        }
        if !has_more {
            break;
        }
    }
    while let Some(given) = annotations.give(true).map_err(circle)? {
        outputs.add(given.request, given.id, given.waits, given.parents)?;
    }
    let header = source.header().clone();
    let figures = outputs.finish(args, gate, &header)?;
    let given = annotations.doubts();
    let (doubts, threshold) = (given.requests, Nanos::ZERO);
    Ok((Found { surveyed: None, threshold, figures, doubts, given: Some(given) }, header))
}
