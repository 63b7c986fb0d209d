//! `ioecho run`: the runs of a described workload.

mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ioecho_trace::workload::plan::{Asked, Plan};

use crate::args::RunArgs;
use crate::exit::{self, Coded};
use crate::print::{Out, tell};
use crate::workload::{self, size_of, tell_faults, tell_told};

pub(crate) fn run(args: &RunArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (files, variables) = words(&args.words)?;
    let mut description = match workload::read(&files, variables)? {
        Ok(description) => description,
        Err(code) => return Ok(code),
    };
    let workload = &mut description.workload;
    for setting in &args.set {
        let changed = setting
            .split_once('=')
            .ok_or_else(|| "it is written KEY=VALUE".to_owned())
            .and_then(|(key, value)| workload.set(key, value));
        if let Err(reason) = changed {
            return Err(Coded::error(exit::USAGE, format!("--set {setting}: {reason}")));
        }
    }
    if let Some(divisor) = args.shrink {
        workload.shrink(divisor);
    }
    let seed = args.seed.unwrap_or_else(drawn);
    let asked = Asked { seed, only: args.only.clone() };
    let plan = match Plan::new(workload, asked, &size_of) {
        Ok(plan) => plan,
        Err(faults) => return Ok(tell_faults(&description.with_lines(faults))),
    };
    let shown = show::Shown { files: &files, workload, plan: &plan, seed };
    if args.json {
        shown.json(out)?;
    } else {
        tell_told(&workload.told);
        tell_told(&plan.told);
        shown.text(out)?;
    }
    Ok(exit::OK)
}

/// The files, and the values of variables behind them.
fn words(words: &[String]) -> anyhow::Result<(Vec<PathBuf>, BTreeMap<String, String>)> {
    let mut files = Vec::new();
    let mut variables = BTreeMap::new();
    for word in words {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match word.split_once('=').filter(|(name, _)| is_name(name) && !Path::new(word).exists()) {
            Some((name, value)) => {
                if variables.insert(name.to_owned(), value.to_owned()).is_some() {
                    let text = format!("the variable '{name}' is given twice");
                    return Err(Coded::error(exit::USAGE, text));
                }
            }
            None => files.push(PathBuf::from(word)),
        }
    }
    if files.is_empty() {
        return Err(Coded::error(exit::USAGE, "no file is named, only values of variables"));
    }
    Ok((files, variables))
}

/// A seed that differs from run to run, so that a run does not find its blocks cached.
fn drawn() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = since.map_or(1, |since| since.as_nanos() as u64 ^ u64::from(std::process::id()));
    // Short enough to be typed.
    let seed = seed % 1_000_000_007;
    tell(&format!("seed {seed} was drawn; --seed {seed} makes the same loads again"));
    seed
}
