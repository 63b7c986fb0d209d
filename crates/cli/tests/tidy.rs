//! The style rules that clippy cannot check.
//!
//! A rule that nobody checks is broken within a month, and reviewers have better things to do. Each
//! test names the rule and the places where it is broken.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "tidy/modules.rs"]
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Longest line of a source file, in characters.
const LINE_MAX: usize = 100;
/// Longest source file, in lines. A longer one probably has two subjects.
const FILE_MAX: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file that git knows or would take, with its text; binary files are left out.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let names: Vec<String> = match list {
        Ok(list) if list.status.success() => {
            String::from_utf8_lossy(&list.stdout).lines().map(str::to_owned).collect()
        }
        // A source tree without git, such as an unpacked release.
        _ => walk(&root()),
    };
    names
        .into_iter()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        // What a link leads to stands in the list under its own name.
        .filter(|name| !root().join(name).is_symlink())
        .filter_map(|name| Some((name.clone(), fs::read_to_string(root().join(name)).ok()?)))
        .collect()
}

fn walk(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path != root().join("target") && !path.ends_with(".git") {
            names.extend(walk(&path));
        } else if let Ok(name) = path.strip_prefix(root()) {
            names.push(name.display().to_string());
        }
    }
    names
}

/// A source without the tests at its end.
fn code_of(text: &str) -> &str {
    let mut ends = text.match_indices("#[cfg(test)]\n").map(|(at, mark)| (at, at + mark.len()));
    let is_inline = |behind: usize| {
        let line = text[behind..].lines().next().unwrap_or_default();
        line.contains("mod ") && line.ends_with('{')
    };
    ends.find(|(_, behind)| is_inline(*behind)).map_or(text, |(at, _)| &text[..at])
}

fn broken(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}:\n  {}", places.join("\n  "));
}

#[test]
fn lines_and_files_are_short_enough_to_read() {
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let lines = text.lines().count();
        if lines > FILE_MAX {
            places.push(format!("{name}: {lines} lines"));
        }
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_MAX {
                places.push(format!("{name}:{}: {} characters", number + 1, line.chars().count()));
            }
        }
    }
    broken("a line has at most 100 characters, a file at most 800 lines", &places);
}

#[test]
fn every_module_begins_with_a_comment() {
    let places: Vec<String> = files(&[".rs"])
        .into_iter()
        .filter(|(name, text)| {
            let is_test_module = name.ends_with("tests.rs");
            !is_test_module && !text.trim_start().starts_with("//!")
        })
        .map(|(name, _)| name)
        .collect();
    broken("a module begins with a comment that says what problem it solves", &places);
}

#[test]
fn unsafe_code_is_in_the_linux_crate_alone() {
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let is_root = name.ends_with("src/lib.rs") || name.ends_with("src/main.rs");
        let is_linux = name.starts_with("crates/linux/");
        if is_root
            && !is_linux
            && !text.contains("#![forbid(unsafe_code)]")
            && !name.contains("fuzz")
        {
            places.push(format!("{name} does not forbid unsafe code"));
        }
    }
    broken("every crate but linux forbids unsafe code", &places);
}

#[test]
fn the_program_prints_in_one_place() {
    // Elsewhere a reader that leaves could end a command before its exit code is known, and a
    // terminal would obey the characters in a stranger's trace. Panels and interval lines have
    // writers of their own.
    let own = ["print.rs", "run/live/panels/mod.rs", "run/live/outputs.rs"];
    let ways = ["io::stdout()", "io::stderr()", "println!", "print!(", "eprintln!", "eprint!("];
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let printing = ["crates/cli/src/", "crates/run/src/"];
        let Some(inside) = printing.iter().find_map(|crates| name.strip_prefix(crates)) else {
            continue;
        };
        if own.contains(&inside) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if ways.iter().any(|way| line.contains(way)) {
                places.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    broken("what is printed goes through crates/cli/src/print.rs", &places);
}

#[test]
fn no_library_speaks_flags() {
    // A library may be used without a command line. So its advice names a type or a thing
    // (`ioecho_trace::wording`), and `cli` adds the flag. The flags in this list belong to other
    // programs.
    let libraries = ["trace", "linux", "replay", "stats", "report", "run", "campaign"];
    let of_others = [
        "--pid",
        "--cpuset-cpus",
        "--setrw",
        "--list",
        "--probe",
        "--output",
        "--filename",
        "--long",
        "--write",
        "--log",
        "--reflink",
    ];
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let Some((library, inside)) = name.strip_prefix("crates/").and_then(|n| n.split_once('/'))
        else {
            continue;
        };
        // The colours of a page look like flags.
        let is_style = inside == "src/chart.rs";
        // Modules of a campaign run other programs.
        let is_of_commands = library == "campaign" && inside.starts_with("src/modules/");
        let is_test = inside.ends_with("tests.rs") || inside.contains("/tests/");
        let is_meant = libraries.contains(&library) && inside.starts_with("src/");
        if !is_meant || is_style || is_test || is_of_commands {
            continue;
        }
        for (number, line) in code_of(&text).lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            for word in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                let is_flag = word.len() > 4 && word.starts_with("--") && !word.starts_with("---");
                if is_flag && !is_comment && !of_others.contains(&word) {
                    places.push(format!("{name}:{}: {word}", number + 1));
                }
            }
            if line.contains("`ioecho ") && !is_comment {
                places.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    broken("what is typed for a command is known to crates/cli alone", &places);
}

#[test]
fn what_libraries_name_can_be_typed() {
    let said = |arguments: &[&str]| {
        let ioecho = Command::new(env!("CARGO_BIN_EXE_ioecho")).args(arguments).output().unwrap();
        String::from_utf8(ioecho.stdout).unwrap()
    };
    let commands =
        ["convert", "replay", "prepare", "merge", "verify", "info", "report", "compare", "depend"];
    let helps: String = commands.iter().map(|command| said(&[command, "--help"])).collect();
    let flags: BTreeSet<&str> = helps
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter_map(|word| word.strip_prefix("--"))
        .collect();
    let (mut places, mut names) = (Vec::new(), 0);
    for (name, text) in files(&[".rs"]) {
        let is_library =
            name.starts_with("crates/trace/src/") || name.starts_with("crates/run/src/");
        if !is_library || name.ends_with("tests.rs") || !text.contains("Wording") {
            continue;
        }
        // The arguments of a transform have a list of their own.
        let own = code_of(&text).replace("arguments.setting(", "");
        for way in ["setting(\"", ".set(\"", ".command(\""] {
            for named in own.split(way).skip(1).filter_map(|rest| rest.split('"').next()) {
                let is_known = match way {
                    ".command(\"" => commands.contains(&named),
                    _ => flags.contains(named),
                };
                names += 1;
                if !is_known {
                    places.push(format!("{name}: {named}"));
                }
            }
        }
    }
    assert!(names > 50, "only {names} names were found");
    broken("a setting or a command that a library names is one of the command line", &places);
}

#[test]
fn nothing_is_left_to_do_without_an_owner() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let mut places = Vec::new();
    for (name, text) in files(&[".rs", ".js", ".css", ".html", ".sh", ".toml"]) {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                places.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    broken("what is left to do stands in an issue, not in the code", &places);
}

#[test]
fn no_room_of_the_house_is_called_common() {
    let places: Vec<String> = files(&[".rs"])
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| {
            ["/common", "/utils", "/util.", "/helpers", "/misc.", "/misc/"]
                .iter()
                .any(|bad| name.contains(bad))
        })
        .collect();
    broken("a module is named after what it holds", &places);
}

#[test]
fn no_decision_hangs_on_the_words_of_a_note() {
    // The kind of a note gives it its meaning (`ioecho_trace::header::NoteKind`).
    let ways = ["count_of(", "what.contains(", "what.starts_with(", "what.ends_with("];
    let ways = ways.into_iter().chain(["what.find(", "what.rfind(", ".what == ", "loss.words"]);
    let ways: Vec<_> = ways.collect();
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let is_code = name.starts_with("crates/") && name.contains("/src/");
        let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
        let reads_words = name.starts_with("crates/trace/src/header/");
        if !is_code || is_test || reads_words {
            continue;
        }
        for (number, line) in code_of(&text).lines().enumerate() {
            if ways.iter().any(|way| line.contains(way)) {
                places.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    broken("what decides goes by the kind of a note; old files are read in trace/header", &places);
}

#[test]
fn no_crate_points_upwards() {
    // These are the arrows of ARCHITECTURE.md.
    let may: [(&str, &[&str]); 8] = [
        ("trace", &[]),
        ("stats", &["trace"]),
        ("replay", &["trace"]),
        ("linux", &["replay", "trace"]),
        ("report", &["stats", "trace"]),
        ("run", &["linux", "replay", "report", "stats", "trace"]),
        ("campaign", &["stats", "trace"]),
        ("cli", &["campaign", "linux", "replay", "report", "run", "stats", "trace"]),
    ];
    let mut places = Vec::new();
    for (krate, below) in may {
        let manifest =
            fs::read_to_string(root().join(format!("crates/{krate}/Cargo.toml"))).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for line in dependencies.lines() {
            if let Some(other) =
                line.strip_prefix("ioecho-").and_then(|l| l.split(['.', ' ']).next())
                && !below.contains(&other)
            {
                places.push(format!("{krate} depends on {other}"));
            }
        }
    }
    broken("a crate depends only on those below it", &places);
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let texts: BTreeMap<PathBuf, String> =
        files(&[".md"]).into_iter().map(|(name, text)| (PathBuf::from(name), text)).collect();
    let mut places = Vec::new();
    for (name, text) in &texts {
        let directory = name.parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { name.clone() } else { plain(&directory.join(path)) };
            let leads = path.contains("://") || root().join(&target).exists();
            // If a page lacks the part that a link names, a browser shows its beginning and no
            // error.
            let has_part = anchor.is_empty()
                || texts.get(&target).is_none_or(|text| anchors(text).any(|one| one == anchor));
            if !leads || !has_part {
                places.push(format!("{}: {link}", name.display()));
            }
        }
    }
    broken("a link in the documentation leads to a file, and to a heading that is in it", &places);
}

/// The same path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in path.components() {
        match step {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            step => plain.push(step),
        }
    }
    plain
}

/// The names by which links reach the headings of a text, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            return None;
        }
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
            _ => None,
        };
        Some(heading.trim().to_lowercase().chars().filter_map(kept).collect())
    })
}

#[test]
fn a_link_to_a_heading_is_called_as_the_page_calls_it() {
    let text = "# Was it `true`?\n```\n# no heading\n```\n#tag\n## In flight, and _out_";
    let found: Vec<String> = anchors(text).collect();
    assert_eq!(found, ["was-it-true", "in-flight-and-_out_"]);
}

#[test]
fn every_file_that_is_written_comes_from_the_gate() {
    // The calls that make a file, open one for writing, or rename one.
    let openers = [
        "File::create",
        "File::options",
        "fs::OpenOptions",
        "fs::write(",
        "fs::copy(",
        "fs::rename(",
        "fs::hard_link(",
        "PartialFile::create",
        "write::create",
        "formats::create",
        "generate_to(",
    ];
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let is_ours = name.starts_with("crates/cli/src/") || name.starts_with("crates/run/src/");
        let is_gate = ["crates/cli/src/outputs.rs", "crates/run/src/place.rs"].contains(&&*name);
        if !is_ours || name.ends_with("tests.rs") || is_gate {
            continue;
        }
        for (number, line) in code_of(&text).lines().enumerate() {
            let line = line.trim();
            let is_whole = |(at, _): (usize, &str)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            };
            let opens = |opener: &str| line.match_indices(opener).any(is_whole);
            if !line.starts_with("//") && openers.iter().any(|opener| opens(opener)) {
                places.push(format!("{name}:{}: {line}", number + 1));
            }
        }
    }
    broken(
        "a file is opened for writing by crates/cli/src/outputs.rs or by an OpenDirectory",
        &places,
    );
}
