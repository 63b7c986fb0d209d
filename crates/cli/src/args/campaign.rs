//! What can be typed behind `ioecho campaign`.

use std::path::PathBuf;

use ioecho_campaign::share::Share;
use ioecho_stats::compare::Criterion;
use ioecho_trace::Nanos;

#[derive(Debug, clap::Args)]
pub(crate) struct CampaignArgs {
    #[command(subcommand)]
    pub(crate) command: CampaignCommand,
}

/// What can be done with a campaign.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CampaignCommand {
    /// Say which runs a file asks for, and which of them are done; touches nothing
    Plan(PlanCampaignArgs),
    /// Do the runs of a file that are not done yet
    Run(RunCampaignArgs),
    /// Go on with a campaign that was stopped or killed
    Resume(ResumeCampaignArgs),
    /// Say how far a campaign is, and what is known so far
    Status(StatusCampaignArgs),
    /// Ask a campaign that is running to end
    Stop(StopCampaignArgs),
    /// Write the page and the table of a campaign anew
    Report(ReportCampaignArgs),
    /// Compare the values of an axis, and tell differences from chance
    Compare(CompareCampaignArgs),
    /// Make a campaign of a tree of blkreplay's test suite
    Import(ImportCampaignArgs),
    /// Undo what a killed campaign has set up on this host
    Undo(UndoCampaignArgs),
    /// List results that the plan of a campaign does not need, and remove them with --yes
    Gc(GcCampaignArgs),
}

/// The file, and what overrules it.
#[derive(Debug, clap::Args)]
pub(crate) struct CampaignFileArgs {
    /// The file of the campaign (docs/campaign.md)
    pub(crate) file: PathBuf,

    /// The directory of the results [default: NAME.campaign]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Overrule a key of every run
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanCampaignArgs {
    #[command(flatten)]
    pub(crate) of: CampaignFileArgs,

    /// Say where the value of this key comes from, and what it overrules
    #[arg(long, value_name = "KEY")]
    pub(crate) why: Option<String>,

    /// Ask every host of the file whether it can be used, how closely its clock is known, and
    /// whether its devices are those that are meant; nothing is sent or set up there
    #[arg(long, conflicts_with = "why")]
    pub(crate) probe: bool,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the runs of a campaign are done.
#[derive(Debug, clap::Args)]
pub(crate) struct DoingArgs {
    /// Say what would be done, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print no line for each run
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The longest time of all runs together, instead of the file's
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Nanos>,

    /// Write the results of cells, expectations and baseline for a CI system (`JUnit` XML)
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunCampaignArgs {
    #[command(flatten)]
    pub(crate) of: CampaignFileArgs,

    /// Confirm that what these devices of the campaign hold may be destroyed
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) destroy: Vec<String>,

    /// Do only this share of the cells, such as 2/4; ladders and searches stay whole
    #[arg(long, value_name = "N/OF")]
    pub(crate) part: Option<Share>,

    #[command(flatten)]
    pub(crate) doing: DoingArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    #[command(flatten)]
    pub(crate) doing: DoingArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UndoCampaignArgs {
    /// Say what would be undone, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Accept what cannot be undone as it is, and open the host for other campaigns
    #[arg(long)]
    pub(crate) accept: bool,

    /// Print JSON (stable, see docs/modules.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    /// Show it anew every second until no process works on it (with --json in lines)
    #[arg(long)]
    pub(crate) watch: bool,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    /// Let the run that is going on come to its end
    #[arg(long)]
    pub(crate) after_cell: bool,

    /// Say what would be asked for, and ask for nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReportCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GcCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    /// Also the requests of the runs that are kept: `summary` keeps reports and figures
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) keep: Keep,

    /// Remove them; without this nothing is removed
    #[arg(long)]
    pub(crate) yes: bool,

    /// Say what would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Print JSON (stable, see docs/campaign.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is kept of runs that the plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Keep {
    /// Everything
    All,
    /// All but the requests
    Summary,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportCampaignArgs {
    /// The directory of the tree, with its *.conf files
    pub(crate) tree: PathBuf,

    /// Let bash evaluate what is more than an assignment; this runs the commands of the files
    #[arg(long)]
    pub(crate) trust: bool,

    /// Write the campaign into this file; it begins where the file lies [default: print it]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Say what would be made of the tree, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON (stable, see docs/campaign.md): the variables of each leaf
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompareCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

    /// The axis whose values are compared; the first is the baseline
    #[arg(long, value_name = "AXIS")]
    pub(crate) by: String,

    /// The value of another axis; each axis with several values needs one
    #[arg(long, value_name = "AXIS=VALUE")]
    pub(crate) at: Vec<String>,

    /// Fail (exit code 21) if this is proven, such as 'p99.read > +5%'
    #[arg(long, value_name = "CRITERION")]
    pub(crate) fail_if: Vec<Criterion>,

    /// Print JSON (stable, see docs/compare.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write a page with tables and pictures
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
