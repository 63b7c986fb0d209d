//! The words of the page: verdict first, then what the browser draws. What was run where in all its
//! detail is folded away between them; the line under the title has the essentials.
//!
//! Names of files and devices come from the outside. The template engine escapes every one of them;
//! the only texts put in as they are belong to this crate or were written by `data`. What turns the
//! direction of writing or has no shape is replaced in the page as a whole.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use askama::Template;
use ioecho_stats::verdict::{Check, Finding, Grade, Validity, Verdict};
use ioecho_trace::TimingMode;
use ioecho_trace::visible::replaced;
use serde::Serialize;

use crate::tables::{self, Table};
use crate::targets::{self, TargetView};
use crate::verification::{self, VerificationView};
use crate::{Chart, Listing, Page, ReportError, Section, Subject, Witness, data};

/// The scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 12] = [
    include_str!("../assets/data.js"),
    include_str!("../assets/scale.js"),
    include_str!("../assets/panel.js"),
    include_str!("../assets/keys.js"),
    include_str!("../assets/density.js"),
    include_str!("../assets/sonar.js"),
    include_str!("../assets/series.js"),
    include_str!("../assets/percentiles.js"),
    include_str!("../assets/chart.js"),
    include_str!("../assets/timechart.js"),
    include_str!("../assets/ownchart.js"),
    include_str!("../assets/page.js"),
];

/// What the file may load: nothing.
const NO_CONNECTION: &str = "";
/// What a page that is served may load: new figures, from where it came.
const OWN_CONNECTION: &str = "; connect-src 'self'";

/// The name of the fact that says when the run began.
const STARTED: &str = "started";

#[derive(Template)]
#[template(path = "report.html")]
struct View<'a> {
    connection: &'static str,
    words: String,
    tables: String,
    command: &'a str,
    is_load: bool,
    witness: Option<&'a Witness>,
    has_charts: bool,
    has_expert: bool,
    title: &'a str,
    essentials: String,
    facts: Vec<&'a Section>,
    drawn: bool,
    style: &'static str,
    script: String,
    data: String,
    version: &'static str,
}

/// The verdict and what goes with it: what stands above the panels.
#[derive(Template)]
#[template(path = "words.html")]
struct WordsView<'a> {
    is_load: bool,
    verdict: Option<VerdictView<'a>>,
    warnings: &'a [String],
    verification: Option<VerificationView<'a>>,
}

/// What stands below the panels.
#[derive(Template)]
#[template(path = "tables.html")]
struct TablesView<'a> {
    targets: Vec<TargetView<'a>>,
    target_headings: &'static [&'static str],
    tables: Vec<Table>,
    listings: &'a [Listing],
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
    render(page, NO_CONNECTION, "")
}

/// The same page for a server: `script` is run behind its own ones, may fetch from where the page
/// came, and hands what [`update`] answers to `window.ioechoUpdate`. It is put in as it is, so it
/// must be part of the program.
pub fn live_html(page: &Page, script: &'static str) -> Result<String, ReportError> {
    render(page, OWN_CONNECTION, script)
}

/// What has to change on a page that shows an earlier state of the same run, as JSON for
/// `window.ioechoUpdate`: `data` is what is drawn, `texts` are pieces of the page by name.
pub fn update(page: &Page) -> Result<String, ReportError> {
    #[derive(Serialize)]
    struct Update<'a> {
        data: data::Data<'a>,
        texts: BTreeMap<&'static str, String>,
    }
    let panels = page.picture.finish();
    let essentials = Escaped(essentials(page)).to_string();
    let texts = [("words", words(page)?), ("tables", tables(page)?), ("essentials", essentials)];
    let update = Update { data: data::data(page, &panels), texts: texts.into() };
    Ok(replaced(&serde_json::to_string(&update)?).into_owned())
}

fn render(
    page: &Page,
    connection: &'static str,
    script: &'static str,
) -> Result<String, ReportError> {
    let panels = page.picture.finish();
    let requests = tables::requests(page);
    let mut scripts = SCRIPTS.concat();
    scripts.push_str(script);
    let own = |charts: &[Chart]| charts.iter().any(|chart| !chart.is_over_time());
    let view = View {
        connection,
        words: words(page)?,
        tables: tables(page)?,
        command: &page.command,
        is_load: page.subject == Subject::Load,
        witness: page.witness.as_ref(),
        has_charts: own(&page.charts),
        has_expert: page.expert.iter().any(|chart| !chart.is_empty()),
        title: &page.title,
        essentials: essentials(page),
        facts: page.facts.iter().chain([&requests]).collect(),
        // A page that is served may have nothing to draw yet.
        drawn: !panels.is_empty() || !connection.is_empty(),
        style: include_str!("../assets/report.css"),
        script: scripts,
        data: data::json(page, &panels)?,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(replaced(&view.render()?).into_owned())
}

fn words(page: &Page) -> Result<String, ReportError> {
    let view = WordsView {
        is_load: page.subject == Subject::Load,
        verdict: page.verdict.as_ref().map(view),
        warnings: &page.warnings,
        verification: page.verification.as_ref().map(verification::view),
    };
    Ok(view.render()?)
}

fn tables(page: &Page) -> Result<String, ReportError> {
    let view = TablesView {
        targets: targets::rows(&page.targets),
        target_headings: &targets::HEADINGS,
        tables: tables::percentiles(page),
        listings: &page.listings,
    };
    Ok(view.render()?)
}

/// A text as HTML shows it.
struct Escaped(String);

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '<' => f.write_str("&#60;"),
            '>' => f.write_str("&#62;"),
            '&' => f.write_str("&#38;"),
            letter => f.write_char(letter),
        })
    }
}

fn requests(count: u64) -> String {
    let noun = if count == 1 { "request" } else { "requests" };
    format!("{} {noun}", tables::grouped(count))
}

/// When it was run and for how long, in a line.
fn essentials(page: &Page) -> String {
    let picture = &page.picture;
    let started = page.facts.iter().flat_map(|section| &section.rows);
    let started = started.into_iter().find(|(name, _)| name == STARTED);
    let mut parts: Vec<String> =
        started.into_iter().map(|(_, when)| format!("started {when}")).collect();
    if page.subject == Subject::Load {
        parts.push(requests(picture.unmeasured()));
        parts.push(format!("over {}", picture.demanded_end()));
    } else if picture.requests() > 0 {
        parts.push(requests(picture.requests()));
        let took = picture.achieved_end();
        let how = page.timing.map(|timing| match timing {
            TimingMode::Timed => "timed (open loop)",
            TimingMode::Afap => "as fast as possible",
            TimingMode::Load => "as fast as possible, in flight as recorded",
        });
        parts.extend(how.map(str::to_owned));
        parts.push(if page.timing.is_none_or(TimingMode::has_schedule) {
            format!("took {took} for a load of {}", picture.demanded_end())
        } else {
            // Without a schedule there is no length that was asked for.
            format!("took {took}")
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
        Finding::Unscheduled => "unscheduled: as fast as the device took the requests",
        Finding::ForeignLoad => "foreign load: others used the device beside the replay",
        Finding::DeviceLimited => {
            "device-limited: the device, or the cap on what is in flight, did not take the load"
        }
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
