//! `ioecho library show`: what is known of a load.

use std::io::{self, Write};
use std::path::Path;

use ioecho_trace::{Bytes, Nanos};

use crate::args::ShowArgs;
use crate::exit;
use crate::fetch::{self, is_url};
use crate::library::{Facts, LOAD_FILE};
use crate::print::{Out, visible};

pub(super) fn run(args: &ShowArgs, out: &mut Out) -> anyhow::Result<u8> {
    let index = fetch::index_of(&args.library)?;
    let load = index.load(&args.name, &args.library.display().to_string())?;
    if args.json {
        out.json(load)?;
    } else {
        print(out, load, &file_of(&args.library, load)?)?;
    }
    Ok(exit::OK)
}

/// What to type for the load where a trace is read.
fn file_of(library: &Path, load: &Facts) -> anyhow::Result<String> {
    Ok(if is_url(library) {
        let mut location = fetch::parse(library)?;
        location.fragment = Some(load.name.to_string());
        location.to_string()
    } else {
        library.join(load.name.as_str()).join(LOAD_FILE).display().to_string()
    })
}

fn print(out: &mut impl Write, load: &Facts, file: &str) -> io::Result<()> {
    for (name, value) in rows(load, file) {
        writeln!(out, "{name:<16}{}", visible(&value))?;
    }
    Ok(())
}

/// Everything that is known, with its name.
fn rows(load: &Facts, file: &str) -> Vec<(&'static str, String)> {
    let Facts { mix, recorded, .. } = load;
    let share = |part: u64| part as f64 * 100.0 / load.requests.max(1) as f64;
    let kind = |count: u64, bytes: Option<u64>| {
        let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", Bytes(bytes)));
        (count > 0).then(|| format!("{count} ({:.1} %){bytes}", share(count)))
    };
    let text = |text: &Option<String>| text.clone();
    let rate = format!(
        "mean {:.1} requests/s, {} in the busiest second",
        load.mean_requests_per_s, load.peak_requests_per_s
    );
    let from = |ns: Option<i64>| ns.map_or("never".to_owned(), |ns| format!("from {}", Nanos(ns)));
    let steady = load.steady.map(|steady| {
        let (reads, writes) = (from(steady.reads_from_ns), from(steady.writes_from_ns));
        format!("reads {reads}, writes {writes} (by SNIA's criterion, as recorded)")
    });
    let all = [
        ("name", Some(load.name.to_string())),
        ("description", text(&load.description)),
        ("origin", text(&load.origin)),
        ("licence", text(&load.license)),
        ("device", text(&recorded.device)),
        ("device size", recorded.size_bytes.map(|size| Bytes(size).to_string())),
        ("kernel", text(&recorded.kernel)),
        ("recorder", text(&recorded.recorder)),
        ("event", text(&recorded.event)),
        ("started", text(&recorded.started)),
        ("requests", Some(load.requests.to_string())),
        ("reads", kind(mix.reads, Some(mix.bytes_read))),
        ("writes", kind(mix.writes, Some(mix.bytes_written))),
        ("flushes", kind(mix.flushes, None)),
        ("discards", kind(mix.discards, None)),
        ("write-zeroes", kind(mix.write_zeroes, None)),
        ("zone ops", kind(mix.zone_operations, None)),
        ("duration", Some(Nanos(load.duration_ns).to_string())),
        ("rate", Some(rate)),
        ("used up to", Some(Bytes(load.extent_bytes).to_string())),
        ("steady", steady),
        ("damage", text(&load.damage)),
    ];
    let mut rows: Vec<_> =
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    rows.extend(load.transforms.iter().map(|transform| ("transform", transform.clone())));
    rows.push(("sha256", load.sha256.clone()));
    rows.push(("requests sha256", load.requests_sha256.clone()));
    rows.push(("added", format!("{}, by ioecho {}", load.added, load.ioecho)));
    rows.push(("file", format!("{file} ({})", Bytes(load.file_bytes))));
    rows
}
