//! The hosts of a campaign, the slowest last, in groups that are not told apart.
//!
//! The percentiles of all hosts together hide one whose cable is broken. So each host's own runs
//! are held against those of the next faster one, by the comparison of `ioecho compare`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_campaign::executor::Executor;
use ioecho_campaign::rows::{Row, rows};
use ioecho_report::CampaignTable;
use ioecho_run::directory::RunDirectory;
use ioecho_stats::compare::Word;
use ioecho_trace::Nanos;

use super::hosts::attempt::{HOSTS, p99};
use super::store::Store;
use crate::commands::compare::judged;

/// The most runs that are compared: each is read whole.
const RUNS_MAX: usize = 160;

/// What is known of a host.
#[derive(Default)]
struct OfHost {
    /// Its runs.
    runs: Vec<String>,
    /// The logarithms of their percentiles.
    logs: Vec<f64>,
}

/// The table; without rows if no cell was replayed on several hosts.
pub(super) fn table(executor: &Executor<'_>, store: &Store) -> CampaignTable {
    let mut hosts: BTreeMap<&str, OfHost> = BTreeMap::new();
    let rows = rows(executor);
    let mut read = 0;
    for row in rows.iter().filter(|row| row.cell.hosts.len() > 1) {
        for (host, run) in runs(row, store) {
            let Some(Ok(summary)) = RunDirectory::at(&run).map(|run| run.read_summary()) else {
                continue;
            };
            read += 1;
            let of_host = hosts.entry(host).or_default();
            of_host.runs.push(run.display().to_string());
            of_host.logs.extend(p99(&summary).map(|p99| (p99.0.max(1) as f64).ln()));
        }
        if read >= RUNS_MAX {
            break;
        }
    }
    let mean = |of_host: &OfHost| of_host.logs.iter().sum::<f64>() / of_host.logs.len() as f64;
    let mut order: Vec<(&str, &OfHost, f64)> = hosts
        .iter()
        .filter(|(_, of_host)| !of_host.logs.is_empty())
        .map(|(host, of_host)| (*host, of_host, mean(of_host)))
        .collect();
    order.sort_by(|one, other| one.2.total_cmp(&other.2).then(one.0.cmp(other.0)));
    if order.len() < 2 {
        return CampaignTable::default();
    }
    let (mut group, mut told) = (1, Vec::new());
    for (place, (host, of_host, log)) in order.iter().enumerate() {
        let mut remark = String::new();
        if let Some((before, faster, _)) = place.checked_sub(1).map(|at| order[at]) {
            let sides = [(before, &faster.runs[..]), (host, &of_host.runs[..])];
            match judged(&sides, &[], order.len() - 1) {
                Ok((compared, _)) => match compared.pairs.first().map(|pair| pair.word) {
                    Some(Word::NotToldApart) | None => {
                        remark = format!("not told apart from {before}");
                    }
                    Some(word) => {
                        group += 1;
                        remark = format!("{} than {before}", word_of(word));
                    }
                },
                Err(error) => {
                    group += 1;
                    remark = format!("not comparable with {before}: {error}");
                }
            }
        }
        told.push((format!("{group}. {host}"), Nanos(log.exp() as i64).to_string(), remark));
    }
    let slowest = order.last().map_or("", |(host, ..)| host);
    CampaignTable {
        heading: "Hosts".to_owned(),
        remark: format!(
            "p99 of each host's own requests, the geometric mean over its runs; the slowest is \
             {slowest}; equal numbers are not told apart"
        ),
        rows: told,
    }
}

const fn word_of(word: Word) -> &'static str {
    match word {
        Word::Slower => "slower",
        Word::Faster => "faster",
        Word::Mixed => "slower in one figure and faster in another",
        Word::NotToldApart => "not told apart",
    }
}

/// The runs of the hosts of a replay.
fn runs<'e>(row: &Row<'e>, store: &Store) -> Vec<(&'e str, PathBuf)> {
    let Some(run) = row.run() else { return Vec::new() };
    let run = Path::new(&run);
    let (Some(above), Some(name)) = (run.parent(), run.file_name()) else { return Vec::new() };
    let path = |host: &str| store.path().join(above).join(HOSTS).join(host).join(name);
    row.cell.hosts.iter().map(|member| (&*member.host, path(&member.host))).collect()
}
