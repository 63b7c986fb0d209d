//! `ioecho merge`: several parts as one.

mod parts;

use crate::args::MergeArgs;

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<u8> {
    parts::run(&args.inputs, &args.output)
}
