//! The contents of a report, for runs of every kind.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use ioecho_report::{Chart, Page, Section, Sheet, html, live_html, svg, update};
use ioecho_stats::headline::{Headline, Throughput};
use ioecho_stats::picture::{RunPicture, Span};
use ioecho_stats::run_summary::{Percentiles, TargetFigures, VerifyFigures};
use ioecho_stats::verdict::{Check, Finding, Grade, Validity, Verdict};
use ioecho_trace::visible::is_harmless;
use ioecho_trace::{
    Batch, Bytes, Columns, Measured, Nanos, Op, Outcome, Request, TimingMode, VerifyMode,
};
use sha2::{Digest, Sha256};

fn request(op: Op, scheduled: i64, lateness: i64, service: i64, outcome: Outcome) -> Request {
    let mut request = Request::new(Nanos(scheduled), op, Bytes(0), Bytes(8192));
    let submitted = outcome.was_issued().then_some(Nanos(scheduled + lateness));
    request.latency = Some(Nanos(service / 2));
    request.measured = Some(Measured {
        submitted,
        completed: submitted.map(|submitted| submitted + Nanos(service)),
        outcome,
        pushed_back: lateness > 1_000_000,
        ..Measured::done(Nanos(scheduled), Nanos(scheduled), Nanos(scheduled))
    });
    request
}

fn page(requests: &[Request]) -> Page {
    let mut batch =
        Batch::new(Columns { latency: true, origin: false, measured: true, dependencies: false });
    for request in requests {
        batch.push(request);
    }
    let mut picture = RunPicture::new();
    picture.observe(&batch);
    Page { title: "a run".to_owned(), picture, ..Page::default() }
}

/// Twelve requests of all classes with round instants and spans.
fn small() -> Page {
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Discard];
    let one = |i: i64| {
        let lateness = if i == 7 { 2_000_000 } else { 3_000 };
        request(ops[i as usize % 4], i * 50_000_000, lateness, 100_000 << (i % 3), Outcome::Ok)
    };
    page(&(0..12).map(one).collect::<Vec<_>>())
}

fn verdict(validity: Validity, grade: Grade) -> Verdict {
    Verdict {
        validity,
        finding: Finding::DeviceLimited,
        summary: "The <b>device</b> could not.".to_owned(),
        checks: vec![Check {
            name: "lateness".to_owned(),
            grade,
            measured: "99 % ≤ 3 s".to_owned(),
            threshold: "1 ms".to_owned(),
            advice: "Replay slower & look again.".to_owned(),
            explained_by: None,
        }],
    }
}

/// The headline of a run that took 2.6 times as long as asked for.
fn headline() -> Headline {
    let percentiles = Percentiles {
        count: 1_000,
        mean_ns: 1,
        p50_ns: 70_000,
        p90_ns: Some(1),
        p99_ns: Some(5_000_000_000),
        p99_9_ns: None,
        p99_99_ns: None,
        max_ns: 6_000_000_000,
    };
    let throughput =
        Throughput { achieved_requests: 155.0, achieved_bytes: 2e6, demanded: Some((407.0, 6e6)) };
    Headline {
        drain_percent: None,
        is_cut_short: false,
        host_owned_from: None,
        sentence: "The device was too slow for this load: 2.6 times as long.".to_owned(),
        throughput: Some(throughput),
        span: Span::Response,
        percentiles: vec![("read", percentiles)],
    }
}

#[test]
fn the_first_screen_says_what_was_found_then_whether_to_believe_it_then_six_figures() {
    let verdict = verdict(Validity::Valid, Grade::Limited);
    let page = Page { verdict: Some(verdict), headline: Some(headline()), ..small() };
    let text = html(&page).unwrap();
    let parts = [
        "<section class=\"finding limit\"",
        "The device was too slow for this load: 2.6 times as long.</p>",
        "<strong class=\"pass\">Figures valid</strong>",
        "<b>155</b>",
        "of 407 demanded",
        "reads, p99 response time",
        "<b>5.00 s</b>",
        "id=\"overview\"",
        "class=\"broken\"",
        "id=\"panels\"",
    ];
    let places: Vec<usize> = parts
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("no {part:?} in the page")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_first_screen_of_a_run_that_was_cut_short_tells_no_length_of_its_load() {
    let mut verdict = verdict(Validity::Invalid, Grade::Invalid);
    verdict.finding = Finding::Incomplete;
    let headline = Headline { is_cut_short: true, host_owned_from: Some(0.9), ..headline() };
    let page = Page { verdict: Some(verdict), headline: Some(headline), ..small() };
    let text = html(&page).unwrap();
    assert!(text.contains("cut short after"));
    assert!(!text.contains("for a load of"));
    // What the host delayed is no figure of the device.
    assert!(text.contains("reads, p99 response time (the host&#39;s)"));
}

#[test]
fn on_files_each_operation_that_occurred_is_a_layer_and_on_devices_the_same_four_are() {
    let layers = |text: &str| {
        let sonar = text.split("\"sonar\":[").nth(1).unwrap();
        let layers = sonar.split("],\"volumes\"").next().unwrap().split("{\"name\":\"").skip(1);
        let of = |layer: &str| layer.split("\",\"cells").next().unwrap().to_owned();
        layers.map(of).collect::<Vec<_>>()
    };
    let on_devices = html(&small()).unwrap();
    let told = ["reads", "writes", "flush, discard, other", "pushed back"];
    let named = |(at, name): (usize, &str)| format!("{name}\",\"colour\":\"--c{at}");
    assert_eq!(layers(&on_devices), told.into_iter().enumerate().map(named).collect::<Vec<_>>());
    let one = |i: i64| {
        let op = [Op::Getattr, Op::Create, Op::Getattr, Op::Write][i as usize % 4];
        // The slowest is a creation.
        let service = if i == 41 { 5_000_000_000 } else { 100_000 };
        request(op, i * 50_000_000, 0, service, Outcome::Ok)
    };
    let on_files = html(&page(&(0..82).map(one).collect::<Vec<_>>())).unwrap();
    let told = ["getattr,--f0", "create,--f1", "write,--c1"];
    assert_eq!(layers(&on_files), told.map(|layer| layer.replace(',', "\",\"colour\":\"")));
    // Creations and looks at attributes are of whole files, writes are not.
    let files = on_files.split("\"files\":[").nth(1).unwrap();
    let files = files.split("],\"lateness\"").next().unwrap();
    let named: Vec<&str> = files.split("\"name\":\"").skip(1).collect();
    assert!(named[0].starts_with("getattr") && named[1].starts_with("create"), "{files}");
    assert_eq!(named.len(), 2);
    assert!(!on_devices.contains("\"files\":["));
    let moments = on_files.split("\"slow_moments\":").nth(1).unwrap();
    let slowest = moments.split('}').next().unwrap();
    assert!(slowest.ends_with("\"slowest_ns\":5000000000,\"class\":1"), "{slowest}");
}

#[test]
fn checks_that_passed_are_folded_away_and_others_are_not() {
    let mut verdict = verdict(Validity::Suspect, Grade::Suspect);
    let like =
        |name: &str, grade| Check { name: name.to_owned(), grade, ..verdict.checks[0].clone() };
    let more = [like("complete", Grade::Pass), like("cpu", Grade::NotApplicable)];
    verdict.checks.extend(more);
    let text = html(&Page { verdict: Some(verdict), ..small() }).unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in the page"));
    let folded = at("1 checks passed, 1 do not apply");
    assert!(at("<tr class=\"suspect\">") < folded);
    assert!(at("<tr class=\"pass\">") > folded && at("<tr class=\"none\">") > folded);
    assert!(at("<details class=\"facts sound\">") < folded);
}

#[test]
fn only_the_programs_own_script_and_style_may_run() {
    let text = live_html(&small(), "own();").unwrap();
    assert!(!text.contains("unsafe-inline"));
    for (element, directive) in [("script", "script-src"), ("style", "style-src")] {
        let whole = text.split(&format!("<{element}>")).nth(1).unwrap();
        let whole = whole.split(&format!("</{element}>")).next().unwrap();
        let hash = base64(&Sha256::digest(whole.as_bytes()));
        assert!(text.contains(&format!("{directive} 'sha256-{hash}'")), "{element}");
    }
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1)).collect();
    let digit = |six: &[u8]| {
        let value =
            (0..6).fold(0, |sum, n| sum << 1 | usize::from(six.get(n).copied().unwrap_or(0)));
        DIGITS[value] as char
    };
    let mut text: String = bits.chunks(6).map(digit).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[test]
fn without_a_schedule_the_page_tells_no_lateness_and_no_response_time() {
    let text = html(&Page { timing: Some(TimingMode::Afap), ..small() }).unwrap();
    for told in
        ["to submission: how late", "coordinated omission", "later than 1 ms", "demanded duration"]
    {
        assert!(!text.contains(told), "{told}");
    }
    let spans: Vec<_> = data(&text)["curves"].as_array().unwrap().clone();
    assert!(!spans.is_empty() && spans.iter().all(|curve| curve["span"] == "service"));
    assert_eq!(data(&text)["has_schedule"], false);
}

#[test]
fn a_page_of_chains_tells_lateness_but_demands_nothing_and_omits_what_waits_omit() {
    let text = html(&Page { timing: Some(TimingMode::Dependency), ..small() }).unwrap();
    for told in ["to submission: how late", "as in the application"] {
        assert!(text.contains(told), "{told}");
    }
    for told in ["free of coordinated omission", "demanded duration", "for a load of"] {
        assert!(!text.contains(told), "{told}");
    }
    let data = data(&text);
    assert_eq!((&data["has_schedule"], &data["has_due_instants"]), (&false.into(), &true.into()));
}

#[test]
fn the_finding_and_its_checks_come_before_everything_else() {
    let verdict = verdict(Validity::Invalid, Grade::Invalid);
    let text = html(&Page { verdict: Some(verdict), ..small() }).unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in the page"));
    assert!(at(">Figures invalid</strong>") < at("<span>device-limited"));
    assert!(at("The &#60;b&#62;device&#60;/b&#62; could not.") < at("99 % ≤ 3 s"));
    assert!(at("Replay slower &#38; look again.") < at("class=\"facts\""));
    assert!(at("class=\"facts\"") < at("id=\"panels\""));
}

#[test]
fn nobody_elses_words_turn_the_page_around() {
    let bad = "a\u{202e}b\u{1b}[31m\u{9b}\u{200b}c";
    let facts =
        vec![Section { heading: bad.to_owned(), rows: vec![(bad.to_owned(), bad.to_owned())] }];
    let page = Page {
        title: bad.to_owned(),
        command: bad.to_owned(),
        warnings: vec![bad.to_owned()],
        facts,
        ..small()
    };
    for text in [html(&page).unwrap(), live_html(&page, "").unwrap(), update(&page).unwrap()] {
        assert!(text.contains("a\u{fffd}b") && text.chars().all(is_harmless));
    }
    assert!(svg(&Chart::default(), &Sheet::of(&page)).chars().all(is_harmless));
}

#[test]
fn a_run_that_the_device_limited_is_valid_and_its_check_is_told_apart() {
    let page = Page { verdict: Some(verdict(Validity::Valid, Grade::Limited)), ..small() };
    let text = html(&page).unwrap();
    assert!(text.contains(">Figures valid</strong>") && text.contains("◆ limited"));
    assert!(text.contains("<tr class=\"limited\">"));
    assert!(svg(&Chart::default(), &Sheet::of(&page)).contains("verdict: valid"));
}

#[test]
fn the_line_under_the_title_says_when_and_how_long() {
    let rows = vec![("started".to_owned(), "2026-05-04 <now>".to_owned())];
    let facts = vec![Section { heading: "Run".to_owned(), rows }];
    let text = html(&Page { facts, ..small() }).unwrap();
    let line = "started 2026-05-04 &#60;now&#62; · 12 requests · took 550 ms for a load of 550 ms";
    assert!(text.find(line).unwrap() < text.find("class=\"finding").unwrap());
}

/// The JSON that the page carries for its scripts.
fn data(text: &str) -> serde_json::Value {
    let data = text.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn the_demand_on_an_overloaded_device_is_not_spread_over_the_whole_run() {
    // 101 requests within 100 ms, for which the device takes 505 ms.
    let one = |i: i64| request(Op::Read, i * 1_000_000, i * 4_000_000, 5_000_000, Outcome::Ok);
    let page = page(&(0..=100).map(one).collect::<Vec<_>>());
    let panels = &data(&html(&page).unwrap())["panels"];
    assert_eq!(panels["demanded_end_ns"], 100_000_000);
    assert_eq!(panels["achieved_end_ns"], 505_000_000);
}

#[test]
fn percentiles_on_the_page_are_those_of_its_tables() {
    let one = |i: i64| request(Op::Read, i * 1_000_000, 318_000, 15_300_000_000, Outcome::Ok);
    let page = page(&(0..100).map(one).collect::<Vec<_>>());
    let text = html(&page).unwrap();
    let exact = &data(&text)["exact"];
    for (percentiles, most) in
        [(&exact["lateness"], 318_000_u64), (&exact["sonar"][0], 15_300_000_000)]
    {
        for name in ["p50", "p99", "max"] {
            let ns = percentiles[name].as_u64().unwrap();
            assert!(ns <= most && ns * 1_000 > most * 999, "{name}: {ns} for {most}");
        }
    }
    assert!(exact["sonar"][1].is_null());
    assert!(text.contains(">318 µs</td>") && text.contains(">15.3 s</td>"));
}

fn verified(damaged: &[(&str, u64)]) -> VerifyFigures {
    VerifyFigures {
        mode: VerifyMode::Final.into(),
        requests: 12,
        sectors: 12_000,
        damaged: damaged.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        damaged_sectors: damaged.iter().map(|(_, count)| count).sum(),
        ..VerifyFigures::default()
    }
}

#[test]
fn what_verification_found_stands_behind_the_verdict_with_its_meaning() {
    let found = VerifyFigures {
        findings: 5,
        first_findings: vec!["target 0, offset 4096: <stale>".to_owned()],
        unverifiable_sectors: 7,
        ..verified(&[("torn", 1), ("stale", 3)])
    };
    let text = html(&Page { verification: Some(found), ..small() }).unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in the page"));
    assert!(at("<section class=\"verification invalid\"") > at("class=\"finding"));
    assert!(at("12\u{202f}000 sectors checked, 4 damaged") < at("<ol>"));
    assert!(text.contains("of 7 nobody can say what they must hold"));
    // The most frequent damage first.
    assert!(at("an acknowledged write was lost") < at("only a part of an acknowledged write"));
    assert!(at("<li>target 0, offset 4096: &#60;stale&#62;</li>") < at("and 4 more"));
    assert!(at("and 4 more") < at("class=\"facts\""));
}

#[test]
fn sound_data_are_said_to_be_and_without_verification_nothing_is_said() {
    let text = html(&Page { verification: Some(verified(&[])), ..small() }).unwrap();
    assert!(text.contains("<section class=\"verification pass\""));
    assert!(text.contains("none damaged.</p>") && !text.contains("<ol>"));
    let nothing = VerifyFigures::default();
    let text = html(&Page { verification: Some(nothing), ..small() }).unwrap();
    assert!(text.contains("<section class=\"verification none\""));
    assert!(text.contains("nothing was looked at"));
    // Of a tree of empty files names are all that there is.
    let names = VerifyFigures { names: 49, ..VerifyFigures::default() };
    let text = html(&Page { verification: Some(names), ..small() }).unwrap();
    assert!(text.contains("<section class=\"verification pass\""));
    assert!(text.contains("49 names looked at") && !text.contains("nothing was looked at"));
    assert!(!html(&small()).unwrap().contains("<section class=\"verification"));
}

#[test]
fn several_targets_have_a_row_each_and_a_single_one_has_no_table() {
    let target = |name: &str, target: u16, bytes: u64| {
        let figures = TargetFigures { target, bytes_read: bytes, ..TargetFigures::default() };
        (name.to_owned(), figures)
    };
    let mut targets = vec![target("/dev/<a>", 0, 4096), target("/dev/b", 1, 0)];
    let text = html(&Page { targets: targets.clone(), ..small() }).unwrap();
    assert!(text.contains("<th scope=\"row\">/dev/&#60;a&#62;</th>"));
    assert!(text.contains("<td>4.00 KiB</td>"));
    targets.pop();
    assert!(!html(&Page { targets, ..small() }).unwrap().contains("<h2>Targets</h2>"));
}

#[test]
fn how_the_run_was_timed_stands_below_its_title() {
    let page = |timing| Page { timing: Some(timing), ..small() };
    let text = html(&page(TimingMode::Timed)).unwrap();
    assert!(text.contains("12 requests · timed (open loop) · took 550 ms for a load of 550 ms"));
    let text = html(&page(TimingMode::Afap)).unwrap();
    assert!(text.contains("12 requests · as fast as possible · took 550 ms</p>"));
    assert!(
        html(&page(TimingMode::Load))
            .unwrap()
            .contains("possible, no more in flight than recorded · took")
    );
}

#[test]
fn a_page_without_a_verdict_says_so() {
    assert!(html(&small()).unwrap().contains("Not judged"));
}

#[test]
fn texts_of_the_run_are_shown_and_never_executed() {
    let evil = "</script><script>alert('x\n\"')</script>".to_owned();
    let page = Page {
        title: evil.clone(),
        warnings: vec![evil.clone()],
        facts: vec![Section { heading: evil.clone(), rows: vec![(evil.clone(), evil)] }],
        ..small()
    };
    let text = html(&page).unwrap();
    assert!(!text.contains("<script>alert"));
    assert_eq!(text.matches("</script>").count(), 2);
    assert_eq!(text.matches("&#60;script&#62;alert").count(), 7);
    assert!(!svg(&Chart::default(), &Sheet::of(&page)).contains("<script"));
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = small();
    // Saved pictures name the name space of SVG, and refer to their own parts.
    let text = html(&page).unwrap().replace("\"http://www.w3.org/2000/svg\"", "");
    let text = text.replace("url(#", "");
    for address in ["http:", "https:", "//cdn", "@import", "src=", "url("] {
        assert!(!text.contains(address), "{address}");
    }
    let picture = svg(&Chart::default(), &Sheet::of(&page));
    assert_eq!(picture.matches("http").count(), 1, "only the name space of SVG");
}

#[test]
fn a_run_with_nothing_to_draw_is_told_as_such() {
    let none = page(&[]);
    assert!(html(&none).unwrap().contains("Nothing to draw"));
}

#[test]
fn odd_runs_are_drawn_without_nonsense_numbers() {
    let failed = request(Op::Read, 0, 5, 70, Outcome::Error(5));
    let border = request(Op::Write, 9, 0, 0, Outcome::Border);
    let lone = request(Op::Read, 0, 0, 0, Outcome::Ok);
    let endless = request(Op::Write, i64::MAX / 8, 5, i64::MAX / 8, Outcome::Ok);
    for requests in [&[failed, border][..], &[border], &[lone], &[endless], &[lone, endless]] {
        let page = page(requests);
        let text = html(&page).unwrap();
        data(&text);
    }
}

#[test]
fn an_invalid_run_is_stamped_on_every_figure() {
    let verdict = Some(verdict(Validity::Invalid, Grade::Invalid));
    let page = Page { verdict, stamp: "INVALID".to_owned(), ..small() };
    assert_eq!(data(&html(&page).unwrap())["stamp"], "INVALID");
    assert!(svg(&Chart::default(), &Sheet::of(&page)).contains(">INVALID</text>"));
}

#[cfg(feature = "png")]
#[test]
fn a_png_is_as_large_as_asked_for_and_has_text() {
    let sheet = Sheet { size: (1000.0, 500.0), ..Sheet::of(&small()) };
    let picture = svg(&Chart::default(), &sheet);
    let pixels = ioecho_report::png(&picture, 2.0).unwrap();
    assert_eq!(&pixels[..4], b"\x89PNG");
    assert_eq!(&pixels[16..24], [0, 0, 7, 208, 0, 0, 3, 232], "2000 × 1000");
    // The same sheet without its text compresses to far less: so the letters were drawn, without
    // any font of the machine.
    let bare = picture.lines().filter(|line| !line.contains("<text")).collect::<String>();
    let bare = ioecho_report::png(&bare, 2.0).unwrap();
    assert!(pixels.len() > bare.len() + 4_000, "{} and {}", pixels.len(), bare.len());
    assert!(ioecho_report::png("no drawing", 1.0).is_err());
    assert!(ioecho_report::png(&picture, 0.0).is_err());
}
