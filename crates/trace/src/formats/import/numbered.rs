//! Volumes that have numbers for names.
//!
//! Traces of clouds name thousands of volumes by number, a different one on each line. Looking each
//! one up by its text would take most of the time of a line, so the usual numbers index a table.

use super::{Fault, Intake};
use crate::formats::write::decimal;
use crate::request::Request;
use crate::units::VolumeId;

/// The numbers that the table holds; larger ones are looked up by their text.
const NUMBERS_MAX: usize = 65_536;

/// The entry of a number that was not seen yet.
const NONE: u32 = u32::MAX;

/// The number of a volume, and a request to it.
pub type OnVolume = (u64, Request);

/// The volumes of a trace by their numbers.
#[derive(Debug, Default)]
pub struct Numbered {
    table: Vec<u32>,
}

impl Numbered {
    /// The volume called `number`; a new number becomes a volume of the header.
    #[inline]
    pub fn volume(&mut self, number: u64, intake: &mut Intake) -> Result<VolumeId, Fault> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        match self.table.get(index) {
            Some(&id) if id != NONE => Ok(VolumeId(id)),
            _ => self.other(number, index, intake),
        }
    }

    /// Gives a request to the volume called `number`.
    #[inline]
    pub fn give(&mut self, (number, request): OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        let volume = self.volume(number, intake)?;
        intake.push(&Request { volume, ..request })
    }

    #[cold]
    fn other(&mut self, number: u64, index: usize, intake: &mut Intake) -> Result<VolumeId, Fault> {
        let mut name = Vec::new();
        decimal(&mut name, number, 1, b' ');
        let id = intake.volume(&name)?;
        if index < NUMBERS_MAX {
            if self.table.len() <= index {
                self.table.resize(index + 1, NONE);
            }
            self.table[index] = id.0;
        }
        Ok(id)
    }
}
