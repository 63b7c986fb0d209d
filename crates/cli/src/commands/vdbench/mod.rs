//! `ioecho vdbench`: Vdbench's arguments, and its reports beside ours.
//!
//! What scripts of twenty years type and read goes on working: the arguments become those of
//! `ioecho run`, and when the runs are done, [`reports`] makes the files of the names and columns
//! that such scripts know. The guard stays: what is written to must be named with `--destroy`.

mod count;
mod errors;
mod layout;
mod operations;
mod reports;
mod words;

use std::ffi::OsString;
use std::io::Write as _;

use clap::{ArgAction, FromArgMatches as _};

use crate::args::{Args, Command, VdbenchArgs};
use crate::commands::campaign::described;
use crate::commands::run::{self, Ended};
use crate::exit::{self, Coded};
use crate::print::{Out, tell, visible};

pub(crate) fn run(args: &VdbenchArgs, out: &mut Out) -> anyhow::Result<u8> {
    let usage = |(why, help): (String, String)| {
        Coded::error(exit::USAGE, format!("{why}\n  = help: {help}"))
    };
    let asked = words::read(&args.words, &takes_value).map_err(usage)?;
    for told in &asked.told {
        tell(&visible(&format!("told: {told}")));
    }
    let directory = words::directory(&asked.output).ok_or_else(|| {
        let text = format!("there are too many directories {}", asked.output);
        Coded::error(exit::USAGE, text)
    })?;
    let fixed = ["ioecho".into(), "run".into(), "--output".into(), directory.clone().into()];
    let line = fixed.into_iter().chain(asked.words.into_iter().map(OsString::from));
    let parsed = Args::line()
        .try_get_matches_from(line)
        .and_then(|matches| Args::from_arg_matches(&matches));
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            let text = text.trim_start_matches("error: ").split("\n\nUsage").next();
            let text = text.unwrap_or_default().trim_end().to_owned();
            return Err(Coded::error(exit::USAGE, text));
        }
        // `--help` behind other words, which are understood.
        Err(_) => {
            let mut line = Args::line();
            line.build();
            let own = line.find_subcommand_mut("vdbench").map(clap::Command::render_long_help);
            write!(out, "{}", own.unwrap_or_default())?;
            return Ok(exit::OK);
        }
    };
    let Command::Run(mut asked) = parsed.command else {
        return Err(Coded::error(exit::USAGE, "these are no arguments of a run"));
    };
    // There, the same command measures anew. Here it does too, once all of it was done.
    let does_runs = !asked.dry_run && asked.recover.as_deref() != Some("only");
    if asked.seed.is_none() && does_runs && described::is_finished(&directory) {
        asked.seed = Some(run::drawn());
    }
    run::run_and(&asked, out, &|ended| match ended {
        Ended::Runs(finished) => reports::write(finished),
        Ended::ReadBack { store, found } => reports::read_back(store, found),
    })
}

/// Whether a flag of `ioecho run` takes a value.
fn takes_value(name: &str) -> bool {
    let line = Args::line();
    let run = line.find_subcommand("run");
    let mut flags = run.into_iter().flat_map(clap::Command::get_arguments);
    let flag = flags.find(|arg| arg.get_long() == Some(name));
    flag.is_some_and(|arg| !matches!(arg.get_action(), ArgAction::SetTrue))
}
