//! The search for the value at which something begins, such as the speed-up at which a device no
//! longer follows.
//!
//! The two ends are tried first, then always the geometric middle of the values between which it
//! begins. Several runs decide about a value by their majority. In the end both values that enclose
//! it are decided anew: a device that has become slower meanwhile answers otherwise, and then
//! nothing is claimed. What to try next follows from the results alone, so a search that was
//! interrupted goes on where it was.

use serde::{Deserialize, Serialize};

/// The votes on a value, in their order: whether the condition held.
pub type Votes = Vec<(f64, Vec<bool>)>;

/// What is known, or what to try next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Run once more at this value.
    Try(f64),
    /// It begins between these two values.
    Between(f64, f64),
    /// It holds at the lowest value already.
    Below(f64),
    /// It does not hold even at the highest value.
    Above(f64),
    /// A value was decided in one way first and in the other way later: nothing can be claimed.
    Changed(f64),
}

/// The search.
#[derive(Clone, Copy, Debug)]
pub struct Bisection {
    /// The lowest and the highest value.
    pub between: [f64; 2],
    /// How near the two values that enclose it must be, as a share.
    pub precision: f64,
    /// How many votes decide by their majority; odd.
    pub votes: u32,
}

/// What the votes on a value decide.
enum Decided {
    Yes,
    No,
    Open,
}

impl Bisection {
    /// What to do next after these votes.
    pub fn next(&self, votes: &Votes) -> Next {
        let [mut low, mut high] = self.between;
        match self.decided(votes, low, 0).0 {
            Decided::Open => return Next::Try(low),
            Decided::Yes => return Next::Below(low),
            Decided::No => {}
        }
        match self.decided(votes, high, 0).0 {
            Decided::Open => return Next::Try(high),
            Decided::No => return Next::Above(high),
            Decided::Yes => {}
        }
        while high / low > 1.0 + self.precision {
            let middle = typed((low * high).sqrt());
            // Six digits cannot be halved any further.
            if middle <= low || middle >= high {
                break;
            }
            match self.decided(votes, middle, 0).0 {
                Decided::Open => return Next::Try(middle),
                Decided::Yes => high = middle,
                Decided::No => low = middle,
            }
        }
        for (value, holds) in [(low, false), (high, true)] {
            let first = self.decided(votes, value, 0).1;
            match (self.decided(votes, value, first).0, holds) {
                (Decided::Open, _) => return Next::Try(value),
                (Decided::Yes, true) | (Decided::No, false) => {}
                (Decided::Yes, false) | (Decided::No, true) => return Next::Changed(value),
            }
        }
        Next::Between(low, high)
    }

    /// What the votes on `value` from number `from` on decide, and the number of the vote behind
    /// the deciding one.
    fn decided(&self, votes: &Votes, value: f64, from: usize) -> (Decided, usize) {
        let needed = self.votes / 2 + 1;
        let (mut yes, mut no) = (0, 0);
        let cast = votes
            .iter()
            .find(|(other, _)| is_same(*other, value))
            .map_or(&[][..], |(_, cast)| cast);
        for (number, vote) in cast.iter().enumerate().skip(from) {
            *(if *vote { &mut yes } else { &mut no }) += 1;
            if yes == needed {
                return (Decided::Yes, number + 1);
            }
            if no == needed {
                return (Decided::No, number + 1);
            }
        }
        (Decided::Open, cast.len())
    }
}

/// Whether two values are the same run.
pub(crate) fn is_same(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits()
}

/// A value as it is typed for a run.
fn typed(value: f64) -> f64 {
    crate::file::rounded(value).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(bisection: Bisection, mut holds: impl FnMut(f64, usize) -> bool) -> (Next, usize) {
        let mut votes = Votes::new();
        for run in 0..1000 {
            let value = match bisection.next(&votes) {
                Next::Try(value) => value,
                found => return (found, run),
            };
            if !votes.iter().any(|(other, _)| is_same(*other, value)) {
                votes.push((value, Vec::new()));
            }
            let cast = votes.iter_mut().find(|(other, _)| is_same(*other, value)).unwrap();
            let vote = holds(value, run);
            cast.1.push(vote);
        }
        panic!("no end");
    }

    #[test]
    fn every_knee_is_enclosed_within_the_precision() {
        for votes in [1, 3] {
            for knee in 2..199 {
                let knee = f64::from(knee) + 0.37;
                let bisection = Bisection { between: [1.0, 200.0], precision: 0.05, votes };
                let (found, runs) = searched(bisection, |value, _| value >= knee);
                let Next::Between(low, high) = found else { panic!("{found:?}") };
                assert!(low < knee && knee <= high && high / low <= 1.05, "{low} {knee} {high}");
                assert!(runs <= 22 * votes as usize, "{runs}");
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_ends_and_what_changes_is_not_claimed() {
        let bisection = Bisection { between: [1.0, 64.0], precision: 0.05, votes: 3 };
        assert_eq!(searched(bisection, |_, _| true).0, Next::Below(1.0));
        assert_eq!(searched(bisection, |_, _| false).0, Next::Above(64.0));
        // After eighteen runs, when 20 is enclosed, the device is slower.
        let (found, _) =
            searched(bisection, |value, run| value >= if run < 18 { 20.0 } else { 2.0 });
        assert!(matches!(found, Next::Changed(_)), "{found:?}");
    }
}
