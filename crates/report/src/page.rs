//! The words of the page: verdict first, then what the browser draws. What was run where in all its
//! detail is folded away between them; the line under the title has the essentials.
//!
//! Names of files and devices come from the outside. The template engine escapes every one of them;
//! the only texts put in as they are belong to this crate or were written by `data`.

use askama::Template;
use ioecho_stats::facts::timing;
use ioecho_stats::verdict::{Check, Finding, Grade, Validity, Verdict};

use crate::tables::{self, Table};
use crate::targets::{self, TargetView};
use crate::verification::{self, VerificationView};
use crate::{Page, ReportError, Section, data};

/// The scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 8] = [
    include_str!("../assets/data.js"),
    include_str!("../assets/scale.js"),
    include_str!("../assets/panel.js"),
    include_str!("../assets/density.js"),
    include_str!("../assets/sonar.js"),
    include_str!("../assets/series.js"),
    include_str!("../assets/percentiles.js"),
    include_str!("../assets/page.js"),
];

/// The name of the fact that says when the run began.
const STARTED: &str = "started";

#[derive(Template)]
#[template(path = "report.html")]
struct View<'a> {
    title: &'a str,
    essentials: String,
    verdict: Option<VerdictView<'a>>,
    warnings: &'a [String],
    verification: Option<VerificationView<'a>>,
    targets: Vec<TargetView<'a>>,
    target_headings: &'static [&'static str],
    facts: Vec<&'a Section>,
    tables: Vec<Table>,
    drawn: bool,
    style: &'static str,
    script: String,
    data: String,
    version: &'static str,
}

struct VerdictView<'a> {
    class: &'static str,
    word: &'static str,
    finding: &'static str,
    summary: &'a str,
    checks: Vec<CheckView<'a>>,
}

struct CheckView<'a> {
    class: &'static str,
    word: &'static str,
    check: &'a Check,
}

/// The report as one HTML file that opens offline.
pub fn html(page: &Page) -> Result<String, ReportError> {
    let panels = page.picture.finish();
    let requests = tables::requests(&page.picture);
    let view = View {
        title: &page.title,
        essentials: essentials(page),
        verdict: page.verdict.as_ref().map(view),
        warnings: &page.warnings,
        verification: page.verification.as_ref().map(verification::view),
        targets: targets::rows(&page.targets),
        target_headings: &targets::HEADINGS,
        facts: page.facts.iter().chain([&requests]).collect(),
        tables: tables::percentiles(&page.picture),
        drawn: !panels.is_empty(),
        style: include_str!("../assets/report.css"),
        script: SCRIPTS.concat(),
        data: data::json(&page.picture, &panels)?,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(view.render()?)
}

/// When it was run and for how long, in a line.
fn essentials(page: &Page) -> String {
    let picture = &page.picture;
    let started = page.facts.iter().flat_map(|section| &section.rows);
    let started = started.into_iter().find(|(name, _)| name == STARTED);
    let mut parts: Vec<String> =
        started.into_iter().map(|(_, when)| format!("started {when}")).collect();
    if picture.requests() > 0 {
        parts.push(format!("{} requests", tables::grouped(picture.requests())));
        let took = picture.achieved_end();
        let how = match page.timing.as_str() {
            timing::TIMED => Some("timed (open loop)"),
            timing::AFAP => Some("as fast as possible"),
            timing::LOAD => Some("as fast as possible, in flight as recorded"),
            _ => None,
        };
        parts.extend(how.map(str::to_owned));
        parts.push(match page.timing.as_str() {
            // Without a schedule there is no length that was asked for.
            timing::AFAP | timing::LOAD => format!("took {took}"),
            _ => format!("took {took} for a load of {}", picture.demanded_end()),
        });
    }
    parts.join(" · ")
}

fn view(verdict: &Verdict) -> VerdictView<'_> {
    let (class, word) = match verdict.validity {
        Validity::Valid => ("pass", "Valid"),
        Validity::Suspect => ("suspect", "Suspect"),
        Validity::Invalid => ("invalid", "Invalid"),
    };
    let finding = match verdict.finding {
        Finding::DataDamaged => "data damaged: the device lost or altered what was written to it",
        Finding::Faithful => "faithful: the replay held its schedule",
        Finding::DeviceLimited => "device-limited: the device could not take the load",
        Finding::GeneratorLimited => {
            "generator-limited: this program could not issue in time, a fault of the measurement"
        }
        Finding::HostStalled => {
            "host-stalled: the host did not let this program run, a fault of the measurement"
        }
        Finding::Incomplete => "incomplete: the run ended before its end",
    };
    // What went wrong comes first; what passed is the proof and may wait.
    let mut checks: Vec<&Check> = verdict.checks.iter().collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.grade));
    let check = |check| {
        let (class, word) = of_check(check);
        CheckView { class, word, check }
    };
    VerdictView {
        class,
        word,
        finding,
        summary: &verdict.summary,
        checks: checks.into_iter().map(check).collect(),
    }
}

fn of_check(check: &Check) -> (&'static str, &'static str) {
    match check.grade {
        Grade::Pass => ("pass", "✓ pass"),
        Grade::Limited => ("limited", "◆ limited"),
        Grade::Suspect => ("suspect", "⚠ suspect"),
        Grade::Invalid => ("invalid", "✗ invalid"),
        Grade::NotApplicable => ("none", "– not applicable"),
    }
}
