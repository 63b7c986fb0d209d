//! Texts with places to be filled in: `web-{01..10}.load`, `gen:random?read={read}`.
//!
//! `{A..B}` makes several texts, with the digits of `A`. `{NAME}` is the value of the axis of that
//! name, and `{repeat}` the number of the repeat. `{{` and `}}` are the braces themselves.

/// The largest number of texts that one `{A..B}` may make.
const TEXTS_MAX: u64 = 100_000;

/// A piece of a text.
enum Piece<'a> {
    Text(&'a str),
    Brace(char),
    Name(&'a str),
}

/// The pieces of a text, or the reason why it has none.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        pieces.push(Piece::Text(&rest[..at]));
        let brace = if rest[at..].starts_with('{') { '{' } else { '}' };
        let behind = &rest[at + 1..];
        if behind.starts_with(brace) {
            pieces.push(Piece::Brace(brace));
            rest = &behind[1..];
            continue;
        }
        let end = behind.find('}').filter(|_| brace == '{');
        let Some(end) = end else {
            return Err(format!("'{text}' has a '{brace}' without its other half"));
        };
        pieces.push(Piece::Name(&behind[..end]));
        rest = &behind[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// The names in braces in a text, without ranges.
///
/// # Errors
///
/// The reason in words, if braces do not match.
pub fn names(text: &str) -> Result<Vec<&str>, String> {
    let names = pieces(text)?.into_iter().filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) | Piece::Brace(_) => None,
    });
    Ok(names.filter(|name| !name.contains("..")).collect())
}

/// The text with each name replaced by its value. A name without a value stays.
pub fn filled(text: &str, value: &impl Fn(&str) -> Option<String>) -> String {
    let Ok(pieces) = pieces(text) else { return text.to_owned() };
    let told = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Brace(brace) => brace.to_string(),
        Piece::Name(name) => value(name).unwrap_or_else(|| format!("{{{name}}}")),
    });
    told.collect()
}

/// All texts that the ranges in a text make, in order.
///
/// # Errors
///
/// The reason in words.
pub fn expanded(text: &str) -> Result<Vec<String>, String> {
    let range = pieces(text)?.into_iter().find_map(|piece| match piece {
        Piece::Name(name) => name.split_once("..").map(|range| (name, range)),
        Piece::Text(_) | Piece::Brace(_) => None,
    });
    let Some((name, (first, last))) = range else { return Ok(vec![text.to_owned()]) };
    let wrong = || format!("'{{{name}}}' is no range: write it like {{1..10}} or {{01..10}}");
    let number = |digits: &str| {
        let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_digits.then(|| digits.parse::<u64>().ok()).flatten().ok_or_else(wrong)
    };
    let (from, to) = (number(first)?, number(last)?);
    if to < from || to - from >= TEXTS_MAX {
        return Err(wrong());
    }
    let mut texts = Vec::new();
    for number in from..=to {
        let digits = format!("{number:0width$}", width = first.len());
        texts.extend(expanded(&text.replacen(&format!("{{{name}}}"), &digits, 1))?);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_makes_texts_with_the_digits_of_its_beginning() {
        assert_eq!(expanded("w{08..10}.gz").unwrap(), ["w08.gz", "w09.gz", "w10.gz"]);
        assert_eq!(expanded("{1..2}{a}{1..2}").unwrap().len(), 4);
        assert_eq!(expanded("plain").unwrap(), ["plain"]);
        for wrong in ["{2..1}", "{a..b}", "{1..", "}", "{0..999999999}"] {
            assert!(expanded(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_filled_in_and_doubled_braces_are_braces() {
        let value = |name: &str| (name == "read").then(|| "70".to_owned());
        assert_eq!(filled("r={read},{{x}},{other}", &value), "r=70,{x},{other}");
        assert_eq!(names("{a} {{b}} {1..2} {c}").unwrap(), ["a", "c"]);
    }
}
