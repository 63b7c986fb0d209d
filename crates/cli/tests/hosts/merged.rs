//! The results of many hosts as one run, in memory that does not grow with their number.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ioecho_trace::Batch;
use ioecho_trace::formats::{ReadOptions, create, open};

use super::Site;

/// Runs like this one, which only have other numbers.
fn copies(site: &Site, of: &Path, count: usize) {
    let facts = fs::read_to_string(of.join("run.toml")).unwrap();
    let (before, after) = facts.split_once("\nrun = \"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    let mut source = open(&of.join("requests.parquet"), &ReadOptions::default()).unwrap();
    let mut header = source.header().clone();
    let mut rows = Batch::new(header.columns);
    assert!(source.next_batch(&mut rows).unwrap());
    for number in 0..count {
        let copy = site.path(&format!("r{number}"));
        fs::create_dir(&copy).unwrap();
        fs::copy(of.join("summary.json"), copy.join("summary.json")).unwrap();
        let its = format!("{number:016x}");
        fs::write(copy.join("run.toml"), format!("{before}\nrun = \"{its}\"{after}")).unwrap();
        header.run_number = Some(its);
        let mut sink = create(&copy.join("requests.parquet"), &header).unwrap();
        sink.write(&rows).unwrap();
        sink.finish(&header).unwrap();
    }
}

/// The most memory that merging so many runs has taken, in MiB.
fn peak_mib(site: &Site, count: usize) -> u64 {
    let output = format!("all-{count}");
    let runs: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    let words = ["merge", "-o", &output].into_iter().chain(runs.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    let mut child = site.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        most = most.max(peak.unwrap_or(0));
        thread::sleep(Duration::from_millis(1));
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(site.path(&output).join("summary.json").exists(), "{said}");
    most >> 10
}

#[test]
fn the_results_of_ten_times_as_many_hosts_take_little_more_memory() {
    let site = Site::new();
    let load = "gen:random?rate=1000&duration=1s&size=4k&area=1M";
    let words = ["replay", "--target", "sim:size=16M,service=1ms", "-q", "-o", "one", "--", load];
    let output = site.command(&words).output().unwrap();
    assert!(site.path("one/summary.json").exists(), "{}", super::said(&output));
    copies(&site, &site.path("one"), 200);
    let (few, many) = (peak_mib(&site, 20), peak_mib(&site, 200));
    println!("20 runs: {few} MiB, 200 runs: {many} MiB");
    assert!(few > 10, "it was looked at: {few} MiB");
    // Of each run its facts, its verdict and its histograms, and of its requests what the page
    // looks at: a quarter of a megabyte.
    let more = (many - few) * 1000 / 180;
    assert!(more < 400, "{more} thousandths of a MiB for each further run");
}
