//! Conditions on cells and runs: `finding = device-limited or p99.read > 20ms`.
//!
//! The grammar is that of the transform `filter` (`ioecho_trace::expression`). Its questions are
//! about axes and keys of a cell, and about the figures, the finding and the checks of its run. If
//! a run has no such figure, every comparison with it is false.

use std::cmp::Ordering;

use ioecho_stats::judge;
use ioecho_stats::verdict::{Finding, Grade, Validity};
use ioecho_trace::expression::{self as grammar, Cursor, Expression, Fault, Word};
use ioecho_trace::{Bytes, Nanos};

use crate::attempt::{Measured, STEADY, Unit, figure_name};
use crate::stack::{self, Entry};

/// The settings that a condition may ask for: axes and keys.
#[derive(Clone, Debug, Default)]
pub struct Subjects {
    /// Their names.
    pub settings: Vec<String>,
    /// The stack, whose settings are keys too: `stack.NAME.KEY`.
    pub stack: Vec<Entry>,
}

impl Subjects {
    fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting == name) || stack::has_key(&self.stack, name)
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    text: String,
    expression: Expression<Test>,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
struct Test {
    subject: Subject,
    comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Setting(String),
    Figure(String),
    Finding,
    Validity,
    Check(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Comparison {
    /// The value is one of these words.
    Among(Vec<String>),
    /// The value, a number, has this order to the limit.
    Ordered(Sign, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

impl Sign {
    fn of(text: &str) -> Self {
        match text {
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::More,
            ">=" => Self::AtLeast,
            "!=" => Self::Unequal,
            _ => Self::Equal,
        }
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        let Some(order) = value.partial_cmp(&limit) else { return false };
        match self {
            Self::Less => order == Ordering::Less,
            Self::AtMost => order != Ordering::Greater,
            Self::More => order == Ordering::Greater,
            Self::AtLeast => order != Ordering::Less,
            Self::Equal => order == Ordering::Equal,
            Self::Unequal => order != Ordering::Equal,
        }
    }
}

impl Rule {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// The first fault, marked in the text, with the remedy on a line of its own.
    pub fn read(text: &str, subjects: &Subjects) -> Result<Self, String> {
        let text: String =
            text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let question = |words: &mut Cursor<'_>| question(words, subjects);
        let expression = grammar::parse(&text, &question).map_err(|fault| fault.marked(&text))?;
        Ok(Self { text, expression })
    }

    /// The condition as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first figure or finding that it asks for, if any.
    pub fn asks_for_result(&self) -> Option<&str> {
        first_result(&self.expression)
    }

    /// Whether what it asks of a run are figures, and nothing else.
    pub fn asks_for_figures_alone(&self) -> bool {
        all_tests(&self.expression, &|test| {
            matches!(test.subject, Subject::Setting(_) | Subject::Figure(_))
        })
    }

    /// The figures that it asks for and that this result has not, by their full names.
    pub fn unknown(&self, measured: &Measured) -> Vec<&str> {
        let mut unknown = Vec::new();
        each_test(&self.expression, &mut |test| match &test.subject {
            Subject::Figure(name) if !measured.figures.contains_key(name) => unknown.push(&**name),
            _ => {}
        });
        unknown
    }

    /// Whether it holds, for a cell with these settings, and this result if there is one.
    pub fn holds(
        &self,
        setting: &impl Fn(&str) -> Option<String>,
        measured: Option<&Measured>,
    ) -> bool {
        self.expression.holds(&|test| test.holds(setting, measured))
    }
}

fn each_test<'e>(expression: &'e Expression<Test>, each: &mut impl FnMut(&'e Test)) {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => {
            for part in parts {
                each_test(part, each);
            }
        }
        Expression::Not(part) => each_test(part, each),
        Expression::Test(test) => each(test),
    }
}

fn all_tests(expression: &Expression<Test>, is: &impl Fn(&Test) -> bool) -> bool {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => {
            parts.iter().all(|part| all_tests(part, is))
        }
        Expression::Not(part) => all_tests(part, is),
        Expression::Test(test) => is(test),
    }
}

fn first_result(expression: &Expression<Test>) -> Option<&str> {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => parts.iter().find_map(first_result),
        Expression::Not(part) => first_result(part),
        Expression::Test(test) => match &test.subject {
            Subject::Setting(_) => None,
            Subject::Figure(name) | Subject::Check(name) => Some(name),
            Subject::Finding => Some("finding"),
            Subject::Validity => Some("validity"),
        },
    }
}

impl Test {
    fn holds(
        &self,
        setting: &impl Fn(&str) -> Option<String>,
        measured: Option<&Measured>,
    ) -> bool {
        let word = match &self.subject {
            Subject::Setting(name) => setting(name),
            Subject::Figure(name) => {
                let value = measured.and_then(|measured| measured.figures.get(name));
                return match (&self.comparison, value) {
                    (Comparison::Ordered(sign, limit), Some(value)) => sign.holds(*value, *limit),
                    _ => false,
                };
            }
            Subject::Finding => measured.map(|measured| measured.finding.name().to_owned()),
            Subject::Validity => measured.map(|measured| measured.validity.name().to_owned()),
            Subject::Check(name) => measured
                .and_then(|measured| measured.checks.get(name))
                .map(|grade| grade_word(*grade)),
        };
        let Some(word) = word else { return false };
        match &self.comparison {
            Comparison::Among(words) => words.iter().any(|one| is_alike(one, &word)),
            Comparison::Ordered(sign, limit) => {
                number(&word).is_some_and(|value| sign.holds(value, *limit))
            }
        }
    }
}

/// Whether two values of a setting mean the same: `1.0` and `1` do.
fn is_alike(one: &str, other: &str) -> bool {
    one == other || number(one).is_some_and(|one| number(other) == Some(one))
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn grade_word(grade: Grade) -> String {
    grade.name().replace(' ', "-")
}

const GRADES: [Grade; 5] =
    [Grade::NotApplicable, Grade::Pass, Grade::Limited, Grade::Suspect, Grade::Invalid];

const VALIDITIES: [Validity; 3] = [Validity::Valid, Validity::Suspect, Validity::Invalid];

const KNOWN: &str = "known are the axes and keys (those of the stack as stack.NAME.KEY), finding, \
                     validity, check.NAME, and figures such as p99.read, p99.9.write.service, \
                     iops, mbps, drain, failed";

/// Reads a question.
fn question(words: &mut Cursor<'_>, subjects: &Subjects) -> Result<Expression<Test>, Fault> {
    let Some(Word::Name(name)) = words.peek() else {
        return Err(words.fault("the name of an axis, a key or a figure is expected here", KNOWN));
    };
    let (subject, kind) = if name == "finding" {
        (Subject::Finding, Kind::Words(Finding::ALL.map(|it| it.name().to_owned()).to_vec()))
    } else if name == "validity" {
        (Subject::Validity, Kind::Words(VALIDITIES.map(|it| it.name().to_owned()).to_vec()))
    } else if let Some(check) = name.strip_prefix("check.") {
        let known = judge::names();
        if check != STEADY && !known.iter().any(|known| known == check) {
            let help = format!("known are {}, {STEADY}", known.join(", "));
            return Err(words.fault(&format!("there is no check '{check}'"), help));
        }
        let grades = GRADES.map(grade_word).to_vec();
        (Subject::Check(check.to_owned()), Kind::Words(grades))
    } else if subjects.has(name) {
        (Subject::Setting(name.to_owned()), Kind::Setting)
    } else if let Some((figure, unit)) = figure_name(name) {
        (Subject::Figure(figure), Kind::Figure(unit))
    } else {
        return Err(words.fault(&format!("'{name}' is not known"), KNOWN));
    };
    words.pass();
    let is_negated = words.take(&["not"]).is_some();
    if words.take(&["in"]).is_some() {
        let among = set(words, &kind)?;
        let test = Expression::Test(Test { subject, comparison: Comparison::Among(among) });
        return Ok(if is_negated { Expression::Not(Box::new(test)) } else { test });
    }
    let place = words.here();
    let signs = ["=", "==", "!=", "<", "<=", ">", ">="];
    let Some(sign) = words.take(&signs).filter(|_| !is_negated) else {
        let help = format!("write {name} = …, {name} > … or {name} in {{…}}");
        return Err(words.fault("a comparison is expected here", help));
    };
    let sign = Sign::of(sign);
    let is_equality = matches!(sign, Sign::Equal | Sign::Unequal);
    if let Kind::Figure(unit) = kind {
        let limit = limit(words, unit)?;
        return Ok(Expression::Test(Test {
            subject,
            comparison: Comparison::Ordered(sign, limit),
        }));
    }
    if is_equality {
        let among = vec![word(words, &kind)?];
        let test = Expression::Test(Test { subject, comparison: Comparison::Among(among) });
        return Ok(if sign == Sign::Unequal { Expression::Not(Box::new(test)) } else { test });
    }
    if matches!(kind, Kind::Words(_)) {
        let reason = format!("{name} has no order");
        let help = "it can be compared by =, != and in".to_owned();
        return Err(Fault { at: place, reason, help });
    }
    let limit = limit(words, Unit::Count)?;
    Ok(Expression::Test(Test { subject, comparison: Comparison::Ordered(sign, limit) }))
}

/// The kind of the values of a subject.
enum Kind {
    Setting,
    Words(Vec<String>),
    Figure(Unit),
}

fn set(words: &mut Cursor<'_>, kind: &Kind) -> Result<Vec<String>, Fault> {
    if matches!(kind, Kind::Figure(_)) || words.take(&["{"]).is_none() {
        return Err(words.fault("a set of words is expected here", "as in {a, b}"));
    }
    let mut among = Vec::new();
    loop {
        among.push(word(words, kind)?);
        if words.take(&["}"]).is_some() {
            return Ok(among);
        }
        if words.take(&[","]).is_none() {
            return Err(words.fault("a ',' or a '}' is expected here", "as in {a, b}"));
        }
    }
}

fn word(words: &mut Cursor<'_>, kind: &Kind) -> Result<String, Fault> {
    let Some(Word::Name(text) | Word::Number(text) | Word::Quoted(text)) = words.peek() else {
        return Err(words.fault("a word is expected here", "quote what has signs: \"a b\""));
    };
    if let Kind::Words(known) = kind
        && !known.iter().any(|known| known == text)
    {
        let help = format!("known are {}", known.join(", "));
        return Err(words.fault(&format!("'{text}' is not known"), help));
    }
    words.pass();
    Ok(text.to_owned())
}

fn limit(words: &mut Cursor<'_>, unit: Unit) -> Result<f64, Fault> {
    let text = match words.peek() {
        Some(Word::Number(text)) => text,
        _ => "",
    };
    let (read, example) = match unit {
        Unit::Span => (text.parse::<Nanos>().ok().map(|span| span.0 as f64), "a time like 20ms"),
        Unit::Bytes => (text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64), "a size like 100M"),
        Unit::Count => (number(text), "a number like 5000"),
        Unit::Percent => (text.strip_suffix('%').and_then(number), "a share like 1%"),
    };
    let limit = read.ok_or_else(|| {
        words.fault(&format!("'{text}' does not fit here"), format!("write {example}"))
    })?;
    words.pass();
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn subjects() -> Subjects {
        let settings = vec!["speedup".to_owned(), "device".to_owned()];
        Subjects { settings, stack: Vec::new() }
    }

    fn measured() -> Measured {
        Measured {
            finding: Finding::DeviceLimited,
            checks: BTreeMap::from([("lateness".to_owned(), Grade::Limited)]),
            figures: BTreeMap::from([
                ("p99.read.response".to_owned(), 5e6),
                ("iops".to_owned(), 1000.0),
                ("drain".to_owned(), 20.05),
            ]),
            ..Measured::nothing()
        }
    }

    fn holds(text: &str) -> bool {
        let setting = |name: &str| match name {
            "speedup" => Some("4".to_owned()),
            "device" => Some("a".to_owned()),
            _ => None,
        };
        Rule::read(text, &subjects()).unwrap().holds(&setting, Some(&measured()))
    }

    #[test]
    fn a_condition_asks_settings_and_results() {
        for text in [
            "finding = device-limited",
            "finding != faithful and validity = valid",
            "p99.read > 4ms",
            "p99.read.response <= 5ms",
            "iops in {1} or iops >= 1000",
            "drain > 1% and drain < 20.1%",
            "speedup > 2 and speedup = 4.0",
            "device in {a, b} and device not in {c}",
            "check.lateness = limited",
            "not (speedup < 4)",
        ] {
            if text.starts_with("iops in") {
                assert!(Rule::read(text, &subjects()).is_err());
            } else {
                assert!(holds(text), "{text}");
            }
        }
        for text in ["p99.write > 0ms", "p99.write <= 1h", "speedup > 4", "check.steady = pass"] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn a_fault_is_marked() {
        for (text, told) in [
            ("check.latenes = pass", "there is no check 'latenes'"),
            ("finding = devise-limited", "'devise-limited' is not known"),
            ("p98.read > 4ms", "'p98.read' is not known"),
            ("p99.read > 4k", "write a time like 20ms"),
            ("drain > 1", "write a share like 1%"),
            ("finding > faithful", "finding has no order"),
            ("speedup", "something is missing"),
        ] {
            let fault = Rule::read(text, &subjects()).unwrap_err();
            assert!(fault.contains(told) && fault.contains("= help:"), "{fault}");
        }
    }

    #[test]
    fn a_rule_tells_which_result_it_needs() {
        let asks = |text: &str| {
            Rule::read(text, &subjects()).unwrap().asks_for_result().map(str::to_owned)
        };
        assert_eq!(asks("speedup > 2"), None);
        assert_eq!(asks("speedup > 2 and p99 > 1ms").as_deref(), Some("p99.all.response"));
    }
}
