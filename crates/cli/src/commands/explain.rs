//! `ioecho explain`: what a check of the verdict means.

use std::io::Write;

use ioecho_stats::judge;

use crate::args::ExplainArgs;
use crate::exit::{self, Coded};
use crate::pitfalls;

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    let names = judge::names();
    let Some(name) = &args.check else {
        for name in &names {
            writeln!(out, "{name:<14}{}", pitfalls::line(name))?;
        }
        return Ok(exit::OK);
    };
    let page = pitfalls::page(name).ok_or_else(|| {
        let text = format!("'{name}' is no check\n  = help: known are {}", names.join(", "));
        Coded::error(exit::USAGE, text)
    })?;
    writeln!(out, "{}", page.trim_end())?;
    Ok(exit::OK)
}
