//! The arguments of the commands that draw.

use std::path::PathBuf;

use clap::ValueEnum;
use ioecho_stats::required::Requirement;

use super::{LoadArgs, ReadArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The directory of a run, or a trace in any known format
    pub(crate) run: PathBuf,

    /// Where to write the page [default: report.html in the run's directory; of a trace its name
    /// with .html in the current directory]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Also write the main pictures of `ioecho plot` as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,

    /// Checks of the verdict that must pass, or the exit code is 16: NAME, NAME=limited (a finding
    /// about the device will do), all (`ioecho explain` lists them)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) require: Vec<Requirement>,

    /// Tell every check with what to do, and all percentiles
    #[arg(long, short)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// The formats of pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// Pixels
    #[cfg(feature = "png")]
    #[default]
    Png,
    /// Lines and texts, for papers
    #[cfg_attr(not(feature = "png"), default)]
    Svg,
}

impl PictureFormat {
    /// The ending of the file's name.
    pub(crate) const fn ending(self) -> &'static str {
        match self {
            #[cfg(feature = "png")]
            Self::Png => "png",
            Self::Svg => "svg",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlotArgs {
    /// The directory of a run, or a trace in any known format
    pub(crate) file: PathBuf,

    /// The directory to write to; made if it is not there [default: the current one]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Only these pictures: whole names (docs/pictures.md lists them) or what they begin with, such
    /// as g01
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// What to write
    #[arg(long, value_enum, default_value_t)]
    pub(crate) to: PictureFormat,

    /// Width and height in pixels, or in units of an SVG
    #[arg(long, value_name = "WxH", value_parser = size, default_value = "1200x800")]
    pub(crate) size: (u16, u16),

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let wrong = || "must be like 1200x800, each from 240 to 10000".to_owned();
    let (wide, tall) = text.split_once('x').ok_or_else(wrong)?;
    let side = |text: &str| {
        let side: u16 = text.parse().map_err(|_| wrong())?;
        if (240..=10_000).contains(&side) { Ok(side) } else { Err(wrong()) }
    };
    Ok((side(wide)?, side(tall)?))
}
