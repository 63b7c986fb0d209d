//! `ioecho man`: the man pages, made from the same definitions as `--help`.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

use super::explain::without_links;
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
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        // The examples and exit codes stand in sections of their own in a man page.
        let (man, mut page) = (Man::new(command.after_help("")), Vec::new());
        man.render(&mut page)?;
        // The words of a command stand in the name that is shown: `ioecho-campaign-report`.
        let words = name.split_once('-').map_or(&*name, |(_, words)| words).replace('-', " ");
        sections(&mut page, &words)?;
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
        // A line to copy is neither broken nor stretched.
        writeln!(page, ".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE", roff(what), roff(line))?;
    }
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in terms::codes() {
        writeln!(page, ".TP\n{code}\n{}", marked(&without_links(meaning)))?;
    }
    Ok(())
}

/// A line of text, escaped so that roff does not take it for a command.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The same with the marks of Markdown in the fonts of a man page: `code` bold, *words* italic.
fn marked(text: &str) -> String {
    let mut marked = roff(text);
    for (mark, font) in [('`', "\\fB"), ('*', "\\fI")] {
        let parts = marked.split(mark).enumerate().map(|(n, part)| match n {
            0 => part.to_owned(),
            n if n % 2 == 1 => format!("{font}{part}"),
            _ => format!("\\fR{part}"),
        });
        marked = parts.collect();
    }
    marked
}

/// Writes the page of a command and those of its subcommands.
fn all(command: Command) -> Vec<Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let below: Vec<Command> = below.flat_map(all).collect();
    std::iter::once(command).chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_markdown_become_fonts() {
        assert_eq!(marked("`a` and *b*, no more"), "\\fBa\\fR and \\fIb\\fR, no more");
        assert_eq!(marked("-- plain"), "\\-\\- plain");
    }

    #[test]
    fn a_command_below_another_has_no_examples_of_its_namesake() {
        let place = tempfile::tempdir().unwrap();
        run(&ManArgs { directory: place.path().to_owned() }).unwrap();
        let page = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
        assert!(page("ioecho-report.1").contains("ioecho report run1"));
        assert!(!page("ioecho-campaign-report.1").contains("ioecho report run1"));
        assert!(page("ioecho-campaign-report.1").contains("EXIT STATUS"));
    }

    #[test]
    fn a_page_shows_neither_marks_nor_links_and_breaks_no_line_to_copy() {
        let mut page = Vec::new();
        sections(&mut page, "replay").unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains('`') && !page.contains("](") && !page.contains('*'), "{page}");
        let copied = page.split(".nf\n").skip(1).filter_map(|part| part.split(".fi").next());
        let copied: Vec<&str> = copied.map(str::trim_end).collect();
        let lines = help::examples_of("replay");
        assert_eq!(copied.len(), lines.len());
        assert!(copied.iter().zip(lines).all(|(copied, (_, line))| *copied == roff(line)));
    }
}
