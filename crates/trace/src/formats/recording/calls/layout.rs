//! The layout of the events of calls.

use std::path::Path;

use crate::error::TraceError;
use crate::formats::recording::layout::{
    Elsewhere, Field, common_type, fields, of_pages, unusable,
};
use crate::recording::{Description, ENTER, EXIT, EventFormat, OF_TASKS, PageLayout, name_of_call};

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call is made.
    Enter,
    /// A call returns.
    Exit,
    /// A task is made.
    Fork,
    /// A task ends.
    End,
}

/// The layout of the events of a tracepoint or probe.
#[derive(Clone, Debug)]
pub(super) struct CallLayout {
    pub(super) kind: Kind,
    /// The call; empty for tasks.
    pub(super) name: String,
    /// The task that the event is of.
    task: Field,
    /// The arguments in their order; of a return what it returned, of a fork the new task.
    arguments: Vec<Field>,
    /// Numbers behind pointers: the position of the pointer, bytes, the field.
    behind: Vec<(usize, usize, Field)>,
}

/// A part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number.
    Number(u64),
    /// A name; `None` where the kernel could not read it.
    Name(Option<Vec<u8>>),
}

/// An event, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) task: u32,
    pub(super) arguments: Vec<Value>,
    pub(super) behind: Vec<(usize, usize, u64)>,
}

/// The layouts of pages and of all events.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    pub(super) page: PageLayout,
    /// By the number of the tracepoint.
    events: Vec<Option<CallLayout>>,
    common_type: Field,
}

impl CallLayout {
    /// `None` if it is none of the events of calls and tasks.
    fn parse(format: &EventFormat) -> Option<Self> {
        let (kind, name) = if format.name == OF_TASKS[0] {
            (Kind::Fork, "")
        } else if format.name == OF_TASKS[1] {
            (Kind::End, "")
        } else if let Some(name) = format.name.strip_prefix(ENTER) {
            (Kind::Enter, name_of_call(name))
        } else {
            (Kind::Exit, name_of_call(format.name.strip_prefix(EXIT)?))
        };
        let (mut task, mut arguments, mut behind) = (None, Vec::new(), Vec::new());
        for (field_name, field) in fields(&format.format) {
            match field_name {
                "common_pid" => task = Some(field),
                "__syscall_nr" => {}
                name if name.starts_with("common_") => {}
                name => match place_behind(name) {
                    Some((argument, bytes)) => behind.push((argument, bytes, field)),
                    None if kind == Kind::End || kind == Kind::Fork && name != "child_pid" => {}
                    None => arguments.push(field),
                },
            }
        }
        let needs_one = matches!(kind, Kind::Exit | Kind::Fork);
        let is_whole = !needs_one || arguments.len() == 1;
        let name = name.to_owned();
        task.filter(|_| is_whole).map(|task| Self { kind, name, task, arguments, behind })
    }
}

/// The place of a number behind a pointer, from the name of its field.
fn place_behind(name: &str) -> Option<(usize, usize)> {
    let (argument, bytes) = name.strip_prefix('b')?.split_once('_')?;
    Some((argument.parse().ok()?, bytes.parse().ok()?))
}

impl Layouts {
    /// Reads the layouts that the recorder wrote down.
    pub(super) fn of(description: &Description, path: &Path) -> Result<Self, TraceError> {
        let unusable = |reason: &str| unusable(path, reason);
        let (tracefs, page) = of_pages(description, path)?;
        if description.big_endian {
            return Err(unusable("calls were recorded on a machine whose numbers are not known"));
        }
        let mut events = Vec::new();
        let mut common = None;
        for format in &tracefs.events {
            let id = usize::from(format.id);
            if events.len() <= id {
                events.resize(id + 1, None);
            }
            let layout = CallLayout::parse(format);
            let Some(layout) = layout else {
                return Err(unusable(&format!("the format of {} is not known", format.name)));
            };
            common = common.or_else(|| common_type(&format.format));
            events[id] = Some(layout);
        }
        let Some(common_type) = common else {
            return Err(unusable("it says nothing of any call"));
        };
        Ok(Self { page, events, common_type })
    }

    /// The layout of an event; `None` if it is none that was to be recorded.
    pub(super) fn layout(&self, data: &[u8]) -> Option<&CallLayout> {
        let id = number(data, self.common_type)?;
        self.events.get(usize::try_from(id).ok()?)?.as_ref()
    }
}

impl CallLayout {
    /// Takes an event apart; `None` if it is too short.
    pub(super) fn parts(&self, data: &[u8]) -> Option<Parts> {
        let value = |field: &Field| {
            if field.elsewhere == Elsewhere::No {
                number(data, *field).map(Value::Number)
            } else {
                text(data, *field)
            }
        };
        let arguments = self.arguments.iter().map(value).collect::<Option<_>>()?;
        let behind = self.behind.iter().map(|(argument, bytes, field)| {
            number(data, *field).map(|number| (*argument, *bytes, number))
        });
        let behind = behind.collect::<Option<_>>()?;
        Some(Parts { task: number(data, self.task)? as u32, arguments, behind })
    }
}

/// A number of up to 64 bits.
fn number(data: &[u8], field: Field) -> Option<u64> {
    let bytes = data.get(field.at..)?.get(..field.bytes.min(8))?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// What the kernel writes for a text that it could not read (before Linux 6.5).
const UNREAD: &[u8] = b"(fault)";

/// A text, which ends with a zero. One without even that could not be read.
fn text(data: &[u8], field: Field) -> Option<Value> {
    let place = number(data, field)?;
    let (at, bytes) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let from = if field.elsewhere == Elsewhere::FromBehind { field.at + 4 } else { 0 };
    let text = data.get(from + at..)?.get(..bytes)?.strip_suffix(b"\0");
    Some(Value::Name(text.filter(|text| *text != UNREAD).map(<[u8]>::to_vec)))
}
