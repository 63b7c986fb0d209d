//! What is wrong in a description, all of it at once.
//!
//! A user who is told one error per start gives up at the fifth. So reading goes on behind an
//! error, and every fault is kept with its place, the line it stands in, and the remedy.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::place::{Place, Refused};

/// The most faults that are kept: nobody mends more at once.
const FAULTS_MAX: usize = 1000;

/// The longest part of a line that is shown, in characters.
const SHOWN_MAX: usize = 160;

/// What is wrong with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is not written as the language asks for, or names what is not there.
    Syntax,
    /// It is well written, and asks for something impossible.
    Impossible,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, why, and what to do.
    pub refused: Refused,
    /// The line; empty where there is none.
    pub line: String,
    /// What kind of fault it is.
    pub kind: FaultKind,
}

/// Everything that is wrong, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    all: Vec<Fault>,
    /// How many more there are than are kept.
    more: usize,
}

impl Faults {
    /// The faults.
    pub fn all(&self) -> &[Fault] {
        &self.all
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The worst kind: a description that cannot be understood is never merely impossible.
    pub fn kind(&self) -> FaultKind {
        let is_syntax = |fault: &Fault| fault.kind == FaultKind::Syntax;
        if self.all.iter().any(is_syntax) { FaultKind::Syntax } else { FaultKind::Impossible }
    }

    fn push(&mut self, kind: FaultKind, refused: Refused) {
        if self.all.len() < FAULTS_MAX {
            self.all.push(Fault { refused, line: String::new(), kind });
        } else {
            self.more += 1;
        }
    }

    /// Adds something that is not written as it should be.
    pub(super) fn syntax(
        &mut self,
        place: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(FaultKind::Syntax, Refused::new(place, reason, help));
    }

    /// Adds something impossible.
    pub(super) fn impossible(
        &mut self,
        place: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(FaultKind::Impossible, Refused::new(place, reason, help));
    }

    /// Puts the lines of these files to the faults, and the faults into the files' order.
    pub(super) fn with_lines(mut self, files: &[(Arc<str>, Vec<String>)]) -> Self {
        let order: HashMap<&str, usize> =
            files.iter().enumerate().map(|(at, (name, _))| (name.as_ref(), at)).collect();
        for fault in &mut self.all {
            let place = &fault.refused.place;
            let lines = order.get(place.file.as_ref()).map(|at| &files[*at].1);
            let line = lines.and_then(|lines| lines.get(place.line.checked_sub(1)?));
            fault.line = line.map_or_else(String::new, |line| shown(line.trim()));
        }
        self.all.sort_by_key(|fault| {
            let place = &fault.refused.place;
            let at = order.get(place.file.as_ref()).copied().unwrap_or(usize::MAX);
            (at, place.line, place.column)
        });
        self.all.dedup();
        self
    }
}

fn shown(line: &str) -> String {
    match line.char_indices().nth(SHOWN_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { place, reason, help } = &self.refused;
        write!(f, "{place}: {reason}")?;
        if !self.line.is_empty() {
            write!(f, "\n  {}", self.line)?;
        }
        write!(f, "\n  = help: {help}")
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.all.iter().enumerate() {
            write!(f, "{}{fault}", if number == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 {
            write!(f, "\n{} faults more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
