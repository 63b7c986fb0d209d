//! A line: whose it is, when, and what of a call it has.

use crate::formats::import::Fault;
use crate::units::Nanos;

/// A line of strace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The task; `None` where there is only one.
    pub(super) task: Option<u32>,
    /// When; `None` of messages.
    pub(super) at: Option<Nanos>,
    /// What.
    pub(super) what: What<'a>,
}

/// What a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A call that has returned: its name, and what stands behind the bracket.
    Whole(&'a [u8], &'a [u8]),
    /// The beginning of a call: its name, and what stands behind the bracket.
    Unfinished(&'a [u8], &'a [u8]),
    /// The rest of a call: its name, and what stands behind that.
    Resumed(&'a [u8], &'a [u8]),
    /// The task has ended.
    Ended,
    /// A signal, or a message of strace.
    Other,
    /// Another task was found.
    Attached(u32),
}

/// The fault of a line that is none of strace's.
const STRANGE: Fault = Fault::junk(1, "this is no line of strace");

/// The fault of a line without an instant that can be counted with.
const NO_INSTANT: Fault = Fault::lost(
    1,
    "lines without an instant (record with strace -ttt)",
    "there is no instant in seconds since 1970, as strace -ttt prints it",
);

/// Takes a line apart.
pub(super) fn split(text: &[u8]) -> Result<Line<'_>, Fault> {
    let text = text.trim_ascii();
    if let Some(message) = text.strip_prefix(b"strace: ") {
        return Ok(Line { task: None, at: None, what: attached(message) });
    }
    let (task, rest) = task(text);
    let (instant, rest) = word(rest);
    let Some(at) = instant_of(instant) else {
        let is_call = instant.contains(&b'(') || rest.first().is_some_and(u8::is_ascii_lowercase);
        return Err(if is_call { NO_INSTANT } else { STRANGE });
    };
    let what = what(rest).ok_or(STRANGE)?;
    Ok(Line { task, at: Some(at), what })
}

/// `Process 71 attached`.
fn attached(message: &[u8]) -> What<'_> {
    let number = message.strip_prefix(b"Process ").and_then(|rest| number(word(rest).0));
    match number {
        Some(task) if message.ends_with(b" attached") => What::Attached(task),
        _ => What::Other,
    }
}

/// The number of the task at the beginning, as strace writes it to a file (`71 `) or to a terminal
/// (`[pid    71] `).
fn task(text: &[u8]) -> (Option<u32>, &[u8]) {
    if let Some(rest) = text.strip_prefix(b"[pid")
        && let Some(end) = rest.iter().position(|byte| *byte == b']')
        && let Some(task) = number(rest[..end].trim_ascii())
    {
        return (Some(task), rest[end + 1..].trim_ascii_start());
    }
    let (first, rest) = word(text);
    match number(first) {
        Some(task) => (Some(task), rest),
        None => (None, text),
    }
}

/// The first word, and what stands behind it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

/// A number of digits alone.
fn number(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// `1700000000.123456`.
pub(super) fn instant_of(text: &[u8]) -> Option<Nanos> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (whole, fraction) = (&text[..point], &text[point + 1..]);
    let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let parse = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<i64>().ok();
    let scale = 10_i64.pow(9 - fraction.len() as u32);
    let fraction = parse(fraction)?.checked_mul(scale)?;
    parse(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction).map(Nanos)
}

fn what(rest: &[u8]) -> Option<What<'_>> {
    if rest.starts_with(b"+++ ") {
        let ends = [&b"+++ exited with"[..], b"+++ killed by", b"+++ superseded by"];
        // A task whose number another one takes over by starting a program goes on.
        let is_end = ends[..2].iter().any(|end| rest.starts_with(end));
        return Some(if is_end { What::Ended } else { What::Other });
    }
    if rest.starts_with(b"--- ") {
        return Some(What::Other);
    }
    if let Some(rest) = rest.strip_prefix(b"<... ") {
        let (name, rest) = word(rest);
        let rest = rest.strip_prefix(b"resumed>")?;
        return is_name(name).then_some(What::Resumed(name, rest));
    }
    let bracket = rest.iter().position(|byte| *byte == b'(')?;
    let (name, rest) = (&rest[..bracket], &rest[bracket + 1..]);
    if !is_name(name) {
        return None;
    }
    match rest.strip_suffix(b"<unfinished ...>") {
        Some(rest) => Some(What::Unfinished(name, rest)),
        None => Some(What::Whole(name, rest)),
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'?';
    !name.is_empty() && name.iter().all(is_letter)
}
