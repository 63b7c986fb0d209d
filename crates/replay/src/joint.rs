//! Several targets side by side in one lane.
//!
//! A load may take several targets for one volume. Its requests are in flight together, whichever
//! target they go to, so one engine drives all of these targets: its places are those of a space in
//! which they lie one behind the other. Only whoever hands requests over, stamps what is written,
//! or tells where a request went has to know which target a place belongs to.

use std::sync::Arc;

use ioecho_trace::Bytes;

use crate::device::Io;
use crate::plan::Planned;

/// Targets begin at multiples of so many bytes: whatever is aligned on its target is aligned here.
const GRAIN: u64 = 1 << 20;

/// The targets of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    members: Arc<[Member]>,
}

/// A target in the space of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the run.
    pub target: u16,
    /// Where it begins in the lane.
    pub base: Bytes,
    /// How many bytes it holds.
    pub capacity: Bytes,
}

impl Joint {
    /// These targets, by their numbers, of these sizes.
    pub fn new(targets: impl IntoIterator<Item = (u16, Bytes)>) -> Self {
        let mut next = 0_u64;
        let members = targets.into_iter().map(|(target, capacity)| {
            let base = Bytes(next);
            let end = next.saturating_add(capacity.0);
            next = end.checked_next_multiple_of(GRAIN).unwrap_or(end);
            Member { target, base, capacity }
        });
        Self { members: members.collect() }
    }

    /// The targets, in the order of their places.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether there is more than one.
    pub fn is_of_several(&self) -> bool {
        self.members.len() > 1
    }

    /// Where the last of them ends.
    pub fn end(&self) -> Bytes {
        self.members.last().map_or(Bytes::ZERO, |last| last.base + last.capacity)
    }

    /// Which of them a place of the lane belongs to.
    #[inline]
    pub fn at(&self, place: Bytes) -> usize {
        match &self.members[..] {
            [_] => 0,
            all => all.partition_point(|member| member.base <= place).saturating_sub(1),
        }
    }

    /// The target that a place of the lane belongs to, and the place there.
    #[inline]
    pub fn place(&self, place: Bytes) -> (u16, Bytes) {
        let Member { target, base, .. } = self.members[self.at(place)];
        (target, Bytes(place.0 - base.0))
    }

    /// Which of them a request of the lane goes to, and the request as that target is asked for it.
    #[inline]
    pub fn apart(&self, io: &Io) -> (usize, Io) {
        let at = self.at(io.offset);
        (at, Io { offset: Bytes(io.offset.0 - self.members[at].base.0), ..*io })
    }

    /// A request of the lane with the number of its target and its place there.
    #[inline]
    pub fn planned(&self, planned: &Planned) -> Planned {
        let (target, offset) = self.place(planned.offset);
        Planned { offset, target, ..*planned }
    }

    /// Where the target of this number begins in the lane.
    pub fn base_of(&self, target: u16) -> Option<Bytes> {
        self.members.iter().find(|member| member.target == target).map(|member| member.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_target_is_its_own_whatever_the_sizes_are() {
        let sizes = [1_u64 << 20, 512, 3 << 30];
        let joint = Joint::new((3_u16..).zip(sizes.map(Bytes)));
        for (number, size) in (3..).zip(sizes) {
            let base = joint.base_of(number).unwrap();
            assert!(base.0.is_multiple_of(GRAIN));
            for place in [0, 511, size - 1] {
                assert_eq!(joint.place(base + Bytes(place)), (number, Bytes(place)));
            }
        }
        assert_eq!(joint.base_of(6), None);
        assert_eq!(joint.end(), joint.members()[2].base + Bytes(3 << 30));
    }
}
