//! A condition under which a script shall fail: `p99.read > +5%`.
//!
//! A pipeline needs yes or no, and a bare percentile fails whenever a neighbour's backup runs. So a
//! criterion fails only if the whole interval lies beyond its limit: then the difference is proven.
//! Where the interval covers the limit, nothing is proven, and the user decides whether doubt
//! fails.
//!
//! The language: `METRIC[.KIND][.SPAN] OP LIMIT`. The default is all kinds, and the response time,
//! which includes lateness: a device that is too slow makes requests late. A limit is a change in
//! percent with its sign, or a ratio such as `1.05`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::Pair;
use super::row::{Decision, Metric, kind_word, span_word};
use crate::picture::{Kind, Span};

const METRICS: [Metric; 9] = [
    Metric::Mean,
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::P999,
    Metric::P9999,
    Metric::Max,
    Metric::Iops,
    Metric::Bytes,
];

/// A condition on a ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    text: String,
    metric: Metric,
    kind: Option<Kind>,
    span: Span,
    is_above: bool,
    limit: f64,
}

/// A condition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriterionError {
    text: String,
    at: usize,
    what: String,
}

impl std::error::Error for CriterionError {}

impl fmt::Display for CriterionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.at.min(self.text.len())].chars().count();
        writeln!(f, "{}", self.what)?;
        writeln!(f, "  | {}", self.text)?;
        writeln!(f, "  | {}^", " ".repeat(before))?;
        write!(
            f,
            "  = help: write it like 'p99.read > +5%', 'p99.9.write.service > 1.2' or \
                   'iops < -3%'"
        )
    }
}

/// The answer to a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The condition is proven: the whole interval lies beyond the limit.
    Met,
    /// The contrary is proven.
    NotMet,
    /// Neither is proven, and the measured ratio lies beyond the limit.
    DoubtfullyMet,
    /// Neither is proven, and the measured ratio does not lie beyond it.
    DoubtfullyNotMet,
    /// The runs have no such requests, or one of them has none.
    NothingMeasured,
}

/// A criterion applied to a pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The criterion as it was typed.
    pub criterion: String,
    /// Which system it was held against.
    pub other: String,
    /// The answer.
    pub answer: Answer,
    /// The measured ratio.
    pub ratio: Option<f64>,
    /// Where it lies with 95 % confidence, shared by all criteria; `None` of figures that cannot be
    /// judged.
    pub interval: Option<[f64; 2]>,
}

impl Criterion {
    /// Holds the criterion, one of so many, against a pair.
    pub fn hold(&self, pair: &Pair, criteria: usize) -> Outcome {
        let span = (!self.metric.is_flow()).then_some(self.span);
        // Where there is one kind only, all requests are of that kind and stand in no row of
        // theirs.
        let is_only = pair.kinds == [kind_word(self.kind)];
        let kind = self.kind.filter(|_| !is_only);
        let row = pair.rows.iter().find(|row| {
            row.metric == self.metric && row.scope.kind == kind && row.scope.span == span
        });
        let interval = row
            .filter(|row| row.decision != Decision::TooFew)
            .and_then(|row| row.interval_alone(criteria));
        Outcome {
            criterion: self.text.clone(),
            other: pair.other.clone(),
            answer: row.map_or(Answer::NothingMeasured, |row| self.answer(row.ratio, interval)),
            ratio: row.map(|row| row.ratio),
            interval,
        }
    }

    fn answer(&self, ratio: f64, interval: Option<[f64; 2]>) -> Answer {
        let beyond = |ratio: f64| {
            if self.is_above { ratio > self.limit } else { ratio < self.limit }
        };
        match interval {
            Some([low, high]) if beyond(low) && beyond(high) => Answer::Met,
            Some([low, high]) if !beyond(low) && !beyond(high) => Answer::NotMet,
            _ if beyond(ratio) => Answer::DoubtfullyMet,
            _ => Answer::DoubtfullyNotMet,
        }
    }
}

impl FromStr for Criterion {
    type Err = CriterionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |at: usize, what: String| CriterionError { text: text.to_owned(), at, what };
        let Some(at) = text.find(['<', '>']) else {
            return Err(error(text.len(), "a criterion needs < or >".to_owned()));
        };
        let is_above = text.as_bytes()[at] == b'>';
        // `>` and `>=` are the same for a measured ratio.
        let behind = at + if text[at + 1..].starts_with('=') { 2 } else { 1 };
        let limit_at = behind + (text[behind..].len() - text[behind..].trim_start().len());
        let limit = limit(text[limit_at..].trim_end()).map_err(|what| error(limit_at, what))?;
        let subject_at = text.len() - text.trim_start().len();
        let (metric, kind, span) = subject(text[subject_at..at].trim_end(), subject_at)
            .map_err(|(at, what)| error(at, what))?;
        Ok(Self { text: text.trim().to_owned(), metric, kind, span, is_above, limit })
    }
}

/// What stands before the comparison: the figure, and which requests. The error says at which byte.
fn subject(text: &str, begins: usize) -> Result<(Metric, Option<Kind>, Span), (usize, String)> {
    // `p99.9.read`: the longest name that fits.
    let fits = |metric: &&Metric| {
        let behind = text.strip_prefix(metric.name());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('.'))
    };
    let metric = METRICS.iter().filter(fits).max_by_key(|metric| metric.name().len());
    let metric = *metric.ok_or_else(|| {
        let known: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
        (begins, format!("there is no figure '{text}'; known are {}", known.join(", ")))
    })?;
    let mut at = begins + metric.name().len();
    let (mut kind, mut span): (Option<Option<Kind>>, Option<Span>) = (None, None);
    for word in text[metric.name().len()..].split('.').skip(1) {
        at += 1;
        let kinds = [None].into_iter().chain(Kind::ALL.into_iter().map(Some));
        let as_kind = kinds.into_iter().find(|kind| kind_word(*kind) == word);
        let as_span = Span::ALL.into_iter().find(|span| span_word(*span) == word);
        match (as_kind, as_span) {
            (Some(found), _) if kind.is_none() => kind = Some(found),
            (_, Some(_)) if metric.is_flow() => {
                return Err((at, format!("{} has no span of time", metric.name())));
            }
            (_, Some(found)) if span.is_none() => span = Some(found),
            (None, None) => {
                let what = format!(
                    "'{word}' is neither a kind (all, read, write, flush, discard, zone) nor a \
                     span (service, response, lateness)"
                );
                return Err((at, what));
            }
            _ => return Err((at, format!("'{word}' comes after another of its sort"))),
        }
        at += word.len();
    }
    Ok((metric, kind.flatten(), span.unwrap_or(Span::Response)))
}

/// A ratio, or a change in percent with its sign.
fn limit(text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("'{text}' is not a number"))
    };
    let limit = match text.strip_suffix('%') {
        Some(percent) if percent.starts_with(['+', '-']) => 1.0 + number(percent)? / 100.0,
        Some(percent) => {
            number(percent)?;
            return Err(format!("'{text}' needs a sign: +{text} is a rise, -{text} a fall"));
        }
        None if text.starts_with('+') => {
            return Err(format!("'{text}' needs a unit: {text}% is a rise, 1.05 a ratio"));
        }
        None => number(text)?,
    };
    if limit > 0.0 { Ok(limit) } else { Err(format!("a ratio is never as low as '{text}'")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Criterion {
        text.parse().unwrap()
    }

    #[test]
    fn a_criterion_names_its_figure_kind_and_span_and_what_is_not_named_is_all_and_response() {
        let criterion = read("p99.9.write.service>=+5%");
        assert_eq!((criterion.metric, criterion.kind), (Metric::P999, Some(Kind::WRITE)));
        assert_eq!((criterion.span, criterion.is_above), (Span::Service, true));
        assert!((criterion.limit - 1.05).abs() < 1e-12);
        let criterion = read(" iops < -3 % ");
        let (metric, kind) = (criterion.metric, criterion.kind);
        assert_eq!((metric, kind, criterion.is_above), (Metric::Iops, None, false));
    }

    #[test]
    fn what_cannot_be_read_is_pointed_at() {
        let told = |text: &str| text.parse::<Criterion>().unwrap_err().to_string();
        for (text, what, column) in [
            ("p98 > +5%", "there is no figure 'p98'", 0),
            ("p99.reed > +5%", "'reed' is neither a kind", 4),
            ("p99.read > 5%", "needs a sign", 11),
            ("p99.read > fast", "'fast' is not a number", 11),
            ("p99.read", "needs < or >", 8),
            ("iops.service > 1", "has no span", 5),
            ("p99.read.write > 1", "'write' comes after another", 9),
            ("mean > -100%", "never as low", 7),
        ] {
            let told = told(text);
            assert!(told.contains(what), "{told}");
            assert!(told.contains(&format!("\n  | {}^", " ".repeat(column))), "{told}");
        }
    }

    #[test]
    fn only_an_interval_beyond_the_limit_proves_and_only_one_before_it_disproves() {
        let criterion = read("p99 > +5%");
        let answer = |ratio, interval| criterion.answer(ratio, interval);
        assert_eq!(answer(1.10, Some([1.06, 1.14])), Answer::Met);
        assert_eq!(answer(1.10, Some([1.02, 1.18])), Answer::DoubtfullyMet);
        assert_eq!(answer(1.03, Some([0.95, 1.11])), Answer::DoubtfullyNotMet);
        assert_eq!(answer(1.01, Some([0.99, 1.03])), Answer::NotMet);
        assert_eq!(answer(1.10, None), Answer::DoubtfullyMet);
        assert_eq!(read("iops < 0.9").answer(0.5, Some([0.4, 0.6])), Answer::Met);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,30}|[pmi0-9.<>=+% a-z]{0,30}") {
            if let Err(error) = text.parse::<Criterion>() {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
