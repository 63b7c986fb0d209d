//! A picture of figures, whatever they are of: axes, layers, and lines that say what is too much.
//!
//! The figures of a load and of a run come in four shapes ([`ioecho_stats::analysis::shape`]), and
//! thirty of them are worth a look. A piece of drawing code for each, twice, once for the page and
//! once for papers, would be sixty pieces that differ where they should not. So a figure is
//! described here, once, and what is described is drawn by one piece of code as SVG and by another
//! one in the browser. Whoever has a new series to show makes a [`Chart`] of it.

mod axis;
pub(crate) mod draw;
mod json;
mod thin;

use ioecho_stats::analysis::shape::{Bins, Curve, Grid, Quantity, Series};

pub(crate) use json::{ChartData, charts as json_of};

/// A picture in words: what is drawn over what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Its stable name, which becomes that of a file: blkreplay's where it has a like one.
    pub name: String,
    /// What is drawn, in a few words.
    pub title: String,
    /// What a reader has to know to read it rightly; may be empty.
    pub note: String,
    /// What runs along.
    pub x: Side,
    /// What runs up.
    pub y: Side,
    /// What is drawn, the first at the bottom.
    pub layers: Vec<Layer>,
    /// Values that are marked by a line across.
    pub limits: Vec<Limit>,
}

/// A side of a chart: what runs along it and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What is measured, and its unit. Of the unit `ns`, `s` and `bytes` marks are told as spans
    /// and sizes, of `1` with the name alone, of any other with that unit.
    pub quantity: Quantity,
    /// How values lie.
    pub spacing: Spacing,
    /// What the side begins with, where that does not follow from the figures.
    pub from: Option<f64>,
    /// What the side ends with at least, where that does not follow from the figures; what an axis
    /// of time ends with.
    pub to: Option<f64>,
}

/// How values lie along a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// At equal distances, from zero or from what the figures begin with.
    #[default]
    Linear,
    /// By their logarithm. What is zero or less cannot be shown and is left out.
    Logarithmic,
    /// Instants of the load or of the run, in nanoseconds: on the page all such charts share one
    /// axis, into which a reader zooms.
    Time,
    /// Quantiles as *nines*: 1 is 90 %, 2 is 99 %.
    Nines,
}

/// One thing that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The figures.
    pub shape: Shape,
    /// Its colour.
    pub ink: Ink,
    /// How its points are joined.
    pub stroke: Stroke,
}

/// Figures of one of the four shapes.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Values at equal steps of time.
    Series(Series),
    /// Counts in bins.
    Bins(Bins),
    /// A line through points.
    Curve(Curve),
    /// Counts over two quantities.
    Grid(Grid),
}

impl Shape {
    /// What it is called in a legend.
    pub fn name(&self) -> &str {
        match self {
            Self::Series(series) => &series.name,
            Self::Bins(bins) => &bins.name,
            Self::Curve(curve) => &curve.name,
            Self::Grid(grid) => &grid.name,
        }
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Series(series) => series.values.iter().all(Option::is_none),
            Self::Bins(bins) => bins.counts.iter().all(|count| *count == 0),
            Self::Curve(curve) => curve.points.is_empty(),
            Self::Grid(grid) => grid.cells.is_empty(),
        }
    }
}

/// How points are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stroke {
    /// A value holds for its whole step.
    #[default]
    Steps,
    /// The same; where a line has no room for all, the largest of neighbours stands for them.
    Peaks,
    /// A straight line from point to point.
    Line,
    /// A dashed one.
    Dashed,
}

/// A colour by what it stands for, so that the same thing has the same colour everywhere, on light
/// and on dark ground. All are told apart by colour-blind readers (after Okabe and Ito).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes, discards and the like; what is beside the matter.
    Other,
    /// Requests that waited for others.
    PushedBack,
    /// Everything together.
    All,
    /// What the run did, beside what was asked of it.
    Achieved,
    /// What was recorded.
    Recorded,
    /// What is paler than its neighbours: extremes behind a mean.
    Pale,
    /// The nth of several alike: windows, sizes, volumes. From the seventh on they repeat.
    Nth(u8),
}

impl Ink {
    const NTH: [(&'static str, &'static str); 6] = [
        ("--n0", "#0068b0"),
        ("--n1", "#c25400"),
        ("--n2", "#7b838c"),
        ("--n3", "#3d0a52"),
        ("--n4", "#00805a"),
        ("--n5", "#1b1f24"),
    ];

    /// The name in the style sheet and the colour on white.
    const fn pair(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("--c0", "#0068b0"),
            Self::Write => ("--c1", "#c25400"),
            Self::Other => ("--c2", "#7b838c"),
            Self::PushedBack => ("--c3", "#3d0a52"),
            Self::All => ("--demanded", "#1b1f24"),
            Self::Achieved => ("--achieved", "#00805a"),
            Self::Recorded => ("--recorded", "#1b1f24"),
            Self::Pale => ("--peak", "#7fbfac"),
            Self::Nth(n) => Self::NTH[n as usize % Self::NTH.len()],
        }
    }

    /// The colour's name in the style sheet of the page.
    pub(crate) const fn variable(self) -> &'static str {
        self.pair().0
    }

    /// The colour on white.
    pub(crate) const fn on_white(self) -> &'static str {
        self.pair().1
    }
}

/// A value that is marked: too slow, too late, the end of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Whether the value is one of the lower side; otherwise it is one of the left side.
    pub along: bool,
    /// The value, in the side's unit.
    pub at: f64,
    /// What it says.
    pub label: String,
}

impl Chart {
    /// A chart of nothing yet.
    pub fn new(name: &str, title: &str, x: Side, y: Side) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), x, y, ..Self::default() }
    }

    /// The chart with a note.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    /// The chart with a layer more; one that is empty is left out.
    #[must_use]
    pub fn with(mut self, shape: Shape, ink: Ink, stroke: Stroke) -> Self {
        if !shape.is_empty() {
            self.layers.push(Layer { shape, ink, stroke });
        }
        self
    }

    /// The chart with a marked value of the left side.
    #[must_use]
    pub fn limit(mut self, at: f64, label: &str) -> Self {
        self.limits.push(Limit { along: false, at, label: label.to_owned() });
        self
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether it is drawn over the axis of time that all share.
    pub fn is_over_time(&self) -> bool {
        self.x.spacing == Spacing::Time
    }
}

impl Side {
    /// A side with values at equal distances.
    pub fn linear(name: &str, unit: &str) -> Self {
        Self { quantity: Quantity::new(name, unit), ..Self::default() }
    }

    /// A side with values by their logarithm.
    pub fn logarithmic(name: &str, unit: &str) -> Self {
        Self { spacing: Spacing::Logarithmic, ..Self::linear(name, unit) }
    }

    /// The axis of time.
    pub fn time() -> Self {
        Self { spacing: Spacing::Time, ..Self::linear("time", "ns") }
    }

    /// The axis of quantiles.
    pub fn nines(name: &str) -> Self {
        Self { spacing: Spacing::Nines, ..Self::linear(name, "1") }
    }
}
