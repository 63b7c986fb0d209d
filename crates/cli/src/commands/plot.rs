//! `ioecho plot`: pictures of a run or of a load, under the names that blkreplay's users know.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::ValueEnum as _;
use ioecho_report::{Chart, Page, Sheet, charts};
use ioecho_run::directory::RunDirectory;
use ioecho_run::inputs::Inputs;
use ioecho_run::{everything, page, pass, telemetry};
use ioecho_stats::orders::Orders;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Header, Nanos, Source as _, Stop};

use crate::args::{PictureFormat, PlotArgs};
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{self, Named};
use crate::outputs::{Gate, make_directory};
use crate::print::{Out, tell, visible};
use crate::run::command;

pub(crate) fn run(args: &PlotArgs, out: &mut Out) -> anyhow::Result<u8> {
    let load = args.load.asked();
    let stop = stop_on_signals()?;
    let options = args.read.options();
    let in_order = |origin: &_| orders(&args.file, &options, &load, &stop, origin);
    let (found, orders) =
        everything::count_and(&Named, &args.file, &options, &load, &stop, in_order)?;
    let all = pictures(&args.file, &found, &mut orders?);
    let size = (f64::from(args.size.0), f64::from(args.size.1));
    let sheet = sheet(&args.file, size, &found)?;
    let chosen = chosen(all, &args.only)?;
    let directory = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    let gate = Gate::reading(Inputs::of_load(&args.file, &load));
    make_directory(&directory)?;
    let path = |chart: &Chart| name(&directory, &args.file, chart, args.to);
    let (empty, drawn): (Vec<Chart>, Vec<Chart>) = chosen.into_iter().partition(Chart::is_empty);
    for chart in &empty {
        tell(&format!("skipped: {}: nothing to draw", chart.name));
    }
    write_all(&gate, &drawn, &sheet, args.to, &path)?;
    out.tells_of_files();
    for chart in &drawn {
        writeln!(out, "{}", visible(&path(chart).display().to_string()))?;
    }
    Ok(damaged(&found.header))
}

/// The pictures that `ioecho report --figures` writes beside a page.
const MAIN: [&str; 6] = [
    "g000.overview.thrp",
    "g000.overview.thrs",
    "g01.latency.realtime",
    "g04.delay.setpoint",
    "g08.latency.flying",
    "percentiles",
];

/// Writes the main pictures as SVG and as PNG, under the names that `ioecho plot` gives them.
pub(crate) fn write_main(
    gate: &Gate,
    file: &Path,
    options: &ReadOptions,
    load: &Load,
    stop: &Stop,
    found: &everything::AllFigures,
    directory: &Path,
) -> anyhow::Result<()> {
    let mut orders = orders(file, options, load, stop, &found.origin)?;
    let all = pictures(file, found, &mut orders);
    let only = MAIN.map(str::to_owned);
    let drawn: Vec<Chart> =
        chosen(all, &only)?.into_iter().filter(|chart| !chart.is_empty()).collect();
    let size = Sheet::of(&Page::default()).size;
    let sheet = sheet(file, size, found)?;
    make_directory(directory)?;
    for format in PictureFormat::value_variants() {
        let path = |chart: &Chart| name(directory, file, chart, *format);
        write_all(gate, &drawn, &sheet, *format, &path)?;
    }
    Ok(())
}

/// The figures of the scatter plots. They need the numbers of requests, which do not merge, so they
/// take another pass in the trace's order.
fn orders(
    file: &Path,
    options: &ReadOptions,
    load: &Load,
    stop: &Stop,
    origin: &OnceLock<Nanos>,
) -> anyhow::Result<Orders> {
    let source = opened::trace_until(stop, file, options, load)?;
    let mut source = pass::FromFirst::over(source, origin);
    let mut orders = Orders::default();
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        orders.observe(&batch);
    }
    Ok(orders)
}

/// Every picture.
fn pictures(file: &Path, found: &everything::AllFigures, orders: &mut Orders) -> Vec<Chart> {
    let mut all = charts::pictures(&found.analysis, &found.header, orders);
    all.extend(of_engine(file, found));
    all
}

/// The file of a picture: the name of the trace, then the name of the picture.
fn name(directory: &Path, file: &Path, chart: &Chart, format: PictureFormat) -> PathBuf {
    directory.join(format!("{}.{}.{}", prefix(file), file_part(&chart.name), format.ending()))
}

/// The figures that the engines of a run recorded about themselves (`--expert`).
fn of_engine(file: &Path, found: &everything::AllFigures) -> Vec<Chart> {
    let Some(run) = RunDirectory::at(file) else { return Vec::new() };
    let told = telemetry::read(&run);
    if told.is_empty() {
        return Vec::new();
    }
    let mut charts = charts::telemetry::all(&told);
    for chart in &mut charts {
        // These pictures have the same frame as all others of the run.
        chart.x.to = Some(found.analysis.end_ns as f64);
    }
    charts
}

fn damaged(header: &Header) -> u8 {
    if header.damage.is_some() && header.run.is_none() { exit::DAMAGED } else { exit::OK }
}

/// Draws and writes the pictures, on every processor.
fn write_all(
    gate: &Gate,
    charts: &[Chart],
    sheet: &Sheet,
    format: PictureFormat,
    path: &(impl Fn(&Chart) -> PathBuf + Sync),
) -> anyhow::Result<()> {
    let threads = pass::processors().max(1);
    let draw = |chart: &Chart| -> anyhow::Result<()> {
        let svg = ioecho_report::svg(chart, sheet);
        let bytes = match format {
            PictureFormat::Svg => svg.into_bytes(),
            #[cfg(feature = "png")]
            PictureFormat::Png => ioecho_report::png(&svg, 1.0)?,
        };
        Ok(gate.put(&path(chart), &bytes)?)
    };
    // Some pictures take ten times as long as others. So each thread takes the next one when it is
    // free.
    let next = AtomicUsize::new(0);
    let take = || charts.get(next.fetch_add(1, Ordering::Relaxed));
    let all_left = || std::iter::from_fn(take).try_for_each(draw);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(all_left)).collect();
        workers.into_iter().try_for_each(pass::finished)
    })
}

/// The text around every picture.
fn sheet(file: &Path, size: (f64, f64), found: &everything::AllFigures) -> anyhow::Result<Sheet> {
    let run = RunDirectory::at(file).filter(|run| run.summary().exists());
    let Some(run) = run else {
        let page = page::of_trace(file, found, &command::words());
        return Ok(Sheet { size, ..Sheet::of(&page) });
    };
    let summary = run.read_summary()?;
    let is_part = found.run.recorded() != summary.recorded;
    let page = if is_part {
        // The verdict is on the whole run, so it is left out where only a part is drawn.
        let page = page::of_trace(file, found, &command::words());
        Page { verdict: Some(summary.verdict.clone()), ..page }
    } else {
        page::of_found(&run, &summary, found)?
    };
    let factor = summary.engine.wraparound_factor;
    let fit = factor.map_or(String::new(), |factor| format!("wraparound factor {factor:.3}"));
    Ok(Sheet { size, fit, stamp: page::stamp(&summary), ..Sheet::of(&page) })
}

/// The pictures that the user chose.
fn chosen(charts: Vec<Chart>, only: &[String]) -> anyhow::Result<Vec<Chart>> {
    let is_meant = |name: &str, asked: &str| {
        name == asked || name.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'))
    };
    let unknown =
        only.iter().find(|asked| !charts.iter().any(|chart| is_meant(&chart.name, asked)));
    if let Some(unknown) = unknown {
        let names: BTreeSet<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let text =
            format!("--only {unknown}: there is no such picture\n  = help: there are {names}");
        return Err(Coded::error(exit::USAGE, text));
    }
    let is_wanted = |chart: &Chart| only.iter().any(|asked| is_meant(&chart.name, asked));
    Ok(charts.into_iter().filter(|chart| only.is_empty() || is_wanted(chart)).collect())
}

/// The beginning of the names of the files: the name of the trace without its endings.
fn prefix(path: &Path) -> String {
    let name = file_part(&page::name_of(path));
    let mut short = name.as_str();
    for ending in [".gz", ".zst", ".xz", ".bz2", ".load", ".replay", ".parquet", ".csv", ".txt"] {
        short = short.strip_suffix(ending).unwrap_or(short);
    }
    if short.is_empty() || short == "-" { "ioecho".to_owned() } else { short.to_owned() }
}

/// A name in characters that a file name may have.
fn file_part(name: &str) -> String {
    name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_trace_without_its_endings() {
        let names =
            ["a/linux-mysql.load.gz", "x.parquet", "-", "run.7"].map(|n| prefix(n.as_ref()));
        assert_eq!(names, ["linux-mysql", "x", "ioecho", "run.7"]);
    }

    #[test]
    fn a_picture_is_chosen_by_the_beginning_of_its_name_up_to_a_dot() {
        let chart = |name: &str| Chart { name: name.to_owned(), ..Chart::default() };
        let all = || vec![chart("g00.thrp.setpoint"), chart("g000.overview.thrp")];
        let chosen = |only: &str| chosen(all(), &[only.to_owned()]);
        assert_eq!(chosen("g00").unwrap().len(), 1);
        assert_eq!(chosen("g000.overview.thrp").unwrap()[0].name, "g000.overview.thrp");
        assert!(
            chosen("g0").unwrap_err().to_string().contains("there are g00.thrp.setpoint, g000")
        );
    }
}
