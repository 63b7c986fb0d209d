//! What a described workload means.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use ioecho_trace::units::counted;
use ioecho_trace::workload::Form;
use ioecho_trace::workload::model::{FileWork, Run, Storage, Tree, Work, Workload};
use serde_json::json;

use crate::exit;
use crate::print::{Out, visible};
use crate::workload::{read, tell_told};

/// Prints one line of the text.
macro_rules! row {
    ($out:expr, $name:expr, $($value:tt)*) => {
        writeln!($out, "{:<14}{}", $name, visible(&format!($($value)*)))
    };
}

pub(super) fn run(
    file: &Path,
    variables: BTreeMap<String, String>,
    form: Form,
    json: bool,
    out: &mut Out,
) -> anyhow::Result<u8> {
    let description = match read(&[file.to_owned()], variables)? {
        Ok(description) => description,
        Err(code) => return Ok(code),
    };
    let workload = &description.workload;
    if json {
        out.json(&of_workload(form, workload))?;
    } else {
        tell_told(&workload.told);
        text(out, file, form, workload)?;
    }
    Ok(exit::OK)
}

fn name_of(form: Form) -> &'static str {
    match form {
        Form::Vdbench => "a parameter file of Vdbench",
        Form::Toml => "a workload in our own form",
    }
}

fn text(mut out: impl Write, file: &Path, form: Form, workload: &Workload) -> io::Result<()> {
    row!(out, "file", "{}", file.display())?;
    row!(out, "format", "{}", name_of(form))?;
    for host in &workload.hosts {
        row!(out, "host", "{}: {}", host.name, host.system)?;
    }
    for storage in &workload.storages {
        row!(out, "storage", "{}", told_storage(storage))?;
    }
    for tree in &workload.trees {
        row!(out, "tree", "{}", told_tree(tree))?;
    }
    for work in workload.works.iter().filter(|work| !work.is_of_run) {
        row!(out, "flow", "{}", told_work(work))?;
    }
    for work in &workload.file_works {
        row!(out, "flow", "{}", told_file_work(work))?;
    }
    for run in &workload.runs {
        row!(out, "run", "{}", told_run(workload, run))?;
    }
    Ok(())
}

fn told_storage(storage: &Storage) -> String {
    let paths: Vec<String> = storage
        .paths
        .iter()
        .map(|(host, path)| host.as_ref().map_or(path.clone(), |host| format!("{host}:{path}")))
        .collect();
    let size = storage.size.map_or(String::new(), |size| format!(", {size}"));
    let threads = storage.threads;
    format!("{}: {}{size}, {threads} in flight", storage.name, paths.join(", "))
}

fn told_tree(tree: &Tree) -> String {
    let Tree { name, anchor, depth, width, sizes, .. } = tree;
    let files = counted(tree.count(), "file");
    format!("{name}: {anchor}, {files} of {sizes} in {depth} levels of {width}")
}

fn names(on: &[(String, ioecho_trace::place::Place)]) -> String {
    on.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn told_work(work: &Work) -> String {
    let Work { name, on, sizes, read, seek, skew, .. } = work;
    let skew = skew.map_or(String::new(), |skew| format!(", {skew} % of the rate"));
    let from = work.from.as_ref().map_or(String::new(), |from| format!(", from {from}"));
    format!("{name} on {}: size {sizes}, read {read}, seek {seek}{skew}{from}", names(on))
}

fn told_file_work(work: &FileWork) -> String {
    let FileWork { name, on, ops, sizes, threads, .. } = work;
    let ops = if ops.is_empty() { "read and write".to_owned() } else { ops.join(", ") };
    format!("{name} on {}: {ops}, size {sizes}, {}", names(on), counted(*threads, "thread"))
}

fn told_run(workload: &Workload, run: &Run) -> String {
    let works = run.works.iter().map(|at| workload.works[*at].name.as_str());
    let files = run.file_works.iter().map(|at| workload.file_works[*at].name.as_str());
    let loads: Vec<&str> = works.chain(files).collect();
    let loops: Vec<String> = run
        .loops
        .iter()
        .map(|it| {
            let values: Vec<String> = it.values.iter().map(ToString::to_string).collect();
            format!(", {} {}", it.key, values.join(" "))
        })
        .collect();
    format!("{}: {}, {}{}", run.name, loads.join(", "), run.duration, loops.concat())
}

fn of_workload(form: Form, workload: &Workload) -> serde_json::Value {
    let storages = workload.storages.iter().map(told_storage);
    let flows = workload.works.iter().filter(|work| !work.is_of_run).map(told_work);
    let flows = flows.chain(workload.file_works.iter().map(told_file_work));
    json!({
        "version": 1,
        "workload": match form { Form::Vdbench => "vdbench", Form::Toml => "toml" },
        "storages": storages.collect::<Vec<_>>(),
        "trees": workload.trees.iter().map(told_tree).collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "runs": workload.runs.iter().map(|run| told_run(workload, run)).collect::<Vec<_>>(),
        "told": workload.told.iter().map(|told| {
            json!({ "place": told.place.to_string(), "what": told.what })
        }).collect::<Vec<_>>(),
    })
}
