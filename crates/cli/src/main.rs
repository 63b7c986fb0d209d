//! `ioecho`: records, converts, replays and judges block I/O workloads.
//!
//! This file is the table of contents: what was typed ([`args`]) goes to one file per command
//! ([`commands`]), and what comes back decides the exit code ([`exit`]). Replaying has rooms of its
//! own ([`run`]).
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod library;
mod outputs;
mod panics;
mod pitfalls;
mod required;
mod run;

use std::process::ExitCode;

use args::{Args, Command};

fn main() -> ExitCode {
    exit::survive_file_size_limits();
    panics::hush_parquet();
    let args = Args::typed(run::command::typed());
    run::fetch::set(args.fetch.settings());
    let result = match args.command {
        Command::Info(args) => commands::info::run(&args),
        Command::Analyze(args) => commands::analyze::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Fit(args) => commands::fit::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Prepare(args) => commands::prepare::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Plot(args) => commands::plot::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Library(args) => commands::library::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => exit::report(&error),
    }
}
