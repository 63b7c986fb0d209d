//! Drift: by how much errors grow over time.
//!
//! A slow clock adds a little to every error; a stall of the replay adds much to a few, or to all
//! later ones. Least squares confuses the two. So the requests are cut, in the order in which they
//! were due, into blocks of equally many; of each block the median error stands at the median
//! instant, and the drift is the median slope between two of them (Theil 1950, Sen 1968). Two
//! blocks with a stall between them show the stall, so they are left out if there are enough
//! others.

/// How many blocks at most: 8,128 slopes.
const BLOCKS: usize = 128;

/// The slope of errors over the instants at which requests were due: rows of instant and error, in
/// nanoseconds, in any order. `stalls` are the instants after which the replay stood still. `None`
/// of fewer than three requests and of requests of one instant.
pub(super) fn slope(mut rows: Vec<(i64, i64)>, stalls: &[i64]) -> Option<f64> {
    if rows.len() < 3 {
        return None;
    }
    rows.sort_unstable();
    let origin = rows[0];
    let mut stalls = stalls.to_vec();
    stalls.sort_unstable();
    let count = rows.len().min(BLOCKS);
    let blocks = (0..count).map(|block| {
        let block = &rows[block * rows.len() / count..(block + 1) * rows.len() / count];
        let from_origin = |value: i64, zero: i64| (i128::from(value) - i128::from(zero)) as f64;
        let at = median(block.iter().map(|row| from_origin(row.0, origin.0)).collect());
        let error = median(block.iter().map(|row| from_origin(row.1, origin.1)).collect());
        let stretch = stalls.partition_point(|stall| from_origin(*stall, origin.0) < at);
        (at, error, stretch)
    });
    let blocks: Vec<(f64, f64, usize)> = blocks.collect();
    let slopes = |is_together: bool| {
        let mut slopes = Vec::new();
        for (number, first) in blocks.iter().enumerate() {
            for later in &blocks[number + 1..] {
                if later.0 > first.0 && (!is_together || later.2 == first.2) {
                    slopes.push((later.1 - first.1) / (later.0 - first.0));
                }
            }
        }
        slopes
    };
    let mut found = slopes(true);
    if found.len() < count {
        found = slopes(false);
    }
    (!found.is_empty()).then(|| median(found))
}

/// The middle of the values, or between the two in the middle; of nothing 0.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let upper = *values.select_nth_unstable_by(middle, f64::total_cmp).1;
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle].iter().copied().max_by(f64::total_cmp).unwrap_or(upper);
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drift of 20 millionths, noise, and stalls of a second that nobody catches up with.
    fn rows(stalls: &[i64]) -> Vec<(i64, i64)> {
        let row = |n: i64| {
            let at = n * 1_000_000;
            let behind = stalls.iter().filter(|stall| **stall < at).count() as i64;
            (at, at / 50_000 + n * 7919 % 1000 + behind * 1_000_000_000)
        };
        (0..5000).map(row).collect()
    }

    #[test]
    fn a_drift_is_found_whatever_stood_still() {
        for stalls in [&[][..], &[2_500_000_000], &[500_000_000, 900_000_000, 4_000_000_000]] {
            let ppm = slope(rows(stalls), stalls).unwrap() * 1e6;
            assert!((ppm - 20.0).abs() < 0.2, "{ppm} ppm with stalls at {stalls:?}");
        }
        // A few that were late alone change nothing.
        let mut late = rows(&[]);
        for row in &mut late[700..900] {
            row.1 += 300_000_000;
        }
        let ppm = slope(late, &[]).unwrap() * 1e6;
        assert!((ppm - 20.0).abs() < 0.5, "{ppm} ppm");
    }

    #[test]
    fn few_requests_and_the_ends_of_time_are_borne() {
        assert_eq!(slope(vec![], &[]), None);
        assert_eq!(slope(vec![(0, 1), (5, 2)], &[]), None);
        assert_eq!(slope(vec![(7, 1), (7, 2), (7, 3)], &[]), None);
        let ends = vec![(i64::MIN, i64::MAX), (0, 0), (i64::MAX, i64::MIN)];
        assert!((slope(ends, &[0]).unwrap() + 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    }
}
