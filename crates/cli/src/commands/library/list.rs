//! `ioecho library list`: the loads of a library, here or at an URL.

use std::io::{self, Write};

use ioecho_trace::{Bytes, Nanos};
use serde_json::json;

use crate::args::ListArgs;
use crate::exit;
use crate::fetch;
use crate::library::{Facts, LIBRARY_VERSION};
use crate::print::{Out, visible};

pub(super) fn run(args: &ListArgs, out: &mut Out) -> anyhow::Result<u8> {
    let index = fetch::index_of(&args.library)?;
    if args.json {
        out.json(&json!({ "version": LIBRARY_VERSION, "loads": index.loads }))?;
    } else {
        print(out, &index.loads)?;
    }
    Ok(exit::OK)
}

fn print(out: &mut impl Write, loads: &[Facts]) -> io::Result<()> {
    let widest = loads.iter().map(|load| load.name.as_str().len()).max().unwrap_or_default().max(4);
    writeln!(
        out,
        "{:<widest$} {:>10} {:>9} {:>6} {:>11} {:>9}  description",
        "name", "requests", "duration", "reads", "device size", "file"
    )?;
    for load in loads {
        let reads = load.mix.reads as f64 * 100.0 / load.requests.max(1) as f64;
        let device =
            load.recorded.size_bytes.map_or("?".to_owned(), |size| Bytes(size).to_string());
        let description = load.description.as_deref().unwrap_or_default();
        writeln!(
            out,
            "{:<widest$} {:>10} {:>9} {:>5.1}% {:>11} {:>9}  {}",
            load.name.as_str(),
            load.requests,
            Nanos(load.duration_ns).to_string(),
            reads,
            device,
            Bytes(load.file_bytes).to_string(),
            // One line for each load, whatever its description holds.
            visible(description).replace('\t', " "),
        )?;
    }
    Ok(())
}
