//! What a recording of system calls holds beside the arguments that are numbers.
//!
//! A tracepoint of a call gives pointers as they are. So an event probe on it reads what lies
//! behind them: names, and a few numbers. Its fields are named here, for whoever makes the probe
//! and whoever reads its events.

use serde::{Deserialize, Serialize};

/// Whose calls were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// The task of the recorder that started the command. Its own calls are in the recording, and
    /// are no part of the load.
    pub parent: u32,
    /// The working directory that the command began in; `None` where that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// The tracepoints of tasks that are made and that end.
pub const OF_TASKS: [&str; 2] = ["sched_process_fork", "sched_process_exit"];

/// What the names of tracepoints of calls begin with, where a call is made and where it returns.
pub const ENTER: &str = "sys_enter_";
/// The same where it returns.
pub const EXIT: &str = "sys_exit_";

/// Numbers behind pointers, each of 64 bits: the call, the position of the pointer among its
/// arguments, and how many bytes behind it the number lies (`openat2(2)`, `clone3(2)`,
/// `copy_file_range(2)`, `sendfile(2)`).
pub const BEHIND: [(&str, usize, usize); 6] = [
    ("openat2", 2, 0),
    ("openat2", 2, 8),
    ("clone3", 0, 0),
    ("copy_file_range", 1, 0),
    ("copy_file_range", 3, 0),
    ("sendfile64", 2, 0),
];

/// The field of a probe that holds a number behind a pointer.
pub fn field_behind(argument: usize, bytes: usize) -> String {
    format!("b{argument}_{bytes}")
}

/// The name of a call, as `strace` and its manual page have it, from that of its tracepoint.
pub fn name_of_call(tracepoint: &str) -> &str {
    match tracepoint {
        "newstat" => "stat",
        "newlstat" => "lstat",
        "newfstat" => "fstat",
        "sendfile64" => "sendfile",
        other => other,
    }
}
