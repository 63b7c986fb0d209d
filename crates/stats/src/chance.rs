//! Whether a share of a few requests is above its limit, or only seems so.
//!
//! A limit on a share is meant for many requests. One late request of 31 is 3 %, and so a run with
//! one can only be far below the limit of 1 %, or far above. But of the runs of 31 requests of a
//! replay that stays within the limit, one in four has a late request. So a share of few requests
//! is above the limit if so many would be less likely than one time in twenty, were the limit just
//! kept. As soon as the limit allows for ten requests, it is exact: from there on a percentile
//! shows them ([`BEYOND`]).

use crate::histogram::BEYOND;

/// What is less likely than this is no chance.
const UNLIKELY: f64 = 0.05;

/// Whether `count` of `of` requests are more than this share, and not by chance.
pub(crate) fn is_above(count: u64, of: u64, limit: f64) -> bool {
    let (n, allowed) = (of as f64, of as f64 * limit);
    if count as f64 <= allowed {
        return false;
    }
    if allowed >= BEYOND || limit >= 1.0 {
        return true;
    }
    // How likely it is that as many come together, or more: one, less all smaller binomial
    // probabilities. With fewer than ten expected, that is soon decided.
    let mut exactly = (n * (-limit).ln_1p()).exp();
    let mut as_many = 1.0;
    for smaller in 0..count {
        as_many -= exactly;
        if as_many < UNLIKELY {
            return true;
        }
        exactly *= (n - smaller as f64) / (smaller as f64 + 1.0) * (limit / (1.0 - limit));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least count that is above the limit.
    fn least_above(of: u64, limit: f64) -> u64 {
        (0..=of).find(|count| is_above(*count, of, limit)).unwrap()
    }

    #[test]
    fn of_few_requests_a_single_one_is_no_share_and_several_are() {
        // By the table of the binomial distribution: with p = 0.01, of 31 requests one or more have
        // the probability 0.27, two or more 0.04.
        assert_eq!(least_above(31, 0.01), 2);
        assert_eq!(least_above(5, 0.01), 1);
        assert_eq!(least_above(100, 0.01), 4);
        assert_eq!(least_above(571, 0.001), 3);
        // 999 requests: 9.99 expected, 16 or more with the probability 0.048.
        assert_eq!(least_above(999, 0.01), 16);
    }

    #[test]
    fn a_limit_that_allows_for_ten_requests_is_exact() {
        assert_eq!(least_above(1000, 0.01), 11);
        assert_eq!(least_above(10_000, 0.001), 11);
        assert!(!is_above(1_000_000, 100_000_000, 0.01) && is_above(1_000_001, 100_000_000, 0.01));
    }

    #[test]
    fn where_nothing_is_allowed_one_is_above() {
        assert!(is_above(1, u64::MAX, 0.0) && is_above(1, 1, 0.0));
        assert!(!is_above(0, 0, 0.0) && !is_above(0, 0, 0.01));
        assert!(!is_above(5, 5, 1.0) && is_above(6, 5, 1.0));
    }
}
