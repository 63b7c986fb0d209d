//! Charts: axes, layers of figures, and marked limits.
//!
//! The figures of a load and of a run come in four shapes ([`ioecho_stats::analysis::shape`]), and
//! about thirty of them deserve a picture. Separate drawing code for each, once for the page and
//! once for papers, would be sixty pieces that drift apart. So a figure is described here once, and
//! one piece of code draws every description as SVG, another one in the browser. A new series only
//! needs a function that makes a [`Chart`] of it.

mod axis;
pub(crate) mod draw;
mod json;
mod thin;

use ioecho_stats::analysis::shape::{Bins, Curve, Grid, Quantity, Series};

pub(crate) use json::{ChartData, charts as json_of};

/// The description of a picture: two sides, layers and limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Its stable name, which also names its file: that of blkreplay's counterpart, if it has one.
    pub name: String,
    /// Its title, in a few words.
    pub title: String,
    /// A note that a reader needs to understand the picture; may be empty.
    pub note: String,
    /// The horizontal axis.
    pub x: Side,
    /// The vertical axis.
    pub y: Side,
    /// The layers, the first at the bottom.
    pub layers: Vec<Layer>,
    /// Values that are marked by a line across.
    pub limits: Vec<Limit>,
}

/// A side of a chart: its quantity and the spacing of its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The quantity and its unit. With the units `ns`, `s` and `bytes`, marks are written as spans
    /// and sizes; with the unit `1` they have no unit; any other unit is written as it is.
    pub quantity: Quantity,
    /// How values are spaced.
    pub spacing: Spacing,
    /// Where the axis begins, if the figures do not decide that.
    pub from: Option<f64>,
    /// Where the axis ends at least, if the figures do not decide that; an axis of time ends
    /// exactly here.
    pub to: Option<f64>,
}

/// The spacing of values along a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// At equal distances, from zero or from the smallest value.
    #[default]
    Linear,
    /// By their logarithm. Values of zero or less cannot be shown and are left out.
    Logarithmic,
    /// Instants of the load or of the run, in nanoseconds. On the page all such charts share one
    /// axis, into which a reader can zoom.
    Time,
    /// Quantiles as *nines*: 1 is 90 %, 2 is 99 %.
    Nines,
}

/// A layer of a chart.
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
    /// The layer's name in a legend.
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
    /// Like `Steps`; if there are more values than the line has room for, it shows the largest of
    /// neighbouring values.
    Peaks,
    /// A straight line from point to point.
    Line,
    /// A dashed straight line from point to point.
    Dashed,
}

/// A colour by its meaning, so that the same thing has the same colour everywhere, on light and on
/// dark ground. Colour-blind readers can tell all of them apart (after Okabe and Ito).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes, discards and the like; also figures of lesser importance.
    Other,
    /// Requests that waited for others.
    PushedBack,
    /// Everything together.
    All,
    /// What the run achieved, in contrast to what was demanded.
    Achieved,
    /// What the recording contains.
    Recorded,
    /// Extremes behind a mean, paler than their neighbours.
    Pale,
    /// The nth of several alike: windows, sizes, volumes. The colours repeat from the seventh on.
    Nth(u8),
    /// The nth most frequent operation on files, reads and writes aside; there are
    /// [`Ink::OPERATIONS`] colours.
    Operation(u8),
}

impl Ink {
    /// How many operations on files have a colour of their own.
    pub const OPERATIONS: u8 = Self::OF_OPERATIONS.len() as u8;

    const OF_OPERATIONS: [(&'static str, &'static str); 8] = [
        ("--f0", "#116655"),
        ("--f1", "#ee00ff"),
        ("--f2", "#aacc00"),
        ("--f3", "#0000bb"),
        ("--f4", "#88cccc"),
        ("--f5", "#cc3366"),
        ("--f6", "#443311"),
        ("--f7", "#ddaa99"),
    ];
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
            Self::Operation(n) => Self::OF_OPERATIONS[n as usize % Self::OF_OPERATIONS.len()],
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

/// A marked value: too slow, too late, the end of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Whether the value belongs to the lower side; otherwise it belongs to the left side.
    pub along: bool,
    /// The value, in the side's unit.
    pub at: f64,
    /// Its label.
    pub label: String,
}

impl Chart {
    /// A chart without layers.
    pub fn new(name: &str, title: &str, x: Side, y: Side) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), x, y, ..Self::default() }
    }

    /// The chart with a note.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    /// The chart with one more layer; an empty layer is left out.
    #[must_use]
    pub fn with(mut self, shape: Shape, ink: Ink, stroke: Stroke) -> Self {
        if !shape.is_empty() {
            self.layers.push(Layer { shape, ink, stroke });
        }
        self
    }

    /// The chart with a marked value on the left side.
    #[must_use]
    pub fn limit(mut self, at: f64, label: &str) -> Self {
        self.limits.push(Limit { along: false, at, label: label.to_owned() });
        self
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether it is drawn over the common axis of time.
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
