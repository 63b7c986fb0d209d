//! `ioecho merge`: makes one result of several.

mod parts;
mod rows;

use std::io::Write;
use std::path::PathBuf;

use ioecho_run::directory::RunDirectory;
use ioecho_run::inputs::Inputs;
use ioecho_run::merge::{self, Merged};

use crate::args::{AlignArg, MergeArgs};
use crate::commands::outcome::print_outcome;
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell};
use crate::run::command;

pub(crate) fn run(args: &MergeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let is_run = |path: &PathBuf| RunDirectory::at(path).is_some();
    if args.inputs.iter().all(is_run) {
        let by_wall_clock = args.align == Some(AlignArg::Wall);
        let Merged { run, summary, page, doubts } =
            merge::runs(&args.inputs, &args.output, by_wall_clock, command::words())?;
        for doubt in doubts {
            tell(&format!("warning: {doubt}"));
        }
        out.tells_of_files();
        print_outcome(out, &summary, Some(&page.picture), args.verbose)?;
        writeln!(out, "written       {}", run.path().display())?;
        return Ok(exit::OK);
    }
    if args.align.is_some() {
        let text = "--align is for runs: parts of an analysis know their own time";
        return Err(Coded::error(exit::USAGE, text));
    }
    if let Some(run) = args.inputs.iter().find(|path| is_run(path)) {
        let text = format!(
            "{} is a run, and others of the inputs are none\n  = help: name directories that \
             `ioecho replay -o` made, or files that `ioecho analyze --partial` wrote",
            run.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    let inputs = args.inputs.iter().map(PathBuf::as_path);
    let gate = Gate::reading(Inputs::of(inputs));
    gate.check(&args.output, Writing::Replacing)?;
    parts::run(&args.inputs, &args.output, &gate)
}
