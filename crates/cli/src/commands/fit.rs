//! `ioecho fit`: a small model of a trace, and what it loses.
//!
//! An artificial load is smaller than a recording, can be given away and can be scaled; what it
//! loses is rarely said. So the load that the model makes is measured like the trace itself, and
//! both stand side by side.

use std::io::{self, Write};
use std::path::Path;

use ioecho_run::inputs::Inputs;
use ioecho_run::open;
use ioecho_run::target::same_file;
use ioecho_stats::model::comparison::{Aspect, Distance, LOST, compare};
use ioecho_stats::model::{Figures, Measure, fio, line};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Source, TraceError};
use serde::Serialize;

use crate::args::FitArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{self, tell_import};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell, visible};

/// The version of the JSON.
const VERSION: u32 = 1;

/// What was found.
#[derive(Debug, Serialize)]
struct Fit<'a> {
    version: u32,
    trace: String,
    line: &'a str,
    /// None where fio has nothing to do.
    fio: Option<&'a str>,
    natural: Figures,
    model: Figures,
    aspects: Vec<Aspect>,
    lost: &'a str,
}

pub(crate) fn run(args: &FitArgs, out: &mut Out) -> anyhow::Result<u8> {
    let load = args.load.asked();
    let gate = Gate::reading(Inputs::of_load(&args.trace, &load));
    for path in [&args.output, &args.fio].into_iter().flatten() {
        gate.check(path, Writing::Over)?;
    }
    if let (Some(line), Some(job)) = (&args.output, &args.fio)
        && same_file(line, job)
    {
        let name = job.display();
        let text = format!("{name} is named twice\n  = help: give -o and --fio a file each");
        return Err(Coded::error(exit::USAGE, text));
    }
    open::refuse_endless(&args.trace, &load)?;
    let stop = stop_on_signals()?;
    let mut source = opened::trace_until(&stop, &args.trace, &args.read.options(), &load)?;
    let natural = measure(&mut *source)?;
    let name = args.trace.display().to_string();
    if let Some((fault, remedy)) = line::fault(&natural) {
        return Err(Coded::error(exit::TRACE, format!("{name}: {fault}\n  = help: {remedy}")));
    }
    let line = line::line(&natural, args.seed);
    let job = fio::job(&natural, &name, args.seed);
    if args.fio.is_some() && job.is_none() {
        let text = format!(
            "{name}: there is nothing that fio could do: no read, write or discard\n  = help: \
             leave out --fio and take the generator's line"
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    let mut artificial = formats::open(Path::new(&line), &ReadOptions::default())?;
    let model = measure(&mut *artificial)?;
    for (path, text) in [(&args.output, Some(format!("{line}\n"))), (&args.fio, job.clone())] {
        if let (Some(path), Some(text)) = (path, text) {
            gate.put(path, text.as_bytes())?;
        }
    }
    let aspects = compare(&natural, &model);
    let fit = Fit {
        version: VERSION,
        trace: name,
        line: &line,
        fio: job.as_deref(),
        natural,
        model,
        aspects,
        lost: LOST,
    };
    if args.json {
        out.json(&fit)?;
    } else {
        print_text(out, &fit, args.output.is_none())?;
    }
    for path in [&args.output, &args.fio].into_iter().flatten() {
        tell(&format!("written: {}", path.display()));
    }
    Ok(tell_import(source.header()))
}

fn measure(source: &mut dyn Source) -> Result<Figures, TraceError> {
    let mut batch = Batch::new(source.header().columns);
    let mut measure = Measure::default();
    while source.next_batch(&mut batch)? {
        measure.observe(&batch);
    }
    Ok(measure.figures())
}

fn print_text(out: &mut impl Write, fit: &Fit<'_>, shows_line: bool) -> io::Result<()> {
    let arrivals = &fit.natural.arrivals;
    writeln!(out, "trace         {}", visible(&fit.trace))?;
    writeln!(out, "requests      {}", fit.natural.requests)?;
    writeln!(out, "arrivals      {}", arrivals.kind.told())?;
    if fit.natural.volumes > 1 {
        writeln!(out, "volumes       {}, alike in the model", fit.natural.volumes)?;
    }
    let sampled = fit.natural.reuse.sampled_share;
    if sampled < 1.0 {
        writeln!(out, "sampled       reuse is that of {:.3} % of all pages", sampled * 100.0)?;
    }
    writeln!(out)?;
    writeln!(out, "{:<30}{:>14}{:>14}{:>12}", "", "natural", "model", "distance")?;
    for aspect in &fit.aspects {
        let unit = match aspect.measure {
            Distance::Relative => format!("{:+.1} %", aspect.distance_percent),
            Distance::Points => format!("{:+.1} points", aspect.distance_percent),
            Distance::KolmogorovSmirnov => format!("KS {:.1} %", aspect.distance_percent),
            Distance::TotalVariation => format!("TV {:.1} %", aspect.distance_percent),
        };
        let (natural, model) = (aspect.unit.shown(aspect.natural), aspect.unit.shown(aspect.model));
        writeln!(out, "{:<30}{natural:>14}{model:>14}{unit:>14}", aspect.name)?;
    }
    writeln!(out, "\n{}", fit.lost)?;
    if shows_line {
        writeln!(out, "\n{}", fit.line)?;
    }
    Ok(())
}
