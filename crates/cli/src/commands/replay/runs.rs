//! `ioecho replay --runs`: the same replay several times, and what the runs say together.
//!
//! One run shows nothing of how another one would differ: the device is warmer, its data lie
//! elsewhere, the host has other work. So the runs follow one another with the same settings, each
//! with a directory and a verdict of its own, and the last lines are about all of them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ioecho_run::plan::default_output;
use ioecho_run::spec::ReplaySpec;
use ioecho_stats::repeats::OverRuns;
use ioecho_trace::units::{three_digits, two_digits};
use ioecho_trace::{Nanos, generate};

use super::{Ended, Ready};
use crate::args::ReplayArgs;
use crate::commands::outcome::line;
use crate::exit::{self, Coded};
use crate::fetch;
use crate::print::{Out, tell};
use crate::run::signals::stop_on_signals;

/// The exit codes of runs after which the next one is made, the worst first.
const WORST_FIRST: [u8; 5] = [
    exit::GENERATOR_LIMITED,
    exit::HOST_STALLED,
    exit::INVALID,
    exit::DEVICE_LIMITED,
    exit::REQUIRED,
];

/// Makes so many runs, in the directories `1`, `2` and so on of the one that was named.
pub(super) fn run(args: &ReplayArgs, runs: u32, out: &mut Out) -> anyhow::Result<u8> {
    let flows = args.flow.iter().map(|flow| flow.load.as_path());
    args.trace.as_deref().into_iter().chain(flows).try_for_each(refuse_what_is_gone)?;
    let all = args.output.clone().unwrap_or_else(default_output);
    refuse_used(&all)?;
    let ready = |number: u32| {
        let output = Some(all.join(number.to_string()));
        Ready::new(args, ReplaySpec { output, ..args.spec()? })
    };
    let mut next = ready(1)?;
    let stopping = stop_on_signals()?;
    let mut ended = Vec::new();
    for number in 1..=runs {
        writeln!(out, "run           {number} of {runs}")?;
        let one = next.carry_out(args, None, &stopping, out)?;
        if !WORST_FIRST.contains(&one.code) && one.code != exit::OK {
            if number < runs {
                tell(&format!(
                    "run {number} of {runs} is the last: no other follows such a verdict"
                ));
            }
            return Ok(one.code);
        }
        ended.push(one);
        if number == runs {
            break;
        }
        stopping.renew();
        next = ready(number + 1)?;
    }
    print_together(out, &ended)?;
    let worst = WORST_FIRST.into_iter().find(|code| ended.iter().any(|one| one.code == *code));
    Ok(worst.unwrap_or(exit::OK))
}

/// Refuses a trace that can be read only once.
fn refuse_what_is_gone(trace: &Path) -> anyhow::Result<()> {
    let is_named = generate::is_line(trace) || fetch::is_url(trace);
    let is_kept = |kind: fs::Metadata| kind.is_file() || kind.is_dir();
    let is_once = trace == Path::new("-") || fs::metadata(trace).is_ok_and(|kind| !is_kept(kind));
    if is_named || !is_once {
        return Ok(());
    }
    let text = format!(
        "{} can be read only once, and each run reads it\n  = help: write it to a file first",
        trace.display()
    );
    Err(Coded::error(exit::USAGE, text))
}

/// Refuses a directory that holds anything, as each single run does.
fn refuse_used(all: &Path) -> anyhow::Result<()> {
    let Some(there) = fs::read_dir(all).into_iter().flatten().flatten().next() else {
        return Ok(());
    };
    let text = format!(
        "{} is not empty: it holds {}\n  = help: name a new directory with -o",
        all.display(),
        there.file_name().display()
    );
    Err(Coded::error(exit::OUTPUT, text))
}

/// Prints the figures over all valid runs.
fn print_together(out: &mut dyn Write, ended: &[Ended]) -> io::Result<()> {
    let valid: Vec<&Ended> = ended.iter().filter(|one| one.is_valid).collect();
    let (count, invalid) = (valid.len(), ended.len() - valid.len());
    let label = format!("over {count} runs");
    if invalid > 0 {
        line(out, "invalid", &format!("{invalid} of {} runs, left out here", ended.len()))?;
    }
    let over = |figure: fn(&Ended) -> Option<f64>| {
        let values: Option<Vec<f64>> = valid.iter().map(|one| figure(one)).collect();
        values.and_then(|values| OverRuns::of(&values))
    };
    let told = |figure: OverRuns, shown: fn(f64) -> String| {
        let OverRuns { median, low, high, .. } = figure;
        format!("{} ({} … {})", shown(median), shown(low), shown(high))
    };
    let Some(iops) = over(|one| one.iops) else {
        return line(out, &label, "nothing was measured that could be told over them");
    };
    let p99 = over(|one| one.p99_ns.map(|ns| ns as f64));
    let p99 = match p99 {
        Some(p99) => {
            let span = valid.first().map_or("", |one| one.span.name());
            format!("p99 of the {span} {}", told(p99, |ns| Nanos(ns as i64).to_string()))
        }
        None => "too few requests for p99".to_owned(),
    };
    line(out, &label, &format!("median IOPS {}; {p99}", told(iops, three_digits)))?;
    if count > 1 {
        let percent = two_digits(iops.confidence * 100.0);
        let text =
            format!("the median of all such runs lies in between with {percent} % confidence");
        line(out, "", &text)?;
    }
    Ok(())
}
