use crate::generate::tests::all;

/// Requests in each span of `width` nanoseconds.
fn counts(line: &str, width: i64, spans: usize) -> Vec<f64> {
    let mut counts = vec![0.0; spans];
    for request in all(line) {
        if let Some(count) = counts.get_mut((request.issue.0 / width) as usize) {
            *count += 1.0;
        }
    }
    counts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64
}

/// The slope of the logarithm of the variance of counts over the logarithm of the scale, halved:
/// an estimate of the Hurst parameter (Leland et al. 1994).
fn hurst(line: &str, finest: i64, scales: usize, spans: usize) -> f64 {
    let mut counts = counts(line, finest, spans);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for scale in 0..scales {
        x.push(scale as f64);
        y.push(variance(&counts).log2());
        counts = counts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    }
    let (mean_x, mean_y) = (mean(&x), mean(&y));
    let covariance: f64 = x.iter().zip(&y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let spread: f64 = x.iter().map(|x| (x - mean_x) * (x - mean_x)).sum();
    covariance / spread / 2.0
}

#[test]
fn a_poisson_process_has_its_rate_and_the_dispersion_one_at_every_scale() {
    const LINE: &str = "gen:random?rate=1000&dist=poisson&duration=100s";
    let total = all(LINE).len() as f64;
    assert!((total - 100_000.0).abs() < 5.0 * 100_000_f64.sqrt(), "{total}");
    for (width, spans) in [(1_000_000, 100_000), (100_000_000, 1000)] {
        let counts = counts(LINE, width, spans);
        let dispersion = variance(&counts) / mean(&counts);
        let bound = 5.0 * (2.0 / spans as f64).sqrt();
        assert!((dispersion - 1.0).abs() < bound, "{width}: {dispersion}");
    }
    assert!((hurst(LINE, 10_000_000, 6, 10_000) - 0.5).abs() < 0.05);
}

#[test]
fn sources_that_are_on_and_off_keep_the_rate_and_are_burstier_than_poisson() {
    const LINE: &str = "gen:random?rate=1000&dist=onoff(on=20ms,off=80ms)&duration=200s";
    let total = all(LINE).len() as f64;
    // 2000 cycles, whose lengths vary about as much as they are long.
    assert!((total / 200_000.0 - 1.0).abs() < 5.0 * (2.0 / 2000_f64).sqrt(), "{total}");
    let per_10_ms = counts(LINE, 10_000_000, 20_000);
    assert!(variance(&per_10_ms) / mean(&per_10_ms) > 10.0);
    // Four fifths of the time no request comes.
    let idle = per_10_ms.iter().filter(|count| **count == 0.0).count();
    assert!((0.6..0.85).contains(&(idle as f64 / 20_000.0)), "{idle}");
}

#[test]
fn self_similar_arrivals_have_the_hurst_parameter_that_was_asked_for() {
    for (hurst_asked, seed) in [(0.7, 1), (0.9, 2)] {
        let line = format!(
            "gen:random?rate=2000&dist=self-similar(hurst={hurst_asked},sources=32,on=20ms,\
             off=20ms)&duration=600s&seed={seed}"
        );
        let found = hurst(&line, 160_000_000, 7, 3750);
        assert!((found - hurst_asked).abs() < 0.12, "{hurst_asked}: {found}");
    }
}

#[test]
fn a_cascade_has_its_count_exactly_and_the_concentration_of_its_biases() {
    const LINE: &str =
        "gen:random?rate=1000&dist=cascade(bias=0.6:0.8:0.7:0.9)&duration=1024s&seed=3";
    assert_eq!(all(LINE).len(), 1_024_000);
    // F(j), the sum of n (n − 1) over the parts of a scale, falls from scale to scale by
    // b² + (1 − b)²: exactly for the whole, and on average below.
    let mut parts = counts(LINE, 64_000_000_000, 16);
    let pairs = |parts: &[f64]| parts.iter().map(|n| n * (n - 1.0)).sum::<f64>();
    for (bias, bound) in [(0.9, 0.01), (0.7, 0.01), (0.8, 0.01), (0.6, 0.01)] {
        let finer = pairs(&parts);
        parts = parts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
        let found = finer / pairs(&parts);
        let expected = bias * bias + (1.0 - bias) * (1.0 - bias);
        assert!((found - expected).abs() < bound, "{bias}: {found}");
    }
}

#[test]
fn a_cascade_of_one_bias_is_self_similar() {
    // H = (1 − log₂(b² + (1 − b)²)) / 2 of the second moments; b = 0.7 has 0.893.
    const LINE: &str = "gen:random?rate=500&dist=cascade(bias=0.7,levels=16)&duration=4096s";
    let mut parts = counts(LINE, 62_500_000, 65_536);
    let moment = |parts: &[f64]| parts.iter().map(|n| n * (n - 1.0)).sum::<f64>().log2();
    let finest = moment(&parts);
    for _ in 0..10 {
        parts = parts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    }
    // The mean square grows with 2H: the sum over half as many parts with 2H − 1.
    let hurst = (f64::midpoint((moment(&parts) - finest) / 10.0, 1.0)).abs();
    assert!((hurst - 0.893).abs() < 0.02, "{hurst}");
}

#[test]
fn a_sweep_rises_linearly() {
    for dist in ["constant", "poisson"] {
        let line = format!("gen:random?rate=100-1100&dist={dist}&duration=100s");
        let tenths = counts(&line, 10_000_000_000, 10);
        for (tenth, count) in tenths.iter().enumerate() {
            let expected = 1000.0 + 1000.0 * (tenth as f64 + 0.5);
            let bound = if dist == "constant" { 2.0 } else { 5.0 * expected.sqrt() };
            assert!((count - expected).abs() < bound, "{dist}, {tenth}: {count}");
        }
    }
    // Falling to nothing: the mean over the time, and the one at its beginning.
    assert_eq!(all("gen:random?rate=1000-0.001&duration=10s").len(), 5001);
}
