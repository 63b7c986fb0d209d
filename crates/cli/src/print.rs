//! The only way to the standard output and the standard error.
//!
//! When each command printed by itself, two things went wrong. If a reader left early (`| head`),
//! the command ended in the middle of its text, and its exit code was lost: damaged data returned
//! 0. And a terminal obeyed control characters in the names of a stranger's trace. So a command
//! prints to an [`Out`]. Writing to it cannot fail, so it cannot change the exit code. At the end
//! `main` asks whether the text could be printed. All text is made harmless here, by
//! `ioecho_trace::visible`. Only code that draws on a terminal itself (panels, progress bars) does
//! not use this module.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::{Mutex, PoisonError};

use ioecho_trace::visible;
use serde::Serialize;

/// The text of a command. Writing to it never fails. [`end`](Self::end) tells whether it could be
/// printed.
pub(crate) struct Out {
    to: Box<dyn Write>,
    form: Form,
    /// The first bytes of a character that is not complete yet.
    begun: Vec<u8>,
    /// The error after which nothing more is printed.
    broken: Option<io::Error>,
    is_product: bool,
}

/// The kind of text, which decides how harmful characters are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// A text that could not be printed.
pub(crate) struct Unprinted {
    /// The error.
    pub(crate) error: io::Error,
    /// Whether the text is the only output of the command.
    pub(crate) is_product: bool,
}

/// A duplicate of the standard output, for messages to a program at its other end.
pub(crate) fn for_a_program() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

impl Out {
    /// The standard output.
    pub(crate) fn standard() -> Self {
        Self::to(io::stdout())
    }

    fn to(to: impl Write + 'static) -> Self {
        let (begun, broken) = (Vec::new(), None);
        Self { to: Box::new(to), form: Form::Text, begun, broken, is_product: true }
    }

    /// From here on the text only describes results that are kept in files. They stay good even if
    /// it cannot be printed.
    pub(crate) fn tells_of_files(&mut self) {
        self.is_product = false;
    }

    /// Prints on the standard error instead, because lines for programs use the standard output.
    pub(crate) fn make_way(&mut self) {
        self.to = Box::new(io::stderr());
        self.tells_of_files();
    }

    /// Prints JSON over many lines.
    ///
    /// # Errors
    ///
    /// If the value cannot be said in JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        self.in_json(|out| serde_json::to_writer_pretty(out, value))
    }

    /// Prints JSON on one line. It is written while it is made: holding a tree of a million values
    /// would cost more than many a trace.
    ///
    /// # Errors
    ///
    /// If the value cannot be said in JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        self.in_json(|out| serde_json::to_writer(out, value))
    }

    fn in_json(
        &mut self,
        print: impl FnOnce(&mut BufWriter<&mut Self>) -> serde_json::Result<()>,
    ) -> serde_json::Result<()> {
        self.form = Form::Json;
        let mut pieces = BufWriter::new(&mut *self);
        print(&mut pieces)?;
        pieces.write_all(b"\n").and_then(|()| pieces.flush()).map_err(serde_json::Error::io)?;
        drop(pieces);
        self.form = Form::Text;
        Ok(())
    }

    /// Ends the text and returns why it could not be printed. A reader that reads only the
    /// beginning is no error.
    pub(crate) fn end(mut self) -> Option<Unprinted> {
        if !self.begun.is_empty() {
            self.print("\u{fffd}");
        }
        let _ = self.flush();
        let error = self.broken.take().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
        Some(Unprinted { error, is_product: self.is_product })
    }

    /// Prints a complete text.
    fn print(&mut self, text: &str) {
        let safe = match self.form {
            Form::Text => visible::visible(text),
            Form::Json => visible::visible_json(text),
        };
        if self.broken.is_none() {
            self.broken = self.to.write_all(safe.as_bytes()).err();
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(bytes);
        let mut rest = &begun[..];
        while !rest.is_empty() {
            match str::from_utf8(rest) {
                Ok(text) => {
                    self.print(text);
                    rest = &[];
                }
                Err(error) => {
                    let (text, others) = rest.split_at(error.valid_up_to());
                    self.print(str::from_utf8(text).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.begun = others.to_vec();
                        break;
                    };
                    self.print("\u{fffd}");
                    rest = &others[length..];
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.broken.is_none() {
            self.broken = self.to.flush().err();
        }
        Ok(())
    }
}

/// The messages that wait until the terminal is free again. `None` while it is free.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Holds messages back until [`let_out`], because the panels use the terminal.
#[cfg(feature = "live")]
pub(crate) fn hold_back() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Prints the messages that were held back.
#[cfg(feature = "live")]
pub(crate) fn let_out() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    held.into_iter().flatten().for_each(|text| tell(&text));
}

/// Prints a message on the standard error. Errors are ignored.
pub(crate) fn tell(text: &str) {
    if let Some(held) = HELD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        held.push(text.to_owned());
        return;
    }
    let _ = writeln!(io::stderr(), "{}", visible::visible(text));
}

/// Whether the standard error is a terminal, so that a person may watch it.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether the standard output is a terminal.
pub(crate) fn is_read() -> bool {
    io::stdout().is_terminal()
}

/// Another program's text, made harmless as a part of one line.
pub(crate) fn visible(text: &str) -> String {
    visible::line(text)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A writer that takes everything until it breaks.
    #[derive(Clone, Default)]
    struct Paper {
        text: Rc<RefCell<Vec<u8>>>,
        breaks: Option<ErrorKind>,
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.breaks {
                Some(kind) => Err(kind.into()),
                None => self.text.borrow_mut().write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(write: impl FnOnce(&mut Out)) -> String {
        let paper = Paper::default();
        let mut out = Out::to(paper.clone());
        write(&mut out);
        assert!(out.end().is_none());
        let text = paper.text.borrow().clone();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_full_disk_is_told_and_a_reader_that_leaves_is_not() {
        let ends = |breaks, is_product: bool| {
            let mut out = Out::to(Paper { breaks: Some(breaks), ..Paper::default() });
            for _ in 0..3 {
                writeln!(out, "a line").unwrap();
            }
            if !is_product {
                out.tells_of_files();
            }
            out.end().map(|unprinted| (unprinted.error.kind(), unprinted.is_product))
        };
        for is_product in [true, false] {
            assert_eq!(ends(ErrorKind::BrokenPipe, is_product), None);
            let full = (ErrorKind::StorageFull, is_product);
            assert_eq!(ends(ErrorKind::StorageFull, is_product), Some(full));
        }
    }

    #[test]
    fn what_is_printed_is_harmless_wherever_it_is_cut() {
        let text = "ü\u{1b}[31m\u{202e}\u{9b}\n";
        let whole = "ü\\u{1b}[31m\\u{202e}\\u{9b}\n";
        assert_eq!(printed(|out| out.write_all(text.as_bytes()).unwrap()), whole);
        let in_bytes = |out: &mut Out| {
            text.as_bytes().iter().for_each(|byte| out.write_all(&[*byte]).unwrap());
        };
        assert_eq!(printed(in_bytes), whole);
        assert_eq!(printed(|out| out.write_all(b"a\xffb\xc3").unwrap()), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn json_is_harmless_and_says_the_same() {
        let value = "ü\u{1b}[31m\u{202e}\u{9b}".repeat(5000);
        let lines = printed(|out| out.json(&[&value]).unwrap());
        let line = printed(|out| out.json_line(&[&value]).unwrap());
        for json in [lines, line] {
            assert!(json.chars().all(visible::is_harmless) && json.ends_with("]\n"));
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap()[0], value);
        }
    }

    #[test]
    fn a_name_is_no_line_of_its_own() {
        assert_eq!(visible("a\nverdict       VALID\u{7}"), "a\\nverdict       VALID\\u{7}");
    }
}
