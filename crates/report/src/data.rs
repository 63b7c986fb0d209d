//! The picture as JSON for a page: small, and harmless whatever the run contains.
//!
//! A raster of 2048 × 264 counts is mostly zeroes, so only filled cells are written: for each its
//! distance from the previous one and its count, both as variable-length integers (LEB128), the
//! whole as base64 in JSON. That is two to three bytes per filled cell: 0.8 MB for a busy run of a
//! million requests, 1.2 MB for eight million, and hardly more beyond.

mod volumes;

use ioecho_stats::analysis::seconds::Extremes;
use ioecho_stats::histogram::{BEYOND, Latencies};
use ioecho_stats::picture::{Class, Kind, Moment, Panels, RunPicture, Sonar, Span};
use ioecho_stats::raster::{LOWEST_NS, ROWS, ROWS_PER_DECADE, Raster};
use ioecho_trace::Op;
use serde::Serialize;

use crate::chart::{self, ChartData};
use crate::layers::{Layer, layers};
use crate::packed::{base64, leb128};
use crate::{Ink, Page, Subject};

#[derive(Serialize)]
pub(crate) struct Data<'a> {
    kind: &'static str,
    rows: usize,
    rows_per_decade: usize,
    lowest_ns: i64,
    panels: &'a Panels,
    slow_moments: SlowMoments,
    stamp: &'a str,
    has_schedule: bool,
    has_due_instants: bool,
    extremes: &'a Extremes,
    sonar: Vec<Packed>,
    volumes: volumes::Volumes,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FilesOf<'a>>,
    lateness: Cells,
    exact: Exact,
    /// Requests that must lie beyond a percentile for it to be shown.
    beyond: f64,
    curves: Vec<Curve>,
    charts: Vec<ChartData<'a>>,
    witness: Vec<ChartData<'a>>,
    expert: Vec<ChartData<'a>>,
}

/// Percentiles of the whole run, from the histograms of the tables and of the verdict. Those of a
/// raster are exact to a row of 10 % only, and would contradict them.
#[derive(Serialize)]
struct Exact {
    /// By layer.
    sonar: Vec<Option<Percentiles>>,
    lateness: Option<Percentiles>,
}

/// Nanoseconds.
#[derive(Serialize)]
struct Percentiles {
    p50: i64,
    p99: i64,
    /// Whether there are enough requests to show it.
    p99_known: bool,
    max: i64,
}

impl Percentiles {
    fn of(latencies: &Latencies) -> Option<Self> {
        Some(Self {
            p50: latencies.quantile(0.5)?.0,
            p99: latencies.quantile(0.99)?.0,
            p99_known: latencies.known(0.99).is_some(),
            max: latencies.max()?.0,
        })
    }
}

/// How many slow moments a page lists.
const MOMENTS_SHOWN: usize = 6;

/// The slowest moments of a run, and how many there are in all.
#[derive(Serialize)]
struct SlowMoments {
    shown: Vec<SlowMoment>,
    all: usize,
}

/// A moment, and the layer of its slowest request.
#[derive(Serialize)]
struct SlowMoment {
    #[serde(flatten)]
    moment: Moment,
    class: usize,
}

impl SlowMoments {
    /// Those of a run; a load has none, for its device is not the one in question.
    fn of(page: &Page, panels: &Panels, layers: &[Layer]) -> Self {
        let mut shown = match page.subject {
            Subject::Run => panels.slow_moments(),
            Subject::Load => Vec::new(),
        };
        let all = shown.len();
        shown.sort_by_key(|moment| std::cmp::Reverse(moment.slowest_ns));
        shown.truncate(MOMENTS_SHOWN);
        let of_layer = |moment: Moment| {
            let class = layers.iter().position(|layer| layer.classes.contains(&moment.class))?;
            Some(SlowMoment { moment, class })
        };
        Self { shown: shown.into_iter().filter_map(of_layer).collect(), all }
    }
}

/// A raster under its name.
#[derive(Serialize)]
struct Cells {
    name: &'static str,
    cells: String,
}

/// A layer of the sonar diagram.
#[derive(Serialize)]
struct Packed {
    name: String,
    colour: &'static str,
    cells: String,
    /// The longest service time of each bucket, in nanoseconds.
    most: Vec<Option<i64>>,
}

/// How many calls on whole files completed in each bucket.
#[derive(Serialize)]
struct FilesOf<'a> {
    name: &'static str,
    colour: &'static str,
    counts: &'a [u64],
}

#[derive(Serialize)]
struct Curve {
    span: Span,
    kind: &'static str,
    colour: String,
    /// Pairs of nines and nanoseconds.
    points: Vec<(f64, u64)>,
}

/// Everything that the page draws, as JSON that may stand inside a `<script>` element.
pub(crate) fn json(page: &Page, panels: &Panels) -> Result<String, serde_json::Error> {
    // In JSON, '<' occurs only inside strings. Escaped, it can neither begin nor end an element.
    Ok(serde_json::to_string(&data(page, panels))?.replace('<', "\\u003c"))
}

/// Everything that the page draws.
pub(crate) fn data<'a>(page: &'a Page, panels: &'a Panels) -> Data<'a> {
    let picture = &page.picture;
    let layers = layers(|class| picture.service_of_class(class).count());
    let sonar = layers.iter().map(|layer| Packed {
        name: layer.name.clone(),
        colour: layer.ink.variable(),
        cells: base64(&pack(&raster(&panels.sonar, layer))),
        most: most(panels, layer),
    });
    Data {
        kind: match page.subject {
            Subject::Run => "run",
            Subject::Load => "load",
        },
        rows: ROWS,
        rows_per_decade: ROWS_PER_DECADE,
        lowest_ns: LOWEST_NS,
        panels,
        slow_moments: SlowMoments::of(page, panels, &layers),
        stamp: &page.stamp,
        has_schedule: page.has_schedule(),
        has_due_instants: page.has_due_instants(),
        extremes: &page.extremes,
        sonar: sonar.collect(),
        volumes: volumes::packed(panels, &layers, &page.volumes),
        files: files(panels, &layers),
        lateness: Cells { name: "lateness", cells: base64(&pack(&panels.lateness)) },
        exact: Exact {
            sonar: layers.iter().map(|layer| exact(picture, layer)).collect(),
            lateness: Percentiles::of(&picture.spans_of_all(Span::Lateness)),
        },
        beyond: BEYOND,
        curves: curves(page, &layers),
        charts: chart::json_of(&page.charts),
        witness: page.witness.as_ref().map(|seen| chart::json_of(&seen.charts)).unwrap_or_default(),
        expert: chart::json_of(&page.expert),
    }
}

/// The raster of a layer.
fn raster(sonar: &Sonar, layer: &Layer) -> Raster {
    let mut whole = Raster::new();
    layer.classes.iter().for_each(|class| whole.merge(&sonar[class.index()]));
    whole
}

/// The longest service time of a layer in each bucket; empty where it has no request.
fn most(panels: &Panels, layer: &Layer) -> Vec<Option<i64>> {
    let mut most: Vec<Option<i64>> = Vec::new();
    for class in &layer.classes {
        let column = &panels.service_max_ns[class.index()];
        most.resize(most.len().max(column.len()), None);
        most.iter_mut().zip(column).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
    most
}

/// The percentiles of a layer.
fn exact(picture: &RunPicture, layer: &Layer) -> Option<Percentiles> {
    let mut all = Latencies::new();
    layer.classes.iter().for_each(|class| all.merge(picture.service_of_class(*class)));
    Percentiles::of(&all)
}

/// The colour of an operation in the sonar diagram.
fn colour_of(layers: &[Layer], op: Op) -> &'static str {
    let class = Class::of(op, false);
    let of_class = layers.iter().find(|layer| layer.classes.contains(&class));
    of_class.map_or(Ink::Other, |layer| layer.ink).variable()
}

/// Whole files by operation, in the colours and in the order of the sonar diagram.
fn files<'a>(panels: &'a Panels, layers: &[Layer]) -> Vec<FilesOf<'a>> {
    let mut files: Vec<_> = panels.files.iter().collect();
    let place = |op: Op| {
        let class = Class::of(op, false);
        layers.iter().position(|layer| layer.classes.contains(&class)).unwrap_or(layers.len())
    };
    files.sort_by_key(|(op, _)| place(*op));
    let of_op = |(op, counts): &'a (Op, Vec<u64>)| FilesOf {
        name: op.name(),
        colour: colour_of(layers, *op),
        counts,
    };
    files.into_iter().map(of_op).collect()
}

fn curves(page: &Page, layers: &[Layer]) -> Vec<Curve> {
    let colour = |kind: Kind| {
        if Layer::are_of_files(layers) {
            colour_of(layers, kind.op()).to_owned()
        } else {
            format!("--k{}", kind.index())
        }
    };

    let picture = &page.picture;
    let mut curves = Vec::new();
    for span in Span::ALL {
        for kind in Kind::ALL.into_iter().filter(|_| page.tells(span)) {
            let points = thinned(&picture.spans(span, kind).curve());
            if !points.is_empty() {
                let (colour, kind) = (colour(kind), kind.name());
                curves.push(Curve { span, kind, colour, points });
            }
        }
    }
    curves
}

/// A curve without the inner points of its horizontal stretches.
fn thinned(curve: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let inner = |i: usize| {
        i > 0 && i + 1 < curve.len() && curve[i - 1].1 == curve[i].1 && curve[i].1 == curve[i + 1].1
    };
    let rounded = |(nines, ns): (f64, u64)| ((nines * 1e4).round() / 1e4, ns);
    (0..curve.len()).filter(|i| !inner(*i)).map(|i| rounded(curve[i])).collect()
}

/// The filled cells, bucket by bucket: for each the distance from the previous one, and its count.
fn pack(raster: &Raster) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = 0;
    for (bucket, row, count) in raster.filled() {
        let cell = (bucket * ROWS + row) as u64;
        leb128(&mut bytes, cell - next);
        leb128(&mut bytes, u64::from(count));
        next = cell + 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;

    #[test]
    fn a_packed_raster_holds_distances_and_counts() {
        let mut raster = Raster::new();
        for _ in 0..300 {
            raster.at(Nanos(0)).record(Nanos(0));
        }
        raster.at(Nanos::from_millis(1)).record(Nanos(0));
        assert_eq!(pack(&raster), [0, 0xac, 0x02, 0x97, 0x03, 1]);
    }

    #[test]
    fn a_level_stretch_of_a_curve_keeps_its_ends() {
        let curve = [(0.0, 1), (0.5, 1), (1.0, 1), (1.5, 2)];
        assert_eq!(thinned(&curve), [(0.0, 1), (1.0, 1), (1.5, 2)]);
    }
}
