//! The fields of a line by a regular expression.
//!
//! A group's name describes its content, with `_` for the colons that a name must not have:
//! `(?<offset_sectors>\d+)` is the column `offset:sectors`.

use regex::bytes::{CaptureLocations, Regex};

/// A regular expression, and the slots of its groups.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// The slot of each group, by its number.
    pub(super) slots: Vec<Option<u8>>,
}

impl Pattern {
    /// Puts the groups of `line` into their slots; answers whether the line matches.
    pub(super) fn cut<'a, const N: usize>(
        &self,
        places: &mut CaptureLocations,
        line: &'a [u8],
        fields: &mut [&'a [u8]; N],
    ) -> bool {
        if self.regex.captures_read(places, line).is_none() {
            return false;
        }
        for (group, slot) in self.slots.iter().enumerate() {
            let place = slot.and_then(|slot| fields.get_mut(usize::from(slot)));
            if let (Some(place), Some((from, to))) = (place, places.get(group)) {
                *place = line[from..to].trim_ascii();
            }
        }
        true
    }
}
