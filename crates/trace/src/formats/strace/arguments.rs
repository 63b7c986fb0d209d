//! The arguments of a call, and what it returned.

use crate::syscalls::call::Descriptor;
use crate::syscalls::errors;
use crate::syscalls::read::AT_FDCWD;
use crate::units::Nanos;

/// The most arguments of a call.
const ARGUMENTS_MAX: usize = 16;

/// What stands behind the bracket of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Returned<'a> {
    /// The arguments.
    pub(super) arguments: Vec<&'a [u8]>,
    /// What was returned, or the number of the error.
    pub(super) result: Result<i64, i32>,
    /// What stands in angles behind the returned number: the path of a descriptor.
    pub(super) path: Option<Vec<u8>>,
    /// How long the call took.
    pub(super) took: Option<Nanos>,
}

/// Takes apart what stands behind the bracket of a call; `None` if it does not read like that.
pub(super) fn returned(text: &[u8]) -> Option<Returned<'_>> {
    let (arguments, rest) = arguments(text)?;
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    let (rest, took) = match rest.strip_suffix(b">") {
        Some(before) => {
            let angle = before.iter().rposition(|byte| *byte == b'<')?;
            match super::line::instant_of(&before[angle + 1..]) {
                Some(took) => (before[..angle].trim_ascii_end(), Some(took)),
                None => (rest, None),
            }
        }
        None => (rest, None),
    };
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'<')).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    let result = match integer(number)? {
        -1 => {
            let name = rest.trim_ascii_start();
            let end = name.iter().position(|byte| *byte == b' ').unwrap_or(name.len());
            Err(error_number(&name[..end])?)
        }
        value => Ok(value),
    };
    let path = rest.starts_with(b"<").then(|| angles(rest)).flatten();
    Some(Returned { arguments, result, path: path.map(|(path, _)| path), took })
}

/// The arguments up to the bracket that closes them, and what stands behind it.
fn arguments(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut all = Vec::new();
    let (mut begin, mut at, mut depth) = (0, 0, 0_u32);
    while at < text.len() {
        match text[at] {
            b'"' => at += string_bytes(&text[at..])? - 1,
            b'(' | b'{' | b'[' => depth += 1,
            b')' if depth == 0 => {
                let last = text[begin..at].trim_ascii();
                if !last.is_empty() && all.len() < ARGUMENTS_MAX {
                    all.push(last);
                }
                return Some((all, &text[at + 1..]));
            }
            b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                if all.len() < ARGUMENTS_MAX {
                    all.push(text[begin..at].trim_ascii());
                }
                begin = at + 1;
            }
            // The path of a descriptor, and no shift (`1<<3`).
            b'<' if is_behind_word(text, at) => at += angle_bytes(&text[at..])? - 1,
            b'/' if text[at..].starts_with(b"/* ") => {
                let end = text[at..].windows(2).position(|two| two == b"*/")?;
                at += end + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether an angle stands behind a number or a word, and is none of a shift.
fn is_behind_word(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| text[before]);
    text.get(at + 1) != Some(&b'<') && before.is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// How many bytes a string in quotes has.
fn string_bytes(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// How many bytes a part in angles has, with those in it. An arrow closes none.
fn angle_bytes(text: &[u8]) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if text[at - 1] != b'-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// What stands in angles at the beginning, and what follows. A device has its number in angles of
/// its own, which is left out.
fn angles(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let end = angle_bytes(text)?;
    let inner = &text[1..end - 1];
    let inner = &inner[..inner.iter().position(|byte| *byte == b'<').unwrap_or(inner.len())];
    // `<` and `>` of a path are escaped as in strings.
    Some((unescaped(inner), &text[end..]))
}

/// A whole number, decimal, octal or hexadecimal.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1_i64, digits),
        None => (1, text),
    };
    if let Some(hexadecimal) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok().map(|value| value as i64);
    }
    let is_octal = digits.len() > 1 && digits.starts_with('0');
    let radix = if is_octal { 8 } else { 10 };
    i64::from_str_radix(digits, radix).ok().and_then(|value| value.checked_mul(sign))
}

/// A string in quotes, and whether it is whole.
pub(super) fn string(text: &[u8]) -> Option<(Vec<u8>, bool)> {
    let length = text.first().filter(|byte| **byte == b'"').and_then(|_| string_bytes(text))?;
    Some((unescaped(&text[1..length - 1]), !text[length..].starts_with(b"...")))
}

/// Bytes with the escapes of C.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' || at + 1 == text.len() {
            bytes.push(text[at]);
            at += 1;
            continue;
        }
        at += 1;
        let (digits, radix, begin) = match text[at] {
            b'x' => (digits(&text[at + 1..], 2, 16), 16, at + 1),
            b'0'..=b'7' => (digits(&text[at..], 3, 8), 8, at),
            _ => (0, 0, at),
        };
        let number = std::str::from_utf8(&text[begin..begin + digits]).ok();
        let value =
            number.filter(|_| digits > 0).and_then(|text| u16::from_str_radix(text, radix).ok());
        if let Some(value) = value {
            bytes.push(value as u8);
            at = begin + digits;
        } else {
            bytes.push(escaped(text[at]));
            at += 1;
        }
    }
    bytes
}

/// The byte that a letter stands for behind a backslash.
const fn escaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'a' => 0x07,
        b'b' => 0x08,
        b'e' => 0x1b,
        other => other,
    }
}

/// How many digits there are, up to `most`.
fn digits(text: &[u8], most: usize, radix: u32) -> usize {
    text.iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count()
}

/// A descriptor with its path, if it has one. `AT_FDCWD` is −100.
pub(super) fn descriptor(text: &[u8]) -> Option<Descriptor> {
    let end = text.iter().position(|byte| *byte == b'<').unwrap_or(text.len());
    let number = match &text[..end] {
        b"AT_FDCWD" => AT_FDCWD,
        digits => i32::try_from(integer(digits)?).ok()?,
    };
    let path = text.get(end..).filter(|rest| !rest.is_empty()).and_then(angles);
    let is_deleted = path.as_ref().is_some_and(|(_, rest)| rest.starts_with(b"(deleted)"));
    Some(Descriptor { number, path: path.map(|(path, _)| path).filter(|_| !is_deleted) })
}

/// An error that no table has: it is told by its kind alone.
const OTHER_ERROR: i32 = 4095;

fn error_number(name: &[u8]) -> Option<i32> {
    let is_error = name.first() == Some(&b'E');
    let known = std::str::from_utf8(name).ok().and_then(errors::number);
    known.or(is_error.then_some(OTHER_ERROR))
}
