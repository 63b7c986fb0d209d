//! Failed calls that are left out, and calls on names that are none of the load's.

use rustc_hash::FxHashMap;

use super::{
    EISDIR, ELOOP, ENOENT, ENOTDIR, Model, NOT_ALIKE, OF_KERNEL, OF_NAMES, OTHER_FAILURES,
    is_of_kernel,
};
use crate::header::{Notes, Topic};
use crate::recorded::shown;
use crate::syscalls::call::{Call, Event};
use crate::syscalls::errors;
use crate::syscalls::namespace::{Found, Kind};
use crate::units::counted;

/// Failed calls that were left out, by what they are called and how they failed: the most frequent
/// kinds are told.
#[derive(Default)]
pub(super) struct Failures(FxHashMap<Failure, Cases>);

/// A kind of failed call: whether its error follows from names, what it is called, the error.
type Failure = (bool, &'static str, i32);

/// How many calls, and the name of the first.
struct Cases {
    count: u64,
    name: String,
}

impl Failures {
    fn add(&mut self, failure: Failure, name: impl FnOnce() -> String) {
        let cases = self.0.entry(failure).or_insert_with(|| Cases { count: 0, name: name() });
        cases.count += 1;
    }

    /// Notes them, the most frequent first.
    pub(super) fn tell(&self, losses: &mut Notes) {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(failure, cases)| (u64::MAX - cases.count, **failure));
        for ((is_of_names, word, error), Cases { count, name }) in all {
            let topic: Topic<'static> = if *is_of_names { NOT_ALIKE } else { OTHER_FAILURES };
            let times = counted(*count, "time");
            let example = format!("{word}({name}) {}, {times}", errors::shown(*error));
            losses.add(topic, *count, Some(example));
        }
    }
}

impl Model {
    /// Counts a failed call that is left out.
    pub(super) fn leave_out(&mut self, event: &Event, error: i32) {
        let name = named(event);
        if name.strip_prefix(b"/").is_some_and(is_of_kernel) {
            self.losses.add(OF_KERNEL, 1, Some(shown(&name)));
            return;
        }
        let Self { failures, tasks, names, .. } = self;
        failures.add((OF_NAMES.contains(&error), event.call.word(), error), || {
            let descriptor = event.call.descriptor().filter(|_| name.is_empty());
            let opening = descriptor.and_then(|it| tasks.opening(event.task, it.number));
            match (opening, descriptor) {
                (Some(opening), _) => {
                    format!("/{}", shown(&names.path(tasks.opened(opening).inode)))
                }
                (None, Some(descriptor)) => descriptor.number.to_string(),
                (None, None) => shown(&name),
            }
        });
    }

    /// Whether a call of a replay on this name fails as this one did, as far as is known. None that
    /// does not may be made again: it would make a name that the recording has not, or miss one.
    pub(super) fn fails_again(&self, event: &Event, found: &Found, path: &[u8]) -> bool {
        let Err(error) = event.result else { return true };
        let ends_in_slash = path.ends_with(b"/");
        let above = found.directory.map(|directory| self.names.node(directory).kind);
        let is_met = match error {
            // The directory is there, so the name would be made.
            ENOENT if event.call.makes() => above != Some(Kind::Directory),
            ENOENT if !is_of_two(event) => found.inode().is_none(),
            // The places of a trace have no slash at their end, which these may follow from.
            ENOTDIR | EISDIR => !ends_in_slash,
            // Nothing follows a link but an opening.
            ELOOP => event.call.word() == "open",
            _ => true,
        };
        is_met && !found.is_guessed
    }
}

/// Whether a call is about two names.
const fn is_of_two(event: &Event) -> bool {
    matches!(event.call, Call::Rename { .. } | Call::Link { .. })
}

/// What a call names, as far as the recording tells without all that came before.
fn named(event: &Event) -> Vec<u8> {
    let told = event.call.descriptor().and_then(|descriptor| descriptor.path.as_deref());
    match event.call.at() {
        Some(at) if at.path.starts_with(b"/") => at.path.clone(),
        Some(at) => match &at.base {
            Some(base) => [base.as_slice(), &at.path].join(&b'/'),
            None => at.path.clone(),
        },
        None => told.unwrap_or_default().to_vec(),
    }
}
