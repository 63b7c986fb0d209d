//! `ioecho explain`: the meaning of a word of the verdict.

use std::io::Write;

use ioecho_stats::judge;

use crate::args::ExplainArgs;
use crate::exit::{self, Coded};
use crate::print::Out;
use crate::{pitfalls, terms};

/// What can be asked for.
const KNOWN: &str =
    "`ioecho explain` lists them; exit codes, units and figures such as p99 are explained too";

pub(crate) fn run(args: &ExplainArgs, out: &mut Out) -> anyhow::Result<u8> {
    let names = judge::names();
    let Some(word) = &args.word else {
        for name in &names {
            writeln!(out, "{name:<19}{}", pitfalls::line(name))?;
        }
        writeln!(out)?;
        for (term, line) in terms::all() {
            writeln!(out, "{term:<19}{line}")?;
        }
        return Ok(exit::OK);
    };
    let page = pitfalls::page(word).map(str::to_owned).or_else(|| terms::page(word));
    let page = page.ok_or_else(|| {
        let what = "is no check, and no other word of a verdict";
        let text = format!("'{word}' {what}\n  = help: {KNOWN}");
        Coded::error(exit::USAGE, text)
    })?;
    writeln!(out, "{}", without_links(page.trim_end()))?;
    Ok(exit::OK)
}

/// A page for a terminal. A link `[words](target)` becomes its words. The target follows only if it
/// is on the web, because the reader does not have the files of the documentation.
pub(crate) fn without_links(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(begin) = rest.find('[') {
        let link =
            rest[begin + 1..].split_once("](").filter(|(words, _)| !words.contains(['[', '\n']));
        let link = link.and_then(|(words, behind)| Some((words, behind.split_once(')')?)));
        let Some((words, (target, behind))) = link else {
            text.push_str(&rest[..=begin]);
            rest = &rest[begin + 1..];
            continue;
        };
        text.push_str(&rest[..begin]);
        text.push_str(words);
        if target.starts_with("http") {
            text.push_str(" <");
            text.push_str(target);
            text.push('>');
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_words_and_what_is_none_stays() {
        let page =
            "see [demand](demand.md) and [SNIA](https://www.snia.org/pts); a[0] (b) [x] stay";
        let shown = "see demand and SNIA <https://www.snia.org/pts>; a[0] (b) [x] stay";
        assert_eq!(without_links(page), shown);
        assert_eq!(without_links("[open]("), "[open](");
    }

    #[test]
    fn no_page_shows_a_link_to_a_file() {
        for name in judge::names() {
            let page = without_links(pitfalls::page(&name).unwrap());
            assert!(!page.contains("]("), "{name}: {page}");
        }
    }
}
