use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

/// A run of half a minute whose device became slow in the middle.
fn scene() -> Scene {
    let percentiles = |ns: u64| Percentiles {
        count: 1000,
        mean_ns: ns,
        p50_ns: ns,
        p90_ns: Some(2 * ns),
        p99_ns: Some(4 * ns),
        p99_9_ns: Some(8 * ns),
        p99_99_ns: Some(9 * ns),
        max_ns: 10 * ns,
    };
    let recent = (0..30).map(|second: i64| {
        let is_slow = (10..20).contains(&second);
        let mut glance = Glance {
            demanded_per_s: Some(1000.0),
            completed_per_s: if is_slow { 400.0 } else { 1000.0 },
            in_flight: if is_slow { 180 } else { 4 },
            in_flight_max: if is_slow { 200 } else { 4 },
            lateness_max: Some(Nanos::from_micros(if is_slow { 5000 } else { 20 })),
            ..Glance::default()
        };
        let base = if is_slow { 8_000_000 } else { 100_000 };
        for request in 0..400 {
            glance.sonar.record(Nanos(base + request * request * base / 40_000));
        }
        if second == 5 {
            glance.sonar.record(Nanos::from_millis(50));
        }
        glance
    });
    Scene {
        title: "web.load → /dev/sdx".to_owned(),
        elapsed: Nanos::from_secs(30),
        duration: Some(Nanos::from_secs(120)),
        validity: Some(Validity::Valid),
        sentence: "Device-limited: the device could not take the load.".to_owned(),
        doubts: vec![(Grade::Limited, "lateness 12.0 % later than 1 ms".to_owned())],
        now: [Some(percentiles(100_000)), Some(percentiles(120_000)), Some(percentiles(2_000))],
        whole: [Some(percentiles(300_000)), Some(percentiles(900_000)), None],
        completed: 24_000,
        failed: 3,
        late: 3600,
        recent: recent.collect(),
        is_colourless: false,
    }
}

pub(super) fn drawn(scene: &Scene, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, scene)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_panels_of_a_slow_spell_look_like_this() {
    insta::assert_snapshot!(drawn(&scene(), 90, 32));
}

#[test]
fn before_the_first_interval_there_is_nothing_to_see_and_it_is_said() {
    let text = drawn(&Scene::default(), 90, 32);
    assert!(
        text.contains("NOTHING YET") && text.contains("no request has completed yet"),
        "{text}"
    );
    assert!(!text.contains("VALID"), "{text}");
}

#[test]
fn a_small_terminal_keeps_the_verdict_and_the_figures() {
    let text = drawn(&scene(), 80, 12);
    assert!(text.contains("VALID so far") && text.contains("response time"), "{text}");
    assert!(!text.contains("in flight"), "{text}");
}

#[test]
fn no_terminal_is_too_small_to_draw_on() {
    for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 1), (1, 50), (300, 100)] {
        drawn(&scene(), width, height);
        drawn(&Scene::default(), width, height);
    }
}

#[test]
fn without_colours_the_shades_still_tell_many_from_few() {
    let text = drawn(&Scene { is_colourless: true, ..scene() }, 90, 32);
    assert!(text.contains('█') && text.contains('·'), "{text}");
}
