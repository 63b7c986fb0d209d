//! URLs of loads, and the places beside them that are asked for.
#![no_main]

#[allow(dead_code, unexpected_cfgs)]
#[path = "../../crates/cli/src/fetch/location.rs"]
mod location;

use libfuzzer_sys::fuzz_target;
use location::Location;

fuzz_target!(|text: &str| {
    let url = match Location::parse(text) {
        Ok(url) => url,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    let asked = url.asked();
    assert!(asked.bytes().all(|byte| byte.is_ascii_graphic()), "more than one word is asked for");
    let again = Location::parse(&asked).expect("what is asked for is an URL");
    assert_eq!((again.asked(), again.fragment), (asked.clone(), None));
    let name = url.file_name();
    assert!(!name.is_empty() && !name.starts_with('.') && !name.contains('/'), "{name}");
    // A library's files are on the library's host.
    let host = &asked[..asked[8..].find('/').map_or(asked.len(), |at| at + 8)];
    for file in [url.in_library("x/load.parquet"), url.beside("SHA256SUMS")] {
        let file = Location::parse(&file.asked()).expect("a library's file has an URL");
        assert!(file.asked().starts_with(host), "{}", file.asked());
    }
});
