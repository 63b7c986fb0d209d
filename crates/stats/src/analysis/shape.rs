//! The shapes that figures come in: a value over time, counts in bins, a line, a grid of counts.
//!
//! Thirty graphics with thirty structures would need thirty pieces of code to draw, store and
//! explain them. Nearly all of them have one of these four shapes. Every shape has its quantity and
//! unit, because a number without them is meaningless.

use serde::{Deserialize, Serialize};

/// What an axis or a column holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    /// What is measured, in the field's words: `service time`, `working set`, `requests`.
    pub name: String,
    /// Its unit: `s`, `ns`, `bytes`, `requests/s`; `1` of plain numbers and shares.
    pub unit: String,
}

impl Quantity {
    /// A quantity in a unit.
    pub fn new(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned() }
    }
}

/// A value at equal steps of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What the line is called in a legend: `reads`, `demanded`, `window of 6 s`.
    pub name: String,
    /// What the values are.
    pub quantity: Quantity,
    /// Where the first step begins, in nanoseconds of the trace's time.
    pub start_ns: i64,
    /// How long a step is, in nanoseconds.
    pub step_ns: i64,
    /// A value for each step; `None` where there is nothing to say.
    pub values: Vec<Option<f64>>,
}

/// Counts of values in bins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    /// What the bins are called in a legend: `reads`, `pushed back`.
    pub name: String,
    /// What was binned.
    pub quantity: Quantity,
    /// The lower edge of each bin and, last, the upper edge of the last one: one more than counts.
    pub edges: Vec<f64>,
    /// How many values lie from an edge (included) to the next (not included).
    pub counts: Vec<u64>,
}

/// A line through points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What the line is called in a legend.
    pub name: String,
    /// What runs along.
    pub x: Quantity,
    /// What runs up.
    pub y: Quantity,
    /// Pairs of both; `x` never falls.
    pub points: Vec<(f64, f64)>,
}

/// How the cells of an axis lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "scale")]
pub enum Scale {
    /// Cell `i` begins at `from + i · step`.
    Linear {
        /// Where the first cell begins.
        from: f64,
        /// How wide a cell is.
        step: f64,
    },
    /// Cell `i` begins at `lowest · 10^(i / per_decade)`; the first also holds what is below.
    Logarithmic {
        /// Where the first cell begins.
        lowest: f64,
        /// Cells per power of ten.
        per_decade: u32,
    },
}

/// An axis of a [`Grid`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What runs along it.
    pub quantity: Quantity,
    /// How its cells lie.
    #[serde(flatten)]
    pub scale: Scale,
    /// How many cells it has; the last also holds what is above.
    pub cells: u32,
}

/// Counts over two quantities: a heat map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// What is counted, for a legend: `reads`, `writes`.
    pub name: String,
    /// The quantity along.
    pub x: Axis,
    /// The quantity up.
    pub y: Axis,
    /// The cells that are not empty, by `x` and then `y`: both indices and the count.
    pub cells: Vec<(u32, u32, u64)>,
}

impl Scale {
    /// Where a cell begins.
    pub fn edge(self, cell: u32) -> f64 {
        match self {
            Self::Linear { from, step } => from + f64::from(cell) * step,
            Self::Logarithmic { lowest, per_decade } => {
                lowest * 10_f64.powf(f64::from(cell) / f64::from(per_decade))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_follow_the_scale() {
        assert!((Scale::Linear { from: 2.0, step: 0.5 }.edge(4) - 4.0).abs() < 1e-9);
        let decades = Scale::Logarithmic { lowest: 100.0, per_decade: 10 };
        assert!((decades.edge(20) - 10_000.0).abs() < 1e-6);
    }
}
