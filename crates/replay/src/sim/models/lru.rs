//! A cache with least-recently-used replacement.

use std::collections::HashMap;

/// No page: the end of the list.
const NONE: u32 = u32::MAX;

/// Pages by the time of their last use. Memory is taken as pages come, so that a large cache of a
/// short run costs little.
#[derive(Debug)]
pub(super) struct Lru {
    places: HashMap<u64, u32>,
    pages: Vec<Page>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    number: u64,
    newer: u32,
    older: u32,
}

impl Lru {
    /// An empty cache for so many pages, at least one.
    pub(super) fn new(pages: u64) -> Self {
        let capacity = (pages.clamp(1, u64::from(NONE) - 1)) as usize;
        Self { places: HashMap::new(), pages: Vec::new(), newest: NONE, oldest: NONE, capacity }
    }

    /// Uses a page; answers whether it was there.
    pub(super) fn touch(&mut self, number: u64) -> bool {
        if let Some(&place) = self.places.get(&number) {
            self.unlink(place);
            self.link(place);
            return true;
        }
        let page = Page { number, newer: NONE, older: NONE };
        let place = if self.pages.len() < self.capacity {
            self.pages.push(page);
            self.pages.len() as u32 - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.pages[place as usize].number);
            self.pages[place as usize] = page;
            place
        };
        self.places.insert(number, place);
        self.link(place);
        false
    }

    /// Takes a page out of the order of use.
    fn unlink(&mut self, place: u32) {
        let Page { newer, older, .. } = self.pages[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.pages[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.pages[older as usize].newer = newer,
        }
    }

    /// Makes a page the newest.
    fn link(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        match older {
            NONE => self.oldest = place,
            older => self.pages[older as usize].newer = place,
        }
        let page = &mut self.pages[place as usize];
        (page.newer, page.older) = (NONE, older);
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;
    use crate::pattern::SplitMix64;

    #[test]
    fn it_hits_as_a_plain_list_in_order_of_use_does() {
        let mut random = SplitMix64(1);
        for capacity in [1, 2, 7, 40] {
            let mut lru = Lru::new(capacity);
            let mut list: Vec<u64> = Vec::new();
            for _ in 0..5_000 {
                let page = random.below(60);
                let there = list.iter().position(|other| *other == page);
                assert_eq!(lru.touch(page), there.is_some());
                if let Some(at) = there {
                    list.remove(at);
                }
                list.insert(0, page);
                list.truncate(capacity as usize);
            }
        }
    }
}
