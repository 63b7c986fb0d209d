//! Vdbench's arguments as those of `ioecho run`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use ioecho_trace::{JournalMode, VerifyMode};

/// What Vdbench calls the directory of its reports if nothing is said.
const OUTPUT: &str = "output";

/// The most directories of one name: `out+` takes the first that is free.
const OUTPUTS_MAX: u32 = 1000;

/// Arguments that are taken and have no effect here: the letter, whether a number follows, why.
const IDLE: [(char, bool, &str); 5] = [
    ('m', true, "there are no Java machines"),
    ('d', true, "its numbers switch parts of another program"),
    ('p', true, "there are no connections"),
    ('k', false, "it belongs to Solaris"),
    ('c', false, "a device is not formatted"),
];

/// Arguments that are refused: how they begin, why, and what to do.
const REFUSED: [(&str, &str, &str); 4] = [
    ("-t", "there is no built-in sample", "write a file, or look at `ioecho demo`"),
    ("-l", "the runs are done once", "repeat the command"),
    ("+", "nothing is put behind the lines of a file", "write it into the file"),
    ("-", "it is none of Vdbench's arguments", "see docs/workloads.md for those that are taken"),
];

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The words behind `ioecho run`, but for the directory of the results.
    pub(super) words: Vec<String>,
    /// That directory, as it was typed.
    pub(super) output: String,
    /// What has no effect, with the reason.
    pub(super) told: Vec<String>,
}

/// Reads the words. `takes_value` says whether a flag of `ioecho run` takes a value.
///
/// # Errors
///
/// The reason and the remedy.
pub(super) fn read(
    words: &[String],
    takes_value: &dyn Fn(&str) -> bool,
) -> Result<Asked, (String, String)> {
    let mut asked = Asked { output: OUTPUT.to_owned(), ..Asked::default() };
    let mut rest: VecDeque<&str> = words.iter().map(String::as_str).collect();
    let mut files: Vec<String> = Vec::new();
    while let Some(word) = rest.pop_front() {
        if let Some(flag) = word.strip_prefix("--") {
            asked.words.push(word.to_owned());
            if !flag.contains('=') && takes_value(flag) {
                asked.words.extend(rest.pop_front().map(str::to_owned));
            }
            continue;
        }
        let (letter, attached) = match word.strip_prefix('-') {
            Some(word) => {
                let mut chars = word.chars();
                (chars.next(), chars.as_str())
            }
            None => (None, ""),
        };
        // The value of an argument, behind its letter or as the next word.
        let mut value = |what: &str| {
            let mut next = || rest.pop_front().filter(|next| !next.starts_with('-'));
            let found = if attached.is_empty() { next() } else { Some(attached) };
            found.map(str::to_owned).ok_or_else(|| {
                (format!("{word} needs {what}"), format!("write it like {word} {what}"))
            })
        };
        match letter {
            Some('f') => {
                files.push(value("FILE")?);
                let is_file = |next: &&str| !next.starts_with(['-', '+']) && !is_variable(next);
                while let Some(next) = rest.front().copied().filter(is_file) {
                    files.push(next.to_owned());
                    rest.pop_front();
                }
            }
            Some('o') => asked.output = value("DIR")?,
            Some(letter @ ('e' | 'i' | 'w')) => {
                let key = match letter {
                    'e' => "elapsed",
                    'i' => "interval",
                    _ => "warmup",
                };
                asked.words.push(format!("--set={key}={}", seconds(&value("SECONDS")?)));
            }
            Some('r') => asked.words.push(format!("--from={}", value("RUN")?)),
            Some('v') => validation(word, attached, &mut asked)?,
            Some('j') => journal(word, attached, &mut asked)?,
            Some('s') if attached.is_empty() => asked.words.push("--dry-run".to_owned()),
            _ if is_variable(word) => asked.words.push(word.to_owned()),
            letter => {
                let idle = IDLE.iter().find(|(idle, ..)| Some(*idle) == letter);
                let Some((_, has_number, why)) = idle else {
                    return Err(refused(word));
                };
                let is_number = |next: &&str| next.bytes().all(|byte| byte.is_ascii_digit());
                if *has_number && attached.is_empty() && rest.front().is_some_and(is_number) {
                    rest.pop_front();
                }
                asked.told.push(format!("{word} counts for nothing here: {why}"));
            }
        }
    }
    if files.is_empty() {
        let help = "write -f FILE, a parameter file";
        return Err(("no file is named".to_owned(), help.to_owned()));
    }
    asked.words.splice(0..0, files);
    Ok(asked)
}

/// The letters behind -v: what is verified.
fn validation(word: &str, letters: &str, asked: &mut Asked) -> Result<(), (String, String)> {
    let mut mode = VerifyMode::Reads;
    for letter in letters.chars() {
        match letter {
            'r' => mode = VerifyMode::Paranoia,
            // Nothing is read before it is overwritten in any case.
            'w' => {}
            't' => asked.told.push(format!("{word}: the instants of all requests are kept")),
            _ => return Err(unknown(word, letter, "-v, -vr, -vw, -vt")),
        }
    }
    asked.words.push(format!("--verify={}", mode.name()));
    Ok(())
}

/// The letters behind -j: what is noted, and whether it is read back first.
fn journal(word: &str, letters: &str, asked: &mut Asked) -> Result<(), (String, String)> {
    let (mut mode, mut reads, mut only, mut skips) = (JournalMode::Durable, false, false, false);
    for letter in letters.chars() {
        match letter {
            'n' => mode = JournalMode::Kill,
            'r' => reads = true,
            'o' => only = true,
            's' => skips = true,
            'i' => asked.told.push(format!("{word}: what was in flight may be old or new always")),
            'm' => asked.told.push(format!("{word}: what is under way is noted all the same")),
            _ => return Err(unknown(word, letter, "-j, -jn, -jr, -jro, -jrs, -ji, -jm")),
        }
    }
    if (only || skips) && !reads || only && skips {
        let why = format!("{word}: 'o' and 's' stand behind 'r', one of them");
        return Err((why, "write -jro to read back and do nothing else".to_owned()));
    }
    asked.words.push(format!("--journal={}", mode.name()));
    match (only, reads && !skips) {
        (true, _) => asked.words.push("--recover=only".to_owned()),
        (false, true) => asked.words.push("--recover=first".to_owned()),
        (false, false) => {}
    }
    Ok(())
}

fn unknown(word: &str, letter: char, all: &str) -> (String, String) {
    (format!("{word}: nobody knows '{letter}' there"), format!("there are {all}"))
}

/// Whether a word gives a variable its value.
fn is_variable(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// A time as it is typed here: a number alone is one of seconds.
fn seconds(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{text}s")
    } else {
        text.to_owned()
    }
}

fn refused(word: &str) -> (String, String) {
    let found = REFUSED.iter().find(|(begins, ..)| word.starts_with(begins));
    let (why, help) = found.map_or(
        ("files stand behind -f, and variables have a value", "write -f FILE or NAME=VALUE"),
        |(_, why, help)| (*why, *help),
    );
    (format!("{word}: {why}"), help.to_owned())
}

/// The directory of the results: `out+` is the first of out, out001, out002 that is not there.
pub(super) fn directory(output: &str) -> Option<PathBuf> {
    let Some(name) = output.strip_suffix('+') else { return Some(PathBuf::from(output)) };
    let numbered = (1..OUTPUTS_MAX).map(|number| format!("{name}{number:03}"));
    let mut all = [name.to_owned()].into_iter().chain(numbered);
    all.find(|path| !Path::new(path).exists()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let takes = |flag: &str| matches!(flag, "destroy" | "seed");
        read(&words, &takes).map_err(|(why, help)| format!("{why}; {help}"))
    }

    #[test]
    fn arguments_become_those_of_a_run() {
        let line =
            "-f a.vdb b.vdb -o out -e 5 -i1 -w 2m -m 4 -d27 -s lun=/dev/sdb --destroy sd1 -k";
        let found = asked(line).unwrap();
        let words = [
            "a.vdb",
            "b.vdb",
            "--set=elapsed=5s",
            "--set=interval=1s",
            "--set=warmup=2m",
            "--dry-run",
            "lun=/dev/sdb",
            "--destroy",
            "sd1",
        ];
        assert_eq!((found.words, found.output.as_str()), (words.map(str::to_owned).into(), "out"));
        assert_eq!(found.told.len(), 3, "{:?}", found.told);
        let found = asked("-fa.vdb -r rd2 --seed=3").unwrap();
        assert_eq!(found.words, ["a.vdb", "--from=rd2", "--seed=3"]);
        assert_eq!(found.output, "output");
    }

    #[test]
    fn letters_of_validation_become_words() {
        for (typed, words) in [
            ("-v", "--verify=reads"),
            ("-vw", "--verify=reads"),
            ("-vr", "--verify=paranoia"),
            ("-j", "--journal=durable"),
            ("-jn", "--journal=kill"),
            ("-jr", "--journal=durable --recover=first"),
            ("-jrn", "--journal=kill --recover=first"),
            ("-jrs", "--journal=durable"),
            ("-jro", "--journal=durable --recover=only"),
            ("-v -jn", "--verify=reads --journal=kill"),
        ] {
            let found = asked(&format!("-f a.vdb {typed}")).unwrap();
            assert_eq!(found.words.join(" "), format!("a.vdb {words}"), "{typed}");
            assert!(found.told.is_empty());
        }
        assert_eq!(asked("-f a -jim").unwrap().told.len(), 2);
    }

    #[test]
    fn what_has_no_meaning_here_is_refused_with_the_remedy() {
        for (line, reason) in [
            ("-o out", "no file is named"),
            ("-f", "-f needs FILE"),
            ("-f a -o", "-o needs DIR"),
            ("-f a -q", "none of Vdbench's arguments"),
            ("-f a -", "none of Vdbench's arguments"),
            ("-f a -jo", "behind 'r'"),
            ("-f a -jrso", "one of them"),
            ("-f a -j2", "knows '2'"),
            ("-f a -v2", "knows '2'"),
            ("-f a -tf", "built-in sample"),
            ("-f a -sx", "none of Vdbench's arguments"),
            ("-f a + elapsed=3", "behind the lines"),
            ("a.vdb", "files stand behind -f"),
        ] {
            let told = asked(line).unwrap_err();
            assert!(told.contains(reason), "{line}: {told}");
        }
    }
}
