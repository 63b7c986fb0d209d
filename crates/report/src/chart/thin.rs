//! Reduces series to as many values and digits as a reader can see.
//!
//! A load of a week has 604,800 seconds. A page with ten series of so many values in sixteen digits
//! would be larger than the load's summary, and no screen shows more than some thousand columns.

use std::collections::BTreeMap;

use ioecho_stats::analysis::shape::{Axis, Grid, Scale, Series};

use super::Stroke;

/// Values of a series, at most.
pub(super) const VALUES: usize = 2048;

/// A series of at most `most` values, by joining neighbours: to their mean, or to the largest if
/// the stroke shows peaks.
pub(super) fn thinned(series: &Series, stroke: Stroke, most: usize) -> Series {
    let join = series.values.len().div_ceil(most.max(1)).max(1);
    if join == 1 {
        return series.clone();
    }
    let values = series.values.chunks(join).map(|values| {
        let known = || values.iter().flatten();
        let count = known().count();
        let joined = match stroke {
            Stroke::Peaks => known().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => known().sum::<f64>() / count as f64,
        };
        (count > 0).then_some(joined)
    });
    Series {
        name: series.name.clone(),
        quantity: series.quantity.clone(),
        start_ns: series.start_ns,
        step_ns: series.step_ns.saturating_mul(i64::try_from(join).unwrap_or(i64::MAX)),
        values: values.collect(),
    }
}

/// A grid with neighbouring cells joined in pairs along a linear axis: the axis with more cells.
/// `None` for a grid without a linear axis.
pub(super) fn coarser(grid: &Grid) -> Option<Grid> {
    let linear = |axis: &Axis| match axis.scale {
        Scale::Linear { from, step } if axis.cells > 1 => Some((from, step)),
        _ => None,
    };
    let along = match (linear(&grid.x), linear(&grid.y)) {
        (None, None) => return None,
        (Some(_), Some(_)) => grid.x.cells >= grid.y.cells,
        (x, _) => x.is_some(),
    };
    let mut coarse = grid.clone();
    let axis = if along { &mut coarse.x } else { &mut coarse.y };
    if let Scale::Linear { step, .. } = &mut axis.scale {
        *step *= 2.0;
    }
    axis.cells = axis.cells.div_ceil(2);
    let mut joined: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (x, y, count) in &grid.cells {
        let cell = if along { (x / 2, *y) } else { (*x, y / 2) };
        let sum = joined.entry(cell).or_default();
        *sum = sum.saturating_add(*count);
    }
    coarse.cells = joined.into_iter().map(|((x, y), count)| (x, y, count)).collect();
    Some(coarse)
}

/// A number in five digits; `None` if it is not a number.
pub(super) fn rounded(value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    if value == 0.0 {
        return Some(0.0);
    }
    let digits = 4 - value.abs().log10().floor() as i32;
    // Dividing by a power of ten is exact; multiplying by its inverse is not.
    if digits > 300 {
        return Some(0.0);
    }
    let scale = 10_f64.powi(digits.abs());
    Some(if digits >= 0 {
        (value * scale).round() / scale
    } else {
        (value / scale).round() * scale
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::analysis::shape::Quantity;

    fn series(values: &[Option<f64>]) -> Series {
        Series { step_ns: 10, values: values.to_vec(), ..Series::default() }
    }

    #[test]
    fn neighbours_are_joined_to_their_mean_or_to_their_peak() {
        let long = series(&[Some(1.0), Some(3.0), None, Some(4.0), None, None, Some(7.0)]);
        let mean = thinned(&long, Stroke::Steps, 4);
        assert_eq!(mean.values, [Some(2.0), Some(4.0), None, Some(7.0)]);
        assert_eq!(mean.step_ns, 20);
        assert_eq!(thinned(&long, Stroke::Peaks, 4).values[0], Some(3.0));
        assert_eq!(thinned(&long, Stroke::Steps, 7), long);
    }

    #[test]
    fn a_coarser_grid_holds_the_same_counts_in_wider_cells() {
        let axis = |scale, cells| Axis { quantity: Quantity::default(), scale, cells };
        let linear = Scale::Linear { from: 4.0, step: 3.0 };
        let grid = Grid {
            name: String::new(),
            x: axis(linear, 3),
            y: axis(Scale::Logarithmic { lowest: 1.0, per_decade: 5 }, 9),
            cells: vec![(0, 8, 1), (1, 8, 2), (2, 0, 4)],
        };
        let coarse = coarser(&grid).unwrap();
        assert_eq!(coarse.x, axis(Scale::Linear { from: 4.0, step: 6.0 }, 2));
        assert_eq!(coarse.cells, [(0, 8, 3), (1, 0, 4)]);
        let flat = Grid { x: grid.y.clone(), ..grid };
        assert_eq!(coarser(&flat), None);
    }

    #[test]
    fn a_number_keeps_five_digits() {
        let shown = [123_456_789.0, 0.123_456_789, -1.0, 0.0, 1e300].map(rounded);
        let expected = [123_460_000.0, 0.123_46, -1.0, 0.0, 1e300];
        for (shown, expected) in shown.into_iter().zip(expected) {
            assert!((shown.unwrap() - expected).abs() <= expected.abs() * 1e-9);
        }
        assert_eq!(rounded(f64::NAN), None);
    }
}
