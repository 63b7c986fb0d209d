//! The command line: everything that a user can type. Completions and man pages come from these
//! definitions.

mod agent;
mod analyze;
mod calibrate;
mod campaign;
mod check;
mod compare;
mod depend;
mod described;
mod drawn;
mod fetch;
mod fit;
pub(crate) mod help;
mod library;
pub(crate) mod like;
mod live;
mod merge;
mod predict;
mod prepare;
mod quantity;
mod record;
mod replay;
mod run;
mod transforms;
mod vdbench;
mod verify;
mod watched;
mod words;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ioecho_trace::Bytes;
use ioecho_trace::Nanos;
use ioecho_trace::formats::{
    self, Format, IssueEvent, Order, ReadOptions, WholeSeconds, Writable, write,
};
use ioecho_trace::transform::{Load, Window};
use ioecho_trace::visible::visible;

use crate::exit;
use crate::print::{Out, tell};

pub(crate) use self::agent::AgentArgs;
pub(crate) use self::analyze::{AnalyzeArgs, PartialArg};
pub(crate) use self::calibrate::CalibrateArgs;
pub(crate) use self::campaign::{
    CampaignArgs, CampaignCommand, CampaignFileArgs, CompareCampaignArgs, DoingArgs,
    GcCampaignArgs, ImportCampaignArgs, Keep, PlanCampaignArgs, ReportCampaignArgs,
    ResumeCampaignArgs, RunCampaignArgs, StatusCampaignArgs, StopCampaignArgs, UndoCampaignArgs,
};
pub(crate) use self::check::CheckArgs;
pub(crate) use self::compare::CompareArgs;
pub(crate) use self::depend::{DependArgs, Rule};
pub(crate) use self::described::DescribedArgs;
pub(crate) use self::drawn::{PictureFormat, PlotArgs, ReportArgs};
pub(crate) use self::fetch::{FetchArgs, takes_value};
pub(crate) use self::fit::FitArgs;
pub(crate) use self::library::{
    AddArgs, IndexArgs, LibraryArgs, LibraryCommand, ListArgs, ShowArgs, VerifyLibraryArgs,
};
pub(crate) use self::live::LiveArgs;
pub(crate) use self::merge::{AlignArg, MergeArgs};
pub(crate) use self::predict::PredictArgs;
pub(crate) use self::prepare::{Part, PrepareArgs};
use self::quantity::{positive_span, span, within};
pub(crate) use self::record::{RecordArgs, Segment};
pub(crate) use self::transforms::TransformArgs;
pub(crate) use self::verify::VerifyArgs;
pub(crate) use self::watched::WatchedArgs;
pub(crate) use replay::{Descriptors, ReplayArgs};
pub(crate) use run::RunArgs;
pub(crate) use vdbench::VdbenchArgs;

/// Replay recorded block I/O on storage, see what the storage did, and be told whether to believe
/// it
#[derive(Debug, Parser)]
#[command(name = "ioecho", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) fetch: FetchArgs,
}

impl Args {
    /// All commands and options.
    pub(crate) fn line() -> clap::Command {
        help::few_first(fetch::hidden_where_idle(Self::command()))
    }

    /// Parses the words of a command line. Words that stand for others, because a replay is like an
    /// earlier one, are handed to `means` in full. Where the words make no sense, or ask for help,
    /// it prints a text and returns the exit code.
    pub(crate) fn typed(words: &[OsString], means: impl Fn(Vec<OsString>)) -> Result<Self, u8> {
        let text: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
        if let [_, help, group] = &text[..]
            && help == "help"
            && let Some(options) = help::of_group(group)
        {
            let mut out = Out::standard();
            let _ = out.write_all(options.as_bytes());
            return Err(exit::printed(exit::OK, out));
        }
        let mut matches = Self::line().try_get_matches_from(words);
        if let Ok(first) = &matches {
            match like::completed(first) {
                Ok(None) => {}
                Ok(Some(words)) => {
                    matches = Self::line().try_get_matches_from(&words);
                    means(words);
                }
                Err(error) => return Err(exit::report(&error)),
            }
        }
        matches.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|mut error| {
            if text.get(1).is_some_and(|command| command == "replay") {
                advise_target(&mut error);
            }
            answer(&error)
        })
    }
}

/// Helps a user who typed a device behind the trace, as with `cp` or `fio`: it is named by
/// `--target`.
fn advise_target(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() == clap::error::ErrorKind::UnknownArgument && !word.starts_with('-') {
        let tip = format!("to replay on '{word}', use '--target {word}'");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Prints help, or the error in the words. Returns the exit code.
fn answer(error: &clap::Error) -> u8 {
    let text = error.render().to_string();
    let (code, printed) = match (error.use_stderr(), visible(&text)) {
        // Help is printed in clap's own colours. An error may quote the user's words, so it is made
        // harmless first.
        (false, _) => (exit::OK, error.print()),
        (true, Cow::Borrowed(_)) => {
            let _ = error.print();
            (exit::USAGE, Ok(()))
        }
        (true, Cow::Owned(_)) => {
            tell(text.trim_end());
            (exit::USAGE, Ok(()))
        }
    };
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tell(&format!("error: cannot write the standard output: {error}"));
            exit::OUTPUT
        }
        _ => code,
    }
}

/// What ioecho can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a trace or a run holds
    Info(InfoArgs),
    /// Say what a load asks for and what came of it: throughput, working sets, latency and more
    Analyze(Box<AnalyzeArgs>),
    /// Record what block devices are given to do
    Record(Box<RecordArgs>),
    /// Convert a trace into another format
    Convert(ConvertArgs),
    /// Estimate a small model of a trace: a generator's line, a fio job, and what they lose
    Fit(Box<FitArgs>),
    /// Tell which request waited for which, for a replay on faster storage
    Depend(Box<DependArgs>),
    /// Replay a trace on a device, a file or a simulation
    Replay(Box<ReplayArgs>),
    /// Say how long a load would take on a device that is described, or learnt from a run
    Predict(Box<PredictArgs>),
    /// Fill a target with data, once, before it is measured
    Prepare(PrepareArgs),
    /// Say what rate this host can pace, before a run needs it
    Calibrate(CalibrateArgs),
    /// Read back what a run wrote, later, after a reboot or a power cut
    Verify(VerifyArgs),
    /// Draw the report of a run or of a load, or recover a run that was killed
    Report(ReportArgs),
    /// Explain a word of a verdict: a check, a finding, a grade, an exit code, units
    Explain(ExplainArgs),
    /// Compare runs of the same load, and tell differences from chance
    Compare(Box<CompareArgs>),
    /// Say whether a replay was true: what was asked for against what the device saw
    Check(Box<CheckArgs>),
    /// Put together runs that went on at the same time, or what --partial of analyses wrote
    Merge(MergeArgs),
    /// Write pictures of a run or of a load as PNG or SVG, under the names that blkreplay gave them
    Plot(PlotArgs),
    /// Do many runs from one file, in an order that can be interrupted, and tell one answer
    Campaign(Box<CampaignArgs>),
    /// Do the runs of a described workload: a parameter file of Vdbench, or our own form
    Run(RunArgs),
    /// Take Vdbench's arguments, and write its reports beside ours
    Vdbench(VdbenchArgs),
    /// Do on this host what a campaign on another one asks for; campaigns start it (docs/hosts.md)
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Keep loads with what is known of them, to be published and fetched
    Library(LibraryArgs),
    /// Replay a recorded database load on a scratch file; needs no root and no device
    Demo(DemoArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the man pages into a directory
    Man(ManArgs),
}

/// How a trace is read.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ReadArgs {
    /// Stop at the first malformed line or record instead of counting it
    #[arg(long, help_heading = "Reading")]
    pub(crate) strict: bool,

    /// For recordings by blktrace, and raw ones of ioecho: the event that counts as the issue of a
    /// request
    #[arg(
        long,
        value_parser = words::letter(),
        default_value = IssueEvent::Auto.letter(),
        help_heading = "Reading"
    )]
    pub(crate) event: IssueEvent,

    /// Read as this format, whatever the file looks like (docs/import.md lists them)
    #[arg(long, value_name = "NAME", value_parser = formats::by_name, help_heading = "Reading")]
    pub(crate) format: Option<&'static Format>,

    /// For formats that know no more than the second of a request: where in it to put the requests
    #[arg(long, value_parser = words::whole_seconds(), help_heading = "Reading")]
    pub(crate) whole_seconds: Option<WholeSeconds>,

    /// For formats that do not say it: the unit of their instants
    #[arg(long, value_name = "ns|us|ms|s", value_parser = time_unit, help_heading = "Reading")]
    pub(crate) time_unit: Option<i64>,

    /// For formats that do not say it: the size of the blocks that they count in, such as 512
    #[arg(long, value_name = "SIZE", value_parser = block_size, help_heading = "Reading")]
    pub(crate) block_size: Option<Bytes>,

    /// Put requests in the order of time over the whole trace, through a temporary file; by itself
    /// within 65,536 requests
    #[arg(long, help_heading = "Reading")]
    pub(crate) sort_whole: bool,

    #[command(flatten)]
    pub(crate) described: DescribedArgs,
}

impl ReadArgs {
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            strict: self.strict,
            event: self.event,
            format: self.format,
            whole_seconds: self.whole_seconds.unwrap_or_default(),
            time_unit_ns: self.time_unit,
            block_size: self.block_size,
            all_apply: true,
            described: self.described.description(),
            order: if self.sort_whole { Order::Whole } else { Order::Window },
            dependencies: false,
            into_another: false,
        }
    }
}

/// A part of a trace, in the trace's own time.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct WindowArgs {
    /// Begin at this instant of the trace's own time, such as 90s, 1.5m or 2h [default: its first
    /// request]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) start: Option<Nanos>,

    /// Take this much of the trace's own time [default: all]
    #[arg(long, value_name = "TIME", value_parser = positive_span)]
    pub(crate) duration: Option<Nanos>,
}

impl WindowArgs {
    /// The same as a value that has nothing to do with the command line.
    pub(crate) const fn asked(self) -> Window {
        let Self { start, duration } = self;
        Window { start, duration }
    }
}

/// How a trace is cut and transformed before it is used.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) window: WindowArgs,

    #[command(flatten)]
    pub(crate) transforms: TransformArgs,
}

impl LoadArgs {
    /// The same as a value that has nothing to do with the command line.
    pub(crate) fn asked(&self) -> Load {
        Load { window: self.window.asked(), chain: self.transforms.chain.clone() }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// A trace in any known format, or the directory of a run
    pub(crate) file: PathBuf,

    /// Values of the variables of a described workload
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,

    /// Print JSON (stable, see docs/json.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// A trace in any known format, or the directory of a run
    pub(crate) input: PathBuf,

    /// What to write, in the format that its name says (docs/import.md lists them); replaced if it
    /// is there. `-` is the standard output, in the format of --to
    pub(crate) output: PathBuf,

    /// Values of the variables of a described workload
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,

    /// Write this format, whatever the name says
    #[arg(long, value_name = "NAME", value_parser = write::by_name)]
    pub(crate) to: Option<&'static Writable>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    /// What the trace is, to stand in its header
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Under which terms it may be used, to stand in its header
    #[arg(long, value_name = "TEXT")]
    pub(crate) license: Option<String>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A check, finding or grade as the verdict has it, an exit code such as 10, or `units`
    /// [default: a list of all]
    #[arg(value_name = "WORD")]
    pub(crate) word: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Replay on a simulated device instead of a scratch file
    #[arg(long)]
    pub(crate) sim: bool,

    /// Where to put the run and the scratch file [default: ioecho-demo-DATE-TIME]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Tell every check with what to do, and all percentiles
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory, which must exist
    pub(crate) directory: PathBuf,
}

fn block_size(text: &str) -> Result<Bytes, String> {
    within(text, Bytes(1)..=Bytes(1 << 30))
}

fn time_unit(text: &str) -> Result<i64, String> {
    match text {
        "ns" => Ok(1),
        "us" | "µs" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(1_000_000_000),
        _ => Err("known are ns, us, ms and s".to_owned()),
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_definitions_are_sound() {
        super::Args::line().debug_assert();
    }
}
