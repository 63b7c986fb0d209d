use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::request::Op;
use crate::{Batch, Bytes, Request};

fn opened(line: &str) -> Box<dyn Source> {
    open(Path::new(line)).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn all(line: &str) -> Vec<Request> {
    let mut source = opened(line);
    let mut batch = Batch::default();
    let mut requests = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        assert!(!batch.is_empty() && batch.len() <= BATCH_ROWS);
        requests.extend(batch.iter());
    }
    assert!(!source.next_batch(&mut batch).unwrap() && batch.is_empty());
    requests
}

fn refusal(line: &str) -> String {
    open(Path::new(line)).err().unwrap().to_string()
}

/// Whether `part` of `of` is the share `share`, within five standard deviations.
fn is_share(part: usize, of: usize, share: f64) -> bool {
    let (part, of) = (part as f64, of as f64);
    (part / of - share).abs() <= 5.0 * (share * (1.0 - share) / of).sqrt()
}

/// FNV-1a over all values of the requests.
fn fingerprint(requests: &[Request]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for request in requests {
        let numbers = [
            request.issue.0 as u64,
            u64::from(request.op.code()),
            request.offset.0,
            request.length.0,
            u64::from(request.volume.0),
        ];
        for byte in numbers.iter().flat_map(|number| number.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    hash
}

/// A line of each kind and of each arrival process.
const LINES: &[&str] = &[
    "gen:random?count=20000",
    "gen:random?read=70&size=4k:60,64k:40&rate=5000&dist=poisson&seek=30&count=20000",
    "gen:sequential?read=0&size=64k&flush=10&count=20000&volumes=3",
    "gen:mixed?sequential=60&read=50&discard=5&size=512-8k&count=20000",
    "gen:strided?stride=128k&area=8M&count=20000",
    "gen:zipf?theta=1.1&area=64M&count=20000&dist=onoff(on=10ms,off=30ms)",
    "gen:hotspot?accesses=90&space=10&at=50&count=20000&offset=1M&reuse=20&depth=100",
    "gen:streams?streams=5&area=100M&count=20000&dist=self-similar(hurst=0.85)",
    "gen:bursts?count=20000",
    "gen:random?dist=cascade(bias=0.8:0.6:0.7)&count=20000&seed=7",
    "gen:random?rate=10-1k&duration=30s&dist=poisson",
    "gen:model?mix=R4k:30,W8k:50,W512:15,F:3,D64k:2&sequential=R:10,W:60&streams=4\
     &reuse=R:1/2/3/4,W:20/10/5/0/0/0/0/5&zipf=0.8&regions=100&count=20000",
    "gen:strided?stride=4k-128k&area=8M&count=20000",
    "gen:sequential?start=any&area=8M&count=20000",
    "gen:random?read-hits=70&write-hits=20&hit-area=2M&read=60&size=8k-64k/4k&count=20000",
    "gen:random?area=8M&offset=12M&fold=16M&shift=512&count=20000",
    "gen:random?rate=100@1s,100-5k@2s&dist=poisson&duration=9s",
    "gen:random?rate=500@1s,5k@500ms&dist=uniform&duration=9s",
];

#[test]
fn the_same_line_is_the_same_load_for_ever() {
    // A change of these numbers would change the meaning of published lines.
    let found: Vec<String> =
        LINES.iter().map(|line| format!("{:016x}", fingerprint(&all(line)))).collect();
    assert_eq!(found, FINGERPRINTS);
}

const FINGERPRINTS: [&str; 18] = [
    "049d9c86ccc4b9b6",
    "fa978f15d6a7e145",
    "e9e99e8d92a4e1aa",
    "cf4b2e9a9aa0dc4a",
    "d017f85899b5a295",
    "9d021a79f3e647a1",
    "c537a9143340dd17",
    "27d1c75d515c9a95",
    "7b2cb757de61b4d2",
    "3a034d2786e3d71f",
    "1b7eff935ee26aac",
    "ec96395cfcd0177d",
    "400bc87aaf9406ec",
    "996e6c43d5a048a9",
    "bc9f7527afce613c",
    "e2eca406304bc91d",
    "67ccde82dd57d481",
    "62325538cf33e28b",
];

#[test]
fn another_seed_is_another_load_and_the_places_do_not_depend_on_the_instants() {
    let places = |line: &str| all(line).iter().map(|request| request.offset).collect::<Vec<_>>();
    let one = places("gen:random?count=1000");
    assert_ne!(one, places("gen:random?count=1000&seed=2"));
    assert_eq!(one, places("gen:random?count=1000&rate=7&dist=poisson"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn requests_are_ordered_within_the_area_aligned_and_counted(
        kind in 0_usize..7, dist in prop::sample::select(vec![
            "constant", "poisson", "onoff(on=1ms,off=2ms)", "self-similar(hurst=0.7)",
            "cascade(bias=0.9)",
        ]),
        size in prop::sample::select(vec!["512", "4k", "4k:50,64k:50", "4k-128k", "12k"]),
        align in prop::sample::select(vec!["", "&align=512", "&align=4k", "&align=64k"]),
        area in 2_u64..2000, offset in 0_u64..100, count in 1_usize..5000, seed in any::<u64>(),
        reuse in 0_u32..100,
    ) {
        let kind = &KINDS[kind];
        let streams = if kind.name == "streams" { "&streams=2" } else { "" };
        let space = if kind.name == "hotspot" { "&space=40" } else { "" };
        let stride = if kind.name == "strided" { "&stride=384k" } else { "" };
        let (area, offset) = ((area * 512) << 10, (offset * 64) << 10);
        let line = format!(
            "gen:{}?dist={dist}&size={size}&area={area}&offset={offset}&count={count}&seed={seed}\
             &read=50&reuse={reuse}{align}{streams}{space}{stride}",
            kind.name
        );
        let requests = all(&line);
        prop_assert_eq!(requests.len(), count);
        prop_assert!(requests.is_sorted_by_key(|request| request.issue));
        let align = match (align, size) {
            ("&align=64k", _) => 65536,
            ("&align=4k", _) | ("", "4k" | "4k:50,64k:50" | "4k-128k" | "12k") => 4096,
            _ => 512,
        };
        for request in &requests {
            prop_assert!(request.issue.0 >= 0);
            prop_assert!(request.offset.0 >= offset && request.end().0 <= offset + area);
            prop_assert!(request.offset.0.is_multiple_of(align) && request.length.0 >= 512);
        }
    }

    #[test]
    fn no_line_makes_it_panic(text in "[ -~]{0,60}", kind in 0_usize..9, rest in "[ -~]{0,60}") {
        let names = ["size", "rate", "dist", "area", "mix", "reuse", "seed", "bias", "duration"];
        let kind = KINDS[kind].name;
        for line in [
            format!("gen:{text}"),
            format!("gen:{kind}?{text}"),
            format!("gen:{kind}?mix=R4k:1&count=10&{}={rest}", names[text.len() % names.len()]),
        ] {
            if let Ok(mut source) = open(Path::new(&line)) {
                let _ = source.next_batch(&mut Batch::default());
            }
        }
    }
}

#[test]
fn a_constant_rate_is_kept_exactly_and_a_duration_ends_before_its_end() {
    let requests = all("gen:random?rate=3&duration=1000s");
    assert_eq!(requests.len(), 3000);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(request.issue.0 as u64, number as u64 * 1_000_000_000 / 3);
    }
    assert_eq!(all("gen:random?rate=22.44&duration=100s").len(), 2244);
    assert_eq!(all("gen:random?rate=1k&duration=10s&count=77").len(), 77);
    // The default duration is a minute.
    assert_eq!(all("gen:random").len(), 60_000);
}

#[test]
fn mixes_and_sizes_have_their_shares() {
    let requests = all("gen:random?read=70&discard=10&size=4k:60,64k:40&count=50000");
    let count = |op| requests.iter().filter(|request| request.op == op).count();
    assert!(is_share(count(Op::Discard), 50_000, 0.1));
    assert!(is_share(count(Op::Read), 50_000, 0.63));
    let large = requests.iter().filter(|request| request.length == Bytes(65536)).count();
    assert!(is_share(large, 50_000, 0.4));
    // By default a load only reads.
    assert!(all("gen:random?count=100").iter().all(|request| request.op == Op::Read));
    let flushes = all("gen:random?read=0&flush=9&count=1000");
    assert_eq!(flushes.iter().filter(|request| request.op == Op::Flush).count(), 100);
    assert_eq!((flushes[9].op, flushes[9].length), (Op::Flush, Bytes(0)));
    let volumes = all("gen:random?volumes=4&count=40000");
    let second = volumes.iter().filter(|request| request.volume.0 == 1).count();
    assert!(is_share(second, 40_000, 0.25));
}

/// The number of requests that begin where the one before ended.
fn following(requests: &[Request]) -> usize {
    requests.windows(2).filter(|pair| pair[0].end() == pair[1].offset).count()
}

#[test]
fn sequences_seeks_and_strides_are_as_asked() {
    assert_eq!(following(&all("gen:sequential?count=1000")), 999);
    assert_eq!(all("gen:sequential?area=1M&end=stop&size=64k").len(), 16);
    let wrapped = all("gen:sequential?area=1M&size=64k&count=32");
    assert_eq!(wrapped[16].offset, Bytes(0));
    let seeks = all("gen:random?seek=20&area=1T&count=20000");
    assert!(is_share(following(&seeks), 19_999, 0.8));
    let mixed = all("gen:mixed?sequential=20&area=1T&count=20000");
    assert!(is_share(following(&mixed), 19_999, 0.2));
    let strided = all("gen:strided?stride=1M&count=100");
    assert!(strided.windows(2).all(|pair| pair[1].offset.0 - pair[0].offset.0 == 1 << 20));
    let streams = all("gen:streams?streams=4&count=20000&area=4G");
    assert!(is_share(following(&streams), 19_999, 0.25));
    let mut ends = BTreeMap::new();
    let goes_on = |request: &Request| {
        let stream = request.offset.0 >> 30;
        ends.insert(stream, request.end()).is_none_or(|end| end == request.offset)
    };
    assert!(streams.iter().all(goes_on));
}

#[test]
fn hot_places_get_their_share() {
    let requests = all("gen:hotspot?accesses=80&space=10&at=30&area=1G&count=50000");
    let hot = (1_u64 << 30) / 10 * 3..(1_u64 << 30) / 10 * 4;
    let within = requests.iter().filter(|request| hot.contains(&(request.offset.0 + 4096)));
    assert!((within.count() as f64 / 50_000.0 - 0.8).abs() < 0.01);
    // The exponent again, from the frequencies of ranks 1 and 10.
    let requests = all("gen:zipf?theta=0.9&scatter=no&area=40M&count=200000");
    let at = |rank: u64| {
        requests.iter().filter(|request| request.offset.0 == rank * 4096).count() as f64
    };
    let theta = (at(0) / at(9)).ln() / 10_f64.ln();
    assert!((theta - 0.9).abs() < 0.05, "{theta}");
    let scattered = all("gen:zipf?theta=0.9&area=40M&count=200000");
    let mut counts = BTreeMap::new();
    for request in &scattered {
        *counts.entry(request.offset).or_insert(0) += 1;
    }
    let hottest = counts.values().max().copied().unwrap_or(0);
    assert!((f64::from(hottest) - at(0)).abs() < 5.0 * at(0).sqrt());
}

#[test]
fn places_are_used_again_as_often_as_asked() {
    let requests = all("gen:random?area=1T&reuse=30&depth=50&count=20000");
    let again = requests
        .iter()
        .enumerate()
        .filter(|(row, request)| {
            requests[row.saturating_sub(50)..*row].iter().any(|past| past.offset == request.offset)
        })
        .count();
    assert!(is_share(again, 20_000, 0.3));
}

#[test]
fn bursts_are_those_that_blkreplay_published() {
    // `bursts-ultrafine.readwrite.1b.1`: in the second k there are 10 k requests of two sectors a
    // nanosecond apart, one in the second 0, reads and writes by turns, 451501 in all.
    let requests = all("gen:bursts?duration=300000000001ns&area=4T&size=1k&count=451501");
    assert_eq!(requests.len(), 451_501 - 2999);
    let requests = all("gen:bursts?duration=301s&area=4T");
    assert_eq!(requests.len(), 451_501);
    let mut seconds = BTreeMap::<i64, Vec<&Request>>::new();
    for request in &requests {
        seconds.entry(request.issue.0 / 1_000_000_000).or_default().push(request);
    }
    for (second, burst) in seconds {
        assert_eq!(burst.len() as i64, (10 * second).max(1));
        assert_eq!(burst[burst.len() - 1].issue.0, second * 1_000_000_000 + burst.len() as i64 - 1);
    }
    let starts: Vec<_> = requests[..3].iter().map(|request| request.op).collect();
    assert_eq!(starts, [Op::Read, Op::Write, Op::Read]);
    assert!(requests.iter().all(|request| request.length == Bytes(1024)));
    let steep = all("gen:bursts?slope=100&first=5&every=100ms&gap=1us&duration=300ms");
    assert_eq!(steep.len(), 5 + 105 + 205);
    assert_eq!(steep[6].issue.0, 100_001_000);
}

#[test]
fn a_model_has_the_mix_the_sequences_and_the_reuse_that_it_says() {
    const COUNT: usize = 50_000;
    let requests = all(&format!(
        "gen:model?mix=R4k:30,W8k:70&sequential=W:40&reuse=W:0/0/0/50&align=4k&area=1T\
         &count={COUNT}"
    ));
    let writes: Vec<_> = requests.iter().filter(|request| request.op == Op::Write).collect();
    assert!(is_share(writes.len(), COUNT, 0.7));
    let followed = writes.windows(2).filter(|pair| pair[0].end() == pair[1].offset).count();
    // A few more than asked for, because a request that returns to a write and continues it may
    // coincide with the next write.
    let share = followed as f64 / writes.len() as f64;
    assert!((0.39..0.43).contains(&share), "{share}");
    let mut last = BTreeMap::new();
    let (mut at_distance, mut placed, mut end) = (0_i32, 0_i32, None);
    for (row, request) in requests.iter().enumerate() {
        let distance = last.insert(request.offset, row).map(|before| row - before);
        if request.op == Op::Write {
            // A request that continues a sequence was not chosen by its distance.
            if end != Some(request.offset) {
                placed += 1;
                let is_at = distance.is_some_and(|distance| (8..16).contains(&distance));
                at_distance += i32::from(is_at);
            }
            end = Some(request.end());
        }
    }
    let share = f64::from(at_distance) / f64::from(placed);
    assert!((share - 0.5).abs() < 0.05, "{share}");
}

#[test]
fn the_header_tells_the_line_with_its_seed_and_the_load_in_words() {
    let source = opened("gen:random?read=70&size=4k&rate=5000&dist=poisson");
    let header = source.header();
    assert_eq!(header.source, "gen:random?read=70&size=4k&rate=5000&dist=poisson&seed=1");
    assert_eq!(header.format, "generated");
    let told = header.description.as_deref().unwrap();
    assert_eq!(
        told,
        "artificial load: random over 1.00 GiB, 5000/s as a Poisson process, for 60.0 s, seed 1"
    );
    assert_eq!(header.volumes[0].size, Some(Bytes(1 << 30)));
    assert_eq!(opened("gen:bursts").header().source, "gen:bursts?seed=1");
    let again = opened(&header.source.clone());
    assert_eq!(again.header().source, header.source);
}

#[test]
fn what_cannot_be_made_is_refused_with_what_there_is() {
    for (line, reason) in [
        ("gen:", "there is no kind of load ''; known are random, sequential, mixed, strided"),
        ("gen:rondom?x=1", "known are random"),
        ("gen:random?reed=70", "there is no setting 'reed'; known are seek, rate, dist, area"),
        ("gen:random?read=170", "a percentage is a number from 0 to 100, or 'alternate'"),
        ("gen:random?70", "'70' is one value too many"),
        ("gen:random?read=1&read=2", "'read' is set twice"),
        ("gen:random?rate=0", "no rate"),
        ("gen:random?rate=-1", "'-1' is no rate"),
        ("gen:random?dist=gauss", "known are constant, poisson, uniform, onoff"),
        ("gen:random?dist=onoff(on=1s", "closing bracket"),
        ("gen:random?dist=onoff(up=1s)", "dist: onoff: there is no setting 'up'; known are"),
        ("gen:random?dist=self-similar(hurst=1)", "between 0.501 and 0.999"),
        ("gen:random?dist=cascade(bias=0.4)", "not a number from 0.5 to 1"),
        ("gen:random?endless=yes&count=1", "neither duration nor count"),
        ("gen:random?count=0", "a load of nothing"),
        ("gen:random?area=2k", "do not hold the largest request"),
        ("gen:random?align=3k", "power of two"),
        ("gen:random?offset=9e", "unknown unit"),
        ("gen:random?offset=8388607T&area=9T", "beyond 8 EiB"),
        ("gen:random?rate=1-5&dist=onoff", "dist=constant or dist=poisson only"),
        ("gen:random?rate=1-5&count=10", "needs a duration"),
        ("gen:random?depth=10", "without 'reuse'"),
        ("gen:streams?streams=9&area=32k", "9 times"),
        ("gen:strided?stride=1000", "multiple of the alignment"),
        ("gen:strided?stride=64k-4k", "ends before it begins"),
        ("gen:random?hit-area=1M", "without 'read-hits'"),
        ("gen:random?read-hits=5&hit-area=1G", "hit-area: it is a multiple"),
        ("gen:random?area=2M&offset=2M&fold=2M", "fold: the area begins before it"),
        ("gen:random?rate=5@1s,7", "every rate has a time"),
        ("gen:random?rate=5@1us", "at least 1ms"),
        ("gen:random?rate=5@1s&dist=onoff", "constant, poisson or uniform only"),
        ("gen:random?size=4k-8k/0", "at least a byte"),
        ("gen:model?rate=5", "mix is missing"),
        ("gen:model?mix=X4k:1", "one of R, W, F, D, Z"),
        ("gen:model?mix=R4k:1&reuse=R:60/60", "at most 100 %"),
        ("gen:model?mix=R4k:1&read=50", "there is no setting 'read'"),
    ] {
        let error = refusal(line);
        assert!(error.contains(reason), "{line}: {error}");
        assert!(error.contains("= help: docs/generators.md"), "{error}");
    }
}

#[test]
fn hits_go_to_their_part_of_the_area_and_nothing_else_does() {
    let requests = all("gen:random?read=50&read-hits=70&write-hits=20&hit-area=4M&count=40000");
    for (op, share) in [(Op::Read, 0.7), (Op::Write, 0.2)] {
        let of: Vec<_> = requests.iter().filter(|request| request.op == op).collect();
        let hits = of.iter().filter(|request| request.offset.0 < 4 << 20).count();
        assert!(is_share(hits, of.len(), share), "{op:?}: {hits} of {}", of.len());
    }
    // A sequence goes on behind that part.
    let requests = all("gen:sequential?read-hits=0&hit-area=1M&count=1000");
    assert!(requests.iter().enumerate().all(|(n, it)| it.offset.0 == (1 << 20) + n as u64 * 4096));
}

#[test]
fn a_part_near_the_end_goes_on_at_the_beginning_and_a_shift_spoils_the_alignment() {
    let requests = all("gen:random?area=8M&offset=12M&fold=16M&shift=512&count=20000");
    let (low, high) = ((4 << 20) + 512, (12 << 20) + 512);
    let within = |at: u64| at < low || (high..(16 << 20) + 512).contains(&at);
    assert!(requests.iter().all(|request| within(request.offset.0)));
    assert!(requests.iter().all(|request| request.offset.0 % 4096 == 512));
    let behind = requests.iter().filter(|request| request.offset.0 < low).count();
    assert!(is_share(behind, 20_000, 0.5), "{behind}");
}

#[test]
fn skips_lie_between_their_ends_and_rates_follow_each_other() {
    let requests = all("gen:strided?stride=8k-64k&area=1G&count=20000");
    let skips: Vec<u64> = requests
        .windows(2)
        .filter(|pair| pair[1].offset > pair[0].offset)
        .map(|pair| pair[1].offset.0 - pair[0].offset.0)
        .collect();
    assert!(skips.iter().all(|skip| (8192..=65536).contains(skip) && skip % 4096 == 0));
    let mean = skips.iter().sum::<u64>() as f64 / skips.len() as f64;
    assert!((mean / 36864.0 - 1.0).abs() < 0.02, "{mean}");
    let counts = |line: &str| {
        let mut counts = [0_i32; 6];
        for request in all(line) {
            counts[(request.issue.0 / 1_000_000_000) as usize] += 1;
        }
        counts
    };
    let steady = counts("gen:random?rate=100@1s,400@2s&duration=6s");
    for (found, expected) in steady.iter().zip([100_i32, 400, 400, 100, 400, 400]) {
        // An instant at the border may fall on either side of it.
        assert!((found - expected).abs() <= 1, "{steady:?}");
    }
    let rising = counts("gen:random?rate=100-1100@2s,500@1s&duration=6s&dist=poisson");
    for (found, expected) in rising.iter().zip([350.0, 850.0, 500.0, 350.0, 850.0, 500.0]) {
        assert!((f64::from(*found) - expected).abs() < 5.0 * f64::sqrt(expected), "{rising:?}");
    }
    let gaps = all("gen:random?rate=1k&dist=uniform&count=20000");
    let gap = |pair: &[Request]| (pair[1].issue.0 - pair[0].issue.0) as u64;
    let longest = gaps.windows(2).map(gap).max().unwrap();
    assert!(longest <= 2_000_001, "{longest}");
    assert!((gaps[19_999].issue.as_secs_f64() - 20.0).abs() < 0.5);
}

#[test]
fn an_endless_load_is_known_as_such_and_goes_on() {
    assert!(is_endless(Path::new("gen:random?endless=yes")));
    assert!(!is_endless(Path::new("gen:random")) && !is_endless(Path::new("gen:what?endless=yes")));
    for dist in ["constant", "poisson", "cascade(bias=0.9)", "self-similar(hurst=0.9)"] {
        let mut source = opened(&format!("gen:random?endless=yes&rate=1k&dist={dist}"));
        let mut batch = Batch::default();
        let mut last = 0;
        for _ in 0..500 {
            assert!(source.next_batch(&mut batch).unwrap());
            assert!(batch.is_ordered() && batch.issue_ns()[0] >= last);
            last = batch.issue_ns()[batch.len() - 1];
        }
    }
}

#[test]
fn how_long_a_load_lasts_is_known_where_its_line_says_so() {
    let lasts = |line: &str| duration(Path::new(line));
    assert_eq!(lasts("gen:random?rate=10&duration=30s"), Some(Nanos::from_secs(30)));
    assert_eq!(lasts("gen:random?rate=10&count=5"), None);
    assert_eq!((lasts("gen:nonsense"), lasts("trace.parquet")), (None, None));
}

#[test]
fn a_load_in_small_batches_is_the_same_load() {
    for line in [
        "gen:random?count=1000&size=4k:60,8k:40&read=70&dist=poisson&flush=9",
        "gen:streams?count=1000&volumes=3&reuse=20",
        "gen:bursts?area=1G&duration=10s",
    ] {
        let mut whole: Vec<Request> = Vec::new();
        let mut source = opened(line);
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).unwrap() {
            whole.extend(batch.iter());
        }
        let mut source = open_by(Path::new(line), 7).unwrap();
        let mut small: Vec<Request> = Vec::new();
        while source.next_batch(&mut batch).unwrap() {
            assert!(batch.len() <= 7);
            small.extend(batch.iter());
        }
        assert_eq!(small, whole, "{line}");
    }
}

#[test]
fn no_request_crosses_a_border_of_an_area_in_parts_and_all_of_it_is_as_likely() {
    let (first, second, third) = (20_u64 << 12, 5 << 12, 39 << 12);
    let whole = first + second + third;
    let parts = format!("area={first}+{second}+{third}");
    let part_of = |place: u64| (u64::from(place >= first)) + u64::from(place >= first + second);
    let random = all(&format!("gen:random?{parts}&count=64000"));
    let mut counts = [0_i64; 64];
    for request in &random {
        counts[(request.offset.0 >> 12) as usize] += 1;
    }
    // 63 degrees of freedom: the probability of more than 126 is 4 in a million.
    let squares: i64 = counts.iter().map(|count| (count - 1000).pow(2)).sum();
    assert!(squares as f64 / 1000.0 < 126.0, "{counts:?}");
    // Places of requests that are not as long as places are apart.
    let mixed = all(&format!("gen:random?{parts}&size=4k:50,12k:50&count=64000"));
    let long = mixed.iter().filter(|request| request.length.0 == 3 << 12);
    let mut counts = [0_i64; 64];
    for place in long.map(|request| request.offset.0 >> 12) {
        counts[place as usize] += 1;
    }
    let never = counts.iter().enumerate().filter(|(_, count)| **count == 0).map(|(at, _)| at);
    assert_eq!(never.collect::<Vec<_>>(), [18, 19, 23, 24, 62, 63]);
    let (least, most) = (counts.iter().filter(|it| **it > 0).min(), counts.iter().max());
    assert!(*least.unwrap() > 400 && *most.unwrap() < 720, "{counts:?}");
    // All kinds, sizes that do not divide the parts, and a part that caches hold.
    for kind in [
        "random?seek=30",
        "sequential",
        "sequential?start=any",
        "strided?stride=12k",
        "strided?stride=4k-16k",
        "zipf?scatter=no",
        "hotspot",
        "streams?streams=3",
        "random?read-hits=50&hit-area=80k&read=80",
    ] {
        let mark = if kind.contains('?') { '&' } else { '?' };
        let line = format!("gen:{kind}{mark}{parts}&size=4k:40,8k:30,12k:30&count=3000");
        let requests = all(&line);
        for request in &requests {
            let (from, last) = (request.offset.0, request.end().0 - 1);
            assert_eq!(part_of(from), part_of(last), "{line}: {request:?}");
            assert!(last < whole && from.is_multiple_of(4096), "{line}: {request:?}");
        }
        for part in 0..3 {
            assert!(requests.iter().any(|request| part_of(request.offset.0) == part), "{line}");
        }
    }
    // What follows the last request of a part is the first of the next; behind the last it wraps.
    let places: Vec<u64> = all(&format!("gen:sequential?{parts}&count=130"))
        .iter()
        .map(|request| request.offset.0 >> 12)
        .collect();
    assert!(places.iter().enumerate().all(|(number, place)| number as u64 % 64 == *place));
    for (line, reason) in [
        ("gen:random?area=1M+", "area: ''"),
        ("gen:random?area=1M+0", "a part of nothing"),
        ("gen:random?area=1M+1M&offset=4k", "one of several parts has no 'offset'"),
        ("gen:random?area=1M+2k+1M", "each of its parts is a multiple"),
        ("gen:model?mix=R4k:1&area=1M+1M", "that of a model has one part"),
    ] {
        assert!(refusal(line).contains(reason), "{line}: {}", refusal(line));
    }
}
