//! Summaries of traces and of runs.
//!
//! A summary is fed batch by batch in bounded memory and merges with another of its kind, so that a
//! trace may be cut anywhere, summarised in parts, and put together again with the same result.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod begun;
mod chance;
pub mod change_points;
pub mod compare;
pub mod count;
pub mod critical_path;
pub mod facts;
pub mod fidelity;
pub mod headline;
pub mod histogram;
pub mod interval;
pub mod judge;
pub mod late;
pub mod load_figures;
pub mod merged;
pub mod model;
pub mod orders;
mod per_flow;
mod per_phase;
mod per_target;
pub mod picture;
pub mod raster;
pub mod reached;
pub mod repeats;
pub mod required;
pub mod run_figures;
pub mod run_summary;
pub mod steady;
pub mod telemetry;
pub mod timeline;
pub mod trace_summary;
pub mod trend;
pub mod verdict;
pub mod witnessed;
