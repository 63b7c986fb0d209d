//! The list of what requests name.

use rustc_hash::FxHashMap;

use crate::recorded::{PLACES_MAX, Place};

/// The places so far.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) list: Vec<Place>,
    known: FxHashMap<Place, usize>,
    /// Those that stand for a file that is open.
    busy: Vec<bool>,
}

impl Places {
    /// The number of a place; `None` if there are too many.
    pub(super) fn number(&mut self, place: Place) -> Option<usize> {
        if let Some(number) = self.known.get(&place) {
            return Some(*number);
        }
        if self.list.len() >= PLACES_MAX {
            return None;
        }
        let number = self.list.len();
        self.list.push(place.clone());
        self.busy.push(false);
        self.known.insert(place, number);
        Some(number)
    }

    /// The number of a place for a file that is opened: one that no other open file has.
    pub(super) fn opened(&mut self, mut place: Place) -> Option<usize> {
        loop {
            let number = self.number(place.clone())?;
            if !self.busy[number] {
                self.busy[number] = true;
                return Some(number);
            }
            place.copy += 1;
        }
    }

    /// The file is closed, if it had a place.
    pub(super) fn closed(&mut self, number: usize) {
        if let Some(busy) = self.busy.get_mut(number) {
            *busy = false;
        }
    }
}
