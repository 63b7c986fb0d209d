//! Runs that continue other runs (`--continues`).
//!
//! A test of data within one process proves little: the data must survive a kill, a reboot, a power
//! cut, and the next load. So a run may continue an earlier one on the same targets. The earlier
//! run's state is rebuilt from its results before the first request, as `ioecho verify` does, and
//! the runs are distinguished by their numbers, so a finding names its run.

use std::fmt;
use std::fs::{self, File};
use std::sync::atomic::AtomicBool;

use ioecho_linux::TargetFacts;
use ioecho_replay::verify::{After, Intents, LINE_MAX, Verifier, VerifyConfig, VersionTable};
use ioecho_trace::wording::Wording;

use super::later::{Past, PastTarget};
use super::rebuilt::{Known, rebuilt};
use crate::error::{Kind, Result, RunError};
use crate::facts::{Continued, RunNumber};
use crate::spec::ReplaySpec;
use crate::target::Target;

/// A run that another one continues, and what happened between the two.
#[derive(Clone, Debug)]
pub(crate) struct Continues {
    pub(super) past: Past,
    pub(super) after: After,
}

/// The runs that `past` continues, oldest first.
pub(super) fn earlier(past: &Past) -> Result<Vec<Continues>> {
    let mut line = Vec::new();
    let mut numbers = vec![past.number];
    let mut next = past.continued.clone();
    let mut name = past.run.path().to_owned();
    while let Some(Continued { run, path, after }) = next.take() {
        let why = |what: String| {
            let text = format!(
                "{} goes on from the run {run} in {}: {what}\n  = help: put that run's directory \
                 back where it was",
                name.display(),
                path.display()
            );
            RunError::new(Kind::Trace, text)
        };
        let past = Past::open_alone(&path).map_err(|error| why(error.to_string()))?;
        if past.number != run.0 {
            return Err(why(format!("there is the run {} now", RunNumber(past.number))));
        }
        if numbers.contains(&past.number) || numbers.len() == LINE_MAX {
            let text = format!("it goes on from itself, or stands in a line of over {LINE_MAX}");
            return Err(why(text));
        }
        numbers.push(past.number);
        next.clone_from(&past.continued);
        name = path;
        line.push(Continues { past, after });
    }
    line.reverse();
    Ok(line)
}

impl Continues {
    /// The named run, if there is one. Refuses a run that wrote to other targets.
    pub(crate) fn new(spec: &ReplaySpec, targets: &[Target]) -> Result<Option<Self>> {
        let Some(path) = &spec.continues else { return Ok(None) };
        let past = Past::open(path)?;
        let refuse = |what: String| {
            let help = Wording::from("name the targets of that run, in its order, or leave out ");
            let text = format!("cannot go on from {}: {what}", path.display());
            RunError::with_help(Kind::Usage, text, help.setting("continues"))
        };
        let runs = past.line().count();
        if runs >= LINE_MAX {
            return Err(refuse(format!("it is the last of {runs} runs, and no more fit")));
        }
        for member in past.line() {
            if member.targets.len() != targets.len() {
                return Err(refuse(format!(
                    "the run {:016x} had {} target(s), and this one has {}",
                    member.number,
                    member.targets.len(),
                    targets.len()
                )));
            }
            for (then, now) in member.targets.iter().zip(targets) {
                if let Some(what) = difference(then, now) {
                    return Err(refuse(what));
                }
            }
        }
        let after = spec.after.unwrap_or_default();
        Ok(Some(Self { past, after }))
    }

    /// Its entry in `run.toml`.
    pub(crate) fn entry(&self) -> Continued {
        let path = self.past.run.path();
        Continued {
            run: RunNumber(self.past.number),
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            after: self.after,
        }
    }

    /// A verifier for a target of the continuing run, which knows the state that the earlier runs
    /// left.
    pub(super) fn verifier(
        &self,
        config: VerifyConfig,
        table: Box<dyn VersionTable + Send>,
        intents: Option<Box<dyn Intents + Send>>,
        tell: &dyn Fn(&str),
    ) -> Result<Verifier> {
        let target = usize::from(config.target);
        // These files are final now, and must survive a power cut.
        for path in [self.past.run.journal(), self.past.run.intents(target)] {
            let _ = File::open(path).and_then(|file| file.sync_all());
        }
        let never = AtomicBool::new(false);
        let links = self.past.links(config.target, self.after);
        let rebuilt = rebuilt(links, Known::Nothing(table), false, &never)?;
        for note in &rebuilt.notes {
            tell(&format!("note: of the run that this one continues: {note}"));
        }
        Ok(rebuilt.verifier.go_on(config, intents))
    }
}

/// The difference between a target then and now; `None` if it is the same.
fn difference(then: &PastTarget, now: &Target) -> Option<String> {
    let Target::Real { facts, .. } = now else {
        return Some(format!("{} is simulated", now.name()));
    };
    let TargetFacts { canonical, backing_file, capacity, .. } = &**facts;
    let is_same_file = backing_file.is_some() && *backing_file == then.backing_file;
    if *canonical != then.path && !is_same_file {
        return Some(format!("it wrote to {}, not to {}", then.path.display(), now.name()));
    }
    (capacity.0 != then.capacity).then(|| {
        let (name, was) = (now.name(), ioecho_trace::Bytes(then.capacity));
        format!("{name} holds {capacity} and held {was} then")
    })
}

impl fmt::Display for Continues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.past.run.path().display())?;
        if self.after == After::PowerCut {
            write!(f, ", after a power cut")?;
        }
        Ok(())
    }
}
