//! Reuse distances of a list of accesses, exactly.
//!
//! The last access of every page is marked; the number of marks after the last access of a page is
//! the number of other pages accessed since (Bennett and Kruskal 1975, with the tree of Fenwick
//! 1994 to count marks). Sixty-four accesses share a word, so that the tree stays in the cache.

use rustc_hash::FxHashMap;

/// Marks at places, and how many there are up to one. All places are marked from the start: only
/// earlier ones are counted, so a new access need not be marked.
struct Marks {
    words: Vec<u64>,
    /// Fenwick's tree over the number of marks in each word.
    tree: Vec<u32>,
}

impl Marks {
    fn new(places: usize) -> Self {
        let words = places.div_ceil(64) + 1;
        // A node stands for as many words as its lowest bit says.
        let marks = |node: usize| 64 * (node & node.wrapping_neg()) as u32;
        Self { words: vec![u64::MAX; words], tree: (0..=words).map(marks).collect() }
    }

    fn clear(&mut self, place: usize) {
        self.words[place / 64] &= !(1 << (place % 64));
        let mut node = place / 64 + 1;
        while let Some(count) = self.tree.get_mut(node) {
            *count -= 1;
            node += node & node.wrapping_neg();
        }
    }

    /// The marks from the first place to this one, itself included.
    fn up_to(&self, place: usize) -> u32 {
        let within = self.words[place / 64] << (63 - place % 64);
        let mut sum = within.count_ones();
        let mut node = place / 64;
        while node > 0 {
            sum += self.tree[node];
            node &= node - 1;
        }
        sum
    }
}

/// What is known of a page during the pass.
struct Known {
    last: u32,
    accesses: u32,
    /// The largest distance since the last write; `None` before the first.
    since_write: Option<u32>,
}

/// Accesses by distance: `[d]` tells of how many at least that many other pages lie between.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// Of reads and of writes, from any access of the page.
    pub(super) reused: [Vec<u64>; 2],
    /// Of writes, from the last write: the largest of the distances between. A cache that is larger
    /// than it still holds what was written, and need not write it twice (Thompson and Smith, ACM
    /// Transactions on Computer Systems 7, 1989).
    pub(super) rewritten: Vec<u64>,
    /// Reads and writes of pages that were not accessed before.
    pub(super) cold: [u64; 2],
    /// Accesses of reads and of writes.
    pub(super) accesses: [u64; 2],
    /// The sum of the squares of the accesses of each page.
    pub(super) squares: f64,
}

fn count(bins: &mut Vec<u64>, distance: u32) {
    let distance = distance as usize;
    if distance >= bins.len() {
        bins.resize(distance + 1, 0);
    }
    bins[distance] += 1;
}

/// The distances of accesses to pages in their order: the page, and 1 of a write.
pub(super) fn distances(accesses: impl ExactSizeIterator<Item = (u64, usize)>) -> Distances {
    let mut found = Distances::default();
    let mut marks = Marks::new(accesses.len());
    let mut pages: FxHashMap<u64, Known> = FxHashMap::default();
    for (at, (page, kind)) in accesses.enumerate() {
        found.accesses[kind] += 1;
        let marked = pages.len() as u32;
        match pages.get_mut(&page) {
            None => {
                found.cold[kind] += 1;
                let since_write = (kind == 1).then_some(0);
                pages.insert(page, Known { last: at as u32, accesses: 1, since_write });
            }
            Some(known) => {
                let distance = marked - marks.up_to(known.last as usize);
                count(&mut found.reused[kind], distance);
                known.since_write = known.since_write.map(|before| before.max(distance));
                if kind == 1 {
                    if let Some(largest) = known.since_write {
                        count(&mut found.rewritten, largest);
                    }
                    known.since_write = Some(0);
                }
                marks.clear(known.last as usize);
                known.last = at as u32;
                known.accesses += 1;
            }
        }
    }
    found.squares = pages.values().map(|known| f64::from(known.accesses).powi(2)).sum();
    found
}
