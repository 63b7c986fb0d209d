//! The text of the page: first the finding, then two small pictures, then the failed checks, then
//! everything that the browser draws. Passed checks and all details of what was run where are
//! folded away; the line under the title has the essentials.
//!
//! Names of files and devices are foreign text. The template engine escapes all of them; the only
//! unescaped texts are constants of this crate or written by `data`. Characters that change the
//! direction of writing, and invisible ones, are replaced in the whole page.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use askama::Template;
use ioecho_stats::verdict::{Check, Grade, Verdict};
use ioecho_trace::visible::replaced;
use ioecho_trace::{Nanos, TimingMode};
use serde::Serialize;

use crate::first::{self, First};
use crate::packed::sha256;
use crate::tables::{self, Table};
use crate::targets::{self, TargetView};
use crate::verification::{self, VerificationView};
use crate::{Chart, Listing, Page, ReportError, Section, Subject, Witness, data};

/// The scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 15] = [
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
    include_str!("../assets/save.js"),
    include_str!("../assets/moments.js"),
    include_str!("../assets/address.js"),
    include_str!("../assets/page.js"),
];

/// The sources that a file may connect to: none.
const NO_CONNECTION: &str = "";
/// The sources that a served page may connect to: its own server, for new figures.
const OWN_CONNECTION: &str = "; connect-src 'self'";

/// The name of the fact that says when the run began.
const STARTED: &str = "started";

#[derive(Template)]
#[template(path = "report.html")]
struct View<'a> {
    connection: &'static str,
    script_hash: String,
    style_hash: String,
    words: String,
    checks: String,
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
    style: String,
    script: String,
    data: String,
    version: &'static str,
}

/// The finding, above everything else.
#[derive(Template)]
#[template(path = "words.html")]
struct WordsView<'a> {
    is_load: bool,
    first: Option<First<'a>>,
}

/// The failed checks, and the passed ones, folded away.
#[derive(Template)]
#[template(path = "checks.html")]
struct ChecksView<'a> {
    broken: Vec<CheckView<'a>>,
    sound: Vec<CheckView<'a>>,
    passed: usize,
    idle: usize,
    warnings: &'a [String],
    verification: Option<VerificationView<'a>>,
}

/// The part below the panels.
#[derive(Template)]
#[template(path = "tables.html")]
struct TablesView<'a> {
    targets: Vec<TargetView<'a>>,
    target_headings: &'static [&'static str],
    tables: Vec<Table>,
    listings: &'a [Listing],
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

/// The same page for a server. `script` runs after the page's own scripts, may fetch from the
/// page's server, and passes the answer of [`update`] to `window.ioechoUpdate`. It is inserted
/// unescaped, so it must be part of the program.
pub fn live_html(page: &Page, script: &'static str) -> Result<String, ReportError> {
    render(page, OWN_CONNECTION, script)
}

/// The changes for a page that shows an earlier state of the same run, as JSON for
/// `window.ioechoUpdate`: `data` is everything that is drawn, `texts` are pieces of the page by
/// name.
pub fn update(page: &Page) -> Result<String, ReportError> {
    #[derive(Serialize)]
    struct Update<'a> {
        data: data::Data<'a>,
        texts: BTreeMap<&'static str, String>,
    }
    let panels = page.picture.finish();
    let essentials = Escaped(essentials(page)).to_string();
    let texts = [
        ("words", words(page)?),
        ("checks", checks(page)?),
        ("tables", tables(page)?),
        ("essentials", essentials),
    ];
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
    let script = whole_script(&[&SCRIPTS.concat(), script]);
    let style = ["\n", include_str!("../assets/report.css")].concat();
    let own = |charts: &[Chart]| charts.iter().any(|chart| !chart.is_over_time());
    let view = View {
        connection,
        script_hash: sha256(script.as_bytes()),
        style_hash: sha256(style.as_bytes()),
        words: words(page)?,
        checks: checks(page)?,
        tables: tables(page)?,
        command: &page.command,
        is_load: page.subject == Subject::Load,
        witness: page.witness.as_ref(),
        has_charts: own(&page.charts),
        has_expert: page.expert.iter().any(|chart| !chart.is_empty()),
        title: &page.title,
        essentials: essentials(page),
        facts: page.facts.iter().chain([&requests]).collect(),
        // A served page may have nothing to draw yet.
        drawn: !panels.is_empty() || !connection.is_empty(),
        style,
        script,
        data: data::json(page, &panels)?,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(replaced(&view.render()?).into_owned())
}

/// The scripts as the page runs them: joined, in a scope of their own.
pub(crate) fn whole_script(parts: &[&str]) -> String {
    ["\n\"use strict\";\n(() => {\n", &parts.concat(), "})();\n"].concat()
}

fn words(page: &Page) -> Result<String, ReportError> {
    let view = WordsView {
        is_load: page.subject == Subject::Load,
        first: page.verdict.as_ref().map(|verdict| first::of(page, verdict)),
    };
    Ok(view.render()?)
}

fn checks(page: &Page) -> Result<String, ReportError> {
    let all = page.verdict.as_ref().map_or(&[][..], |verdict: &Verdict| &verdict.checks);
    // Failed checks come first, and of these the causes; passed checks are the proof, so the last.
    let mut all: Vec<&Check> = all.iter().collect();
    all.sort_by_key(|check| std::cmp::Reverse((check.is_cause(), check.grade)));
    let (broken, sound): (Vec<&Check>, Vec<&Check>) =
        all.into_iter().partition(|check| check.grade >= Grade::Limited);
    let count = |grade| sound.iter().filter(|check| check.grade == grade).count();
    let view = ChecksView {
        passed: count(Grade::Pass),
        idle: count(Grade::NotApplicable),
        broken: broken.into_iter().map(check).collect(),
        sound: sound.into_iter().map(check).collect(),
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

/// A text, escaped for HTML.
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

/// The start and the duration of the run, in a line.
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
            TimingMode::Load => "as fast as possible, no more in flight than recorded",
            TimingMode::Dependency => "each request after those that it waits for",
            TimingMode::Flows => "flows, each by its own rule",
        });
        parts.extend(how.map(str::to_owned));
        parts.push(if took == Nanos::ZERO {
            "nothing was completed".to_owned()
        } else if page.headline.as_ref().is_some_and(|headline| headline.is_cut_short) {
            format!("cut short after {took}")
        } else if page.has_schedule() {
            format!("took {took} for a load of {}", picture.demanded_end())
        } else {
            // Without a schedule no length was asked for.
            format!("took {took}")
        });
    }
    parts.join(" · ")
}

fn check(check: &Check) -> CheckView<'_> {
    let (class, word) = of_check(check);
    CheckView { class, word, check }
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
