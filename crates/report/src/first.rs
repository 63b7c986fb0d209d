//! The first screen of a page: the finding, its validity, and six figures.

use ioecho_stats::headline::{Headline, drained, span};
use ioecho_stats::run_summary::Percentiles;
use ioecho_stats::verdict::{Finding, Validity, Verdict};
use ioecho_trace::Nanos;
use ioecho_trace::units::three_digits;

use crate::Page;
use crate::tables::grouped;

/// The shortest drain that the first screen tells, in percent of the demanded time.
const DRAIN_TOLD_PERCENT: f64 = 1.0;

/// The contents of the first screen.
pub(crate) struct First<'a> {
    /// The finding in a sentence.
    pub(crate) sentence: &'a str,
    /// The colour of the finding.
    pub(crate) tone: &'static str,
    /// The validity: its class in the style sheet and the word.
    pub(crate) validity: (&'static str, &'static str),
    /// The finding as it is stored, where it says something here.
    pub(crate) finding: Option<&'static str>,
    /// The verdict in its own words.
    pub(crate) summary: &'a str,
    pub(crate) figures: Vec<Figure>,
}

/// A figure: a name, below it the value in large type, below that a reference value.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) beside: String,
}

/// The first screen of a judged run.
pub(crate) fn of<'a>(page: &'a Page, verdict: &'a Verdict) -> First<'a> {
    let headline = page.headline.as_ref();
    First {
        sentence: headline.map_or(&verdict.summary, |headline| &headline.sentence),
        tone: tone(verdict),
        validity: match verdict.validity {
            Validity::Valid => ("pass", "Figures valid"),
            Validity::Suspect => ("suspect", "Figures suspect"),
            Validity::Invalid => ("invalid", "Figures invalid"),
        },
        finding: verdict.told_finding().map(Finding::name),
        summary: &verdict.summary,
        figures: headline.map_or(Vec::new(), |headline| figures(page, headline)),
    }
}

/// The colour of the finding, which is independent of the validity: if a device failed its load in
/// a valid run, the page must not show that in green.
fn tone(verdict: &Verdict) -> &'static str {
    match verdict.finding {
        Finding::DataDamaged => "damaged",
        Finding::GeneratorLimited | Finding::HostStalled | Finding::ForeignLoad => "fault",
        Finding::Incomplete => "unfinished",
        Finding::Faithful | Finding::Unscheduled | Finding::DeviceLimited
            if verdict.validity == Validity::Invalid =>
        {
            "fault"
        }
        Finding::DeviceLimited => "limit",
        Finding::Faithful | Finding::Unscheduled => "held",
    }
}

fn figures(page: &Page, headline: &Headline) -> Vec<Figure> {
    let picture = &page.picture;
    let figure =
        |name: &str, value: String, beside: String| Figure { name: name.to_owned(), value, beside };
    let mut figures = Vec::new();
    if let Some(rates) = &headline.throughput {
        let of = |demanded: Option<String>| {
            demanded.map_or("no rate was demanded".to_owned(), |rate| format!("of {rate} demanded"))
        };
        let mib = |bytes: f64| rate(bytes / 1_048_576.0);
        let requests = rates.demanded.map(|(requests, _)| rate(requests));
        figures.push(figure("IOPS", rate(rates.achieved_requests), of(requests)));
        let bytes = rates.demanded.map(|(_, bytes)| mib(bytes));
        figures.push(figure("MiB/s", mib(rates.achieved_bytes), of(bytes)));
    }
    for (kind, percentiles) in headline.percentiles.iter().take(3) {
        let (quantile, value, beside) = told(percentiles);
        let is_host_owned = quantile == "p99" && headline.is_host_owned(headline.span, 0.99);
        let whose = if is_host_owned { " (the host's)" } else { "" };
        let kinds =
            if ["read", "write"].contains(kind) { format!("{kind}s") } else { (*kind).into() };
        let name = format!("{kinds}, {quantile} {}{whose}", headline.span.name());
        figures.push(figure(&name, value, beside));
    }
    let end = picture.achieved_end();
    let took = if end > Nanos::ZERO { span(end.0.unsigned_abs()) } else { "–".to_owned() };
    let asked = if headline.is_cut_short {
        "cut short".to_owned()
    } else if page.has_schedule() {
        let load = span(picture.demanded_end().0.max(0).unsigned_abs());
        // A drain that nobody would notice is told elsewhere.
        let drain = headline.drain_percent.filter(|percent| *percent >= DRAIN_TOLD_PERCENT);
        // The number and its unit stay on one line.
        let told = |percent| drained(percent).replace(' ', "\u{a0}");
        let drain = drain.map(|percent| format!(", drain {}", told(percent)));
        format!("for a load of {load}{}", drain.unwrap_or_default())
    } else if page.has_due_instants() {
        "each request after those that it waits for".to_owned()
    } else {
        "as fast as possible".to_owned()
    };
    figures.push(figure("took", took, asked));
    let failed: u64 =
        picture.outcomes().iter().filter(|outcome| !outcome.ok).map(|outcome| outcome.count).sum();
    // The load of a run that was cut short has more.
    let until_then = if headline.is_cut_short { " until then" } else { "" };
    let all = format!("of {} requests{until_then}", grouped(picture.requests()));
    figures.push(figure("not completed", grouped(failed), all));
    figures
}

/// The 99th percentile, or the maximum if there are too few requests for a percentile.
fn told(percentiles: &Percentiles) -> (&'static str, String, String) {
    let Percentiles { p50_ns, p99_ns, max_ns, .. } = *percentiles;
    let shown = |ns: u64| Nanos(ns as i64).to_string();
    let Some(p99_ns) = p99_ns else {
        return ("max", shown(max_ns), format!("p50 {}", shown(p50_ns)));
    };
    ("p99", shown(p99_ns), format!("p50 {}, max {}", shown(p50_ns), shown(max_ns)))
}

/// A rate in three digits; large rates as whole numbers.
fn rate(value: f64) -> String {
    match value {
        v if v >= 99.95 => grouped(v.round() as u64),
        v => three_digits(v),
    }
}
