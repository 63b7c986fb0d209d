//! The user's options for reading a trace.
//!
//! A replay may be ordered on one host and done on another, so the options are stored and sent:
//! formats by their names, descriptions as they were typed. Stored options are checked like typed
//! ones.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Description, Format, Order, WholeSeconds, by_name};
use crate::units::Bytes;

/// The event of a kernel recording that is the instant of issue (blktrace's letters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IssueEvent {
    /// Queued if the recording has such events, else inserted, else issued to the driver.
    #[default]
    Auto,
    /// `Q`: the request entered the block layer, as the file system or application sent it.
    Queued,
    /// `I`: it was inserted into the I/O scheduler's queue.
    Inserted,
    /// `D`: it was handed to the driver, after merging and scheduling.
    Issued,
}

impl IssueEvent {
    /// All choices. The first is no event of a recording.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Queued, Self::Inserted, Self::Issued];

    /// The name in the options of a recorder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Queued => "queued",
            Self::Inserted => "inserted",
            Self::Issued => "issued",
        }
    }

    /// blktrace's letter, in the options of a reader.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Queued => "Q",
            Self::Inserted => "I",
            Self::Issued => "D",
        }
    }
}

/// The options of reading a trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// Stop at the first malformed line or record instead of counting it.
    pub strict: bool,
    /// For kernel recordings: the event that is the instant of issue.
    pub event: IssueEvent,
    /// The format to read as, whatever the file looks like.
    pub format: Option<&'static Format>,
    /// For formats whose instants are whole seconds: the treatment of them.
    pub whole_seconds: WholeSeconds,
    /// For formats that do not state their unit of time: the unit in nanoseconds.
    pub time_unit_ns: Option<i64>,
    /// For formats that count in blocks of unstated size: the size of a block.
    #[serde(rename = "block_bytes")]
    pub block_size: Option<Bytes>,
    /// Refuse options without effect on the trace instead of ignoring them. The caller decides
    /// this; it is not stored.
    #[serde(skip)]
    pub all_apply: bool,
    /// For text in no named format: the description of its lines. It takes precedence over all
    /// other options.
    #[serde(with = "shared")]
    pub described: Option<Arc<Description>>,
    /// The allowed disorder of requests.
    pub order: Order,
    /// Read the parents of each request, where the trace has them. This excludes transforms, which
    /// do not update parents. [`Order::Whole`] takes precedence.
    #[serde(skip)]
    pub dependencies: bool,
    /// The requests go into another trace, which lacks what is not read: that is a loss. Whoever
    /// only looks at them loses nothing.
    #[serde(skip)]
    pub into_another: bool,
}

impl ReadOptions {
    /// Whether to read the parents of each request: the user asked for them, and the sorting of the
    /// whole trace would not lose them.
    pub fn reads_dependencies(&self) -> bool {
        self.dependencies && self.order == Order::Window
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static Format {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        by_name(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A description that several readers share is stored as one.
mod shared {
    use super::{Arc, Description, Deserialize, Deserializer, Serialize, Serializer};

    type Shared = Option<Arc<Description>>;

    pub(super) fn serialize<S: Serializer>(shared: &Shared, to: S) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Shared, D::Error> {
        Ok(Option::<Description>::deserialize(from)?.map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Separator, Words};

    #[test]
    fn what_is_asked_for_is_read_as_it_was_stored() {
        let words: Words = "0=read/1=write/x=skip".parse().unwrap();
        let described = Description::columns("ts:us,op,offset:sectors,length:bytes").unwrap();
        let described = described.separated_by(Separator::Byte(b'\t')).with_words(words);
        let options = ReadOptions {
            strict: true,
            event: IssueEvent::Issued,
            format: Some(by_name("blkreplay").unwrap()),
            whole_seconds: WholeSeconds::Poisson,
            time_unit_ns: Some(1_000),
            block_size: Some(Bytes(512)),
            all_apply: false,
            described: Some(Arc::new(described)),
            order: Order::Whole,
            dependencies: false,
            into_another: false,
        };
        let text = serde_json::to_string(&options).unwrap();
        let read: ReadOptions = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{read:?}"), format!("{options:?}"));
        let nothing: ReadOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(format!("{nothing:?}"), format!("{:?}", ReadOptions::default()));
    }

    #[test]
    fn what_cannot_be_typed_cannot_be_stored() {
        for wrong in [
            r#"{"format": "blkreplai"}"#,
            r#"{"formt": "blkreplay"}"#,
            r#"{"described": {"columns": "ts:us,op"}}"#,
            r#"{"described": {"columns": "ts:us,op", "pattern": "x"}}"#,
            r#"{"described": {}}"#,
        ] {
            assert!(serde_json::from_str::<ReadOptions>(wrong).is_err(), "{wrong}");
        }
    }
}
