//! The layout of a tracepoint's events, from the kernel's own description.
//!
//! `rwbs` had 8 bytes and has 10 now, `sector_t` has 4 or 8, fields come and go with kernel
//! versions. The `format` file of a tracepoint describes the layout (`trace_events.c`: `f_show`),
//! so nothing about kernel versions is needed here.

use crate::error::TraceError;
use crate::formats::blktrace::record::kind;
use crate::recording::{Description, EventFormat, PageLayout, Tracefs};
use std::path::Path;

/// The layouts that a recorder of tracefs wrote down, and that of its pages.
pub(super) fn of_pages<'d>(
    description: &'d Description,
    path: &Path,
) -> Result<(&'d Tracefs, PageLayout), TraceError> {
    let Some(tracefs) = &description.tracefs else {
        return Err(unusable(path, "it lacks the layout of its pages (tracefs)"));
    };
    let page = PageLayout::parse(&tracefs.header_page, description.big_endian);
    let reason = "what it says of its pages' layout (header_page) is none";
    Ok((tracefs, page.ok_or_else(|| unusable(path, reason))?))
}

/// The fault of a description that does not say what it is there for.
pub(super) fn unusable(path: &Path, reason: &str) -> TraceError {
    let (path, reason) = (path.to_owned(), reason.to_owned());
    TraceError::Unusable { path, reason, remedy: "record again".into() }
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) bytes: usize,
    /// Whether the field holds place and length of the text rather than the text: `__data_loc`, or
    /// `__rel_loc`, whose place counts from behind the field.
    pub(super) elsewhere: Elsewhere,
}

/// The place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    No,
    FromStart,
    FromBehind,
}

/// The form in which the length of an event's range is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// A number of sectors.
    Sectors(Field),
    /// The sector behind the range.
    Until(Field),
}

/// The layout of a tracepoint's events, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventLayout {
    /// The kind of event: see [`kind`].
    pub(super) kind: u8,
    /// Whether the event is the end of a bio, which is a completion only on devices without a
    /// request queue.
    pub(super) is_bio_end: bool,
    pub(super) pid: Field,
    pub(super) device: Field,
    pub(super) sector: Field,
    pub(super) length: Length,
    pub(super) rwbs: Field,
    pub(super) error: Option<Field>,
    pub(super) name: Option<Field>,
    pub(super) old_device: Option<Field>,
}

/// The tracepoints that are read, and the kind of event that each is.
const KNOWN: &[(&str, u8)] = &[
    ("block_bio_queue", kind::QUEUE),
    ("block_bio_backmerge", kind::BACK_MERGE),
    ("block_bio_frontmerge", kind::FRONT_MERGE),
    ("block_rq_merge", kind::BACK_MERGE),
    ("block_rq_insert", kind::INSERT),
    ("block_rq_issue", kind::ISSUE),
    ("block_rq_complete", kind::COMPLETE),
    ("block_bio_complete", kind::COMPLETE),
    ("block_rq_requeue", kind::REQUEUE),
    ("block_split", kind::SPLIT),
    ("block_bio_remap", kind::REMAP),
    ("block_rq_remap", kind::REMAP),
];

impl EventLayout {
    /// The layout of a tracepoint; `None` if the tracepoint is not read.
    pub(super) fn parse(format: &EventFormat, path: &Path) -> Result<Option<Self>, TraceError> {
        let Some(&(_, kind)) = KNOWN.iter().find(|(name, _)| *name == format.name) else {
            return Ok(None);
        };
        let find = |name: &str| field(&format.format, name);
        let number = |name: &str| {
            find(name).filter(|field| {
                matches!(field.bytes, 2 | 4 | 8) && field.elsewhere == Elsewhere::No
            })
        };
        let length = match number("nr_sector") {
            Some(sectors) => Some(Length::Sectors(sectors)),
            None => number("new_sector").map(Length::Until),
        };
        let whole = || {
            Some(Self {
                kind,
                is_bio_end: format.name == "block_bio_complete",
                pid: number("common_pid")?,
                device: number("dev")?,
                sector: number("sector")?,
                length: length?,
                rwbs: find("rwbs")?,
                error: number("error"),
                name: find("comm"),
                old_device: number("old_dev"),
            })
        };
        whole().map(Some).ok_or_else(|| TraceError::Unusable {
            path: path.to_owned(),
            reason: format!(
                "the format of {} lacks one of common_pid, dev, sector, nr_sector or new_sector, \
                 and rwbs",
                format.name
            ),
            remedy: "record without this event, or tell the developers which kernel it is".into(),
        })
    }
}

/// The field `common_type`, by which events are told apart.
pub(super) fn common_type(format: &str) -> Option<Field> {
    field(format, "common_type").filter(|field| field.bytes == 2)
}

/// The field of this name in the text of a `format` file.
fn field(format: &str, name: &str) -> Option<Field> {
    fields(format).find(|(known, _)| *known == name).map(|(_, field)| field)
}

/// All fields in the text of a `format` file, in their order.
pub(super) fn fields(format: &str) -> impl Iterator<Item = (&str, Field)> {
    format.lines().filter_map(|line| {
        let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let last = declared.split_whitespace().last()?;
        let name = last.split('[').next()?;
        let value = |name: &str| {
            rest.split(';').find_map(|part| part.trim().strip_prefix(name)?.parse().ok())
        };
        let elsewhere = match declared.split_whitespace().next() {
            Some("__data_loc") => Elsewhere::FromStart,
            Some("__rel_loc") => Elsewhere::FromBehind,
            _ => Elsewhere::No,
        };
        let field = Field { at: value("offset:")?, bytes: value("size:")?, elsewhere };
        let is_place = elsewhere == Elsewhere::No || field.bytes == 4;
        // No event is longer than a page of the ring buffer.
        (is_place && field.at < 1 << 20 && field.bytes < 1 << 20).then_some((name, field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: &str = "name: block_split\nID: 2092\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:sector_t new_sector;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:32;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] comm;\toffset:42;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%d,%d %s\"\n";

    fn parse(name: &str, format: &str) -> Result<Option<EventLayout>, TraceError> {
        let format = EventFormat { id: 1, name: name.to_owned(), format: format.to_owned() };
        EventLayout::parse(&format, Path::new("x"))
    }

    #[test]
    fn fields_are_where_the_kernel_says() {
        let layout = parse("block_split", SPLIT).unwrap().unwrap();
        let at = |at, bytes| Field { at, bytes, elsewhere: Elsewhere::No };
        assert_eq!(layout.rwbs, at(32, 10));
        assert_eq!(layout.length, Length::Until(at(24, 8)));
        assert_eq!(layout.name.unwrap().elsewhere, Elsewhere::FromStart);
        assert_eq!((layout.error, layout.kind), (None, kind::SPLIT));
        assert_eq!(common_type(SPLIT), Some(at(0, 2)));
    }

    #[test]
    fn what_means_nothing_is_passed_over_and_what_is_lacking_is_told() {
        assert_eq!(parse("block_unplug", "").unwrap(), None);
        let error = parse("block_split", &SPLIT.replace("rwbs", "sbwr")).unwrap_err();
        assert!(error.to_string().contains("the format of block_split lacks"), "{error}");
        assert!(parse("block_rq_issue", &SPLIT.replace("size:8", "size:3")).is_err());
    }
}
