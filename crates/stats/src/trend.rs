//! Whether a series rises or falls as it goes on.
//!
//! A mean hides a queue that grows all the time, and a comparison of the first value with the last
//! one takes a single unusual second for a trend. Kendall's tau compares every pair of values, so
//! no single value decides.

/// The trend of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Kendall's tau over time: 1 if every value is larger than all before it, -1 if each is
    /// smaller, around 0 if neither prevails (Mann, "Nonparametric tests against trend", 1945).
    pub tau: f64,
    /// The difference between the last and the first value on the line of the median slope (Theil
    /// and Sen).
    pub gain: f64,
}

/// The fewest values for a trend.
const VALUES_MIN: usize = 5;

/// The trend of these values, without those that are not numbers; `None` with fewer than five.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let known: Vec<(f64, f64)> = values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_finite())
        .map(|(at, value)| (at as f64, *value))
        .collect();
    let (Some(first), Some(last)) = (known.first(), known.last()) else { return None };
    if known.len() < VALUES_MIN {
        return None;
    }
    let (mut balance, mut slopes) = (0.0, Vec::new());
    for (index, early) in known.iter().enumerate() {
        for late in &known[index + 1..] {
            let rise = late.1 - early.1;
            balance += if rise == 0.0 { 0.0 } else { rise.signum() };
            slopes.push(rise / (late.0 - early.0));
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let median = slopes[slopes.len() / 2];
    Some(Trend { tau: balance / slopes.len() as f64, gain: median * (last.0 - first.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_throughout_has_a_tau_of_one_and_gains_what_it_rises_by() {
        let rising = trend(&[1.0, 2.0, f64::NAN, 4.0, 5.0, 6.0]).unwrap();
        assert!((rising.tau - 1.0).abs() < 1e-12 && (rising.gain - 5.0).abs() < 1e-12);
        let falling = trend(&[5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
        assert!((falling.tau + 1.0).abs() < 1e-12 && (falling.gain + 4.0).abs() < 1e-12);
    }

    #[test]
    fn one_odd_value_and_what_only_goes_up_and_down_are_no_trend() {
        let odd = trend(&[1.0, 1.0, 1.0, 1.0, 900.0]).unwrap();
        assert!(odd.tau <= 0.4 && odd.gain == 0.0, "{odd:?}");
        let swinging = trend(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]).unwrap();
        assert!(swinging.tau < 0.3, "{swinging:?}");
    }

    #[test]
    fn a_few_values_tell_nothing() {
        assert_eq!(trend(&[1.0, 2.0, 3.0, 4.0, f64::NAN]), None);
        assert_eq!(trend(&[]), None);
    }
}
