//! What can be typed behind `ioecho campaign`.

use std::path::PathBuf;

use ioecho_stats::compare::Criterion;

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
pub(crate) struct StatusCampaignArgs {
    /// The directory of the campaign
    pub(crate) campaign: PathBuf,

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
