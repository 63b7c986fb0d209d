//! The panels as figures for papers, tickets and mails.
//!
//! Each carries the verdict in its corner, because a figure travels without its page. Names follow
//! blkreplay's `graph.sh` where it has a like one, so that old and new results can be laid side by
//! side: `g01.latency.realtime` is its sonar diagram.

mod density;

use ioecho_stats::picture::{Class, Kind, Panels, Rate, Span};
use ioecho_stats::raster::Raster;
use ioecho_stats::verdict::Validity;

use density::{marks_of, rows_of, share};

use crate::Page;
use crate::scale;
use crate::svg::{Heading, Line, Paint, Plot, SIZE};

/// A drawing of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, to be used as the name of a file without an ending.
    pub name: &'static str,
    /// The drawing as SVG text.
    pub svg: String,
}

/// The colours of [`Class::ALL`], told apart by colour-blind readers (after Okabe and Ito).
const CLASSES: [&str; 4] = ["#0068b0", "#d55e00", "#6f7780", "#8e2fa8"];
/// The colours of [`Kind::ALL`].
const KINDS: [&str; 5] = ["#0068b0", "#d55e00", "#00875f", "#8e2fa8", "#6f7780"];

/// The dashes of response time beside service time.
const RESPONSE: &str = "6 3";

/// Points that a line has at most.
const POINTS: usize = 500;
/// Requests that a point of a rate should rest on.
const REQUESTS_PER_POINT: u64 = 12;

/// Every figure of a run. One that has nothing to show says so.
pub fn figures(page: &Page) -> Vec<Figure> {
    let panels = page.picture.finish();
    let sheet = Sheet { page, panels: &panels };
    vec![
        sheet.throughput("g000.overview.thrp", "Throughput", "requests/s", requests, 1.0),
        sheet.throughput("g000.overview.thrs", "Throughput", "MiB/s", bytes, 1_048_576.0),
        sheet.sonar(),
        sheet.lateness(),
        sheet.percentiles(),
        sheet.in_flight(),
    ]
}

type Side<'a> = (&'static str, Rate<'a>);

fn requests(panels: &Panels) -> [Side<'_>; 2] {
    [("demanded", panels.demanded_request_rate()), ("achieved", panels.achieved_request_rate())]
}

fn bytes(panels: &Panels) -> [Side<'_>; 2] {
    [("demanded", panels.demanded_byte_rate()), ("achieved", panels.achieved_byte_rate())]
}

struct Sheet<'a> {
    page: &'a Page,
    panels: &'a Panels,
}

impl Sheet<'_> {
    fn plot(&self, what: &str) -> Plot {
        let verdict = crate::sheet::Verdict::of(self.page).words();
        Plot::new(&Heading { what, run: &self.page.title, verdict, foot: ("", ""), size: SIZE })
    }

    fn finish(&self, name: &'static str, plot: Plot) -> Figure {
        let validity = self.page.verdict.as_ref().map(|verdict| verdict.validity);
        let stamp = (validity == Some(Validity::Invalid)).then_some("INVALID");
        Figure { name, svg: plot.finish(stamp) }
    }

    fn nothing(&self, name: &'static str, mut plot: Plot, why: &str) -> Figure {
        plot.word(&format!("nothing to draw: {why}"));
        self.finish(name, plot)
    }

    /// The end of the axis of time in nanoseconds.
    fn end(&self) -> i64 {
        self.panels.end_ns.max(1)
    }

    fn time_axis(&self, plot: &mut Plot) {
        let (marks, unit) = scale::time(self.end(), 10);
        plot.across(
            &marks,
            |ns| ns / self.end() as f64,
            &format!("time since the start of the run [{unit}]"),
        );
    }

    /// How many buckets make a point of a line.
    fn joined(&self) -> usize {
        let total: u64 = self.panels.demanded_requests.iter().sum();
        let mut join = 1;
        loop {
            let points = self.panels.buckets.div_ceil(join);
            let thin = points > 60 && total / (points as u64) < REQUESTS_PER_POINT;
            if points <= POINTS && !thin {
                return join;
            }
            join *= 2;
        }
    }

    /// A line that holds each value for its window: `value` gets the first bucket of a window and
    /// the one behind its last, and answers a share of the height.
    fn steps(&self, value: impl Fn(usize, usize) -> Option<f64>) -> Vec<Option<(f64, f64)>> {
        let join = self.joined();
        let width = self.panels.width_ns as f64;
        let end = self.end() as f64;
        let mut points = Vec::new();
        for from in (0..self.panels.buckets).step_by(join) {
            let to = (from + join).min(self.panels.buckets);
            let Some(y) = value(from, to) else {
                points.push(None);
                continue;
            };
            points.push(Some((from as f64 * width / end, y)));
            points.push(Some(((to as f64 * width / end).min(1.0), y)));
        }
        points
    }

    fn throughput(
        &self,
        name: &'static str,
        what: &str,
        unit: &str,
        sides: fn(&Panels) -> [Side<'_>; 2],
        scale: f64,
    ) -> Figure {
        let mut plot = self.plot(&format!("{what}, demanded and achieved"));
        if self.panels.is_empty() {
            return self.nothing(name, plot, "no request was measured");
        }
        let sides = sides(self.panels).map(|(name, rate)| {
            let points = self.steps(|from, to| Some(rate.point(from..to) / scale));
            let mean = rate.mean(0..self.panels.buckets).map(|mean| scale::rate(mean / scale));
            (mean.map_or(name.to_owned(), |mean| format!("{name}, mean {mean} {unit}")), points)
        });
        let points = sides.iter().flat_map(|(_, points)| points.iter().flatten());
        let highest = points.map(|(_, rate)| *rate).fold(0.0, f64::max);
        let marks = scale::linear(highest, 6);
        let top = marks[marks.len() - 1].at;
        self.time_axis(&mut plot);
        plot.upward(&marks, |value| value / top, unit);
        for ((name, points), colour) in sides.iter().zip(["#1b1f24", "#d55e00"]) {
            let share = |point: &Option<(f64, f64)>| point.map(|(at, rate)| (at, rate / top));
            let points = points.iter().map(share).collect();
            plot.line(&Line { name, colour, dash: "", points });
        }
        self.finish(name, plot)
    }

    fn in_flight(&self) -> Figure {
        let name = "g08.latency.flying";
        let mut plot = self.plot("Requests in flight");
        if self.panels.is_empty() {
            return self.nothing(name, plot, "no request was measured");
        }
        let highest = f64::from(self.panels.in_flight_max.iter().copied().max().unwrap_or(0));
        let recorded = self.panels.recorded_mean.as_deref();
        let highest = recorded.into_iter().flatten().fold(highest, |most, mean| most.max(*mean));
        // Where one burst is far above the rest, the mean would lie on the axis.
        let means = &self.panels.in_flight_mean;
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let logarithmic = highest > 10.0 * mean;
        let marks =
            if logarithmic { scale::counts(mean, highest) } else { scale::linear(highest, 6) };
        let (low, top) = (marks[0].at, marks[marks.len() - 1].at);
        let up = |value: f64| {
            if logarithmic {
                (value.max(low) / low).log10() / (top / low).log10()
            } else {
                value / top
            }
        };
        self.time_axis(&mut plot);
        plot.upward(&marks, up, "requests");
        let most = |from: usize, to: usize| {
            let window = self.panels.in_flight_max[from..to].iter();
            window.max().map(|most| up(f64::from(*most)))
        };
        let points = self.steps(most);
        plot.line(&Line { name: "max", colour: "#8fb9d9", dash: "", points });
        let mean = |column: &[f64], from: usize, to: usize| {
            Some(up(column[from..to].iter().sum::<f64>() / (to - from) as f64))
        };
        let points = self.steps(|from, to| mean(&self.panels.in_flight_mean, from, to));
        plot.line(&Line { name: "mean over time", colour: "#0068b0", dash: "", points });
        if let Some(recorded) = recorded {
            let points = self.steps(|from, to| mean(recorded, from, to));
            plot.line(&Line { name: "recorded mean", colour: "#00875f", dash: "5 3", points });
        }
        self.finish(name, plot)
    }

    fn sonar(&self) -> Figure {
        let name = "g01.latency.realtime";
        let mut plot = self.plot("Service time at the instant of submission");
        let layers: Vec<(&str, &str, &Raster)> = Class::ALL
            .into_iter()
            .map(|class| {
                (class.name(), CLASSES[class as usize], &self.panels.sonar[class as usize])
            })
            .filter(|(.., raster)| raster.filled().next().is_some())
            .collect();
        if layers.is_empty() {
            return self.nothing(name, plot, "no request completed in full");
        }
        let rasters: Vec<&Raster> = layers.iter().map(|(.., raster)| *raster).collect();
        let rows = rows_of(&rasters);
        self.time_axis(&mut plot);
        plot.upward(&marks_of(rows), |ns| share(rows, ns), "service time");
        // One scale for all classes: a rare class painted last would else hide a frequent one.
        let cells: Vec<_> = layers.iter().map(|(.., raster)| self.cells(raster, rows.0)).collect();
        let most = cells.iter().flat_map(|cells| cells.values()).copied().max().unwrap_or(1);
        for ((name, colour, _), cells) in layers.iter().zip(&cells) {
            plot.name(name, colour, "");
            // Pushed-back requests occur among all others: thin, they leave those to be seen.
            let height = if *colour == CLASSES[Class::PushedBack as usize] { 0.45 } else { 1.0 };
            self.density(&mut plot, cells, most, rows, &Paint { colour, strongest: 0.9, height });
        }
        self.finish(name, plot)
    }

    fn lateness(&self) -> Figure {
        let name = "g04.delay";
        let mut plot =
            self.plot("Lateness (submitted − scheduled) at the instant each request was due");
        if self.panels.lateness.filled().next().is_none() {
            return self.nothing(name, plot, "no request was submitted");
        }
        let rows = rows_of(&[&self.panels.lateness]);
        self.time_axis(&mut plot);
        plot.upward(&marks_of(rows), |ns| share(rows, ns), "lateness");
        let cells = self.cells(&self.panels.lateness, rows.0);
        let most = cells.values().copied().max().unwrap_or(1);
        let paint = Paint { colour: "#6f7780", strongest: 0.5, height: 1.0 };
        self.density(&mut plot, &cells, most, rows, &paint);
        let points = self.steps(|from, to| {
            let most = self.panels.lateness_max_ns[from..to].iter().flatten().max()?;
            Some(share(rows, *most as f64))
        });
        plot.line(&Line { name: "max", colour: "#8e2fa8", dash: "", points });
        for (name, colour, quantile) in [("99 %", "#d55e00", 0.99), ("median", "#0068b0", 0.5)] {
            let points = self.steps(|from, to| {
                let lateness = self.panels.lateness_quantile_ns(quantile, from..to)?;
                Some(share(rows, lateness as f64))
            });
            plot.line(&Line { name, colour, dash: "", points });
        }
        self.finish(name, plot)
    }

    fn percentiles(&self) -> Figure {
        let name = "g06.latency.percentiles";
        let mut plot = self.plot("Percentiles of service time and response time");
        let mut curves = Vec::new();
        for (span, dash) in [(Span::Service, ""), (Span::Response, RESPONSE)] {
            for kind in Kind::ALL {
                let curve = self.page.picture.spans(span, kind).curve();
                if !curve.is_empty() {
                    curves.push((kind, dash, curve));
                }
            }
        }
        if curves.is_empty() {
            return self.nothing(name, plot, "no request completed in full");
        }
        let points = || curves.iter().flat_map(|(.., curve)| curve);
        let end = points().map(|(nines, _)| *nines).fold(1.0, f64::max);
        let spans = || points().map(|(_, ns)| (*ns).max(100) as f64);
        let low = spans().fold(f64::MAX, f64::min).log10().floor();
        let high = spans().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
        let up = |ns: f64| (ns.max(1.0).log10() - low) / (high - low);
        let marks = scale::nines(end);
        plot.across(&marks, |nines| nines / end, "share of requests that took no longer");
        plot.upward(&scale::spans(10_f64.powf(low), 10_f64.powf(high)), up, "time");
        plot.name(Span::Service.name(), "#1b1f24", "");
        plot.name(Span::Response.name(), "#1b1f24", RESPONSE);
        for (kind, dash, curve) in &curves {
            let points =
                curve.iter().map(|(nines, ns)| Some((nines / end, up(*ns as f64)))).collect();
            // A kind is named once: its other curve differs by its dashes only.
            let name = if dash.is_empty() { kind.name() } else { "" };
            plot.line(&Line { name, colour: KINDS[*kind as usize], dash, points });
        }
        self.finish(name, plot)
    }
}
