//! What can be typed behind `ioecho prepare`.

use std::path::PathBuf;

use clap::{ArgAction, ValueEnum};
use ioecho_replay::fill::BLOCK;
use ioecho_trace::Bytes;

use super::quantity::quantity;
use super::{ReadArgs, WindowArgs};

/// The largest write: the size of the largest buffer of a device.
const WRITE_MAX: Bytes = Bytes(64 << 20);

#[derive(Debug, clap::Args)]
pub(crate) struct PrepareArgs {
    /// The block device or file to fill
    pub(crate) target: PathBuf,

    /// Make the file, of this size, where there is none yet
    #[arg(long, value_name = "SIZE", value_parser = file_size)]
    pub(crate) size: Option<Bytes>,

    /// Which part to fill
    #[arg(long, value_enum, default_value_t)]
    pub(crate) part: Part,

    /// The trace that `--part touched` follows
    #[arg(long, required_if_eq("part", "touched"))]
    pub(crate) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) window: WindowArgs,

    /// Go on with a fill that was interrupted
    #[arg(long, conflicts_with = "size")]
    pub(crate) resume: bool,

    /// Makes the data: the same seed writes the same [default: random]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 40))]
    pub(crate) seed: Option<u64>,

    /// The largest write
    // `--bundle` is its former name, which `replay` has for a span of time.
    #[arg(
        long,
        alias = "bundle",
        value_name = "SIZE",
        default_value = "1M",
        value_parser = write_size
    )]
    pub(crate) write_size: Bytes,

    /// Confirm that what this target holds may be destroyed; must name the target
    #[arg(long, value_name = "TARGET", action = ArgAction::Append, help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// Say what would be done, and touch nothing
    #[arg(long, conflicts_with = "size", help_heading = "Safety")]
    pub(crate) dry_run: bool,

    /// Go through the page cache where the file system refuses direct I/O
    #[arg(long, help_heading = "Safety")]
    pub(crate) allow_cached: bool,

    /// Print no progress line
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Which part of a target is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// All of it
    #[default]
    All,
    /// What a replay of the trace touches, in blocks of 4 KiB
    Touched,
}

fn file_size(text: &str) -> Result<Bytes, String> {
    blocks(text, Bytes(i64::MAX as u64))
}

fn write_size(text: &str) -> Result<Bytes, String> {
    blocks(text, WRITE_MAX)
}

fn blocks(text: &str, most: Bytes) -> Result<Bytes, String> {
    let size: Bytes = quantity(text)?;
    if size.0 == 0 || size > most || !size.0.is_multiple_of(BLOCK) {
        return Err(format!("must be a multiple of 4 KiB, at most {most}"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_blocks_within_the_limit() {
        assert_eq!(write_size("1M"), Ok(Bytes(1 << 20)));
        assert_eq!(file_size("1T"), Ok(Bytes(1 << 40)));
        for wrong in ["0", "4095", "128M", "x"] {
            assert!(write_size(wrong).is_err(), "{wrong}");
        }
    }
}
