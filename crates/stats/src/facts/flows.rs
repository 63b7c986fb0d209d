//! The flows of a run, as they were asked for.

use ioecho_trace::Op;
use ioecho_trace::units::counted;
use serde::{Deserialize, Serialize};

/// A flow of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFacts {
    /// Its number, counted from 1, which its requests bear.
    pub flow: u16,
    /// Its name.
    pub name: String,
    /// Its load: a path, or the line of a generated load.
    pub load: String,
    /// The clients of a closed loop; `None` of an open flow.
    pub threads: Option<u32>,
    /// The think time of a client; `None` of an open flow.
    pub think_ns: Option<i64>,
    /// Its requests that may be in flight.
    pub cap: u32,
    /// Its share of the requests of all flows with a share, in any unit.
    pub share: Option<f64>,
    /// The target that it goes to, counted from 0.
    pub target: u16,
    /// The other targets that it takes for one volume with the first, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<u16>,
    /// Operations that come along with what is due and have no instant of their own: a file that
    /// is read at a rate is opened and closed besides. Empty of a flow without such ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<Op>,
    /// How many files its threads choose from; `None` of a load on devices or directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

/// What the flows at a rate have that have fewer files than threads, by name: `read has 1 file for
/// 4 threads`.
pub(crate) fn files_and_threads(flows: &[FlowFacts]) -> String {
    let told = |flow: &FlowFacts| {
        let files = flow.files.filter(|files| *files < u64::from(flow.cap))?;
        let threads = counted(flow.cap.into(), "thread");
        let is_open = flow.threads.is_none();
        is_open.then(|| format!("{} has {} for {threads}", flow.name, counted(files, "file")))
    };
    let few: Vec<String> = flows.iter().filter_map(told).collect();
    if few.is_empty() {
        "its threads want the same files or directories".to_owned()
    } else {
        few.join(", ")
    }
}

/// The clients of all closed flows together; 0 if there are none.
pub(crate) fn clients(flows: &[FlowFacts]) -> u32 {
    flows.iter().filter_map(|flow| flow.threads).fold(0, u32::saturating_add)
}
