//! The transforms on the command line, in the order in which they were typed.
//!
//! `--busiest 5m --repeat 3` and `--repeat 3 --busiest 5m` are different loads. A list of fields
//! forgets the order, so these flags are made from the list of transforms itself, and their places
//! on the command line are asked for.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind};
use ioecho_trace::transform::{Asked, KINDS, Kind};

/// The transforms that were asked for, the first one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransformArgs {
    pub(crate) chain: Vec<Asked>,
}

/// How long a line of an error may be, in bytes: who typed a page need not read it again.
const LINE_BYTES_MAX: usize = 300;

/// Reads what was typed for a kind of transform.
#[derive(Clone)]
struct AskedParser(&'static Kind);

impl TypedValueParser for AskedParser {
    type Value = Asked;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Asked, clap::Error> {
        let kind = self.0;
        let parse = move |text: &str| Asked::new(kind, text).map_err(|error| error.to_string());
        TypedValueParser::parse_ref(&parse, command, argument, value).map_err(|error| {
            if value.len() <= LINE_BYTES_MAX {
                return error;
            }
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let short: Vec<String> = text.lines().map(cut).collect();
            clap::Error::raw(error.kind(), short.join("\n") + "\n")
        })
    }
}

/// `line`, shortened in its middle, where it is too long.
fn cut(line: &str) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_owned();
    }
    let head = line.floor_char_boundary(LINE_BYTES_MAX / 2);
    let tail = line.ceil_char_boundary(line.len() - LINE_BYTES_MAX / 2);
    format!("{} … {}", &line[..head], &line[tail..])
}

fn flag(kind: &'static Kind) -> Arg {
    let flag = Arg::new(kind.name)
        .long(kind.name)
        .help(kind.help)
        .help_heading("Transforms, applied in the order given")
        // Beside the longest of their values there is no room for words.
        .next_line_help(true)
        .action(ArgAction::Append)
        .value_parser(AskedParser(kind));
    if kind.value.is_empty() {
        // A flag without a value still has to have one, to keep its place in the order.
        flag.num_args(0).default_missing_value("")
    } else if kind.value.starts_with('[') {
        // It may be left out, and what follows the flag is then not taken for it.
        let flag = flag.value_name(kind.value).num_args(0..=1).require_equals(true);
        flag.default_missing_value("")
    } else {
        flag.value_name(kind.value).allow_hyphen_values(true)
    }
}

impl clap::Args for TransformArgs {
    fn augment_args(command: Command) -> Command {
        KINDS.iter().fold(command, |command, kind| command.arg(flag(kind)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for TransformArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for kind in KINDS {
            let Some(all) = matches.get_many::<Asked>(kind.name) else { continue };
            let places = matches.indices_of(kind.name).into_iter().flatten();
            placed.extend(places.zip(all.cloned()));
        }
        placed.sort_by_key(|(place, _)| *place);
        Ok(Self { chain: placed.into_iter().map(|(_, asked)| asked).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error.to_string()))?;
        Ok(())
    }
}
