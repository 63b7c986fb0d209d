//! The list of a request's parents.

use super::numbers::{column, quantity};
use crate::dependencies::Dependency;
use crate::formats::import::Fault;

/// The largest number of parents of a request that are read; hfplayer itself counts to 255.
const PARENTS_MAX: usize = 65_536;

/// The parents in a line; the list is kept to use its memory again.
#[derive(Debug, Default)]
pub(super) struct Parents(Vec<u64>);

impl Parents {
    /// The dependency in the fields `id` and `list` of `line`. There are no parents if the list is
    /// `NA` or empty.
    pub(super) fn read(
        &mut self,
        id: &[u8],
        list: &[u8],
        line: &[u8],
    ) -> Result<Dependency<'_>, Fault> {
        self.0.clear();
        let id = quantity(id, line, "DUMP_OFFSET is no whole number")?;
        if list.is_empty() || list.eq_ignore_ascii_case(b"NA") {
            return Ok(Dependency { id, think: None, parents: &self.0 });
        }
        for parent in list.split(|byte| *byte == b'-') {
            if self.0.len() == PARENTS_MAX {
                let reason = "DEP_PARENT_LIST names more than 65,536 requests";
                return Err(Fault::junk(column(line, list), reason));
            }
            let reason = "DEP_PARENT_LIST is no list of numbers joined by '-'";
            self.0.push(quantity(parent, line, reason)?);
        }
        Ok(Dependency { id, think: None, parents: &self.0 })
    }
}
