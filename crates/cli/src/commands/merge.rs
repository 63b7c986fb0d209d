//! `ioecho merge`: several results made one.

mod runs;

use crate::args::MergeArgs;
use crate::exit::{self, Coded};
use crate::run::directory::RunDirectory;

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<u8> {
    if let Some(other) = args.inputs.iter().find(|path| RunDirectory::at(path).is_none()) {
        let text = format!(
            "{} is no run: it holds no run.toml\n  = help: name directories that `ioecho replay \
             -o` made",
            other.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    runs::run(args)
}
