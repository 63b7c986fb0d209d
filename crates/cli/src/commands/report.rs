//! `ioecho report`: the page and the pictures of a run, again or for the first time.

use std::fs;
use std::io::Write;
use std::path::Path;

use ioecho_report::Page;

use crate::args::ReportArgs;
use crate::commands::replay::print_outcome;
use crate::exit::{self, Coded};
use crate::run::directory::RunDirectory;
use crate::run::settle;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let run = RunDirectory::at(&args.run).ok_or_else(|| {
        let name = args.run.display();
        let text = format!(
            "{name} is no run: it holds no run.toml\n  = help: name a \
             directory that `ioecho replay -o` made"
        );
        Coded::error(exit::TRACE, text)
    })?;
    let summary = if run.journal().exists() && !run.summary().exists() {
        settle::recover(&run)?
    } else {
        settle::read_summary(&run)?
    };
    let facts = run.read_facts()?;
    if facts.get("state").and_then(toml::Value::as_str) == Some("running") {
        // Killed when everything but this was done.
        run.mark_settled(&summary)?;
        run.free_reserve();
    }
    let page = settle::page(&run, &summary)?;
    let report = if let Some(path) = &args.output {
        write(path, ioecho_report::html(&page)?.as_bytes())?;
        path.clone()
    } else {
        settle::write_report(&run, &page)?;
        run.report()
    };
    if let Some(directory) = &args.figures {
        write_figures(&page, directory)?;
    }
    print_outcome(&mut std::io::stdout().lock(), &summary)?;
    writeln!(std::io::stdout(), "report        {}", report.display())?;
    Ok(exit::OK)
}

fn write_figures(page: &Page, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    for figure in ioecho_report::figures(page) {
        let svg = directory.join(format!("{}.svg", figure.name));
        write(&svg, figure.svg.as_bytes())?;
        write(&svg.with_extension("png"), &ioecho_report::png(&figure.svg, 2.0)?)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", path.display()))
}
