//! `ioecho man`: the man pages, made from the same definitions as `--help`.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

use crate::args::{Args, ManArgs, help};
use crate::exit::{self, Coded};
use crate::outputs::Gate;
use crate::terms;

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<u8> {
    let place = &args.directory;
    if !place.is_dir() {
        let text = format!("cannot write man pages into {}: no such directory", place.display());
        return Err(Coded::error(exit::OUTPUT, text));
    }
    let mut line = Args::line().disable_help_subcommand(true);
    line.build();
    for command in all(line) {
        let name = command.get_name().to_owned();
        // The examples and exit codes stand in sections of their own in a man page.
        let (man, mut page) = (Man::new(command.after_help("")), Vec::new());
        man.render(&mut page)?;
        sections(&mut page, name.rsplit('-').next().unwrap_or(&name))?;
        Gate::default().put(&place.join(man.get_filename()), &page)?;
    }
    Ok(exit::OK)
}

/// The sections that a man page has beyond `--help`: lines to copy, and the exit codes.
fn sections(page: &mut Vec<u8>, command: &str) -> io::Result<()> {
    let examples = help::examples_of(command);
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES")?;
    }
    for (what, line) in examples {
        writeln!(page, ".TP\n{}\n{}", roff(what), roff(line))?;
    }
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in terms::codes() {
        writeln!(page, ".TP\n{code}\n{}", roff(meaning))?;
    }
    Ok(())
}

/// A line of text, escaped so that roff does not take it for a command.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Writes the page of a command and those of its subcommands.
fn all(command: Command) -> Vec<Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let below: Vec<Command> = below.flat_map(all).collect();
    std::iter::once(command).chain(below).collect()
}
