//! `ioecho replay --like RUN`: the settings of an earlier run, but for those that are typed now.
//!
//! Whoever wants a run once more, with one setting changed, would have to copy its command line out
//! of `run.toml` and edit it. A word that gets lost on the way makes another run of it, which is
//! then compared as if it were the same. So the words of that run are parsed by the definitions
//! that parse the words of now, and each setting that is not typed now is taken over.
//!
//! What belongs to one run alone is not taken over, above all the leave to destroy data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use ioecho_run::directory::RunDirectory;

use super::{Args, live, transforms};
use crate::exit::{self, Coded};

/// The name of the flag.
const LIKE: &str = "like";

/// The positional argument.
const TRACE: &str = "trace";

/// Flags that belong to one run alone.
const OF_ONE_RUN: [&str; 12] = [
    "output",
    "destroy",
    "dry-run",
    "quiet",
    "verbose",
    "continues",
    "family",
    "after",
    "start-at",
    "gate",
    "runs",
    LIKE,
];

/// Flags that together say where the load goes.
const TARGETS: [&str; 3] = ["target", "map", "map-file"];

/// The words of a replay that names an earlier run, with the settings of that run; `None` if it
/// names none.
///
/// # Errors
///
/// If the earlier run cannot be read, or was not made by `ioecho replay`.
pub(super) fn completed(matches: &ArgMatches) -> anyhow::Result<Option<Vec<OsString>>> {
    let Some(("replay", typed)) = matches.subcommand() else { return Ok(None) };
    let Some(run) = typed.get_one::<PathBuf>(LIKE) else { return Ok(None) };
    let name = run.display();
    let directory = RunDirectory::at(run).ok_or_else(|| {
        let help = "name a directory that `ioecho replay -o` made";
        Coded::error(exit::TRACE, format!("{name} is no run\n  = help: {help}"))
    })?;
    let command = directory.read_facts()?.command;
    let refused = |reason: String| {
        let help = "type its settings in place of --like";
        Coded::error(exit::USAGE, format!("{name} cannot be repeated: {reason}\n  = help: {help}"))
    };
    let mut line = Args::line();
    line.build();
    let earlier = line.try_get_matches_from_mut(&command).map_err(|error| {
        let text = error.render().to_string();
        refused(text.lines().next().unwrap_or_default().to_owned())
    })?;
    let Some(("replay", earlier)) = earlier.subcommand() else {
        return Err(refused("`ioecho replay` did not make it".to_owned()));
    };
    let replay = line.find_subcommand("replay").ok_or_else(|| refused("no replay".to_owned()))?;
    Ok(Some(laid_over(replay, typed, earlier)))
}

/// The words of a replay with the settings of `typed`, and those of `earlier` beside.
fn laid_over(replay: &Command, typed: &ArgMatches, earlier: &ArgMatches) -> Vec<OsString> {
    let has = |arg: &Arg| is_typed(typed, arg);
    let any =
        |is_one: &dyn Fn(&Arg) -> bool| replay.get_arguments().any(|it| is_one(it) && has(it));
    let (is_elsewhere, is_changed) = (any(&is_target), any(&is_transform));
    let stays = |arg: &Arg| {
        let is_replaced =
            has(arg) || is_elsewhere && is_target(arg) || is_changed && is_transform(arg);
        !is_replaced && !is_of_one_run(arg)
    };
    let mut words = vec!["ioecho".into(), "replay".into()];
    words.extend(flags(replay, earlier, &stays));
    words.extend(flags(replay, typed, &|arg| arg.get_long() != Some(LIKE)));
    let trace = [typed, earlier].map(|matches| matches.get_one::<PathBuf>(TRACE));
    if let Some(trace) = trace.into_iter().flatten().next() {
        words.extend(["--".into(), trace.clone().into_os_string()]);
    }
    words
}

/// Whether a flag belongs to one run alone.
pub(crate) fn is_of_one_run(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|name| OF_ONE_RUN.contains(&name))
        || arg.get_help_heading() == Some(live::HEADING)
}

/// Whether it says where the load goes.
pub(crate) fn is_target(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|name| TARGETS.contains(&name))
}

/// Whether it is a transform. Their order counts, so they are replaced together.
pub(crate) fn is_transform(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(transforms::HEADING)
}

fn is_typed(matches: &ArgMatches, arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    !matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong)
        && !matches!(arg.get_action(), ArgAction::Version)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The flags that were typed, in their order.
fn flags(replay: &Command, matches: &ArgMatches, takes: &dyn Fn(&Arg) -> bool) -> Vec<OsString> {
    let mut words: Vec<(usize, OsString)> = Vec::new();
    for arg in replay.get_arguments().filter(|arg| is_typed(matches, arg) && takes(arg)) {
        let (Some(name), id) = (arg.get_long(), arg.get_id().as_str()) else { continue };
        let places = matches.indices_of(id).into_iter().flatten();
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            words.extend(places.map(|at| (at, format!("--{name}").into())));
            continue;
        }
        for (at, value) in places.zip(matches.get_raw(id).into_iter().flatten()) {
            let mut word = OsString::from(format!("--{name}"));
            // A flag that may do without a value has an empty one.
            if !value.is_empty() {
                word.push("=");
                word.push(value);
            }
            words.push((at, word));
        }
    }
    words.sort();
    words.into_iter().map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str, earlier: &str) -> String {
        let mut line = Args::line();
        line.build();
        let matches = [typed, earlier].map(|text| {
            let words = ["ioecho", "replay"].into_iter().chain(text.split_whitespace());
            let all = line.try_get_matches_from_mut(words).unwrap();
            all.subcommand_matches("replay").unwrap().clone()
        });
        let replay = line.find_subcommand("replay").unwrap();
        let words = laid_over(replay, &matches[0], &matches[1]);
        let words: Vec<String> = words.iter().map(|it| it.to_string_lossy().into()).collect();
        words[2..].join(" ")
    }

    #[test]
    fn what_is_typed_replaces_and_the_rest_stays() {
        let earlier = "load -t a -t b --speedup 2 --require lateness,witness --read-only --expert";
        let stayed = "--target=a --target=b --require=lateness --require=witness --read-only";
        assert!(words("--like run", earlier).starts_with("--target=a --target=b --speedup=2"));
        let told = words("--like run --speedup 4", earlier);
        assert!(told.starts_with(stayed), "{told}");
        assert!(told.ends_with(" --speedup=4 -- load"), "{told}");
        assert!(told.contains(" --expert"), "{told}");
        assert!(words("other --like run", earlier).ends_with(" -- other"));
    }

    #[test]
    fn targets_are_replaced_together_and_so_are_transforms() {
        let earlier = "load --map sda=a --reverse --repeat 3 --timing afap";
        assert_eq!(
            words("--like r", earlier),
            "--map=sda=a --reverse --repeat=3 --timing=afap -- load"
        );
        assert_eq!(
            words("--like r -t b", earlier),
            "--reverse --repeat=3 --timing=afap --target=b -- load"
        );
        assert_eq!(
            words("--like r --repeat 2", earlier),
            "--map=sda=a --timing=afap --repeat=2 -- load"
        );
    }

    #[test]
    fn what_belongs_to_one_run_is_not_taken_over() {
        let earlier = "load -t a --destroy a -o old --quiet --dry-run --live --start-at +1h";
        assert_eq!(words("--like r -o new", earlier), "--target=a --output=new -- load");
    }
}
