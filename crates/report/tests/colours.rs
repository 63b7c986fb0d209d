//! Readers with any colour vision must tell the colours apart. Models of colour vision compute
//! that.
//!
//! Distances are CIEDE2000 (Sharma, Wu, Dalal 2005), between colours as a deuteranope sees them
//! (Machado, Oliveira, Fernandes 2009, severity 1). Contrast is that of WCAG 2.1, section 1.4.3.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

const STYLE: &str = include_str!("../assets/report.css");

/// Colours that meet in a diagram must be this far apart.
const FAR_APART: f64 = 12.0;

type Rgb = [f64; 3];

/// A colour of the style sheet: scheme 0 is the light one, scheme 1 the dark one.
fn colour(name: &str, scheme: usize) -> Rgb {
    let key = format!("{name}: #");
    let mut values = STYLE.split(&key).skip(1);
    let hex = values.nth(scheme).unwrap_or_else(|| panic!("{name} has no value {scheme}"));
    let part = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    [part(0), part(2), part(4)].map(|value| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

/// A colour as a deuteranope sees it.
fn deuteranope(rgb: Rgb) -> Rgb {
    const SEEN: [Rgb; 3] = [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ];
    SEEN.map(|row| row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
}

fn lab(rgb: Rgb) -> Rgb {
    let of = |row: Rgb| row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>();
    let x = of([0.412_456_4, 0.357_576_1, 0.180_437_5]) / 0.950_47;
    let y = of([0.212_672_9, 0.715_152_2, 0.072_175_0]);
    let z = of([0.019_333_9, 0.119_192_0, 0.950_304_1]) / 1.088_83;
    let f = |t: f64| {
        if t > 216.0 / 24_389.0 { t.cbrt() } else { (24_389.0 / 27.0 * t + 16.0) / 116.0 }
    };
    [116.0 * f(y) - 16.0, 500.0 * (f(x) - f(y)), 200.0 * (f(y) - f(z))]
}

/// CIEDE2000 with all weights 1.
fn distance(one: Rgb, other: Rgb) -> f64 {
    let ([l1, a1, b1], [l2, a2, b2]) = (lab(one), lab(other));
    let mean = f64::midpoint(a1.hypot(b1), a2.hypot(b2)).powi(7);
    let stretch = 0.5 * (1.0 - (mean / (mean + 25_f64.powi(7))).sqrt());
    let (a1, a2) = (a1 * (1.0 + stretch), a2 * (1.0 + stretch));
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let hue = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
    let (h1, h2) = (hue(a1, b1), hue(a2, b2));
    let turn = (h2 - h1 + 180.0).rem_euclid(360.0) - 180.0;
    let hue_step = 2.0 * (c1 * c2).sqrt() * (turn.to_radians() / 2.0).sin();
    let (light_mean, chroma_mean, angle) =
        (f64::midpoint(l1, l2), f64::midpoint(c1, c2), h1 + turn / 2.0);
    let cos = |factor: f64, shift: f64| (factor * angle + shift).to_radians().cos();
    let t = 1.0 - 0.17 * cos(1.0, -30.0) + 0.24 * cos(2.0, 0.0) + 0.32 * cos(3.0, 6.0)
        - 0.2 * cos(4.0, -63.0);
    let square = (light_mean - 50.0).powi(2);
    let light = (l2 - l1) / (1.0 + 0.015 * square / (20.0 + square).sqrt());
    let chroma = (c2 - c1) / (1.0 + 0.045 * chroma_mean);
    let hue_step = hue_step / (1.0 + 0.015 * chroma_mean * t);
    let bend = 60.0 * (-((angle.rem_euclid(360.0) - 275.0) / 25.0).powi(2)).exp();
    let seventh = chroma_mean.powi(7);
    let rotation = -bend.to_radians().sin() * 2.0 * (seventh / (seventh + 25_f64.powi(7))).sqrt();
    (light * light + chroma * chroma + hue_step * hue_step + rotation * chroma * hue_step).sqrt()
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let light = |rgb: Rgb| 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2] + 0.05;
    let (one, other) = (light(one), light(other));
    (one / other).max(other / one)
}

#[test]
fn the_distance_is_that_of_its_definition() {
    // Sharma's pair 1: Lab (50, 2.6772, -79.7751) and (50, 0, -82.7485) are 2.0425 apart. The test
    // uses screen colours instead: red and green, by an independent implementation.
    let old = distance(
        deuteranope([0.0, 0.138_43, 0.434_15]),
        deuteranope([0.270_50, 0.028_43, 0.391_57]),
    );
    assert!(old < FAR_APART, "blue #0068b0 and violet #8e2fa8 look alike to a deuteranope: {old}");
    assert!(distance([1.0; 3], [0.0; 3]) > 99.9);
    assert!(distance([0.3; 3], [0.3; 3]) < 1e-9);
}

#[test]
fn colours_that_meet_are_told_apart_by_all_readers() {
    for scheme in [0, 1] {
        for meet in [
            &[
                "--c0", "--c1", "--c2", "--c3", "--failed", "--f0", "--f1", "--f2", "--f3", "--f4",
                "--f5", "--f6", "--f7",
            ][..],
            &["--demanded", "--achieved"],
            &["--mean", "--peak", "--recorded"],
            &["--p99", "--max"],
            &["--k0", "--k1", "--k2", "--k3", "--k4"],
            &["--n0", "--n1", "--n2", "--n3", "--n4", "--n5"],
        ] {
            for (at, one) in meet.iter().enumerate() {
                for other in &meet[at + 1..] {
                    let (a, b) = (colour(one, scheme), colour(other, scheme));
                    let apart = distance(a, b).min(distance(deuteranope(a), deuteranope(b)));
                    assert!(apart >= FAR_APART, "{scheme}: {one} and {other}: {apart:.1}");
                }
            }
        }
    }
}

#[test]
fn texts_have_the_contrast_that_wcag_asks_for() {
    let grounds = ["--page", "--card", "--plot"];
    let tones = ["--pass", "--suspect", "--invalid", "--none", "--limited"];
    let backs =
        ["--pass-back", "--suspect-back", "--invalid-back", "--none-back", "--limited-back"];
    for scheme in [0, 1] {
        let reads = |text: &str, ground: &str| {
            let found = contrast(colour(text, scheme), colour(ground, scheme));
            assert!(found >= 4.5, "{scheme}: {text} on {ground}: {found:.2}");
        };
        for ground in grounds {
            reads("--ink", ground);
            reads("--soft", ground);
        }
        for (tone, back) in tones.into_iter().zip(backs) {
            reads(tone, back);
            reads(tone, "--page");
            reads("--ink", back);
        }
    }
}
