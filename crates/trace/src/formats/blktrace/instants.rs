//! The event of a device that counts as the issue of its requests.
//!
//! Recordings of several devices are merged, and not all of them hold the same events: one was
//! recorded from the queue on, another only at its driver. One kind of event for all would lose
//! every request of the second. So unless the user chose the event, each device uses the best kind
//! that was seen of it.

use rustc_hash::FxHashMap;

use super::record::{Event, kind};
use super::volumes::device_name;
use crate::formats::IssueEvent;
use crate::header::{NoteKind, Notes};

/// The kinds of event that can be the instant of issue, the best first.
const KINDS: [u8; 3] = [kind::QUEUE, kind::INSERT, kind::ISSUE];

/// The largest number of devices that are known: as many as there may be volumes.
const DEVICES_MAX: usize = 1 << 14;

/// The place of `kind` among [`KINDS`]; `None` if the kind cannot be the instant of issue.
#[inline]
fn rank(kind: u8) -> Option<usize> {
    KINDS.into_iter().position(|known| known == kind)
}

/// The choice, by the first events of a recording and then by later ones.
#[derive(Debug)]
pub(in crate::formats) struct Instants {
    /// The user's choice; `None` to choose for each device.
    wish: Option<u8>,
    /// The best kind of all events that were seen before the first request was taken.
    main: u8,
    /// The best kind of each device.
    best: FxHashMap<u32, u8>,
    /// The last device and its kind.
    last: Option<(u32, u8)>,
    /// Requests of each kind.
    taken: [u64; KINDS.len()],
}

impl Instants {
    /// Looks at the first events.
    pub(in crate::formats) fn of<'a>(
        wish: IssueEvent,
        first: impl IntoIterator<Item = &'a Event>,
    ) -> Self {
        let wish = match wish {
            IssueEvent::Queued => Some(kind::QUEUE),
            IssueEvent::Inserted => Some(kind::INSERT),
            IssueEvent::Issued => Some(kind::ISSUE),
            IssueEvent::Auto => None,
        };
        let mut instants =
            Self { wish, main: kind::QUEUE, best: FxHashMap::default(), last: None, taken: [0; 3] };
        let mut seen = [false; KINDS.len()];
        for event in first {
            let Some(rank) = rank(event.kind) else { continue };
            seen[rank] = true;
            // With a wish, only devices that have that event count.
            let is_of_use = wish.is_none_or(|wish| event.kind == wish);
            instants.know(event.device, if is_of_use { event.kind } else { 0 });
        }
        let best = seen.iter().position(|seen| *seen).unwrap_or(0);
        instants.main = wish.unwrap_or(KINDS[best]);
        instants
    }

    fn know(&mut self, device: u32, kind: u8) {
        if let Some(known) = self.best.get_mut(&device) {
            if rank(*known).is_none_or(|known| rank(kind).is_some_and(|kind| kind < known)) {
                *known = kind;
            }
        } else if self.best.len() < DEVICES_MAX {
            self.best.insert(device, kind);
        }
    }

    /// The kind that most of the recording uses.
    pub(in crate::formats) fn main(&self) -> u8 {
        self.main
    }

    /// The kinds that must be read, a bit each; `one_device` if no other device can come up later.
    pub(in crate::formats) fn kinds(&self, one_device: bool) -> u32 {
        let all = self.wish.is_none() && !one_device;
        let is_read = |kind: u8| all || kind == self.main || self.best.values().any(|k| *k == kind);
        super::bits(&KINDS.into_iter().filter(|kind| is_read(*kind)).collect::<Vec<_>>())
    }

    /// The kind that counts as issue for the device of `event`, from this event on.
    #[inline]
    pub(in crate::formats) fn at(&mut self, event: &Event) -> u8 {
        match self.last {
            Some((device, best)) if device == event.device => {
                let is_better = |event: usize| rank(best).is_some_and(|best| event < best);
                if !rank(event.kind).is_some_and(is_better) {
                    return best;
                }
            }
            _ => {}
        }
        self.other(event)
    }

    #[cold]
    fn other(&mut self, event: &Event) -> u8 {
        if let Some(wish) = self.wish {
            self.last = Some((event.device, wish));
            return wish;
        }
        if rank(event.kind).is_some() {
            self.know(event.device, event.kind);
        }
        let best = self.best.get(&event.device).copied();
        // Events before the first event of one of these kinds decide nothing.
        self.last = best.map(|best| (event.device, best));
        best.unwrap_or(self.main)
    }

    /// Counts a request that was taken at an event of this kind.
    #[inline]
    pub(in crate::formats) fn count(&mut self, kind: u8) {
        if let Some(rank) = rank(kind) {
            self.taken[rank] += 1;
        }
    }

    /// Notes requests that use another event than most.
    pub(in crate::formats) fn tell(&self, guesses: &mut Notes) {
        let main = kind::name(self.main);
        for (kind, taken) in KINDS.into_iter().zip(self.taken) {
            if kind != self.main {
                let what = format!(
                    "requests whose instant is when they were {}, because no event of their \
                     device was {main} until then",
                    kind::name(kind)
                );
                guesses.add(NoteKind::Assumed.of(&what), taken, None);
            }
        }
    }

    /// Notes devices without an event of issue.
    pub(in crate::formats) fn tell_devices(&self, losses: &mut Notes) {
        let main = kind::name(self.main);
        let mut without: Vec<u32> =
            self.best.iter().filter(|(_, kind)| **kind == 0).map(|(device, _)| *device).collect();
        without.sort_unstable();
        let what = format!("devices of which no event is {main}, so that no request is read");
        for device in without {
            losses.add(NoteKind::Unreadable.of(&what), 1, Some(device_name(device)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(device: u32, kind: u8) -> Event {
        Event { device, kind, ..Event::default() }
    }

    #[test]
    fn each_device_goes_by_the_best_event_that_was_seen_of_it() {
        let first = [event(1, kind::ISSUE), event(2, kind::ISSUE), event(2, kind::QUEUE)];
        let mut instants = Instants::of(IssueEvent::Auto, &first);
        assert_eq!(instants.main(), kind::QUEUE);
        assert_eq!(instants.at(&event(1, kind::COMPLETE)), kind::ISSUE);
        assert_eq!(instants.at(&event(2, kind::ISSUE)), kind::QUEUE);
        // A device that comes late, and turns out to have been recorded from the queue on.
        assert_eq!(instants.at(&event(3, kind::COMPLETE)), kind::QUEUE);
        assert_eq!(instants.at(&event(3, kind::ISSUE)), kind::ISSUE);
        assert_eq!(instants.at(&event(3, kind::COMPLETE)), kind::ISSUE);
        assert_eq!(instants.at(&event(3, kind::INSERT)), kind::INSERT);
        assert_eq!(instants.at(&event(3, kind::QUEUE)), kind::QUEUE);
        assert_eq!(instants.at(&event(3, kind::ISSUE)), kind::QUEUE);
    }

    #[test]
    fn what_the_user_wants_holds_for_all_and_tells_who_has_it_not() {
        let first = [event(1, kind::QUEUE), event(2, kind::QUEUE), event(2, kind::ISSUE)];
        let mut instants = Instants::of(IssueEvent::Issued, &first);
        assert_eq!(instants.at(&event(1, kind::QUEUE)), kind::ISSUE);
        let (mut guesses, mut losses) = (Notes::default(), Notes::default());
        instants.tell(&mut guesses);
        instants.tell_devices(&mut losses);
        assert!(guesses.is_empty());
        let note = losses.iter().next().unwrap();
        assert_eq!((note.count, &note.examples[..]), (1, &["0:1".to_owned()][..]));
    }
}
