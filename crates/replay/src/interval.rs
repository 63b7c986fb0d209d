//! A set of byte ranges that answers "does anything in here overlap this range?".
//!
//! Conflicts must be found at the moment a request falls due, among all requests in flight then,
//! possibly tens of thousands of any size. A list is too slow, a hash of fixed zones is too slow
//! for large ranges, and a map that allocates has no place on the hot path.
//!
//! So: a treap (Seidel and Aragon, "Randomized search trees", 1996) in an arena of fixed size. A
//! node is a range named by a slot number; nodes are ordered by start, and each knows the furthest
//! end below it, so a query skips every subtree that ends too early (Cormen et al., "Interval
//! trees"). Insertion, removal and query cost O(log n) and allocate nothing.

/// "No node".
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    end: u64,
    /// The largest `end` in this node's subtree.
    end_max: u64,
    priority: u32,
    left: u32,
    right: u32,
}

/// Ranges `[start, end)`, none of them empty, each named by a slot below the capacity.
#[derive(Clone, Debug)]
pub struct IntervalSet {
    nodes: Vec<Node>,
    root: u32,
    len: usize,
    /// State of the generator of priorities: any sequence without pattern will do.
    random: u32,
}

impl IntervalSet {
    /// An empty set for slots `0..capacity`.
    pub fn new(capacity: usize) -> Self {
        let node = Node { start: 0, end: 0, end_max: 0, priority: 0, left: NIL, right: NIL };
        Self { nodes: vec![node; capacity], root: NIL, len: 0, random: 0x9E37_79B9 }
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the range `[start, end)`, which is not empty, under `slot`, which must be free.
    pub fn insert(&mut self, slot: u32, start: u64, end: u64) {
        debug_assert!(start < end);
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.nodes[slot as usize] =
            Node { start, end, end_max: end, priority: self.random, left: NIL, right: NIL };
        let (left, right) = self.split(self.root, start, slot);
        let left = self.join(left, slot);
        self.root = self.join(left, right);
        self.len += 1;
    }

    /// Takes the range under `slot` away, which must be there.
    pub fn remove(&mut self, slot: u32) {
        self.root = self.remove_from(self.root, slot);
        self.len -= 1;
    }

    /// Whether any range overlaps `[start, end)`, which is not empty.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        let mut node = self.root;
        // Descend to a single candidate: if the left subtree reaches behind `start` but holds no
        // overlap, then all its ranges begin at or behind `end`, and so do those to the right.
        while node != NIL {
            let Node { start: s, end: e, left, right, .. } = self.nodes[node as usize];
            if s < end && start < e {
                return true;
            }
            node =
                if left != NIL && self.nodes[left as usize].end_max > start { left } else { right };
        }
        false
    }

    /// Calls `visit` with the slot of every range that overlaps `[start, end)`, in order of start.
    /// The range is not empty.
    pub fn for_each_overlap(&self, start: u64, end: u64, visit: &mut impl FnMut(u32)) {
        self.visit_overlaps(self.root, start, end, visit);
    }

    fn visit_overlaps(&self, node: u32, start: u64, end: u64, visit: &mut impl FnMut(u32)) {
        if node == NIL || self.nodes[node as usize].end_max <= start {
            return;
        }
        let Node { start: s, end: e, left, right, .. } = self.nodes[node as usize];
        self.visit_overlaps(left, start, end, visit);
        if s < end {
            if start < e {
                visit(node);
            }
            self.visit_overlaps(right, start, end, visit);
        }
    }

    /// Nodes are ordered by start, then by slot.
    fn is_before(&self, node: u32, start: u64, slot: u32) -> bool {
        (self.nodes[node as usize].start, node) < (start, slot)
    }

    fn refresh(&mut self, node: u32) {
        let Node { end, left, right, .. } = self.nodes[node as usize];
        let below = |child: u32| if child == NIL { 0 } else { self.nodes[child as usize].end_max };
        self.nodes[node as usize].end_max = end.max(below(left)).max(below(right));
    }

    /// Splits the subtree into the nodes before the key and those behind it.
    fn split(&mut self, node: u32, start: u64, slot: u32) -> (u32, u32) {
        if node == NIL {
            return (NIL, NIL);
        }
        if self.is_before(node, start, slot) {
            let (middle, right) = self.split(self.nodes[node as usize].right, start, slot);
            self.nodes[node as usize].right = middle;
            self.refresh(node);
            (node, right)
        } else {
            let (left, middle) = self.split(self.nodes[node as usize].left, start, slot);
            self.nodes[node as usize].left = middle;
            self.refresh(node);
            (left, node)
        }
    }

    /// Joins two subtrees of which every node of the first is before every node of the second.
    fn join(&mut self, first: u32, second: u32) -> u32 {
        if first == NIL {
            return second;
        }
        if second == NIL {
            return first;
        }
        if self.nodes[first as usize].priority > self.nodes[second as usize].priority {
            let right = self.join(self.nodes[first as usize].right, second);
            self.nodes[first as usize].right = right;
            self.refresh(first);
            first
        } else {
            let left = self.join(first, self.nodes[second as usize].left);
            self.nodes[second as usize].left = left;
            self.refresh(second);
            second
        }
    }

    fn remove_from(&mut self, node: u32, slot: u32) -> u32 {
        assert_ne!(node, NIL, "slot {slot} is not in the set");
        if node == slot {
            let Node { left, right, .. } = self.nodes[node as usize];
            return self.join(left, right);
        }
        if self.is_before(node, self.nodes[slot as usize].start, slot) {
            let right = self.remove_from(self.nodes[node as usize].right, slot);
            self.nodes[node as usize].right = right;
        } else {
            let left = self.remove_from(self.nodes[node as usize].left, slot);
            self.nodes[node as usize].left = left;
        }
        self.refresh(node);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_answers_as_a_list_would(
            steps in proptest::collection::vec(
                (0_u32..40, 0_u64..200, 1_u64..30, any::<bool>()), 0..300,
            ),
        ) {
            let mut set = IntervalSet::new(40);
            let mut list: Vec<Option<(u64, u64)>> = vec![None; 40];
            for (slot, start, length, insert) in steps {
                let end = start + length;
                let expected: Vec<u32> = (0..40_u32)
                    .filter(|&s| list[s as usize].is_some_and(|(a, b)| a < end && start < b))
                    .collect();
                prop_assert_eq!(set.overlaps(start, end), !expected.is_empty());
                let mut found = Vec::new();
                set.for_each_overlap(start, end, &mut |slot| found.push(slot));
                found.sort_unstable();
                prop_assert_eq!(found, expected);
                match (list[slot as usize], insert) {
                    (None, true) => {
                        set.insert(slot, start, end);
                        list[slot as usize] = Some((start, end));
                    }
                    (Some(_), false) => {
                        set.remove(slot);
                        list[slot as usize] = None;
                    }
                    _ => {}
                }
                prop_assert_eq!(set.len(), list.iter().flatten().count());
            }
        }
    }
}
