//! Values of keys: numbers, sizes, spans of time, and lists of them.
//!
//! The same forms stand everywhere in the language: `8`, `4k`, `(1,2,4)`, `(1-64,d)`,
//! `(10-100,10)`. What is no number is a fault of writing; a number that no device can serve is an
//! impossible one.

use std::ops::RangeInclusive;

use super::definitions::{Definition, Entry};
use super::fault::Faults;
use super::tokens::Item;
use crate::units::{Bytes, Nanos};

/// The most values of a range.
const VALUES_MAX: usize = 1_000_000;

/// Reads values of a definition, and keeps what is wrong with them.
pub(super) struct Values<'v> {
    pub(super) definition: &'v Definition,
    pub(super) faults: &'v mut Faults,
}

impl<'v> Values<'v> {
    pub(super) fn entry(&self, key: &str) -> Option<&'v Entry> {
        self.definition.get(key)
    }

    /// The only item of a key.
    fn one(&mut self, key: &str) -> Option<&'v Item> {
        let entry = self.entry(key)?;
        match &entry.items[..] {
            [item] => Some(item),
            items => {
                let reason = format!("{key} takes one value, and these are {}", items.len());
                self.faults.syntax(&items[1].place, reason, format!("write {key}=…"));
                None
            }
        }
    }

    fn wrong(&mut self, item: &Item, what: &str, example: &str) {
        let reason = format!("'{}' is no {what}", item.text);
        self.faults.syntax(&item.place, reason, format!("write it like {example}"));
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.one(key).map(|item| item.text.clone())
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let all = self.definition.all(key).flat_map(|entry| &entry.items);
        all.map(|item| item.text.clone()).collect()
    }

    /// One of these words, or the beginning of one.
    pub(super) fn word(&mut self, key: &str, words: &[&'static str]) -> Option<&'static str> {
        let item = self.one(key)?;
        self.word_of(item, words)
    }

    pub(super) fn word_of(&mut self, item: &Item, words: &[&'static str]) -> Option<&'static str> {
        let found = one_of(&item.text, words);
        if found.is_none() {
            let reason = format!("'{}' is none of {}", item.text, words.join(", "));
            self.faults.syntax(&item.place, reason, "write one of them");
        }
        found
    }

    pub(super) fn words(&mut self, key: &str, words: &[&'static str]) -> Vec<&'static str> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        entry.items.iter().filter_map(|item| self.word_of(item, words)).collect()
    }

    pub(super) fn yes(&mut self, key: &str) -> Option<bool> {
        self.word(key, &["yes", "no"]).map(|word| word == "yes")
    }

    /// A whole number within these.
    pub(super) fn number(&mut self, key: &str, within: RangeInclusive<u64>) -> Option<u64> {
        let item = self.one(key)?;
        let Some(number) = whole(&item.text) else {
            self.wrong(item, "whole number", "8");
            return None;
        };
        self.within(item, key, number as f64, *within.start() as f64..=*within.end() as f64)?;
        Some(number)
    }

    fn within(
        &mut self,
        item: &Item,
        key: &str,
        number: f64,
        within: RangeInclusive<f64>,
    ) -> Option<f64> {
        if within.contains(&number) {
            return Some(number);
        }
        let reason = format!("{key}={} is not possible", item.text);
        let help = format!("it lies between {} and {}", within.start(), within.end());
        self.faults.impossible(&item.place, reason, help);
        None
    }

    pub(super) fn percent(&mut self, key: &str) -> Option<f64> {
        let item = self.one(key)?;
        let Some(number) = decimal(item.text.trim_end_matches('%')) else {
            self.wrong(item, "percentage", "70 or 12.5");
            return None;
        };
        self.within(item, key, number, 0.0..=100.0)
    }

    pub(super) fn decimal(&mut self, key: &str, within: RangeInclusive<f64>) -> Option<f64> {
        let item = self.one(key)?;
        let Some(number) = decimal(&item.text) else {
            self.wrong(item, "number", "100");
            return None;
        };
        self.within(item, key, number, within)
    }

    pub(super) fn size(&mut self, key: &str) -> Option<u64> {
        let item = self.one(key)?;
        self.size_of(item)
    }

    pub(super) fn size_of(&mut self, item: &Item) -> Option<u64> {
        let size = item.text.parse::<Bytes>().ok();
        if size.is_none() {
            self.wrong(item, "size", "512, 4k, 10g or 2t");
        }
        size.map(|size| size.0)
    }

    pub(super) fn time(&mut self, key: &str) -> Option<Nanos> {
        let item = self.one(key)?;
        let time = item.text.to_ascii_lowercase().parse::<Nanos>().ok();
        if time.is_none() {
            self.wrong(item, "span of time", "60, 90s, 15m or 8h");
        }
        time
    }

    /// All values of a list with its ranges: each is read by `read`.
    pub(super) fn list<T: Copy>(&mut self, key: &str, form: &Form<T>) -> Vec<T> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        self.list_of(&entry.items, form)
    }

    pub(super) fn list_of<T: Copy>(&mut self, items: &[Item], form: &Form<T>) -> Vec<T> {
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(item) = items.get(at) {
            at += 1;
            if let Some(value) = (form.read)(&item.text) {
                all.push(value);
                continue;
            }
            let Some((from, to)) = item.text.split_once('-') else {
                self.wrong(item, form.what, form.example);
                continue;
            };
            let (Some(from), Some(to)) = ((form.read)(from), (form.read)(to)) else {
                self.wrong(item, form.what, form.example);
                continue;
            };
            let step = items.get(at);
            at += usize::from(step.is_some());
            let step = match step.map(|step| step.text.as_str()) {
                Some("d" | "D") => Step::Double,
                Some(text) => match (form.read)(text) {
                    Some(step) if (form.number)(step) > 0.0 => Step::By((form.number)(step)),
                    _ => {
                        let help = "write it like (10-100,10) or, doubling, (1-64,d)";
                        self.faults.syntax(&item.place, format!("'{text}' is no step"), help);
                        continue;
                    }
                },
                None => {
                    let reason = format!("the range '{}' has no step", item.text);
                    let help = "write it like (10-100,10) or, doubling, (1-64,d)";
                    self.faults.syntax(&item.place, reason, help);
                    continue;
                }
            };
            let Some(numbers) = steps((form.number)(from), (form.number)(to), step) else {
                let reason = format!("the range '{}' has too many values", item.text);
                let help = format!("at most {VALUES_MAX}; double from at least 1 on");
                self.faults.impossible(&item.place, reason, help);
                continue;
            };
            all.extend(numbers.into_iter().map(form.made));
        }
        all
    }

    pub(super) fn sizes(&mut self, key: &str) -> Vec<u64> {
        self.list(key, &SIZES)
    }

    pub(super) fn numbers(&mut self, key: &str) -> Vec<u64> {
        self.list(key, &NUMBERS)
    }

    pub(super) fn percents(&mut self, key: &str) -> Vec<f64> {
        self.list(key, &DECIMALS)
    }
}

#[derive(Clone, Copy)]
enum Step {
    Double,
    By(f64),
}

/// The numbers of a range, upwards or downwards; `None` if they are too many.
fn steps(from: f64, to: f64, step: Step) -> Option<Vec<f64>> {
    let is_down = to < from;
    let goes_on = |at: f64| if is_down { at >= to } else { at <= to };
    let mut all = Vec::new();
    let mut at = from;
    while goes_on(at) {
        if all.len() >= VALUES_MAX {
            return None;
        }
        all.push(at);
        at = match step {
            Step::Double if from < 1.0 || to < 1.0 => return None,
            Step::Double => {
                if is_down {
                    at / 2.0
                } else {
                    at * 2.0
                }
            }
            // Not by adding up: tenths would drift away.
            Step::By(step) => {
                let distance = step * all.len() as f64;
                if is_down { from - distance } else { from + distance }
            }
        };
    }
    Some(all)
}

/// How a value of a list is read, and becomes a number and is made of one for ranges.
pub(super) struct Form<T> {
    read: fn(&str) -> Option<T>,
    number: fn(T) -> f64,
    made: fn(f64) -> T,
    what: &'static str,
    example: &'static str,
}

pub(super) const SIZES: Form<u64> = Form {
    read: |text| text.parse::<Bytes>().ok().map(|size| size.0),
    number: |size| size as f64,
    made: |number| number as u64,
    what: "size",
    example: "4k, (4k,8k) or (4k-64k,d)",
};

pub(super) const NUMBERS: Form<u64> = Form {
    read: whole,
    number: |number| number as f64,
    made: |number| number as u64,
    what: "whole number",
    example: "8, (1,2,4) or (1-64,d)",
};

pub(super) const DECIMALS: Form<f64> = Form {
    read: |text| decimal(text.trim_end_matches('%')),
    number: |number| number,
    made: |number| number,
    what: "number",
    example: "70, (0,50,100) or (0-100,10)",
};

/// The word that a text means: itself, or the beginning of just one, of at least two letters.
pub(super) fn one_of(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if let Some(word) = words.iter().find(|word| **word == lower) {
        return Some(word);
    }
    // Published files write 'seq', 'sequental' and 'sequntial', and Vdbench takes them all.
    if lower.starts_with("seq") && words.contains(&"sequential") {
        let name = if lower.ends_with("nz") { "sequentialnz" } else { "sequential" };
        return words.iter().find(|word| **word == name).copied();
    }
    let mut begun = words.iter().filter(|word| !lower.is_empty() && word.starts_with(&lower));
    let first = begun.next()?;
    match begun.next() {
        None => Some(first),
        Some(_) => None,
    }
}

/// A whole number; `1k` is 1,000 nowhere in the language, so there are no units.
pub(super) fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// A number without sign and exponent.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    is_number.then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_step_double_and_halve() {
        assert_eq!(steps(1.0, 8.0, Step::Double), Some(vec![1.0, 2.0, 4.0, 8.0]));
        assert_eq!(steps(8.0, 2.0, Step::Double), Some(vec![8.0, 4.0, 2.0]));
        assert_eq!(steps(100.0, 0.0, Step::By(50.0)), Some(vec![100.0, 50.0, 0.0]));
        assert_eq!(steps(0.0, 1e12, Step::By(1.0)), None);
        assert_eq!(steps(0.0, 8.0, Step::Double), None);
    }

    #[test]
    fn the_beginning_of_a_word_is_enough() {
        let words: &[&str] = &["sequential", "sequentialnz", "random"];
        assert_eq!(one_of("seq", words), Some("sequential"));
        assert_eq!(one_of("RAND", words), Some("random"));
        assert_eq!(one_of("x", words), None);
        assert_eq!(one_of("", words), None);
    }
}
