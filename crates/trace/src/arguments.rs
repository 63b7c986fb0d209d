//! The arguments behind the name of a transform or of a generator: `2,align=4k`.
//!
//! A few values in their order, then settings by name, in any order. A missing, unknown or repeated
//! argument is refused, with a list of those that exist. A setting that is silently ignored would
//! make another load than the one that was meant.

pub mod exact;

use std::fmt::Display;
use std::str::FromStr;

/// The refusal of an argument: a sentence for people that lists the arguments there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

impl ArgumentError {
    /// A refusal with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The arguments, from which a transform takes those that it knows.
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    values: Vec<&'a str>,
    next: usize,
    settings: Vec<(&'a str, &'a str)>,
    /// Names that were asked for; a refusal lists them.
    known: Vec<&'static str>,
}

impl<'a> Arguments<'a> {
    /// Cuts `text` at each `separator`.
    pub fn new(text: &'a str, separator: char) -> Result<Self, ArgumentError> {
        let mut arguments =
            Self { values: Vec::new(), next: 0, settings: Vec::new(), known: Vec::new() };
        for part in text.split(separator).map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                None if !arguments.settings.is_empty() => {
                    return Err(ArgumentError::new(format!(
                        "'{part}' stands behind settings by name; values come first"
                    )));
                }
                None => arguments.values.push(part),
                Some((name, _)) if arguments.settings.iter().any(|(other, _)| *other == name) => {
                    return Err(ArgumentError::new(format!("'{name}' is set twice")));
                }
                Some((name, value)) => arguments.settings.push((name.trim(), value.trim())),
            }
        }
        Ok(arguments)
    }

    /// The next value, if there is one; `what` says what it is.
    pub fn value<T: FromStr<Err: Display>>(
        &mut self,
        what: &str,
    ) -> Result<Option<T>, ArgumentError> {
        let Some(text) = self.values.get(self.next) else { return Ok(None) };
        self.next += 1;
        parse(what, text).map(Some)
    }

    /// The next value, which must be there; `what` says what it is.
    pub fn demand<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, ArgumentError> {
        self.value(what)?.ok_or_else(|| ArgumentError::new(format!("{what} is missing")))
    }

    /// The setting of this name, if there is one.
    pub fn setting<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, ArgumentError> {
        self.known.push(name);
        let Some(at) = self.settings.iter().position(|(other, _)| *other == name) else {
            return Ok(None);
        };
        let (_, text) = self.settings.remove(at);
        parse(name, text).map(Some)
    }

    /// The setting of this name as one of `choices`, if there is one.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ArgumentError> {
        let Some(text) = self.setting::<String>(name)? else { return Ok(None) };
        if let Some((_, chosen)) = choices.iter().find(|(choice, _)| *choice == text) {
            return Ok(Some(*chosen));
        }
        let known: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        Err(ArgumentError::new(format!("{name}: '{text}' is none of {}", known.join(", "))))
    }

    /// Refuses arguments that were not taken.
    pub fn finish(self) -> Result<(), ArgumentError> {
        if let Some(value) = self.values.get(self.next) {
            return Err(ArgumentError::new(format!("'{value}' is one value too many")));
        }
        let Some((name, _)) = self.settings.first() else { return Ok(()) };
        let known = if self.known.is_empty() {
            "there are no settings".to_owned()
        } else {
            format!("known are {}", self.known.join(", "))
        };
        Err(ArgumentError::new(format!("there is no setting '{name}'; {known}")))
    }
}

fn parse<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T, ArgumentError> {
    text.parse().map_err(|error| ArgumentError::new(format!("{what}: '{text}': {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Nanos};

    #[test]
    fn values_come_in_their_order_and_settings_in_any() {
        let mut arguments = Arguments::new("5m,by=bytes,align=4k", ',').unwrap();
        assert_eq!(arguments.demand::<Nanos>("the length"), Ok(Nanos::from_secs(300)));
        assert_eq!(arguments.value::<u32>("the count"), Ok(None));
        assert_eq!(arguments.setting("align"), Ok(Some(Bytes(4096))));
        assert_eq!(arguments.choice("by", &[("iops", 1), ("bytes", 2)]), Ok(Some(2)));
        assert_eq!(arguments.setting::<u32>("offset"), Ok(None));
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        let error = |text: &str| {
            let take = |text| -> Result<(), ArgumentError> {
                let mut arguments = Arguments::new(text, ',')?;
                let _: u32 = arguments.demand("the count")?;
                arguments.choice("by", &[("iops", 1), ("bytes", 2)])?;
                arguments.setting::<Bytes>("align")?;
                arguments.finish()
            };
            take(text).unwrap_err().to_string()
        };
        assert_eq!(error(""), "the count is missing");
        assert_eq!(error("x"), "the count: 'x': invalid digit found in string");
        assert_eq!(error("1,2"), "'2' is one value too many");
        assert_eq!(error("1,by=size"), "by: 'size' is none of iops, bytes");
        assert_eq!(error("1,to=2"), "there is no setting 'to'; known are by, align");
        assert_eq!(error("1,by=iops,by=iops"), "'by' is set twice");
        assert_eq!(error("by=iops,1"), "'1' stands behind settings by name; values come first");
    }
}
