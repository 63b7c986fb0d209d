//! The share of each volume and of each process.
//!
//! Of a hundred disks behind one figure, three may do all the work; of the processes of a host, it
//! is often the backup. Counts are exact for the first [`KEYS_MAX`] volumes and processes that are
//! seen; beyond that number, all others are one row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ioecho_trace::log_linear::{Histogram, middle};
use ioecho_trace::{Header, Request};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::event::{Event, Group};
use super::seconds::Amount;
use crate::histogram::is_known;

/// How many volumes, and how many processes, are counted separately.
pub const KEYS_MAX: usize = 4096;

/// Percentiles are right to 3.2 %: a bin is a 2^4th of its value wide, and its middle stands for
/// it.
const BITS: u32 = 4;

/// The counts of a volume or a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    reads: Amount,
    writes: Amount,
    other: u64,
    failed: u64,
    service: Histogram<BITS>,
    service_sum_ns: u128,
    service_max_ns: u64,
}

impl Account {
    fn add(&mut self, event: &Event) {
        let side = match event.group {
            Group::Read | Group::PushedRead => Some(&mut self.reads),
            Group::Write | Group::PushedWrite => Some(&mut self.writes),
            Group::Other | Group::OfFiles(_) => None,
        };
        if let Some(amount) = side {
            amount.requests += 1;
            amount.bytes = amount.bytes.saturating_add(event.bytes);
        } else {
            self.other += 1;
        }
        self.failed += u64::from(event.failed);
        if let Some(service) = event.service() {
            let service = service.max(0) as u64;
            self.service.record(service);
            self.service_sum_ns += u128::from(service);
            self.service_max_ns = self.service_max_ns.max(service);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.reads, other.reads), (&mut self.writes, other.writes)] {
            mine.requests = mine.requests.saturating_add(theirs.requests);
            mine.bytes = mine.bytes.saturating_add(theirs.bytes);
        }
        self.other = self.other.saturating_add(other.other);
        self.failed = self.failed.saturating_add(other.failed);
        self.service.merge(&other.service);
        self.service_sum_ns = self.service_sum_ns.saturating_add(other.service_sum_ns);
        self.service_max_ns = self.service_max_ns.max(other.service_max_ns);
    }

    fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests + self.other
    }
}

/// Those of one name.
#[derive(Default)]
struct Named {
    /// Their numbers, the lowest first.
    keys: Vec<u32>,
    account: Account,
}

/// Accounts by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Accounts {
    known: BTreeMap<u32, Account>,
    others: Account,
}

impl Accounts {
    fn of(&mut self, key: u32) -> &mut Account {
        if self.known.len() >= KEYS_MAX && !self.known.contains_key(&key) {
            return &mut self.others;
        }
        self.known.entry(key).or_default()
    }

    fn merge(&mut self, later: &Self) {
        for (key, theirs) in &later.known {
            self.of(*key).merge(theirs);
        }
        self.others.merge(&later.others);
    }

    /// The largest first, at most `limit`; the rest is one more row, without a number. Where
    /// `together` says so, all that have the same name are one row.
    fn shares(&self, limit: usize, name: impl Fn(u32) -> String, together: bool) -> Vec<Share> {
        let mut groups: BTreeMap<(String, u32), Named> = BTreeMap::new();
        for (key, account) in &self.known {
            let name = name(*key);
            // Of those without a name nobody knows what they have in common.
            let number = if together && !name.is_empty() { 0 } else { *key };
            let group = groups.entry((name, number)).or_default();
            group.keys.push(*key);
            group.account.merge(account);
        }
        let mut rows: Vec<_> = groups.into_iter().map(|((name, _), group)| (name, group)).collect();
        rows.sort_by_key(|(_, group)| (Reverse(group.account.requests()), group.keys[0]));
        let known: u64 = rows.iter().map(|(_, group)| group.account.requests()).sum();
        let total = known + self.others.requests();
        let mut rest = self.others.clone();
        rows.iter().skip(limit).for_each(|(_, group)| rest.merge(&group.account));
        let share = |(name, group): &(String, Named)| match group.keys.as_slice() {
            [key] => Share::of(Some(*key), name.clone(), &group.account, total),
            several => {
                let name = format!("{name} ({} processes)", several.len());
                Share::of(None, name, &group.account, total)
            }
        };
        let mut shares: Vec<Share> = rows.iter().take(limit).map(share).collect();
        if rest != Account::default() {
            shares.push(Share::of(None, "all others".to_owned(), &rest, total));
        }
        shares
    }
}

/// Counts by volume and by process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    volumes: Accounts,
    processes: Accounts,
}

impl Summary for Breakdown {
    fn observe(&mut self, request: &Request) {
        self.add(request, &Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        self.volumes.merge(&later.volumes);
        self.processes.merge(&later.processes);
    }
}

impl Breakdown {
    pub(crate) fn add(&mut self, request: &Request, event: &Event) {
        self.volumes.of(event.volume).add(event);
        if let Some(origin) = request.origin {
            self.processes.of(origin.pid).add(event);
        }
    }

    /// How many volumes were told apart.
    pub fn volumes(&self) -> usize {
        self.volumes.known.len()
    }

    /// The shares of at most `limit` volumes, the largest first, with names from the header, and of
    /// the rest as one.
    pub fn of_volumes(&self, header: &Header, limit: usize) -> Vec<Share> {
        let name = |key| {
            let volume = header.volumes.iter().find(|volume| volume.id.0 == key);
            volume.map(|volume| volume.name.clone()).unwrap_or_default()
        };
        self.volumes.shares(limit, name, false)
    }

    /// The same of processes; none where the trace does not know them.
    pub fn of_processes(&self, header: &Header, limit: usize) -> Vec<Share> {
        self.processes.shares(limit, |key| process(header, key), false)
    }

    /// The same of processes, those of one name together: thirty processes of a database are one
    /// program.
    pub fn of_programs(&self, header: &Header, limit: usize) -> Vec<Share> {
        self.processes.shares(limit, |key| process(header, key), true)
    }
}

/// The name of a process, empty where the trace has none.
fn process(header: &Header, pid: u32) -> String {
    header.processes.get(&pid).cloned().unwrap_or_default()
}

/// The share of a volume or a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// Number of the volume, or of the process; `None` of several together.
    pub id: Option<u32>,
    /// Its name; empty where the trace has none.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// That as a share of the requests of all, 0 to 1.
    pub share: f64,
    /// Reads.
    pub reads: Amount,
    /// Writes.
    pub writes: Amount,
    /// Flushes, discards and others.
    pub other: u64,
    /// Requests that came to nothing.
    pub failed: u64,
    /// Mean service time; this and the following are `None` where none is known.
    pub service_mean_ns: Option<u64>,
    /// Median service time, right to 3.2 %.
    pub service_p50_ns: Option<u64>,
    /// 99 % are not longer, right to 3.2 %.
    pub service_p99_ns: Option<u64>,
    /// The longest service time, exact.
    pub service_max_ns: Option<u64>,
}

impl Share {
    fn of(id: Option<u32>, name: String, account: &Account, total: u64) -> Self {
        let served = account.service.count();
        let at = |quantile| {
            let found = account.service.at(quantile);
            let found = found.filter(|_| is_known(quantile, served));
            found.map(|(bin, ..)| middle::<BITS>(bin).min(account.service_max_ns))
        };
        let mean = account.service_sum_ns.checked_div(u128::from(served));
        Self {
            id,
            name,
            requests: account.requests(),
            share: if total > 0 { account.requests() as f64 / total as f64 } else { 0.0 },
            reads: account.reads,
            writes: account.writes,
            other: account.other,
            failed: account.failed,
            service_mean_ns: mean.map(|mean| u64::try_from(mean).unwrap_or(u64::MAX)),
            service_p50_ns: at(0.5),
            service_p99_ns: at(0.99),
            service_max_ns: (served > 0).then_some(account.service_max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Bytes, Nanos, Op, Origin};

    use super::*;

    #[test]
    fn processes_of_one_name_are_one_program() {
        let mut header = Header::default();
        for (pid, name) in [(7, "postgres"), (8, "postgres"), (9, "backup")] {
            header.processes.insert(pid, name.to_owned());
        }
        let mut breakdown = Breakdown::default();
        for (pid, requests) in [(7, 3), (8, 4), (9, 5), (10, 1), (11, 1)] {
            for _ in 0..requests {
                let mut request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(4096));
                request.origin = Some(Origin { pid, ..Origin::default() });
                breakdown.observe(&request);
            }
        }
        let told = |shares: Vec<Share>| -> Vec<(Option<u32>, String, u64)> {
            shares.into_iter().map(|share| (share.id, share.name, share.requests)).collect()
        };
        let row = |id, name: &str, requests| (id, name.to_owned(), requests);
        assert_eq!(
            told(breakdown.of_programs(&header, 3)),
            [
                row(None, "postgres (2 processes)", 7),
                row(Some(9), "backup", 5),
                row(Some(10), "", 1),
                row(None, "all others", 1),
            ]
        );
        assert_eq!(told(breakdown.of_processes(&header, 10))[0], row(Some(9), "backup", 5));
        assert_eq!(breakdown.of_processes(&header, 10).len(), 5);
    }
}
