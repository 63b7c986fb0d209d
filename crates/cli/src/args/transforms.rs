//! The transforms on the command line, in the order in which they were typed.
//!
//! `--busiest 5m --repeat 3` and `--repeat 3 --busiest 5m` are different loads. A struct of fields
//! forgets the order. So these flags are made from the list of transforms itself, and their
//! positions on the command line decide the order.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind};
use ioecho_trace::transform::{Asked, KINDS, Kind};

/// The heading of these options.
pub(crate) const HEADING: &str = "Transforms, applied in the order given";

/// The chosen transforms, the first one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransformArgs {
    pub(crate) chain: Vec<Asked>,
}

/// How long a line of an error may be, in bytes. A user who typed a very long line need not read
/// all of it again.
const LINE_BYTES_MAX: usize = 300;

/// Parses the value of a transform.
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

/// Returns `line`, shortened in its middle if it is too long.
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
        .help_heading(HEADING)
        // The longest values leave no room for help beside them, so it stands below.
        .next_line_help(true)
        .action(ArgAction::Append)
        .value_parser(AskedParser(kind));
    if kind.value.is_empty() {
        // A flag without a value still needs one, so that clap keeps its position on the command
        // line.
        flag.num_args(0).default_missing_value("")
    } else if kind.value.starts_with('[') {
        // The value is optional. The word behind the flag is then not taken as the value.
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
