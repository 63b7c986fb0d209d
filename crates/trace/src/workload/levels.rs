//! How many directories and files a tree has, and whether so many are possible.
//!
//! A tree that no replay could take must be refused where it is described, not when its first run
//! begins. So the limits stand here, for the description and for the replay.

use super::model::Sizes;

/// The most files of a tree: at 10 bytes each they take 2.5 GiB of memory.
const FILES_MAX: u64 = 1 << 28;

/// The most directories of a tree.
const DIRECTORIES_MAX: u64 = 1 << 26;

/// The most levels of directories.
pub const DEPTH_MAX: u32 = 64;

/// Places of a tree have so many bits at most.
pub const PLACE_BITS: u32 = 62;

/// The levels of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The number of the first directory of each level, and of the first behind the last.
    pub firsts: Vec<u64>,
    /// The first directory with files.
    pub first: u64,
    /// How many files it has.
    pub files: u64,
    /// The places of a file are named by so many bits.
    pub shift: u32,
}

impl Levels {
    /// Those of a tree with `per_directory` files in each directory of the lowest level, or of all
    /// (`everywhere`).
    ///
    /// # Errors
    ///
    /// In words, if there cannot be so many.
    pub fn new(
        depth: u32,
        width: u64,
        per_directory: u64,
        everywhere: bool,
        sizes: &Sizes,
    ) -> Result<Self, String> {
        if depth > DEPTH_MAX || width == 0 {
            return Err(format!("depth is at most {DEPTH_MAX}, and width at least 1"));
        }
        let mut firsts = vec![0];
        let (mut of_level, mut sum) = (1_u64, 0_u64);
        for _ in 0..depth {
            of_level = of_level.saturating_mul(width);
            sum = sum.saturating_add(of_level);
            firsts.push(sum);
        }
        if sum > DIRECTORIES_MAX {
            let many = match sum {
                u64::MAX => format!("more than {DIRECTORIES_MAX} directories"),
                sum => format!("{sum} directories, and {DIRECTORIES_MAX} are possible"),
            };
            return Err(format!("it has {many}"));
        }
        // Directories of the first level begin at 0, as the anchor has no number.
        let first = match (depth, everywhere) {
            (0, _) | (_, true) => 0,
            (depth, false) => firsts[depth as usize - 1],
        };
        let with_files = if depth == 0 { 1 } else { sum - first };
        let files = with_files.checked_mul(per_directory).filter(|files| *files <= FILES_MAX);
        let Some(files) = files else {
            return Err(format!("it has more than {FILES_MAX} files"));
        };
        let shift = 64 - (largest(sizes).max(1) - 1).leading_zeros();
        let places = files.saturating_add(sum).max(1);
        if shift + (64 - (places - 1).leading_zeros()) > PLACE_BITS {
            return Err(format!("its files have more places than {PLACE_BITS} bits name"));
        }
        Ok(Self { firsts, first, files, shift })
    }
}

/// The largest file that sizes make.
fn largest(sizes: &Sizes) -> u64 {
    match sizes {
        // An average.
        Sizes::Mix(mix) if matches!(&mix[..], [(_, share)] if *share <= 0.0) => {
            sizes.largest().saturating_mul(2)
        }
        sizes => sizes.largest(),
    }
}
