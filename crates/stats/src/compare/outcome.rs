//! The result of a comparison, in one answer.
//!
//! A device that takes an hour where another one takes a millisecond still completes some requests
//! faster: those that arrive when no others remain. By the number of figures it would be "slower
//! and faster". Users wait for responses, so the response time of all requests decides; only if
//! that shows no difference, other figures decide.

use ioecho_trace::units::two_digits;
use serde::Serialize;

use super::row::{Decision, Metric, Row};
use crate::picture::Span;

/// The answer to "which is slower?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The other is slower than the baseline.
    Slower,
    /// The other is faster.
    Faster,
    /// Slower in one of the leading figures, faster in another.
    Mixed,
    /// No difference is proven.
    NotToldApart,
}

impl Word {
    /// The word as a heading.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slower => "Slower",
            Self::Faster => "Faster",
            Self::Mixed => "Slower in part, faster in part",
            Self::NotToldApart => "Not told apart",
        }
    }
}

/// The answer of some rows, and the rows that decide it: those of the response time of all
/// requests, or otherwise all.
pub(super) fn answer(rows: &[Row]) -> (Word, Vec<&Row>) {
    let is_leading =
        |row: &&Row| row.scope.span == Some(Span::Response) && row.scope.kind.is_none();
    let differs = |row: &&Row| matches!(row.decision, Decision::Worse | Decision::Better);
    let mut led: Vec<&Row> = rows.iter().filter(is_leading).filter(differs).collect();
    if led.is_empty() {
        led = rows.iter().filter(differs).collect();
    }
    let any = |decision| led.iter().any(|row| row.decision == decision);
    let word = match (any(Decision::Worse), any(Decision::Better)) {
        (false, false) => Word::NotToldApart,
        (true, false) => Word::Slower,
        (false, true) => Word::Faster,
        (true, true) => Word::Mixed,
    };
    (word, led)
}

/// The outcome in a sentence, which begins with the response time of all requests.
pub(super) fn sentence(rows: &[Row], other: &str, baseline: &str) -> String {
    let judged = rows.iter().filter(|row| row.chance.is_some()).count();
    let (word, mut led) = answer(rows);
    let what = match word {
        Word::NotToldApart if judged == 0 => {
            return "Nothing was judged: the runs are too short, or have too few requests."
                .to_owned();
        }
        Word::NotToldApart => {
            return format!(
                "{other} and {baseline} are not told apart: none of {judged} figures differs \
                 beyond chance."
            );
        }
        Word::Slower | Word::Mixed => "slower",
        Word::Faster => "faster",
    };
    // The figures that users ask for first.
    let order = |row: &&Row| match row.metric {
        Metric::P50 => 0,
        Metric::P99 => 1,
        Metric::Mean => 2,
        _ => 3,
    };
    led.sort_by_key(order);
    let told = |decision: Decision| {
        let mut rows = led.iter().filter(|row| row.decision == decision).take(2);
        let first = rows.next().map(|row| format!("{} {}", row.name(), percent(row.ratio)));
        let second = rows.next().map(|row| {
            let name = if row.name_without_metric() == led[0].name_without_metric() {
                row.metric.name().to_owned()
            } else {
                row.name()
            };
            format!("{name} {}", percent(row.ratio))
        });
        first.into_iter().chain(second).collect::<Vec<_>>().join(", ")
    };
    let (worse, better) = (told(Decision::Worse), told(Decision::Better));
    let told = match word {
        Word::Mixed => format!("slower than {baseline} in {worse}, and faster in {better}"),
        _ => format!("{what} than {baseline}: {worse}{better}"),
    };
    let count = |decision| rows.iter().filter(|row| row.decision == decision).count();
    format!(
        "{other} is {told}. Of {judged} figures {} are slower and {} faster.",
        count(Decision::Worse),
        count(Decision::Better)
    )
}

/// A ratio as a person says it, in two significant digits: +10 %, −3.1 %, ×4.3, ×14,000,000.
pub fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "unknown".to_owned();
    }
    if ratio >= 3.0 {
        return format!("×{}", two_digits(ratio));
    }
    let change = (ratio - 1.0) * 100.0;
    if ratio > 0.0 && change < -99.9 {
        // Less than a thousandth remains, but not zero.
        return format!("÷{}", two_digits(1.0 / ratio));
    }
    if change.abs() < 0.05 {
        return "0.0 %".to_owned();
    }
    // Below 1 % a single decimal is all that matters; 99.6 % must not become 100 %.
    if change.abs() < 1.0 || (change.abs() > 99.0 && change.abs() < 100.0) {
        return format!("{change:+.1} %");
    }
    format!("{}{} %", if change < 0.0 { '-' } else { '+' }, two_digits(change.abs()))
}
