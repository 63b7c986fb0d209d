//! The places of generated requests.
//!
//! Every kind of load is a rule for places: anywhere, one after the other, in strides, mostly where
//! it is hot. The area begins at zero here; the source adds the offset.

use super::random::{Random, Share};
use super::zipf::Zipf;

/// The area that places are chosen from.
#[derive(Clone, Debug)]
pub(super) struct Area {
    /// The size in bytes, not less than the largest request.
    pub(super) size: u64,
    /// Places are multiples of this number of bytes, a power of two.
    pub(super) align: u64,
    /// Where parts of the area meet, in order, as aligned as places. No request crosses them.
    pub(super) borders: Vec<u64>,
}

impl Area {
    /// An area of one part.
    pub(super) const fn whole(size: u64, align: u64) -> Self {
        Self { size, align, borders: Vec::new() }
    }

    /// Whether each part, if there are several, is aligned and as large as this.
    pub(super) fn holds_in_each_part(&self, length: u64) -> bool {
        let mut begin = 0;
        let mut holds = |end: &u64| end - std::mem::replace(&mut begin, *end) >= length;
        self.borders.iter().all(|border| border.is_multiple_of(self.align) && holds(border))
            && (self.borders.is_empty() || holds(&self.size))
    }

    /// The first border behind `place`, or the end.
    #[inline]
    fn border_behind(&self, place: u64) -> u64 {
        let next = self.borders.partition_point(|border| *border <= place);
        self.borders.get(next).copied().unwrap_or(self.size)
    }

    /// The number of aligned places for a request of this length.
    #[inline]
    pub(super) fn places(&self, length: u64) -> u64 {
        ((self.size - length) >> self.align.trailing_zeros()) + 1
    }

    /// Any aligned place.
    #[inline]
    pub(super) fn anywhere(&self, length: u64, random: &mut Random) -> u64 {
        if self.borders.is_empty() {
            return random.below(self.places(length)) << self.align.trailing_zeros();
        }
        self.anywhere_in_parts(length, random)
    }

    /// Any aligned place at which a request crosses no border, each as likely as any other.
    fn anywhere_in_parts(&self, length: u64, random: &mut Random) -> u64 {
        let unit = self.align.trailing_zeros();
        let parts = || {
            let begins = std::iter::once(0).chain(self.borders.iter().copied());
            let ends = self.borders.iter().copied().chain([self.size]);
            begins.zip(ends).map(|(begin, end)| {
                let places = (end - begin).checked_sub(length).map_or(0, |rest| (rest >> unit) + 1);
                (begin, places)
            })
        };
        let mut number = random.below(parts().map(|(_, places)| places).sum::<u64>().max(1));
        for (begin, places) in parts() {
            if number < places {
                return begin + (number << unit);
            }
            number -= places;
        }
        0
    }

    /// The place itself if the request fits there, else the last place before the border or the end
    /// at which it fits.
    #[inline]
    pub(super) fn held(&self, place: u64, length: u64) -> u64 {
        let place = place.min((self.places(length) - 1) << self.align.trailing_zeros());
        let border = if self.borders.is_empty() { self.size } else { self.border_behind(place) };
        let fits = border.saturating_sub(length) & !(self.align - 1);
        if place + length > border { fits } else { place }
    }

    /// The place itself if the request fits there, else the next border; `None` if the area ends
    /// before.
    #[inline]
    fn onwards(&self, place: u64, length: u64) -> Option<u64> {
        let mut place = place;
        if !self.borders.is_empty() {
            while place < self.size && place + length > self.border_behind(place) {
                place = self.border_behind(place);
            }
        }
        (place + length <= self.size).then_some(place)
    }

    /// The next aligned place at or behind `place`.
    const fn aligned(&self, place: u64) -> u64 {
        (place + self.align - 1) & !(self.align - 1)
    }
}

/// A bijection of the numbers below `count` that scatters neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    count: u64,
    factor: u64,
    offset: u64,
}

impl Scatter {
    pub(super) fn new(count: u64, random: &mut Random) -> Self {
        // Near the golden section, so that the hottest lie far apart; coprime, so that none meet.
        let mut factor = ((u128::from(count) * 0x9E37_79B9_7F4A_7C15) >> 64) as u64 | 1;
        while greatest_common_divisor(factor, count) != 1 {
            factor += 2;
        }
        Self { count, factor, offset: random.below(count) }
    }

    #[inline]
    pub(super) fn of(&self, number: u64) -> u64 {
        // A division of 128 bits takes many times as long.
        if self.count <= 1 << 31 {
            return (number * self.factor + self.offset) % self.count;
        }
        let product = u128::from(number) * u128::from(self.factor) + u128::from(self.offset);
        (product % u128::from(self.count)) as u64
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The rule by which places are chosen.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// With the probability `seek` anywhere, otherwise behind the request before; the first of all
    /// goes anywhere if `next` is not known.
    Seek { seek: Share, next: Option<u64>, stops: bool },
    /// A fixed distance from the place before; the next turn begins one request further.
    Stride { stride: u64, next: u64, turn: u64 },
    /// Forwards by a distance between two, by chance; behind the end from the beginning on.
    Skip { least: u64, most: u64, next: u64 },
    /// By Zipf's law over the places, scattered over the area or the hottest first.
    Zipf { zipf: Zipf, scatter: Option<Scatter>, unit: u64 },
    /// A share of the requests to a part of the area.
    Hotspot { accesses: Share, from: u64, size: u64 },
    /// Several sequential streams, each in its part of the area; chance decides which one goes on.
    Streams { next: Vec<u64>, part: u64 },
}

impl Places {
    /// The place of a request of this length; `None` when a load that ends with its area has
    /// reached the end.
    #[inline]
    pub(super) fn next(&mut self, area: &Area, length: u64, random: &mut Random) -> Option<u64> {
        Some(match self {
            Self::Seek { seek, next, stops } => {
                let place = match *next {
                    _ if random.chance(*seek) => area.anywhere(length, random),
                    None => area.anywhere(length, random),
                    Some(next) => match area.onwards(next, length) {
                        Some(place) => place,
                        None if *stops => return None,
                        None => area.onwards(0, length)?,
                    },
                };
                *next = Some(area.aligned(place + length));
                place
            }
            Self::Skip { least, most, next } => {
                let place = match area.onwards(*next, length) {
                    Some(place) => place,
                    None => area.onwards(0, length)?,
                };
                let unit = area.align.trailing_zeros();
                let distance = *least + (random.below(((*most - *least) >> unit) + 1) << unit);
                *next = place.saturating_add(distance).min(area.size);
                place
            }
            Self::Stride { stride, next, turn } => {
                if *next + length > area.size {
                    *turn = area.aligned(*turn + length);
                    if *turn >= *stride || *turn + length > area.size {
                        *turn = 0;
                    }
                    *next = *turn;
                }
                let place = area.held(*next, length);
                *next = next.saturating_add(*stride);
                place
            }
            Self::Zipf { zipf, scatter, unit } => {
                let rank = zipf.next(random);
                let place = scatter.map_or(rank, |scatter| scatter.of(rank)) * *unit;
                area.held(place, length)
            }
            Self::Hotspot { accesses, from, size } => {
                let (size, within) = (*size, random.chance(*accesses));
                if within {
                    let hot = Area::whole(size.max(length), area.align);
                    area.held(*from + hot.anywhere(length, random), length)
                } else {
                    // Cold places lie before and after the hot part; a request across the border
                    // belongs to the part in which it begins.
                    let cold = (area.size - size) >> area.align.trailing_zeros();
                    let place = random.below(cold.max(1)) << area.align.trailing_zeros();
                    let place = if place < *from { place } else { place + size };
                    area.held(place, length)
                }
            }
            Self::Streams { next, part } => {
                let stream = random.below(next.len() as u64);
                let begin = *part * stream;
                let at = &mut next[stream as usize];
                let within = |place: &u64| *place + length <= begin + *part;
                let place = area.onwards(*at, length).filter(within);
                let place = place.or_else(|| area.onwards(begin, length).filter(within));
                // Where no part of a stream's own holds the request, it goes before the border.
                let place = place.unwrap_or_else(|| area.held(begin, length));
                *at = area.aligned(place + length);
                place
            }
        })
    }
}

/// The places of the last requests, to which some of the next return.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    /// The probability that a request returns.
    pub(super) share: Share,
    /// The last places; as many as requests go back.
    recent: Vec<u64>,
    depth: usize,
    at: usize,
}

impl Reuse {
    pub(super) fn new(share: Share, depth: usize) -> Self {
        Self { share, recent: Vec::new(), depth, at: 0 }
    }

    /// One of the last places, if this request returns and there is any.
    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> Option<u64> {
        if self.recent.is_empty() || !random.chance(self.share) {
            return None;
        }
        Some(self.recent[random.below(self.recent.len() as u64) as usize])
    }

    /// Remembers a place.
    #[inline]
    pub(super) fn remember(&mut self, place: u64) {
        if self.recent.len() < self.depth {
            self.recent.push(place);
        } else {
            self.recent[self.at] = place;
            self.at = (self.at + 1) % self.depth;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scattering_is_a_bijection(count in 1_u64..3000, seed in any::<u64>()) {
            let scatter = Scatter::new(count, &mut Random::new(seed));
            let mut all: Vec<_> = (0..count).map(|number| scatter.of(number)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn strides_cover_the_area_turn_by_turn() {
        let area = Area::whole(16, 1);
        let mut places = Places::Stride { stride: 8, next: 0, turn: 0 };
        let mut random = Random::new(1);
        let first: Vec<_> = (0..18).map(|_| places.next(&area, 2, &mut random).unwrap()).collect();
        assert_eq!(first, [0, 8, 2, 10, 4, 12, 6, 14, 0, 8, 2, 10, 4, 12, 6, 14, 0, 8]);
    }
}
