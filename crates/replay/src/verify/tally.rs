//! The judgements on all sectors of one read, together.
//!
//! A sector that the run never wrote, without a stamp, cannot be judged alone. But prepare writes
//! without gaps, in blocks of 4 KiB: a bare sector among prepared ones is either lost, or somebody
//! has zeroed, discarded or overwritten it since. Which of these is unknown, so it does not count
//! as damage but is reported.

use ioecho_trace::Integrity;

use super::finding::VerifyFigures;
use super::judgement::Judgement;
use crate::fill::BLOCK;
use crate::pattern::SECTOR_BYTES;

/// Sectors of a block that prepare writes at a time.
const BLOCK_SECTORS: u64 = BLOCK / SECTOR_BYTES as u64;

/// The sectors of one read.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counted: VerifyFigures,
    /// The worst of them.
    pub(super) worst: Integrity,
    /// Whole sectors out of their place that are not taken for damage.
    pub(super) astray: u64,
    /// The block of the last sector, how many of its sectors are bare, and whether prepare wrote
    /// any other.
    block: u64,
    bare: u64,
    is_prepared: bool,
    /// Bare sectors of blocks behind the last block that prepare wrote; `None` where there is none.
    behind: Option<u64>,
}

impl Tally {
    /// Takes the next sector. `is_bare`: it was never touched and bears no stamp.
    pub(super) fn add(&mut self, number: u64, judgement: Judgement, is_bare: bool) {
        if number / BLOCK_SECTORS != self.block {
            self.end_block();
            self.block = number / BLOCK_SECTORS;
        }
        let counted = &mut self.counted;
        counted.sectors += 1;
        match judgement {
            Judgement::Intact | Judgement::Prepared => {
                counted.intact += 1;
                self.worst = self.worst.max(Integrity::Intact);
            }
            Judgement::Unknown | Judgement::Astray => counted.unknown += 1,
            Judgement::Ambiguous => counted.ambiguous += 1,
            Judgement::Unrecorded => counted.unrecorded += 1,
            Judgement::Undecided => counted.undecided += 1,
            Judgement::Shared => counted.shared += 1,
            Judgement::Damaged(kind) => self.worst = self.worst.max(kind),
        }
        match judgement {
            Judgement::Prepared => {
                counted.prepared += 1;
                self.is_prepared = true;
            }
            Judgement::Astray => self.astray += 1,
            Judgement::Unknown => self.bare += u64::from(is_bare),
            _ => {}
        }
    }

    fn end_block(&mut self) {
        let bare = std::mem::take(&mut self.bare);
        if std::mem::take(&mut self.is_prepared) {
            self.counted.doubtful += bare + self.behind.unwrap_or(0);
            self.behind = Some(0);
        } else if let Some(behind) = &mut self.behind {
            *behind += bare;
        }
    }

    /// Adds what was counted; damage is counted where it is noted.
    pub(super) fn add_to(mut self, figures: &mut VerifyFigures) {
        self.end_block();
        let counted = &self.counted;
        for (all, these) in [
            (&mut figures.sectors, counted.sectors),
            (&mut figures.intact, counted.intact),
            (&mut figures.prepared, counted.prepared),
            (&mut figures.unknown, counted.unknown - counted.doubtful),
            (&mut figures.doubtful, counted.doubtful),
            (&mut figures.ambiguous, counted.ambiguous),
            (&mut figures.unrecorded, counted.unrecorded),
            (&mut figures.undecided, counted.undecided),
            (&mut figures.shared, counted.shared),
        ] {
            *all += these;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these sectors are doubtful: `p` was prepared, `.` is bare, `w` the run wrote.
    fn doubtful(first: u64, sectors: &str) -> (u64, u64) {
        let mut tally = Tally::default();
        for (number, sector) in (first..).zip(sectors.chars()) {
            let judgement = match sector {
                'p' => Judgement::Prepared,
                'w' => Judgement::Intact,
                _ => Judgement::Unknown,
            };
            tally.add(number, judgement, sector == '.');
        }
        let mut figures = VerifyFigures::default();
        tally.add_to(&mut figures);
        (figures.doubtful, figures.unknown)
    }

    #[test]
    fn a_bare_sector_among_prepared_ones_is_doubtful_and_no_other_is() {
        assert_eq!(doubtful(0, ".ppppppp"), (1, 0));
        assert_eq!(doubtful(4, "ppp.........ppp"), (9, 0));
        assert_eq!(doubtful(0, "pppppppp........wwwwwwwwpppppppp"), (8, 0));
        assert_eq!(doubtful(0, "pppppppp........"), (0, 8), "nothing behind it was prepared");
        assert_eq!(doubtful(0, "........pppppppp"), (0, 8));
        assert_eq!(doubtful(0, "................"), (0, 16));
    }
}
