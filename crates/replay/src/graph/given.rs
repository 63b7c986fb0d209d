//! Checks parents that the trace names itself.
//!
//! Existing annotations are kept as they are, if a replay can follow them. A request that waits for
//! itself through other requests would never be issued, so a cycle is refused. A parent may be
//! named before it occurs, so requests are held back until all their ancestors have occurred: each
//! request counts its parents that are not yet *seen through*, and a request that is seen through
//! decrements the counts of its children. A request that still has a count when the window is full
//! waits for a missing request or for itself.

use std::collections::VecDeque;

use ioecho_trace::{Nanos, Request};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Doubts, NEVER, Waits, completion};

/// The defects of annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenDoubts {
    /// The defects of the requests themselves.
    pub requests: Doubts,
    /// Parents that are not in the trace, or more than a window away; they are left out.
    pub missing_parents: u64,
    /// Requests with the number of an earlier one: the number then refers to the latest.
    pub duplicate_ids: u64,
    /// Parents that are named more than once.
    pub duplicate_parents: u64,
    /// Requests issued before their last parent had completed; their think time counts as 0.
    pub negative_thinks: u64,
}

/// Requests that wait for each other in a circle: their numbers, with the first one repeated at the
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(pub Vec<u64>);

/// A checked request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// The request.
    pub request: &'a Request,
    /// The number by which other requests name it.
    pub id: u64,
    /// Its parents and its think time.
    pub waits: Waits<'a>,
    /// The numbers of its parents, in the order of `waits`.
    pub parents: &'a [u64],
}

/// Checks given parents; requests enter and leave in the order of their issue.
pub struct Annotations {
    window_rows: usize,
    /// The requests of the window: first those that have left, then those that are held back.
    nodes: VecDeque<Node>,
    /// The row of the first request of the window.
    base: u64,
    /// How many requests of the window have left.
    left: usize,
    rows: FxHashMap<u64, u64>,
    /// The rows of requests that wait for a number that has not occurred yet.
    awaited: FxHashMap<u64, Vec<u64>>,
    latest: i64,
    doubts: GivenDoubts,
    ready: Vec<u64>,
    parents: Vec<(u64, u64)>,
    parent_rows: Vec<u64>,
    parent_ids: Vec<u64>,
}

/// A request of the window.
struct Node {
    request: Request,
    id: u64,
    end: i64,
    parents: Vec<Parent>,
    /// The number of its parents that are not seen through.
    unseen: usize,
    /// The rows of its children.
    children: Vec<u64>,
    think: Option<Nanos>,
}

#[derive(Clone, Copy)]
struct Parent {
    id: u64,
    /// Its row, once it has occurred.
    row: Option<u64>,
}

impl Annotations {
    /// Searches parents among this number of requests before and after each.
    pub fn new(window_rows: u64) -> Self {
        Self {
            window_rows: usize::try_from(window_rows).unwrap_or(usize::MAX).max(1),
            nodes: VecDeque::new(),
            base: 0,
            left: 0,
            rows: FxHashMap::default(),
            awaited: FxHashMap::default(),
            latest: i64::MIN,
            doubts: GivenDoubts::default(),
            ready: Vec::new(),
            parents: Vec::new(),
            parent_rows: Vec::new(),
            parent_ids: Vec::new(),
        }
    }

    /// The defects so far.
    pub fn doubts(&self) -> GivenDoubts {
        self.doubts
    }

    /// Takes the next request, its number, the numbers of its parents and its think time, if given.
    pub fn push(&mut self, request: &Request, id: u64, parents: &[u64], think: Option<Nanos>) {
        if request.issue.0 < self.latest {
            self.doubts.requests.clock_inversions += 1;
        }
        self.latest = self.latest.max(request.issue.0);
        let mut request = *request;
        request.issue = Nanos(self.latest);
        let row = self.base + self.nodes.len() as u64;
        if self.rows.insert(id, row).is_some() {
            self.doubts.duplicate_ids += 1;
        }
        let mut node = Node {
            end: completion(&request, self.latest, &mut self.doubts.requests),
            request,
            id,
            parents: Vec::with_capacity(parents.len()),
            unseen: 0,
            children: Vec::new(),
            think,
        };
        let mut named: FxHashSet<u64> = FxHashSet::default();
        for parent in parents {
            if !named.insert(*parent) {
                self.doubts.duplicate_parents += 1;
                continue;
            }
            let found = self.rows.get(parent).copied();
            node.parents.push(Parent { id: *parent, row: found });
            match found {
                None => {
                    self.awaited.entry(*parent).or_default().push(row);
                    node.unseen += 1;
                }
                // The request itself: it will never be seen through.
                Some(found) if found == row => node.unseen += 1,
                Some(found) => {
                    let parent = &mut self.nodes[(found - self.base) as usize];
                    if parent.unseen > 0 {
                        parent.children.push(row);
                        node.unseen += 1;
                    }
                }
            }
        }
        let is_ready = node.unseen == 0;
        self.nodes.push_back(node);
        self.arrive(id, row);
        if is_ready {
            self.see_through(row);
        }
    }

    /// Links the requests that wait for the number `id` to its row.
    fn arrive(&mut self, id: u64, row: u64) {
        for child in self.awaited.remove(&id).unwrap_or_default() {
            let Some(at) = child.checked_sub(self.base) else { continue };
            let Some(node) = self.nodes.get_mut(at as usize) else { continue };
            if let Some(parent) = node.parents.iter_mut().find(|parent| parent.id == id) {
                parent.row = Some(row);
            }
            self.nodes[(row - self.base) as usize].children.push(child);
        }
    }

    /// All parents of `row` are seen through: decrements the counts of its children.
    fn see_through(&mut self, row: u64) {
        self.ready.push(row);
        while let Some(row) = self.ready.pop() {
            let children = std::mem::take(&mut self.nodes[(row - self.base) as usize].children);
            for child in children {
                let node = &mut self.nodes[(child - self.base) as usize];
                node.unseen -= 1;
                if node.unseen == 0 {
                    self.ready.push(child);
                }
            }
        }
    }

    /// Returns the next request, if the window is full or `ended` says that no more requests
    /// follow.
    ///
    /// # Errors
    /// The cycle in which its request waits.
    pub fn give(&mut self, ended: bool) -> Result<Option<Given<'_>>, Cycle> {
        let held = self.nodes.len() - self.left;
        if held == 0 || !ended && held <= self.window_rows {
            return Ok(None);
        }
        while self.nodes[self.left].unseen > 0 {
            self.untie(self.base + self.left as u64)?;
        }
        // Only requests that have left are forgotten.
        if self.left > self.window_rows {
            self.forget();
        }
        let at = self.left;
        self.left += 1;
        Ok(Some(self.told(at)))
    }

    /// Finds a missing request for which `row` waits, and removes that parent; or finds a cycle.
    fn untie(&mut self, row: u64) -> Result<(), Cycle> {
        let mut way: Vec<u64> = Vec::new();
        let mut places: FxHashMap<u64, usize> = FxHashMap::default();
        let mut at = row;
        loop {
            if let Some(from) = places.insert(at, way.len()) {
                let circle = way[from..].iter().chain(std::iter::once(&at));
                return Err(Cycle(circle.map(|row| self.node(*row).id).collect()));
            }
            way.push(at);
            let waits_for = self.node(at).parents.iter().find_map(|parent| match parent.row {
                Some(row) if row == at || self.is_unseen(row) => Some((parent.id, Some(row))),
                Some(_) => None,
                None => Some((parent.id, None)),
            });
            match waits_for {
                Some((_, Some(parent))) => at = parent,
                Some((id, None)) => {
                    self.give_up(id);
                    return Ok(());
                }
                // No parent remains, so the count is zero too.
                None => return Ok(()),
            }
        }
    }

    fn node(&self, row: u64) -> &Node {
        &self.nodes[(row - self.base) as usize]
    }

    fn is_unseen(&self, row: u64) -> bool {
        let at = row.checked_sub(self.base);
        at.and_then(|at| self.nodes.get(at as usize)).is_some_and(|node| node.unseen > 0)
    }

    /// Removes the number `id` from the parents of all requests.
    fn give_up(&mut self, id: u64) {
        for child in self.awaited.remove(&id).unwrap_or_default() {
            let node = &mut self.nodes[(child - self.base) as usize];
            let before = node.parents.len();
            node.parents.retain(|parent| parent.id != id || parent.row.is_some());
            self.doubts.missing_parents += (before - node.parents.len()) as u64;
            node.unseen -= 1;
            if node.unseen == 0 {
                self.see_through(child);
            }
        }
    }

    /// Forgets the first request of the window, which has left.
    fn forget(&mut self) {
        let Some(node) = self.nodes.pop_front() else { return };
        if self.rows.get(&node.id) == Some(&self.base) {
            self.rows.remove(&node.id);
        }
        self.base += 1;
        self.left -= 1;
    }

    /// The request at `at`, with its parents and its think time.
    fn told(&mut self, at: usize) -> Given<'_> {
        let node = &self.nodes[at];
        self.parents.clear();
        let mut last = None;
        for parent in &node.parents {
            let Some(row) = parent.row else { continue };
            self.parents.push((row, parent.id));
            // A forgotten parent completed long ago.
            let end = row.checked_sub(self.base).and_then(|at| self.nodes.get(at as usize));
            last = last.max(Some(end.map_or(i64::MIN, |parent| parent.end)));
        }
        self.parents.sort_unstable();
        self.parent_rows.clear();
        self.parent_rows.extend(self.parents.iter().map(|(row, _)| *row));
        self.parent_ids.clear();
        self.parent_ids.extend(self.parents.iter().map(|(_, id)| *id));
        let start = node.request.issue;
        let think = last.map(|end| match node.think {
            Some(think) => think,
            // The completion of its parents is unknown.
            None if end == NEVER || end == i64::MIN => Nanos::ZERO,
            None => start.saturating_sub(Nanos(end)),
        });
        if think.is_some_and(|think| think < Nanos::ZERO) {
            self.doubts.negative_thinks += 1;
        }
        let node = &self.nodes[at];
        Given {
            request: &node.request,
            id: node.id,
            waits: Waits {
                row: self.base + at as u64,
                parents: &self.parent_rows,
                think: think.map(|think| think.max(Nanos::ZERO)),
            },
            parents: &self.parent_ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Op};

    fn request(us: i64, latency_us: i64) -> Request {
        let mut request = Request::new(Nanos(us * 1_000), Op::Read, Bytes(0), Bytes(512));
        request.latency = Some(Nanos(latency_us * 1_000));
        request
    }

    type Row = (u64, Vec<u64>, Option<i64>);

    fn all(window: u64, rows: &[(u64, i64, &[u64])]) -> (Result<Vec<Row>, Cycle>, GivenDoubts) {
        let mut annotations = Annotations::new(window);
        let mut told = Vec::new();
        let mut take = |annotations: &mut Annotations, ended| -> Result<(), Cycle> {
            while let Some(given) = annotations.give(ended)? {
                let think = given.waits.think.map(|think| think.0 / 1_000);
                told.push((given.id, given.parents.to_vec(), think));
            }
            Ok(())
        };
        for (id, us, parents) in rows {
            annotations.push(&request(*us, 10), *id, parents, None);
            if let Err(cycle) = take(&mut annotations, false) {
                return (Err(cycle), annotations.doubts());
            }
        }
        let end = take(&mut annotations, true);
        (end.map(|()| told), annotations.doubts())
    }

    #[test]
    fn parents_are_kept_and_think_times_follow() {
        let (told, doubts) = all(9, &[(7, 0, &[]), (9, 5, &[]), (8, 30, &[9, 7])]);
        let expected = [(7, vec![], None), (9, vec![], None), (8, vec![7, 9], Some(15))];
        assert_eq!((told.unwrap(), doubts), (expected.to_vec(), GivenDoubts::default()));
    }

    #[test]
    fn a_parent_may_be_named_before_it_comes() {
        let (told, doubts) = all(9, &[(1, 0, &[2]), (2, 5, &[]), (3, 30, &[1])]);
        let expected = [(1, vec![2], Some(0)), (2, vec![], None), (3, vec![1], Some(20))];
        assert_eq!(told.unwrap(), expected);
        assert_eq!((doubts.negative_thinks, doubts.missing_parents), (1, 0));
    }

    #[test]
    fn a_cycle_is_refused_and_said() {
        let (told, _) = all(9, &[(1, 0, &[]), (2, 1, &[4, 1]), (3, 2, &[2]), (4, 3, &[3])]);
        assert_eq!(told, Err(Cycle(vec![2, 4, 3, 2])));
        assert_eq!(all(9, &[(5, 0, &[5])]).0, Err(Cycle(vec![5, 5])));
        // A cycle is also found from a request that only leads to it.
        let (told, _) = all(9, &[(1, 0, &[2]), (2, 1, &[3]), (3, 2, &[2])]);
        assert_eq!(told, Err(Cycle(vec![2, 3, 2])));
    }

    #[test]
    fn parents_that_are_not_there_are_counted_and_left_out() {
        let (told, doubts) = all(9, &[(1, 0, &[99]), (2, 1, &[99, 1]), (3, 50, &[2, 2])]);
        let expected = [(1, vec![], None), (2, vec![1], Some(0)), (3, vec![2], Some(39))];
        assert_eq!(told.unwrap(), expected);
        assert_eq!((doubts.missing_parents, doubts.duplicate_parents), (2, 1));
    }

    #[test]
    fn a_number_that_comes_again_is_the_later_one() {
        let (told, doubts) = all(9, &[(1, 0, &[]), (1, 20, &[]), (2, 50, &[1])]);
        assert_eq!(told.unwrap()[2], (2, vec![1], Some(20)));
        assert_eq!(doubts.duplicate_ids, 1);
    }

    #[test]
    fn what_is_more_than_a_window_away_is_missing() {
        let mut rows: Vec<(u64, i64, &[u64])> =
            (0..40).map(|id| (id, id as i64 * 20, &[][..])).collect();
        rows.push((40, 900, &[0, 35]));
        let (told, doubts) = all(5, &rows);
        assert_eq!(told.unwrap()[40].1, [35]);
        assert_eq!(doubts.missing_parents, 1);
    }
}
