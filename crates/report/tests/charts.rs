//! Charts must be drawn for papers and carried by the page, whatever their figures are.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use ioecho_report::{
    Chart, Ink, Listing, Page, Shape, Sheet, Side, Spacing, Stroke, Subject, html, live_html, svg,
    update,
};
use ioecho_stats::analysis::shape::{Axis, Bins, Curve, Grid, Quantity, Scale, Series};
use ioecho_stats::picture::RunPicture;
use ioecho_trace::{Batch, Bytes, Columns, Nanos, Op, Request};

fn series(values: &[Option<f64>]) -> Shape {
    let values = values.to_vec();
    let name = "a <series>".to_owned();
    Shape::Series(Series { name, step_ns: 1_000_000_000, values, ..Series::default() })
}

fn grid(cells: Vec<(u32, u32, u64)>) -> Shape {
    let axis = |scale| Axis { quantity: Quantity::new("time", "ns"), scale, cells: u32::MAX };
    let x = axis(Scale::Linear { from: 0.0, step: 1e9 });
    let y = axis(Scale::Logarithmic { lowest: 100.0, per_decade: 24 });
    Shape::Grid(Grid { name: "cells".to_owned(), x, y, cells })
}

fn bins(edges: &[f64], counts: &[u64]) -> Shape {
    let (edges, counts) = (edges.to_vec(), counts.to_vec());
    Shape::Bins(Bins { name: "bins".to_owned(), edges, counts, ..Bins::default() })
}

fn curve(points: &[(f64, f64)]) -> Shape {
    let points = points.to_vec();
    Shape::Curve(Curve { name: "curve".to_owned(), points, ..Curve::default() })
}

fn chart(x: Side, y: Side, shape: Shape) -> Chart {
    Chart::new("g99.test", "A <chart> & more", x, y).with(shape, Ink::Read, Stroke::Steps)
}

fn sheet() -> Sheet {
    Sheet::of(&Page { title: "a run".to_owned(), ..Page::default() })
}

/// The numbers of all paths of a drawing.
fn numbers(svg: &str) -> Vec<f64> {
    let paths = svg.split(" d=\"").skip(1).map(|path| path.split('"').next().unwrap());
    paths
        .flat_map(|path| path.split(|c: char| !(c.is_ascii_digit() || ".-".contains(c))))
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap_or(f64::NAN))
        .collect()
}

#[test]
fn every_shape_is_drawn_on_every_spacing_whatever_it_holds() {
    let shapes = || {
        [
            series(&[]),
            series(&[Some(0.0)]),
            series(&[None, Some(-3.0), Some(1e300), Some(f64::NAN), Some(f64::INFINITY)]),
            grid(vec![(0, 0, 1)]),
            grid(vec![(5, 7, u64::MAX), (u32::MAX - 1, 200, 1)]),
            bins(&[0.0, 0.0], &[3]),
            bins(&[1.0, 10.0, 100.0], &[0, u64::MAX]),
            bins(&[], &[]),
            curve(&[(0.0, 0.0)]),
            curve(&[(-1.0, 5.0), (f64::MAX, f64::MIN_POSITIVE), (f64::NAN, 1.0)]),
        ]
    };
    let sides = [
        Side::linear("a", "bytes"),
        Side::logarithmic("b", "ns"),
        Side::time(),
        Side::nines("share"),
        Side::linear("c", "requests"),
    ];
    for x in &sides {
        for y in &sides {
            for shape in shapes() {
                let chart = chart(x.clone(), y.clone(), shape);
                let drawn = svg(&chart, &sheet());
                assert!(drawn.ends_with("</svg>\n"));
                assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{chart:?}\n{drawn}");
                assert!(drawn.len() < 3_000_000, "{}", drawn.len());
            }
        }
    }
}

#[test]
fn what_is_drawn_lies_within_the_sheet() {
    let points: Vec<(f64, f64)> =
        (0..500).map(|i| (f64::from(i), f64::from(i * i % 977))).collect();
    let chart = chart(Side::linear("x", "1"), Side::logarithmic("y", "1"), curve(&points));
    let drawn = svg(&chart, &Sheet { size: (600.0, 400.0), ..sheet() });
    assert!(drawn.contains("viewBox=\"0 0 600 400\""));
    let numbers = numbers(&drawn);
    assert!(numbers.len() > 900);
    assert!(numbers.iter().all(|number| (-600.0..=600.0).contains(number)));
}

#[test]
fn an_empty_chart_says_so_and_a_name_is_no_markup() {
    let empty = chart(Side::time(), Side::linear("y", "1"), series(&[None]));
    assert!(empty.is_empty());
    let drawn = svg(&empty, &sheet());
    assert!(drawn.contains("nothing to draw"));
    assert!(drawn.contains("A &lt;chart&gt; &amp; more"));
    let drawn = svg(&chart(Side::time(), Side::linear("y", "1"), series(&[Some(1.0)])), &sheet());
    assert!(drawn.contains("a &lt;series&gt;"));
}

#[test]
fn a_denser_cell_is_drawn_darker() {
    let cells = (0..100).map(|i| (i, i, if i == 50 { 1_000_000 } else { 1 })).collect();
    let drawn = svg(&chart(Side::time(), Side::logarithmic("y", "ns"), grid(cells)), &sheet());
    let levels = drawn.matches("fill-opacity=\"0.").count();
    assert_eq!(levels, 2, "{drawn}");
    assert!(drawn.contains("fill-opacity=\"0.90\""));
}

#[test]
fn a_marked_value_is_drawn_and_told() {
    let chart = chart(Side::time(), Side::logarithmic("y", "ns"), series(&[Some(1e9)]))
        .limit(5e9, "bad <latency>");
    assert!(svg(&chart, &sheet()).contains("bad &lt;latency&gt;"));
}

#[test]
fn the_corners_and_the_stamp_of_a_sheet_are_drawn() {
    let chart = chart(Side::time(), Side::linear("y", "1"), series(&[Some(1.0)]));
    let sheet = Sheet {
        warning: "a <warning>".to_owned(),
        fit: "wraparound factor 0.903".to_owned(),
        stamp: "SIMULATED".to_owned(),
        ..sheet()
    };
    let drawn = svg(&chart, &sheet);
    for text in ["a &lt;warning&gt;", "wraparound factor 0.903", "SIMULATED", "not judged"] {
        assert!(drawn.contains(text), "{text}");
    }
}

/// A load of three requests, one of them with a recorded latency.
fn load() -> Page {
    let mut batch =
        Batch::new(Columns { latency: true, origin: false, measured: false, dependencies: false });
    for ms in [0, 5, 10] {
        let mut request = Request::new(Nanos::from_millis(ms), Op::Read, Bytes(0), Bytes(4096));
        request.latency = (ms == 5).then_some(Nanos(80_000));
        batch.push(&request);
    }
    let mut picture = RunPicture::new();
    picture.observe_loads(&batch.iter().collect::<Vec<_>>());
    Page { subject: Subject::Load, title: "a load".to_owned(), picture, ..Page::default() }
}

/// The JSON that the page carries for its scripts.
fn data(text: &str) -> serde_json::Value {
    let data = text.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_load_has_a_page_that_says_it_is_no_run() {
    let text = html(&load()).unwrap();
    assert!(text.contains("not a run: nothing was measured, nothing is judged"));
    assert!(text.contains("3 requests · over 10.0 ms"), "{text}");
    assert!(text.contains("recorded latency") && !text.contains("Not judged"));
    let data = data(&text);
    assert_eq!(data["kind"], "load");
    assert_eq!(data["panels"]["demanded_requests"].as_array().unwrap().len(), 11);
    assert_eq!(data["exact"]["sonar"][0]["max"], 80_000);
    assert!(data["panels"]["recorded_mean"].is_array());
}

#[test]
fn charts_travel_with_the_page_and_empty_ones_do_not() {
    let time = || chart(Side::time(), Side::linear("y", "1"), series(&[Some(1.234_567_89), None]));
    let own = chart(Side::linear("x", "1"), Side::linear("y", "1"), curve(&[(1.0, 2.0)]));
    let empty = chart(Side::time(), Side::linear("y", "1"), series(&[]));
    let page = Page { charts: vec![time(), own, empty], expert: vec![time()], ..load() };
    let text = html(&page).unwrap();
    let data = data(&text);
    assert_eq!(data["charts"].as_array().unwrap().len(), 2);
    let layer = &data["charts"][0]["layers"][0];
    assert_eq!((&layer["shape"], &layer["ink"]), (&"series".into(), &"--c0".into()));
    assert_eq!(layer["values"], serde_json::json!([1.2346, null]));
    assert!(text.contains("id=\"charts\"") && text.contains("id=\"expert\""));
    assert!(!html(&load()).unwrap().contains("id=\"expert\""));
}

#[test]
fn a_long_series_is_thinned_before_it_travels() {
    let values: Vec<Option<f64>> = (0..1_000_000).map(|i| Some(f64::from(i))).collect();
    let page = Page {
        charts: vec![chart(Side::time(), Side::linear("y", "1"), series(&values))],
        ..load()
    };
    let text = html(&page).unwrap();
    assert!(text.len() < 400_000, "{}", text.len());
    let layer = &data(&text)["charts"][0]["layers"][0];
    assert!(layer["values"].as_array().unwrap().len() <= 2048);
    assert_eq!(layer["step_ns"], 489_000_000_000_i64);
}

#[test]
fn a_listing_and_the_command_are_shown_and_never_executed() {
    let evil = "</td><script>alert('x\n\"')</script>".to_owned();
    let listing = Listing {
        heading: evil.clone(),
        note: evil.clone(),
        columns: vec![evil.clone()],
        rows: vec![vec![evil.clone(), evil.clone()]],
    };
    let mut evil_chart = chart(Side::time(), Side::linear(&evil, &evil), series(&[Some(1.0)]));
    evil_chart.title.clone_from(&evil);
    let page = Page {
        command: evil.clone(),
        listings: vec![listing, Listing::default()],
        charts: vec![evil_chart],
        ..load()
    };
    let text = html(&page).unwrap();
    assert!(!text.contains("<script>alert"));
    assert_eq!(text.matches("</script>").count(), 2);
    assert_eq!(text.matches("class=\"percentiles listing\"").count(), 1);
    let update = update(&page).unwrap();
    assert!(!update.contains("<script>alert('x\\n\\\"')</script>\\n</td>"));
}

#[test]
fn only_a_page_that_is_served_may_ask_for_new_figures() {
    let text = html(&load()).unwrap();
    assert!(text.contains("default-src 'none'") && !text.contains("connect-src"));
    let live = live_html(&load(), "poll();").unwrap();
    assert!(live.contains("; connect-src 'self'\">") && live.contains("poll();"));
    // The page of a run that has just begun has nothing to draw, but has the place for later
    // panels.
    assert!(live_html(&Page::default(), "").unwrap().contains("id=\"panels\""));
}

#[test]
fn an_update_holds_the_figures_and_the_words_of_the_page() {
    let page = load();
    let update: serde_json::Value = serde_json::from_str(&update(&page).unwrap()).unwrap();
    assert_eq!(update["data"], data(&html(&page).unwrap()));
    let text = html(&page).unwrap();
    for name in ["words", "tables", "essentials"] {
        let part = update["texts"][name].as_str().unwrap();
        assert!(text.contains(part), "{name}: {part}");
        assert!(text.contains(&format!("data-text=\"{name}\"")));
    }
}

#[test]
fn a_side_can_be_fixed() {
    let side = Side { from: Some(0.0), to: Some(100.0), ..Side::linear("share", "%") };
    let drawn = svg(&chart(Side::time(), side, series(&[Some(3.0)])), &sheet());
    assert!(drawn.contains(">100</text>"));
    assert_eq!(Side::time().spacing, Spacing::Time);
}
