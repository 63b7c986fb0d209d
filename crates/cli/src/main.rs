//! `ioecho`: records, converts, replays and judges block I/O workloads.
//!
//! This file is the table of contents. The parsed arguments ([`args`]) go to a command
//! ([`commands`], one file each). Its result decides the exit code ([`exit`]), whether or not the
//! text could be printed ([`print`](mod@print)). [`run`] holds the parts that show and end a run.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod fetch;
mod library;
mod lock;
mod opened;
mod outputs;
mod panics;
mod pitfalls;
mod print;
mod results;
mod run;
mod terms;
mod typed;
mod workload;

use std::process::ExitCode;

use args::{Args, Command};
use print::Out;

fn main() -> ExitCode {
    exit::survive_file_size_limits();
    panics::hush_parquet();
    let args = match Args::typed(run::command::typed(), run::command::means) {
        Ok(args) => args,
        Err(code) => return ExitCode::from(code),
    };
    fetch::set(args.fetch);
    let mut out = Out::standard();
    let result = match args.command {
        Command::Info(args) => commands::info::run(&args, &mut out),
        Command::Analyze(args) => commands::analyze::run(&args, &mut out),
        Command::Record(args) => commands::record::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Fit(args) => commands::fit::run(&args, &mut out),
        Command::Replay(args) => commands::replay::run(&args, &mut out),
        Command::Predict(args) => commands::predict::run(&args, &mut out),
        Command::Prepare(args) => commands::prepare::run(&args, &mut out),
        Command::Calibrate(args) => commands::calibrate::run(&args, &mut out),
        Command::Verify(args) => commands::verify::run(&args, &mut out),
        Command::Plot(args) => commands::plot::run(&args, &mut out),
        Command::Report(args) => commands::report::run(&args, &mut out),
        Command::Compare(args) => commands::compare::run(&args, &mut out),
        Command::Check(args) => commands::check::run(&args, &mut out),
        Command::Merge(args) => commands::merge::run(&args, &mut out),
        Command::Explain(args) => commands::explain::run(&args, &mut out),
        Command::Campaign(args) => commands::campaign::run(&args, &mut out),
        Command::Agent(args) => commands::campaign::agent::run(&args, &mut out),
        Command::Library(args) => commands::library::run(&args, &mut out),
        Command::Depend(args) => commands::depend::run(&args, &mut out),
        Command::Run(args) => commands::run::run(&args, &mut out),
        Command::Vdbench(args) => commands::vdbench::run(&args, &mut out),
        Command::Demo(args) => commands::demo::run(&args, &mut out),
        Command::Completions(args) => commands::completions::run(&args, &mut out),
        Command::Man(args) => commands::man::run(&args),
    };
    exit::end(result, out)
}
