//! The order of modules inside a crate, and how long a function is.
//!
//! Two modules that need each other are one module in two places: neither can be read, tested or
//! moved alone. So the top modules of a crate stand in an order, like the crates themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{broken, code_of, files};

/// Longest function, in lines with its signature.
const FUNCTION_MAX: usize = 100;

/// For each top module of a crate the modules that it needs, each with a file that needs it.
type Needs = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn modules_of_a_crate_need_each_other_in_one_direction() {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (name, text) in files(&[".rs"]) {
        let inside = name.strip_prefix("crates/").and_then(|name| name.split_once("/src/"));
        if let Some((krate, path)) = inside {
            crates.entry(krate.to_owned()).or_default().push((path.to_owned(), text));
        }
    }
    let mut places = Vec::new();
    for (krate, sources) in &crates {
        let needs = needs(sources);
        let circles = circles(&needs);
        places.extend(circles.iter().map(|circle| format!("{krate}: {}", told(circle, &needs))));
    }
    broken("no two modules of a crate need each other", &places);
}

/// A circle in words: which module needs which, and in which file.
fn told(circle: &BTreeSet<String>, needs: &Needs) -> String {
    let edges = circle.iter().flat_map(|module| {
        let needed = needs[module].iter().filter(|(needed, _)| circle.contains(*needed));
        needed.map(move |(needed, file)| format!("{module} needs {needed} ({file})"))
    });
    edges.collect::<Vec<_>>().join(", ")
}

/// The needs of the top modules of a crate. `sources` are the crate's files, each with its path and
/// text.
fn needs(sources: &[(String, String)]) -> Needs {
    let module_of = |path: &str| path.split(['/', '.']).next().unwrap_or_default().to_owned();
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs");
    let mut needs: Needs = sources
        .iter()
        .filter(|(path, _)| !is_root(path))
        .map(|(path, _)| (module_of(path), BTreeMap::new()))
        .collect();
    // The names that the root of the crate exports, each with its module.
    let mut exported = BTreeMap::new();
    for (_, text) in sources.iter().filter(|(path, _)| is_root(path)) {
        for line in text.split(';').filter_map(|line| line.trim().strip_prefix("pub use ")) {
            let Some((module, names)) = line.split_once("::") else { continue };
            for name in names.split(|c: char| !c.is_alphanumeric() && c != '_') {
                exported.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    for (path, text) in sources {
        let is_test =
            path.split(['/', '.']).any(|part| part.ends_with("tests") || part == "testing");
        if is_root(path) || is_test {
            continue;
        }
        let module = module_of(path);
        let inside = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let above = "super::".repeat(inside.split('/').count());
        let lines = code_of(text).lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        for root in ["crate::", above.as_str()] {
            for name in named_behind(&code, root) {
                let exported = exported.get(name).map(String::as_str);
                let needed = if needs.contains_key(name) { name } else { exported.unwrap_or(name) };
                if needed != module && needs.contains_key(needed) {
                    let needed = needed.to_owned();
                    needs.entry(module.clone()).or_default().entry(needed).or_insert(path.clone());
                }
            }
        }
    }
    needs
}

/// The names that stand in `code` behind `root`: `a` of `crate::a::b`, `a` and `c` of
/// `crate::{a::b, c}`.
fn named_behind<'a>(code: &'a str, root: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices(root) {
        if code[..at].ends_with(|c: char| is_name(c) || c == ':') {
            continue;
        }
        let behind = &code[at + root.len()..];
        let Some(group) = behind.strip_prefix('{') else {
            names.extend(behind.split(|c| !is_name(c)).next());
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                c if is_name(c) && begins => {
                    names.extend(group[at..].split(|c| !is_name(c)).next());
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

/// The circles: sets of modules of which each needs all others, directly or through others.
fn circles(needs: &Needs) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&String> = needs[from].keys().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module.clone()) {
                next.extend(needs[module].keys());
            }
        }
        reached
    };
    let all: BTreeMap<_, _> = needs.keys().map(|module| (module, reached(module))).collect();
    let mut circles: Vec<_> = all
        .iter()
        .filter(|(module, reached)| reached.contains(**module))
        .map(|(module, reached)| {
            let back = reached.iter().filter(|other| all[other].contains(*module));
            back.cloned().collect::<BTreeSet<_>>()
        })
        .collect();
    circles.sort();
    circles.dedup();
    circles
}

#[test]
fn a_circle_is_found_however_modules_are_named() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = [
        source("lib.rs", "pub use c::{Thing, Other};"),
        source("a.rs", "//! crate::f\nuse super::b::X;\nuse crate::e;"),
        source("b/mod.rs", "use crate::{Other, d::{a, e}};"),
        source("c/inner.rs", "use super::super::a::Y;\nuse super::d;"),
        source("d.rs", "#[cfg(test)]\nmod tests {\nuse crate::a;"),
        source("e.rs", "pub(in crate::e) fn f() {}"),
        source("f/tests.rs", "use crate::a;"),
    ];
    let circle: BTreeSet<_> = ["a", "b", "c"].map(str::to_owned).into();
    let needs = needs(&sources);
    assert_eq!(circles(&needs), [circle]);
    assert_eq!(needs["b"].keys().collect::<Vec<_>>(), ["c", "d"]);
}

#[test]
fn functions_are_short_enough_to_read() {
    let mut places = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let long = functions(&text).filter(|(_, lines)| *lines > FUNCTION_MAX);
        places
            .extend(long.map(|(function, lines)| format!("{name}: {function} has {lines} lines")));
    }
    broken("a function has at most 100 lines", &places);
}

/// The functions of a formatted source and how many lines each has.
fn functions(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(move |first| {
        let line = lines[first].trim_start();
        let (before, behind) = line.split_once("fn ")?;
        let is_word = |word: &str| {
            matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
                || word.starts_with("pub")
                || word.starts_with("crate")
                || word.ends_with(')')
        };
        if !before.split_whitespace().all(is_word) {
            return None;
        }
        let name = behind.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let indent = &lines[first][..lines[first].len() - line.len()];
        // The closing brace has the indent of the first line. A function without a body ends with
        // its signature.
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent).filter(|rest| !rest.starts_with(' '));
            rest.is_some_and(|rest| rest.ends_with([';', '}']))
        };
        Some((name, lines[first..].iter().position(is_end)? + 1))
    })
}

#[test]
fn a_function_is_as_long_as_from_its_name_to_its_brace() {
    let text = [
        "fn a() {\n    b();\n}",
        "    pub(crate) const fn c(\n        d: u8,\n    ) -> u8 {\n        d\n    }",
        "trait E {\n    fn f();\n}\n// fn g() {\nfn h() {}",
    ]
    .join("\n");
    let found: Vec<_> = functions(&text).collect();
    assert_eq!(found, [("a", 3), ("c", 5), ("f", 1), ("h", 1)]);
}
