//! `ioecho compare`: the same load on several systems, and whether they differ beyond chance.

mod runs;
mod text;

use std::path::{Path, PathBuf};

use ioecho_report::{ComparePage, Section};
use ioecho_stats::compare::{
    Answer, Comparison, Criterion, Group, Obstacle, Outcome, Settings, Weight, compare,
};
use serde::Serialize;

use crate::args::CompareArgs;
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell, visible};
use ioecho_run::inputs::Inputs;
use runs::{Difference, Member, Systems};

/// The JSON output.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    systems: Vec<SystemPrinted<'a>>,
    obstacles: &'a [Obstacle],
    differences: &'a [Difference],
    criteria: &'a [Outcome],
}

#[derive(Serialize)]
struct SystemPrinted<'a> {
    name: &'a str,
    runs: Vec<String>,
}

/// Systems that were compared.
struct Compared {
    comparison: Comparison,
    /// What makes the figures doubtful.
    obstacles: Vec<Obstacle>,
    /// Facts in which the runs differ.
    differences: Vec<Difference>,
    criteria: Vec<Outcome>,
}

pub(crate) fn run(args: &CompareArgs, out: &mut Out) -> anyhow::Result<u8> {
    let systems = runs::systems(args)?;
    if systems.systems.len() < 2 {
        let text = "there is nothing to compare with\n  = help: name two runs; repeated runs of \
                    one system are joined by a comma";
        return Err(Coded::error(exit::USAGE, text));
    }
    let runs = systems.systems.iter().flat_map(|(_, runs)| runs);
    let gate = Gate::reading(Inputs::of(runs.map(AsRef::as_ref)));
    if let Some(path) = &args.output {
        gate.check(path, Writing::Over)?;
    }
    let settings = Settings {
        seed: args.seed,
        resamples: args.resamples as usize,
        least_effect: args.least / 100.0,
        ..Settings::default()
    };
    let compared = compared(&systems, settings, &args.allow, &args.fail_if)?;
    let Compared { comparison, obstacles, differences, criteria } = &compared;
    let fails = |outcome: &Outcome| match outcome.answer {
        Answer::DoubtfullyMet => args.fail_on_doubt,
        _ => is_met(outcome),
    };
    let code = if criteria.iter().any(fails) { exit::CRITERION_MET } else { exit::OK };
    if args.json {
        let printed = Printed {
            comparison,
            systems: systems
                .systems
                .iter()
                .map(|(name, runs)| SystemPrinted {
                    name,
                    runs: runs.iter().map(|run| run.display().to_string()).collect(),
                })
                .collect(),
            obstacles,
            differences,
            criteria,
        };
        out.json(&printed)?;
    } else {
        text::print(out, comparison, obstacles, differences, args.verbose)?;
        text::print_criteria(out, criteria)?;
    }
    let Some(path) = &args.output else { return Ok(code) };
    let written = write_page(&gate, path, &systems, &compared);
    let written = written.map(|()| tell(&format!("written: {}", path.display())));
    exit::unless_worse(code, written)
}

/// Reads the runs of these systems and compares them. Fails if they are not comparable, except for
/// what is `allowed`.
fn compared(
    systems: &Systems,
    settings: Settings,
    allowed: &[String],
    criteria: &[Criterion],
) -> anyhow::Result<Compared> {
    let (members, paired) = runs::read(systems)?;
    let mut obstacles = runs::obstacles(&members);
    refuse(&mut obstacles, allowed)?;
    let differences = runs::differences(&members)?;
    let comparison = compare(&groups(systems, members), &Settings { paired, ..settings });
    let criteria = held(criteria, &comparison, 1);
    Ok(Compared { comparison, obstacles, differences, criteria })
}

/// Fails if an obstacle was found that was not allowed. Allowed obstacles stay in the result as
/// doubts.
fn refuse(obstacles: &mut [Obstacle], allowed: &[String]) -> anyhow::Result<()> {
    for obstacle in obstacles.iter_mut() {
        if allowed.iter().any(|name| name == obstacle.name) {
            obstacle.weight = Weight::Doubt;
        }
    }
    let refused: Vec<&Obstacle> =
        obstacles.iter().filter(|obstacle| obstacle.weight == Weight::Refusal).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let mut names: Vec<&str> = refused.iter().map(|obstacle| obstacle.name).collect();
    names.sort_unstable();
    names.dedup();
    let reasons: Vec<String> = refused
        .iter()
        .map(|obstacle| format!("  - {} ({})", visible(&obstacle.text), obstacle.name))
        .collect();
    let text = format!(
        "these runs are not comparable:\n{}\n  = help: repeat the runs alike, or, if you know what \
         the figures then mean, say --allow {}",
        reasons.join("\n"),
        names.join(",")
    );
    Err(Coded::error(exit::NOT_COMPARABLE, text))
}

fn groups(systems: &Systems, members: Vec<Member>) -> Vec<Group> {
    let mut groups: Vec<Group> = systems
        .systems
        .iter()
        .map(|(name, _)| Group { name: name.clone(), runs: Vec::new() })
        .collect();
    for member in members {
        groups[member.system].runs.push(member.profile);
    }
    groups
}

/// Compares groups of runs, each with its name, as one of a `family` of so many comparisons.
pub(crate) fn judged(
    groups: &[(&str, &[String])],
    criteria: &[Criterion],
    family: usize,
) -> anyhow::Result<(Comparison, Vec<Outcome>)> {
    let runs = |paths: &[String]| paths.iter().map(PathBuf::from).collect();
    let systems = groups.iter().map(|(name, paths)| ((*name).to_owned(), runs(paths))).collect();
    let level = Settings::default().level / family.max(1) as f64;
    let settings = Settings { level, ..Settings::default() };
    let comparison = compared(&Systems { systems }, settings, &[], &[])?.comparison;
    let outcomes = held(criteria, &comparison, family);
    Ok((comparison, outcomes))
}

/// Whether a script shall fail. A criterion on a figure that was not measured would always pass.
pub(crate) fn is_met(outcome: &Outcome) -> bool {
    matches!(outcome.answer, Answer::Met | Answer::NothingMeasured)
}

/// Holds all criteria against all pairs, as one of a `family` of so many comparisons.
fn held(criteria: &[Criterion], comparison: &Comparison, family: usize) -> Vec<Outcome> {
    let many = criteria.len() * comparison.pairs.len() * family;
    let pairs = comparison.pairs.iter();
    pairs.flat_map(|pair| criteria.iter().map(|one| one.hold(pair, many))).collect()
}

fn write_page(
    gate: &Gate,
    path: &Path,
    systems: &Systems,
    compared: &Compared,
) -> anyhow::Result<()> {
    let Compared { comparison, obstacles, differences, criteria } = compared;
    let names: Vec<&str> = systems.systems.iter().map(|(name, _)| name.as_str()).collect();
    let runs = systems.systems.iter().map(|(name, runs)| {
        let runs: Vec<String> = runs.iter().map(|run| run.display().to_string()).collect();
        (name.clone(), runs.join(", "))
    });
    let differing = differences.iter().map(|one| (one.key.clone(), one.values.join(" · ")));
    let page = ComparePage {
        title: names.join(" · "),
        comparison: comparison.clone(),
        obstacles: obstacles.clone(),
        criteria: criteria.clone(),
        facts: vec![
            Section { heading: "Systems and their runs".to_owned(), rows: runs.collect() },
            Section {
                heading: "What differs in their plans".to_owned(),
                rows: differing.collect(),
            },
        ],
    };
    let html = ioecho_report::compare_html(&page)?;
    Ok(gate.put(path, html.as_bytes())?)
}
