//! What happened in a campaign, line by line.
//!
//! The journal is only ever appended to, and each line is on the disk before the next thing
//! happens. A line that was cut by a power failure is left out, and told.

use serde::{Deserialize, Serialize};

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// When (RFC 3339).
    pub at: String,
    /// What.
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// A process took the campaign up.
    Began {
        /// Its number.
        pid: u32,
        /// The version of the program.
        ioecho: String,
    },
    /// An attempt began.
    Attempt {
        /// The key of the cell.
        key: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// An attempt ended, and its file is stored.
    Ended {
        /// The key of the cell.
        key: String,
        /// The number of the attempt.
        attempt: u32,
        /// How long it took.
        seconds: f64,
    },
    /// An attempt has no end: its process or that of the campaign was killed.
    Lost {
        /// The key of the cell.
        key: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The process ended in order.
    Over {
        /// Why, in words.
        why: String,
    },
}

/// The lines of a journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// In their order.
    pub lines: Vec<Line>,
    /// The numbers of the lines that cannot be read, counted from 1.
    pub unreadable: Vec<usize>,
    /// Whether the last line has no end: the next one must begin on a line of its own.
    pub is_torn: bool,
}

impl Line {
    /// The line as it is stored, with its end.
    pub fn stored(&self) -> String {
        // A line consists of texts and numbers, which always have a form in JSON.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl Journal {
    /// Reads a journal.
    pub fn read(text: &str) -> Self {
        let mut journal =
            Self { is_torn: !text.is_empty() && !text.ends_with('\n'), ..Self::default() };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) => journal.lines.push(line),
                Err(_) => journal.unreadable.push(number + 1),
            }
        }
        journal
    }

    /// The attempts that began and have no end.
    pub fn open(&self) -> Vec<(String, u32)> {
        let mut open = Vec::new();
        for line in &self.lines {
            match &line.what {
                Happening::Attempt { key, attempt } => open.push((key.clone(), *attempt)),
                Happening::Ended { key, attempt, .. } | Happening::Lost { key, attempt } => {
                    open.retain(|other| *other != (key.clone(), *attempt));
                }
                Happening::Began { .. } | Happening::Over { .. } => {}
            }
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: Happening) -> String {
        Line { at: "2026-11-23T12:00:00Z".to_owned(), what }.stored()
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_told() {
        let key = || "k".to_owned();
        let whole = line(Happening::Attempt { key: key(), attempt: 1 })
            + &line(Happening::Ended { key: key(), attempt: 1, seconds: 1.5 })
            + &line(Happening::Attempt { key: key(), attempt: 2 });
        for cut in 0..=whole.len() {
            let journal = Journal::read(&whole[..cut]);
            let complete = whole[..cut].matches('\n').count();
            let is_whole_line = whole.as_bytes().get(cut) == Some(&b'\n');
            assert_eq!(journal.lines.len(), complete + usize::from(is_whole_line), "{cut}");
            assert_eq!(journal.is_torn, cut > 0 && whole.as_bytes()[cut - 1] != b'\n', "{cut}");
        }
        assert_eq!(Journal::read(&whole).open(), [("k".to_owned(), 2)]);
    }
}
