//! `ioecho campaign import`: a tree of blkreplay's test suite becomes a file.
//!
//! The leaves are those that `tree-replay.sh` would run, in its order, and their variables those
//! that its files give them. What is more than an assignment is a command of somebody: bash runs it
//! only if the user trusts the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ioecho_campaign::import::{Conf, Leaf, MODULES, Mapped, Variables, mapped, written};
use ioecho_run::inputs::Inputs;
use serde::Serialize;

use super::store::{entries, name_of, read_text};
use crate::args::ImportCampaignArgs;
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell};

/// How many directories above a leaf may hold its files, as in the test suite.
const ABOVE: usize = 21;

/// What bash prints: every variable and its value, each with a zero byte behind it.
const TELL: &str = "for v in $(compgen -v); do printf '%s\\0%s\\0' \"$v\" \"${!v}\"; done";

#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    leaves: Vec<LeafPrinted<'a>>,
    /// What is not taken over, and why.
    refused: Vec<String>,
}

#[derive(Serialize)]
struct LeafPrinted<'a> {
    path: &'a str,
    variables: &'a Variables,
    settings: &'a BTreeMap<String, String>,
}

/// A leaf with everything that was found out about it.
struct Found {
    leaf: Leaf,
    variables: Variables,
    refused: Vec<(String, String)>,
}

pub(super) fn run(args: &ImportCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let tree = Tree::read(&args.tree)?;
    let mut found = Vec::new();
    for path in &tree.leaves {
        found.push(tree.leaf(path, args.trust)?);
    }
    let mut told: BTreeSet<String> = tree.told.iter().cloned().collect();
    for it in &found {
        for (variable, why) in &it.refused {
            told.insert(format!("{}{variable}: {why}", tree.place(&it.leaf.path, variable)));
        }
    }
    let gate = Gate::reading(Inputs::of([args.tree.as_path()]));
    if let Some(output) = &args.output {
        gate.check_flag("-o", output, Writing::Over)?;
    }
    for text in &told {
        tell(&format!("not taken over: {text}"));
    }
    let leaves: Vec<Leaf> = found.iter().map(|it| it.leaf.clone()).collect();
    let text = heading(&args.tree, &told) + &written(&tree.name, &leaves, &tree.keys_of());
    if let (Some(output), false) = (&args.output, args.dry_run) {
        gate.put(output, text.as_bytes())?;
        out.tells_of_files();
    }
    if args.json {
        let leaves = found.iter().map(|it| LeafPrinted {
            path: &it.leaf.path,
            variables: &it.variables,
            settings: &it.leaf.settings,
        });
        let refused = told.into_iter().collect();
        out.json(&Printed { version: 1, leaves: leaves.collect(), refused })?;
    } else if args.output.is_none() {
        write!(out, "{text}")?;
    } else {
        writeln!(out, "{} leaves; `ioecho campaign plan` tells what is missing", found.len())?;
    }
    Ok(exit::OK)
}

/// What stands at the head of the file.
fn heading(tree: &Path, told: &BTreeSet<String>) -> String {
    let lines = told.iter().map(|text| format!("# not taken over: {}\n", text.replace('\n', " ")));
    format!("# From the tree {}.\n{}\n", tree.display(), lines.collect::<String>())
}

/// A tree with all its files.
struct Tree {
    root: PathBuf,
    name: String,
    /// The paths of the leaves, in the order in which they would run.
    leaves: Vec<String>,
    /// What was left out on the way.
    told: Vec<String>,
    /// Files by their paths.
    confs: BTreeMap<PathBuf, Conf>,
}

impl Tree {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let root = fs::canonicalize(root).map_err(|error| {
            Coded::error(exit::USAGE, format!("cannot read {}: {error}", root.display()))
        })?;
        let is_part = |c: &char| c.is_alphanumeric() || "-_.".contains(*c);
        let name: String = name_of(&root).chars().filter(is_part).collect();
        let (leaves, told, confs) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut tree = Self { root: root.clone(), name, leaves, told, confs };
        tree.walk(&root, "");
        if tree.leaves.is_empty() {
            let text = format!("{} has no leaf that would run", root.display());
            return Err(Coded::error(exit::USAGE, text));
        }
        // What has no priority comes behind what has one.
        let order = |path: &String| {
            let names = entries(&root.join(path)).into_iter().map(|it| name_of(&it));
            let first = names.filter(|name| is_priority(name)).min();
            (first.unwrap_or_else(|| "z".to_owned()), format!("./{path}"))
        };
        tree.leaves.sort_by_cached_key(order);
        for path in tree.leaves.clone() {
            for file in tree.files_of(&path)? {
                if !tree.confs.contains_key(&file) {
                    tree.confs.insert(file.clone(), Conf::read(&read_text(&file)?));
                }
            }
        }
        Ok(tree)
    }

    /// Finds the leaves below a directory.
    fn walk(&mut self, directory: &Path, path: &str) {
        if directory.join("skip").exists() {
            self.told.push(format!("{path}: the file 'skip' leaves it out"));
            return;
        }
        let is_ignored = |name: &str| {
            name.starts_with("old") || name.contains(".old") || name.contains("ignore")
        };
        let inner: Vec<PathBuf> = entries(directory)
            .into_iter()
            .filter(|it| it.is_dir() && !it.is_symlink() && !is_ignored(&name_of(it)))
            .collect();
        for it in &inner {
            let name = name_of(it);
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.walk(it, &path);
        }
        if inner.is_empty() && !path.is_empty() {
            let results =
                entries(directory).iter().filter(|it| name_of(it).ends_with(".replay.gz")).count();
            if results > 0 {
                let told = "results stay where they are: `ioecho report` reads them";
                self.told.push(format!("{path}: {results} {told}"));
            }
            self.leaves.push(path.to_owned());
        }
    }

    /// A file that is searched from a directory on upward.
    fn search(from: &Path, name: &str) -> Option<PathBuf> {
        let file = format!("{name}.conf");
        from.ancestors().take(ABOVE).map(|it| it.join(&file)).find(|path| path.is_file())
    }

    /// The files of a leaf in the order in which they are sourced.
    fn files_of(&self, path: &str) -> anyhow::Result<Vec<PathBuf>> {
        let leaf = self.root.join(path);
        let default = |module: &&str| {
            let name = if **module == *"user_modules" {
                (*module).to_owned()
            } else {
                format!("default-{module}")
            };
            Self::search(&self.root, &name)
        };
        let mut files: Vec<PathBuf> = MODULES.iter().filter_map(default).collect();
        for part in path.split('/') {
            let file = Self::search(&leaf, part).ok_or_else(|| {
                let text = format!(
                    "{path}: there is no file '{part}.conf' in {} or above\n  = help: provide one; \
                     it may be empty",
                    leaf.display()
                );
                Coded::error(exit::USAGE, text)
            })?;
            files.push(file);
        }
        Ok(files)
    }

    /// The place of the last line that decides a variable of a leaf.
    fn place(&self, path: &str, variable: &str) -> String {
        let files = self.files_of(path).unwrap_or_default();
        let found = files
            .iter()
            .rev()
            .find_map(|file| Some((name_of(file), self.confs.get(file)?.line_of(variable)?)));
        found.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "))
    }

    fn leaf(&self, path: &str, is_trusted: bool) -> anyhow::Result<Found> {
        let files = self.files_of(path)?;
        let confs = || files.iter().filter_map(|file| Some((file, self.confs.get(file)?)));
        let strange = confs().find_map(|(file, conf)| Some((file, conf.strange.first()?)));
        let variables = match strange {
            None => {
                let mut variables = Variables::new();
                for (_, conf) in confs() {
                    conf.apply(&mut variables);
                }
                variables
            }
            Some(_) if is_trusted => by_bash(&self.root.join(path), &files)?,
            Some((file, strange)) => {
                let text = format!(
                    "{}:{}: this is more than an assignment: {}\n  = help: --trust lets bash \
                     evaluate it, which runs the commands of the files",
                    file.display(),
                    strange.line,
                    strange.text
                );
                return Err(Coded::error(exit::USAGE, text));
            }
        };
        let Mapped { settings, refused } = mapped(&variables);
        let leaf = Leaf { path: path.to_owned(), settings };
        Ok(Found { leaf, variables, refused })
    }

    /// The keys that each part of a path may decide.
    fn keys_of(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in &self.leaves {
            for part in path.split('/') {
                let file = Self::search(&self.root.join(path), part);
                let conf = file.and_then(|file| self.confs.get(&file));
                // A variable alone becomes the keys that it has to do with.
                for variable in conf.into_iter().flat_map(|conf| &conf.touched) {
                    let one = Variables::from([(variable.clone(), "1".to_owned())]);
                    let of_variable = mapped(&one).settings.into_keys();
                    let word = match variable.as_str() {
                        "cmode" => Some("conflicts"),
                        "vmode" => Some("verify"),
                        _ if variable.contains("pipe") || variable.contains("input_r") => {
                            Some("chain")
                        }
                        _ => None,
                    };
                    let all = of_variable.chain(word.map(str::to_owned));
                    keys.entry(part.to_owned()).or_default().extend(all);
                }
            }
        }
        keys
    }
}

fn is_priority(name: &str) -> bool {
    name.strip_prefix("prio-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The variables that bash has after it sourced these files, without those that it has anyway.
fn by_bash(leaf: &Path, files: &[PathBuf]) -> anyhow::Result<Variables> {
    let bash = |files: &[PathBuf]| -> anyhow::Result<Variables> {
        let script = format!("for f in \"$@\"; do source \"$f\" >&2 || exit; done; {TELL}");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["--norc", "--noprofile", "-c", &script, "bash"])
            .args(files)
            .current_dir(leaf)
            .env_clear()
            .env("PATH", path)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Coded::error(exit::FAILURE, format!("cannot run bash: {error}")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or("it printed nothing");
            let text = format!("bash cannot evaluate {}: {last}", leaf.display());
            return Err(Coded::error(exit::USAGE, text));
        }
        let mut texts = output.stdout.split(|byte| *byte == 0);
        let mut variables = Variables::new();
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            variables.insert(text(name), text(value));
        }
        Ok(variables)
    };
    let (before, mut after) = (bash(&[])?, bash(files)?);
    // `f` and `v` are those of the script.
    let is_of_bash = |name: &str| before.contains_key(name) || ["f", "v", "_"].contains(&name);
    after.retain(|name, _| !is_of_bash(name));
    Ok(after)
}
