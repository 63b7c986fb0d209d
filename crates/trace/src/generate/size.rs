//! The lengths of generated requests.
//!
//! A size, several with their shares, or a range of which every aligned size is as likely:
//! `4k`, `4k:60,64k:40`, `4k-64k`, `512:5,4k-64k:95`, and in steps `8k-64k/4k`.

use super::random::Random;
use crate::arguments::ArgumentError;
use crate::units::Bytes;

/// The largest generated request in bytes: the kernel's longest request has a length of 32 bits.
const LENGTH_MAX: u64 = 1 << 32;

/// The largest number of sizes that may be listed.
const CLASSES_MAX: usize = 1024;

/// A distribution of sizes.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    classes: Vec<Class>,
    /// The upper end of each class's part of 2⁶⁴, without that of the last.
    ends: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    least: u64,
    /// The distance of two sizes in bytes.
    step: u64,
    /// The number of sizes in the class.
    count: u64,
}

impl Sizes {
    /// The distribution in `text`.
    pub(super) fn parse(text: &str) -> Result<Self, ArgumentError> {
        let refuse = |part: &str, reason: &str| {
            ArgumentError::new(format!("size: '{part}': {reason} (as in 4k:60,64k:40 or 4k-64k)"))
        };
        let (mut classes, mut weights) = (Vec::new(), Vec::new());
        for part in text.split(',').map(str::trim) {
            let (range, share) = match part.split_once(':') {
                Some((range, share)) => (range, Some(share)),
                None => (part, None),
            };
            let size = |text: &str| match text.trim().parse::<Bytes>() {
                Ok(Bytes(0)) => Err(refuse(part, "a request has at least a byte")),
                Ok(Bytes(size)) if size > LENGTH_MAX => {
                    Err(refuse(part, "a request has at most 4 GiB"))
                }
                Ok(Bytes(size)) => Ok(size),
                Err(error) => Err(refuse(part, &error.to_string())),
            };
            classes.push(match range.split_once('-') {
                None => Class { least: size(range)?, step: 0, count: 1 },
                Some((least, most)) => {
                    let (most, step) = most.split_once('/').unwrap_or((most, ""));
                    let (least, most) = (size(least)?, size(most)?);
                    if most < least {
                        return Err(refuse(part, "the range ends before it begins"));
                    }
                    let step = match step {
                        "" => 1 << least.trailing_zeros(),
                        step => size(step)?,
                    };
                    Class { least, step, count: (most - least) / step + 1 }
                }
            });
            weights.push(match share.map(|share| share.trim_end_matches('%').parse::<f64>()) {
                None => None,
                Some(Ok(share)) if (0.0..=1e9).contains(&share) => Some(share),
                Some(_) => return Err(refuse(part, "the share is not a number")),
            });
        }
        if classes.len() > CLASSES_MAX {
            return Err(ArgumentError::new("size: there are more than 1024 sizes"));
        }
        if classes.len() > 1 && weights.iter().any(Option::is_none) {
            return Err(refuse(text, "of several sizes each has a share"));
        }
        let weights: Vec<f64> = weights.into_iter().map(|weight| weight.unwrap_or(1.0)).collect();
        let ends = cumulative(&weights).ok_or_else(|| refuse(text, "all shares are zero"))?;
        Ok(Self { classes, ends })
    }

    /// The only size, if there is only one.
    pub(super) fn only(&self) -> Option<u64> {
        match self.classes[..] {
            [Class { least, count: 1, .. }] => Some(least),
            _ => None,
        }
    }

    /// The largest size.
    pub(super) fn largest(&self) -> u64 {
        let largest = |class: &Class| class.least + class.step * (class.count - 1);
        self.classes.iter().map(largest).max().unwrap_or_default()
    }

    /// The largest power of two of which every size is a multiple.
    pub(super) fn alignment(&self) -> u64 {
        let bits = self.classes.iter().fold(0, |bits, class| bits | class.least | class.step);
        1 << bits.trailing_zeros()
    }

    /// A size.
    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        let class = match &self.classes[..] {
            [class] => class,
            classes => {
                let number = random.next_u64();
                &classes[self.ends.partition_point(|end| *end <= number)]
            }
        };
        if class.count == 1 {
            return class.least;
        }
        class.least + class.step * random.below(class.count)
    }
}

/// The end of each weight's part of 2⁶⁴, without that of the last, which takes the rest. `None` if
/// all weights are zero.
pub(super) fn cumulative(weights: &[f64]) -> Option<Vec<u64>> {
    let total: f64 = weights.iter().sum();
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    // Entries of weight zero after the last one with a weight must not get the rest.
    let last = weights.iter().rposition(|weight| *weight > 0.0)?;
    let mut sum = 0.0;
    let ends = weights[..last].iter().map(|weight| {
        sum += weight;
        (sum / total * 18_446_744_073_709_551_616.0) as u64
    });
    Some(ends.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const DRAWS: u32 = 100_000;

    #[test]
    fn sizes_come_in_their_shares() {
        let sizes = Sizes::parse("512:10,4k:60,64k:30").unwrap();
        assert_eq!((sizes.largest(), sizes.alignment(), sizes.only()), (65536, 512, None));
        let mut random = Random::new(5);
        let mut counts = BTreeMap::new();
        for _ in 0..DRAWS {
            *counts.entry(sizes.next(&mut random)).or_insert(0_u32) += 1;
        }
        for (size, share) in [(512, 0.1), (4096, 0.6), (65536, 0.3)] {
            let found = f64::from(counts[&size]) / f64::from(DRAWS);
            let deviation = (share * (1.0 - share) / f64::from(DRAWS)).sqrt();
            assert!((found - share).abs() < 5.0 * deviation, "{size}: {found}");
        }
    }

    #[test]
    fn of_a_range_every_multiple_of_its_alignment_comes() {
        let sizes = Sizes::parse("4k-16k").unwrap();
        let mut random = Random::new(5);
        let mut seen: Vec<_> = (0..1000).map(|_| sizes.next(&mut random)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [4096, 8192, 12288, 16384]);
        assert_eq!((sizes.alignment(), sizes.largest()), (4096, 16384));
        assert_eq!(Sizes::parse("8k").unwrap().only(), Some(8192));
        let steps = Sizes::parse("8k-20k/4k").unwrap();
        assert_eq!((steps.alignment(), steps.largest()), (4096, 20480));
        assert!((0..1000).all(|_| steps.next(&mut random) >= 8192));
        let bytes = Sizes::parse("700").unwrap();
        assert_eq!((bytes.only(), bytes.alignment()), (Some(700), 4));
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_remedy() {
        for (text, reason) in [
            ("", "number"),
            ("0", "at least a byte"),
            ("5T", "at most 4 GiB"),
            ("8k-4k", "ends before"),
            ("4k,8k", "each has a share"),
            ("4k:x", "not a number"),
            ("4k:0,8k:0", "all shares are zero"),
            ("4k:-5", "not a number"),
        ] {
            let error = Sizes::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.starts_with("size: "), "{text}: {error}");
        }
        // A size with a share of zero never comes, in any position.
        let sizes = Sizes::parse("4k:0,8k:1,16k:0").unwrap();
        let mut random = Random::new(1);
        assert!((0..100).all(|_| sizes.next(&mut random) == 8192));
    }
}
