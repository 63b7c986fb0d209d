//! A file that bash would source, read as assignments.
//!
//! The meaning of an assignment is bash's (POSIX, "Simple Commands", "Quoting", "Parameter
//! Expansion"): quotes are removed, `$NAME` and `${NAME}` are replaced outside of single quotes;
//! nothing is split, and no pattern is expanded. Anything else is strange, and not guessed.

use super::Variables;

/// A file, line by line.
#[derive(Clone, Debug, Default)]
pub struct Conf {
    /// Assignments with the numbers of their lines.
    assignments: Vec<(usize, String, Vec<Piece>)>,
    /// What is none.
    pub strange: Vec<Strange>,
    /// Variables that the file may change, also in what is strange.
    pub touched: Vec<String>,
    /// Functions that it defines; they do nothing until a module calls them.
    pub functions: Vec<String>,
}

/// A line that is more than an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strange {
    /// Its number, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Conf {
    /// Reads a file.
    pub fn read(text: &str) -> Self {
        let mut conf = Self::default();
        let mut lines = text.lines().enumerate();
        while let Some((at, whole)) = lines.next() {
            let line = whole.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("declare -A ") {
                continue;
            }
            if let Some(name) = function(line) {
                conf.functions.push(name);
                // As they are written: the end of a function is a brace at the left edge.
                let is_short = line.ends_with('}');
                while !is_short && lines.next().is_some_and(|(_, line)| line.trim_end() != "}") {}
                continue;
            }
            conf.touched.extend(touched(line));
            match assigned(line) {
                Some((name, pieces)) => conf.assignments.push((at + 1, name, pieces)),
                None => conf.strange.push(Strange { line: at + 1, text: line.to_owned() }),
            }
        }
        conf.touched.sort_unstable();
        conf.touched.dedup();
        conf
    }

    /// Carries the assignments out.
    pub fn apply(&self, variables: &mut Variables) {
        for (_, name, pieces) in &self.assignments {
            let value = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Variable(name) => variables.get(name).cloned().unwrap_or_default(),
            });
            let value: String = value.collect();
            variables.insert(name.clone(), value);
        }
    }

    /// The line that gives a variable its last value.
    pub fn line_of(&self, variable: &str) -> Option<usize> {
        let found = self.assignments.iter().rev().find(|(_, name, _)| name == variable);
        let strange =
            || self.strange.iter().find(|it| it.text.contains(variable)).map(|it| it.line);
        found.map(|(line, ..)| *line).or_else(strange)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn function(line: &str) -> Option<String> {
    let named = line.strip_prefix("function ").map(str::trim_start);
    let name = named.or_else(|| line.contains("()").then_some(line))?;
    let name: String = name.chars().take_while(|c| is_name(*c)).collect();
    let rest = line.split_once(name.as_str()).map_or("", |(_, rest)| rest).trim();
    let is_definition = named.is_some() || rest.trim_start().starts_with("()");
    (is_definition && !name.is_empty()).then_some(name)
}

/// Names before an `=`, whatever stands around them.
fn touched(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices('=') {
        let before = line[..at].trim_end_matches(['+', '-', '*', '/']).trim_end();
        let name: String = before.chars().rev().take_while(|c| is_name(*c)).collect();
        if !name.is_empty() {
            names.push(name.chars().rev().collect());
        }
    }
    names
}

/// A line that is one assignment, with a comment behind it at most.
fn assigned(line: &str) -> Option<(String, Vec<Piece>)> {
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = line.split_once('=')?;
    if name.is_empty()
        || name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(is_name)
    {
        return None;
    }
    let (mut pieces, mut rest) = (Vec::new(), value);
    while let Some(c) = rest.chars().next() {
        match c {
            ' ' | '\t' => {
                let behind = rest.trim_start();
                if behind.is_empty() || behind.starts_with('#') {
                    break;
                }
                return None;
            }
            ';' if rest[1..].trim_start().is_empty() => break,
            '\'' => {
                let (inner, behind) = rest[1..].split_once('\'')?;
                pieces.push(Piece::Text(inner.to_owned()));
                rest = behind;
            }
            '"' => rest = quoted(&rest[1..], &mut pieces)?,
            '$' => rest = variable(rest, &mut pieces)?,
            // A home directory, a command, a list, several commands.
            '~' | '`' | '(' | ')' | ';' | '&' | '|' | '<' | '>' | '\\' => return None,
            _ => {
                let end = rest.find([
                    ' ', '\t', '\'', '"', '$', '~', '`', '(', ')', ';', '&', '|', '<', '>', '\\',
                ]);
                let end = end.unwrap_or(rest.len());
                pieces.push(Piece::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    Some((name.to_owned(), pieces))
}

/// What stands between double quotes; answers what stands behind them.
fn quoted<'a>(mut rest: &'a str, pieces: &mut Vec<Piece>) -> Option<&'a str> {
    loop {
        let end = rest.find(['"', '$', '`', '\\'])?;
        pieces.push(Piece::Text(rest[..end].to_owned()));
        rest = &rest[end..];
        match rest.as_bytes()[0] {
            b'"' => return Some(&rest[1..]),
            b'$' => rest = variable(rest, pieces)?,
            b'\\' => {
                // Only these lose their backslash there.
                let next = rest[1..].chars().next().filter(|c| "$`\"\\".contains(*c));
                let c = next.unwrap_or('\\');
                pieces.push(Piece::Text(c.to_string()));
                rest = &rest[1 + next.map_or(0, char::len_utf8)..];
            }
            _ => return None,
        }
    }
}

/// A variable; answers what stands behind it.
fn variable<'a>(rest: &'a str, pieces: &mut Vec<Piece>) -> Option<&'a str> {
    let behind = &rest[1..];
    let (name, behind) = if let Some(inner) = behind.strip_prefix('{') {
        inner.split_once('}')?
    } else {
        behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len()))
    };
    let is_plain = !name.is_empty() && name.chars().all(is_name);
    if !is_plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    pieces.push(Piece::Variable(name.to_owned()));
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_means_what_it_means_to_bash() {
        let text = "a=008\nb=\"x $a ${a}y\"  # why\nc='$a'\nd=$b/\"q\"'r'\n# e=1\n\n\texport f=\n\
            g=/dev/dm-{7,9}\nh=\"\\$a \\\" \\x\"\n";
        let conf = Conf::read(text);
        assert_eq!(conf.strange, []);
        let mut variables = Variables::new();
        conf.apply(&mut variables);
        let expected = [
            ("a", "008"),
            ("b", "x 008 008y"),
            ("c", "$a"),
            ("d", "x 008 008y/qr"),
            ("f", ""),
            ("g", "/dev/dm-{7,9}"),
            ("h", "$a \" \\x"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables, Variables::from(expected));
    }

    #[test]
    fn what_is_more_than_an_assignment_is_strange_and_says_where() {
        let text = "a=1\nif [[ \"$a\" =~ x ]]; then\n\t(( b /= 2 ))\nfi\nc=$(date)\nd=( 1 2 )\n\
            rm -rf x\ne=${a:-2}\nf=1 g=2\nfunction h\n{\n  a=9\n}\ni () {\n  j=1\n}\n";
        let conf = Conf::read(text);
        let lines: Vec<usize> = conf.strange.iter().map(|it| it.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(conf.functions, ["h", "i"]);
        assert!(conf.touched.contains(&"b".to_owned()), "{:?}", conf.touched);
        assert_eq!(conf.line_of("a"), Some(1));
    }
}
