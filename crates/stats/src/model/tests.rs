use std::path::Path;
use std::process::Command;

use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Op};

use super::arrivals::Kind;
use super::comparison::compare;
use super::{Figures, Measure, fio, line};

fn figures(line: &str) -> Figures {
    let mut source = formats::open(Path::new(line), &ReadOptions::default()).unwrap();
    let mut batch = Batch::default();
    let mut measure = Measure::default();
    while source.next_batch(&mut batch).unwrap() {
        measure.observe(&batch);
    }
    measure.figures()
}

#[track_caller]
fn near(found: f64, expected: f64, bound: f64) {
    assert!((found - expected).abs() <= bound, "{found} is not {expected} ± {bound}");
}

#[test]
fn the_kind_of_arrivals_is_recognised() {
    let kind = |dist: &str| {
        let line = format!("gen:random?rate=500&duration=300s&dist={dist}");
        figures(&line).arrivals.kind
    };
    assert_eq!(kind("constant"), Kind::Constant);
    assert_eq!(kind("poisson"), Kind::Poisson);
    assert_eq!(kind("onoff(on=50ms,off=100ms)"), Kind::OnOff);
    assert_eq!(kind("self-similar(hurst=0.9,sources=16)"), Kind::SelfSimilar);
    assert_eq!(kind("cascade(bias=0.7)"), Kind::SelfSimilar);
}

#[test]
fn rate_dispersion_and_the_hurst_parameter_are_those_of_the_process() {
    let poisson = figures("gen:random?rate=1000&duration=200s&dist=poisson").arrivals;
    near(poisson.rate_per_s, 1000.0, 5.0 * (1000.0_f64 / 200.0).sqrt());
    near(poisson.gap_variation, 1.0, 0.02);
    near(poisson.hurst.unwrap(), 0.5, 0.1);
    for dispersion in &poisson.dispersions {
        let spans = poisson.span_ns as f64 / dispersion.span_ns as f64;
        near(dispersion.index, 1.0, 5.0 * (2.0 / spans).sqrt() + 0.01);
    }
    assert!(poisson.biases.iter().take(10).all(|bias| *bias < 0.56), "{:?}", poisson.biases);
    let constant = figures("gen:random?rate=1000&duration=20s").arrivals;
    near(constant.gap_variation, 0.0, 1e-3);
    assert_eq!((constant.peak_second, constant.second_p50), (1000, 1000));
}

#[test]
fn the_biases_of_a_cascade_are_found_again_scale_by_scale() {
    let biases = [0.55, 0.7, 0.6, 0.8, 0.65, 0.75, 0.6, 0.7, 0.6, 0.8];
    let text: Vec<_> = biases.iter().map(ToString::to_string).collect();
    // Spans that are powers of two, so that scales of both are the same.
    let line = format!(
        "gen:random?rate=2000&duration=549755813888ns&dist=cascade(bias={})",
        text.join(":")
    );
    let found = figures(&line).arrivals.biases;
    for (level, (found, bias)) in found.iter().zip(biases).enumerate() {
        near(*found, bias, if level < 3 { 0.03 } else { 0.02 });
    }
}

#[test]
fn mix_sequences_and_reuse_are_those_of_the_load() {
    let figures = figures(
        "gen:model?mix=R4k:30,W8k:60,F:10&sequential=R:20,W:60&streams=3&reuse=R:0/0/0/0/0/40\
         &area=1T&align=4k&count=100000",
    );
    near(figures.mix.share_of(Op::Read), 0.3, 0.01);
    near(figures.mix.share_of(Op::Flush), 0.1, 0.01);
    // Who goes back to where a sequence went may go on along it.
    near(figures.mix.of(Op::Read).unwrap().sequential_share, 0.2, 0.03);
    let writes = figures.mix.of(Op::Write).unwrap();
    near(writes.sequential_share, 0.6, 0.01);
    near(writes.sequences, 3.0, 0.6);
    assert_eq!(figures.mix.align.0, 4096);
    let reads = figures.reuse.per_op.iter().find(|of_op| of_op.op == Op::Read).unwrap();
    near(reads.powers[5], 0.4, 0.03);
    near(figures.reuse.share, 0.3 / 0.9 * 0.8 * 0.4, 0.02);
}

#[test]
fn places_and_working_sets_are_those_of_the_load() {
    let uniform = figures("gen:random?area=1G&count=100000&rate=1000");
    assert!(uniform.places.zipf_exponent < 0.06, "{}", uniform.places.zipf_exponent);
    near(uniform.places.hottest_tenth_share, 0.11, 0.01);
    assert!(uniform.places.begin.0 < 1 << 20 && uniform.places.end.0 <= 1 << 30);
    assert!(uniform.places.end.0 > (1 << 30) - (1 << 20));
    // 262144 pages, of which 1000 requests a second touch nearly as many.
    let pages = |bytes: f64| bytes / 4096.0;
    near(pages(uniform.working_set.second.mean_bytes), 998.0, 2.0);
    let expected = 262_144.0 * (1.0 - (-100_000_f64 / 262_144.0).exp());
    near(pages(uniform.working_set.total_bytes) / expected, 1.0, 0.02);
    let skewed = figures("gen:model?mix=R4k:1&zipf=0.8&regions=256&area=1T&count=100000");
    near(skewed.fresh_places.zipf_exponent, 0.8, 0.05);
    let hot = figures("gen:hotspot?accesses=90&space=10&area=1G&count=100000");
    near(hot.places.hottest_tenth_share, 0.9, 0.03);
}

#[test]
fn a_fitted_line_makes_a_load_like_the_one_that_it_was_fitted_to() {
    let natural = figures(
        "gen:model?mix=R4k:30,R16k:10,W8k:50,W512:10&sequential=R:20,W:50&streams=2\
         &reuse=R:2/3/4/5/6,W:10/10/5/5/0/0/10&zipf=0.7&regions=128&area=8G&offset=1M&align=4k\
         &rate=300&dist=cascade(bias=0.65)&duration=600s&seed=5",
    );
    let fitted = line::line(&natural, 77);
    assert!(fitted.ends_with("&seed=77"), "{fitted}");
    let model = figures(&fitted);
    assert!(model.requests.abs_diff(natural.requests) < 2, "{}", model.requests);
    for aspect in compare(&natural, &model) {
        let bound = match aspect.name.as_str() {
            "operations and sizes" | "sequential reads" | "sequential writes" => 2.0,
            "places used again" | "distances of reuse" => 5.0,
            // Which places are used again is chance, and not the hot ones first.
            "hottest tenth of the device" => 12.0,
            "request rate" => 1.0,
            "gaps between requests" | "working set of 1 s" | "working set of 60 s" => 10.0,
            // Chance deals the few long spans anew.
            _ => 60.0,
        };
        assert!(aspect.distance_percent.abs() <= bound, "{aspect:?}");
    }
}

#[test]
fn odd_traces_still_make_a_line_and_a_job() {
    for line in [
        "gen:random?count=2",
        "gen:random?read=0&discard=100&count=100&area=1M",
        "gen:random?volumes=5&size=512&count=1000",
        "gen:bursts?duration=10s",
        "gen:random?size=4G&area=8T&count=50",
        "gen:random?rate=0.001&count=50",
        "gen:random?size=700:50,33:50&count=500",
    ] {
        let natural = figures(line);
        let model = figures(&line::line(&natural, 1));
        assert!(model.requests > 0, "{line}");
        let job = fio::job(&natural, "a name\nwith a newline", 1).unwrap();
        assert!(job.contains("[fitted]") && !job.contains("\nwith"), "{job}");
        for op in Op::ALL {
            near(model.mix.share_of(op), natural.mix.share_of(op), 0.1);
        }
    }
    let nothing = Measure::default().figures();
    assert!(figures(&line::line(&nothing, 1)).requests > 0);
    assert_eq!(fio::job(&figures("gen:model?mix=F:1&count=1000"), "", 1), None);
}

#[test]
fn what_is_too_little_or_too_far_makes_no_model() {
    let fault = |line| line::fault(&figures(line)).map(|(fault, _)| fault).unwrap_or_default();
    assert!(fault("gen:random?count=99").contains("too few"));
    assert_eq!(fault("gen:random?count=100"), "");
    let mut far = figures("gen:random?count=1000");
    far.places.end.0 = 1 << 63;
    assert!(line::fault(&far).unwrap().0.contains("8 EiB"));
    far.arrivals.span_ns = 0;
    assert!(line::fault(&far).unwrap().0.contains("one instant"));
}

#[test]
fn a_constant_load_comes_back_as_it_is() {
    for rate in ["1000", "22.443463", "0.3", "953.674316"] {
        let natural = figures(&format!("gen:random?rate={rate}&count=3000"));
        let model = figures(&line::line(&natural, 1));
        assert_eq!(model.requests, natural.requests);
        for aspect in compare(&natural, &model) {
            if ["request rate", "gaps between requests"].contains(&&*aspect.name) {
                near(aspect.distance_percent, 0.0, 1e-4);
            }
        }
    }
}

#[test]
fn sequences_that_return_nowhere_return_nowhere_in_the_model() {
    for line in ["gen:sequential?count=60000", "gen:streams?count=30000", "gen:mixed?area=1T"] {
        let natural = figures(line);
        let model = figures(&line::line(&natural, 1));
        near(model.reuse.share, natural.reuse.share, 0.005);
        let share = |figures: &Figures| figures.mix.of(Op::Read).unwrap().sequential_share;
        near(share(&model), share(&natural), 0.01);
    }
}

#[test]
fn as_many_requests_are_aligned_as_were() {
    let natural = figures(
        "gen:model?mix=R4k:30,W8k:40,W512:15,W1536:15&sequential=R:20/0,W:50/80&streams=2&align=512\
         &aligned=R:90,W:70/20&unused=R:100,W:100&area=8G&count=50000",
    );
    // 0.3 · 0.9 + 0.4 · 0.7 + 0.3 · (0.2 · 0.2 + 0.8 / 8).
    near(natural.mix.aligned_share, 0.592, 0.03);
    let model = figures(&line::line(&natural, 1));
    near(model.mix.aligned_share, natural.mix.aligned_share, 0.02);
}

/// The fio jobs of several loads, run by the real fio, where there is one, on a sparse file.
#[test]
fn fio_does_what_the_jobs_say() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    std::fs::File::create(&target).unwrap().set_len((1 << 30) + (1 << 20)).unwrap();
    for (name, line, rate) in [
        ("hot", "gen:zipf?theta=0.9&size=512:50,4k:50&align=4k&rate=2000&count=9000", 2000.0),
        ("mixed", "gen:random?rate=200&size=4k-64k&count=2000", 200.0),
        ("large", "gen:random?read=0&rate=200&size=64k&count=2000", 200.0),
        ("both", "gen:random?read=70&size=512:10,4k:50,64k:40&dist=poisson&rate=2000", 2000.0),
        ("slow", "gen:random?rate=4.4&count=200", 4.4),
    ] {
        let job = fio::job(&figures(line), line, 3).unwrap();
        let job: String = job
            .lines()
            .map(|line| if line.starts_with("runtime=") { "runtime=4" } else { line })
            .flat_map(|line| [line, "\n"])
            .collect();
        // Not every file system of a test has direct I/O.
        let job = job.replace("direct=1", "direct=0").replace("libaio", "psync");
        let path = directory.path().join(name);
        std::fs::write(&path, &job).unwrap();
        let tried = Command::new("fio")
            .args(["--output-format=terse", "--minimal"])
            .arg(format!("--filename={}", target.display()))
            .arg(&path)
            .output();
        let Ok(output) = tried else {
            ioecho_fixture::skipped("there is no fio");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{job}\n{said}");
        // Of the terse format, version 3: the requests per second of reads and of writes.
        let fields: Vec<_> = said.trim().split(';').collect();
        let found: f64 = [7, 48].map(|at| fields[at].parse::<f64>().unwrap()).iter().sum();
        near(found / rate, 1.0, 0.1 + 1.0 / (4.0 * rate));
    }
}

#[test]
fn a_job_for_fio_names_what_it_lost_and_nothing_else() {
    let lost = |line: &str| fio::job(&figures(line), "", 1).unwrap();
    let constant = lost("gen:sequential?rate=100&size=64k&count=1000");
    assert!(!constant.contains("Lost"), "{constant}");
    let all = lost("gen:random?read=50&discard=10&flush=2&volumes=3&dist=cascade&count=5000");
    for lost in ["discard requests", "3 volumes", "arrivals"] {
        assert!(all.contains(lost) && all.contains("fsync=2"), "{all}");
    }
    assert!(lost("gen:random?discard=100&count=500").contains("rw=randtrim"));
    assert!(lost("gen:random?flush=5&read=100&count=500").contains("rw=randread"));
}

/// What a model keeps of the loads that blkreplay publishes, where `IOECHO_DATA` says they are.
#[test]
fn of_natural_loads_a_model_keeps_the_rate_the_mix_and_the_sequences() {
    for name in ["linux-mysql.load.gz", "windows-mssql.load.gz"] {
        let Some(path) = ioecho_fixture::recording(name) else { continue };
        let natural = figures(path.to_str().unwrap());
        let line = line::line(&natural, 1);
        let model = figures(&line);
        println!("{name}: {}\n{line}", natural.arrivals.kind.told());
        for aspect in compare(&natural, &model) {
            let unit = aspect.unit;
            println!(
                "{:<30}{:>12}{:>12}{:>10.1} {:?}",
                aspect.name,
                unit.shown(aspect.natural),
                unit.shown(aspect.model),
                aspect.distance_percent,
                aspect.measure
            );
            let bound = match aspect.name.as_str() {
                "request rate" | "working set of 1 s" | "operations and sizes" => 10.0,
                "sequential reads" | "sequential writes" => 8.0,
                _ => continue,
            };
            assert!(aspect.distance_percent.abs() <= bound, "{name}: {aspect:?}");
        }
    }
}
