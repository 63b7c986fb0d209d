use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::run::live::tests::busy;

/// A sample as a strict reader parses it: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads OpenMetrics text and checks the rules of its specification that a writer can break. Each
/// family has its metadata once, before its samples. The samples of a family stand together, with
/// the suffixes of its type. Names end in their unit. No sample stands twice. Buckets are
/// cumulative, end with +Inf and agree with the count. `# EOF` comes last.
fn strict(text: &str) -> Result<Vec<Sample>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
    let mut families: Vec<(String, String)> = Vec::new();
    let mut samples: Vec<Sample> = Vec::new();
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let [word, name, value] =
                meta.splitn(3, ' ').collect::<Vec<_>>().try_into().map_err(|_| line.to_owned())?;
            match word {
                "TYPE" if families.iter().any(|(known, _)| known == name) => {
                    return Err(format!("{name} twice"));
                }
                "TYPE" => families.push((name.to_owned(), value.to_owned())),
                "UNIT" if !name.ends_with(&format!("_{value}")) => {
                    return Err(format!("{name} does not end in {value}"));
                }
                "UNIT" | "HELP" if families.last().is_some_and(|(last, _)| last == name) => {}
                _ => return Err(format!("out of place: {line}")),
            }
            continue;
        }
        let sample = sample(line).ok_or_else(|| format!("no sample: {line}"))?;
        let (family, kind) = families.last().ok_or("a sample before any family")?;
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_count", "_sum"],
            other => return Err(format!("unknown type {other}")),
        };
        if !suffixes.iter().any(|suffix| sample.0 == format!("{family}{suffix}")) {
            return Err(format!("{} is no sample of the {kind} {family}", sample.0));
        }
        if kind != "gauge" && sample.2 < 0.0 {
            return Err(format!("below zero: {line}"));
        }
        samples.push(sample);
    }
    let series: BTreeSet<_> = samples.iter().map(|(name, labels, _)| (name, labels)).collect();
    if series.len() != samples.len() {
        return Err("a sample twice".to_owned());
    }
    buckets_are_sound(&samples)?;
    Ok(samples)
}

fn buckets_are_sound(samples: &[Sample]) -> Result<(), String> {
    let mut before: Option<&Sample> = None;
    for bucket in samples.iter().filter(|(name, ..)| name.ends_with("_bucket")) {
        let (name, labels, count) = bucket;
        let edge = |labels: &BTreeMap<String, String>| match labels["le"].as_str() {
            "+Inf" => f64::INFINITY,
            le => le.parse().unwrap(),
        };
        if let Some((last_name, last, least)) = before
            && last_name == name
            && last["kind"] == labels["kind"]
            && (edge(last) >= edge(labels) || least > count)
        {
            return Err(format!("{name} does not rise"));
        }
        if edge(labels).is_infinite() {
            let total = name.replace("_bucket", "_count");
            let of_kind = |s: &&Sample| s.0 == total && s.1["kind"] == labels["kind"];
            if samples.iter().find(of_kind).map(|s| s.2) != Some(*count) {
                return Err(format!("{name} and {total} disagree"));
            }
        }
        before = Some(bucket);
    }
    match before {
        Some((name, labels, _)) if labels["le"] != "+Inf" => Err(format!("{name} has no +Inf")),
        _ => Ok(()),
    }
}

fn sample(line: &str) -> Option<Sample> {
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let (series, value) = line.rsplit_once(' ')?;
    let (name, mut rest) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"")?;
        let (mut value, mut end, mut escape) = (String::new(), None, false);
        for (at, c) in after.char_indices() {
            match (escape, c) {
                (true, 'n') => value.push('\n'),
                (true, '\\' | '"') => value.push(c),
                (true, _) => return None,
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, c) => value.push(c),
            }
            escape = !escape && c == '\\';
        }
        rest = &after[end? + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
        (is_name(label) && labels.insert(label.to_owned(), value).is_none()).then_some(())?;
    }
    (is_name(name)).then_some((name.to_owned(), labels, value.parse().ok()?))
}

fn about() -> About {
    let targets = vec!["a \"quoted\\name\"\nof two lines".to_owned(), "/dev/b".to_owned()];
    About { run: "run".to_owned(), targets, ..About::default() }
}

#[test]
fn a_strict_reader_takes_all_of_it_and_finds_the_figures() {
    let samples = strict(&text(&busy(), false, &about())).unwrap();
    let value = |wanted: &str, label: Option<(&str, &str)>| {
        let found = samples.iter().find(|(name, labels, _)| {
            name == wanted && label.is_none_or(|(key, value)| labels[key] == value)
        });
        found.unwrap_or_else(|| panic!("no {wanted} {label:?}")).2
    };
    assert!((value("ioecho_requests_total", Some(("kind", "read"))) - 2.0).abs() < 1e-9);
    assert!((value("ioecho_demanded_requests_total", None) - 9.0).abs() < 1e-9);
    let late = value("ioecho_late_requests_total", Some(("cause", "in-flight-cap")));
    assert!((late - 1.0).abs() < 1e-9);
    let sum = value("ioecho_service_time_seconds_sum", Some(("kind", "write")));
    assert!((sum - 0.005).abs() < 1e-9, "{sum}");
    let targets: Vec<_> = samples.iter().filter(|(name, ..)| name == "ioecho_run_info").collect();
    assert_eq!(targets[0].1["target"], about().targets[0]);
}

#[test]
fn a_run_of_nothing_is_sound_too() {
    let samples = strict(&text(&Interval::default(), true, &about())).unwrap();
    let running = samples.iter().find(|(name, ..)| name == "ioecho_running").unwrap();
    assert!(running.2.abs() < f64::EPSILON);
    // There is no schedule, so there are no counters of demand.
    assert!(!samples.iter().any(|(name, ..)| name.contains("demanded")));
}

#[test]
fn the_strict_reader_is_strict() {
    let sound = text(&busy(), false, &about());
    for (what, with) in [
        ("# EOF\n", ""),
        ("ioecho_requests_total{", "ioecho_requests{"),
        ("# UNIT ioecho_lateness_seconds seconds", "# UNIT ioecho_lateness_seconds bytes"),
        ("le=\"+Inf\"", "le=\"200\""),
        ("{kind=\"write\"}", "{kind=\"read\"}"),
        ("# TYPE ioecho_running gauge", "# TYPE ioecho_run gauge"),
    ] {
        assert!(sound.contains(what), "{what}");
        assert!(strict(&sound.replace(what, with)).is_err(), "{what} became {with}");
    }
}
