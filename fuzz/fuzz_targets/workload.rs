//! Descriptions of workloads in both forms, and the beginning of their plans.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use ioecho_trace::generate;
use ioecho_trace::workload::plan::{Asked, Plan};
use ioecho_trace::workload::{self, Input, Reading};
use libfuzzer_sys::fuzz_target;

/// How many runs of a plan are looked at.
const RUNS: usize = 20;

fuzz_target!(|bytes: &[u8]| {
    let _ = workload::recognised(bytes);
    let missing = |_: &str, name: &str| Err(format!("{name} is not there"));
    let variables = match bytes.contains(&b'$') {
        true => BTreeMap::from([("x".to_owned(), "8".to_owned())]),
        false => BTreeMap::new(),
    };
    let reading = Reading { variables, debug_lines: bytes.len() % 2 == 0 };
    let input = Input { name: "x".to_owned(), bytes: bytes.to_vec() };
    match workload::read(&[input], &reading, &missing) {
        Err(faults) => assert!(!faults.is_empty() && !faults.to_string().is_empty()),
        Ok(read) => {
            let _ = read.to_toml();
            let Ok(plan) = Plan::new(&read.workload, Asked::default(), &|_| Some(1 << 40)) else {
                return;
            };
            for flow in plan.leaves().take(RUNS).flat_map(|leaf| leaf.flows) {
                // What a plan shows is a line that a generator takes.
                if flow.is_whole && flow.line.starts_with(generate::PREFIX) {
                    assert!(generate::open(Path::new(&flow.line)).is_ok(), "{}", flow.line);
                }
            }
        }
    }
});
