//! The places of generated requests.
//!
//! Every kind of load is a rule for places: anywhere, one after the other, in strides, mostly where
//! it is hot. The area begins at zero here; the source adds the offset.

use super::random::{Random, Share};
use super::zipf::Zipf;

/// The area that places are chosen from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    /// The size in bytes, not less than the largest request.
    pub(super) size: u64,
    /// Places are multiples of this number of bytes, a power of two.
    pub(super) align: u64,
}

impl Area {
    /// The number of aligned places for a request of this length.
    #[inline]
    pub(super) fn places(&self, length: u64) -> u64 {
        ((self.size - length) >> self.align.trailing_zeros()) + 1
    }

    /// Any aligned place.
    #[inline]
    pub(super) fn anywhere(&self, length: u64, random: &mut Random) -> u64 {
        random.below(self.places(length)) << self.align.trailing_zeros()
    }

    /// The place itself if the request fits there, else the last place at which it fits.
    #[inline]
    pub(super) fn held(&self, place: u64, length: u64) -> u64 {
        place.min((self.places(length) - 1) << self.align.trailing_zeros())
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
                    Some(next) if next + length <= area.size => next,
                    Some(_) if *stops => return None,
                    Some(_) => 0,
                };
                *next = Some(area.aligned(place + length));
                place
            }
            Self::Skip { least, most, next } => {
                let place = if *next + length <= area.size { *next } else { 0 };
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
                let place = *next;
                *next = place.saturating_add(*stride);
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
                    let hot = Area { size: size.max(length), ..*area };
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
                if *at + length > begin + *part {
                    *at = begin;
                }
                let place = *at;
                *at = area.aligned(place + length);
                area.held(place, length)
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
        let area = Area { size: 16, align: 1 };
        let mut places = Places::Stride { stride: 8, next: 0, turn: 0 };
        let mut random = Random::new(1);
        let first: Vec<_> = (0..18).map(|_| places.next(&area, 2, &mut random).unwrap()).collect();
        assert_eq!(first, [0, 8, 2, 10, 4, 12, 6, 14, 0, 8, 2, 10, 4, 12, 6, 14, 0, 8]);
    }
}
