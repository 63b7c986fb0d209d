//! How long large campaigns take: figures, nothing is asserted of them.
//!
//! A store of ten thousand results is made of a single one, as if it had been measured.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json as value};
use sha2::{Digest as _, Sha256};

use super::{json, with};

const MANY: &str = "name='many'\nrepeats=5\n[devices]\na='sim:seed={repeat}'\n\
    b='sim:model=const,seed={repeat}'\n[axes]\n\
    device=['a','b']\nspeedup={from=1,to=100,steps=100}\n\
    size=['4k','8k','16k','32k','64k','128k','256k','512k','1M','2M']\n\
    [replay]\ntrace='gen:random?rate=100&duration=1s&size={size}'\n";

#[test]
#[ignore = "prints figures"]
fn ten_thousand_cells() {
    let fixture = with(&MANY.replace("steps=100", "steps=2").replace("repeats=5", "repeats=1"));
    let began = Instant::now();
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q", "-o", "few"]).status.success());
    println!("40 runs one after the other: {:.2?} each", began.elapsed() / 40);
    let cells = fs::read_dir(fixture.path("few").join("cells")).unwrap();
    let one = cells.map(|it| it.unwrap().path().join("1")).next().unwrap();
    let mut attempt: Value =
        serde_json::from_slice(&fs::read(one.join("attempt.json")).unwrap()).unwrap();
    let summary = fs::read(one.join("run/summary.json")).unwrap();
    let command: Vec<String> = serde_json::from_value(attempt["command"].clone()).unwrap();
    let bare: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let bare: Vec<String> = bare.iter().map(|it| it.replace("/run", "/bare")).collect();
    let began = Instant::now();
    assert!(fixture.run(&bare.iter().map(String::as_str).collect::<Vec<_>>()).status.success());
    println!("the same run alone: {:.2?}", began.elapsed());
    let digest = Sha256::digest(&summary);
    let hex = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap();
    let digits: String = digest.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]).collect();

    fs::write(fixture.path("c.toml"), MANY).unwrap();
    let began = Instant::now();
    let plan = json(&fixture, &["campaign", "plan", "c.toml", "--json"]);
    println!("plan of 10,000 cells as JSON: {:.2?}", began.elapsed());
    let began = Instant::now();
    assert!(fixture.run(&["campaign", "plan", "c.toml"]).status.success());
    println!("plan of 10,000 cells: {:.2?}", began.elapsed());
    // The store exists, but its budget ends it before the first run.
    fixture.run(&["campaign", "run", "c.toml", "-q", "--budget", "1ns"]);
    let store = fixture.path("many.campaign");
    for (number, cell) in plan["cells"].as_array().unwrap().iter().enumerate() {
        let key = cell["key"].as_str().unwrap();
        let place = store.join("cells").join(key).join("1");
        fs::create_dir_all(place.join("run")).unwrap();
        attempt["key"] = value!(key);
        attempt["summary_sha256"] = value!(digits);
        let second = number as u64;
        let at =
            format!("2026-11-23T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        attempt["started"] = value!(at);
        fs::write(place.join("attempt.json"), attempt.to_string()).unwrap();
        fs::write(place.join("run/summary.json"), &summary).unwrap();
    }
    for command in ["status", "report", "status"] {
        let began = Instant::now();
        let output = fixture.run(&["campaign", command, "many.campaign"]);
        println!("{command} of 10,000 results: {:.2?}", began.elapsed());
        assert!(output.status.success(), "{}", super::said(&output));
    }
    let page = fs::metadata(store.join("report.html")).unwrap().len();
    println!("page: {:.2} MB", page as f64 / 1e6);
    assert!(page < 5_000_000, "the page has {page} bytes");
}
