//! What was changed on a machine, so that it can be left as it was found.
//!
//! A campaign sets up devices, and may be killed in the middle of that, or the machine may lose its
//! power. Undo that each module writes for itself is never complete and never tested. So no module
//! has any. The ledger has the only operations that change a machine, and each has an inverse:
//! [`set`](Ledger::set), [`make`](Ledger::make), [`lose`](Ledger::lose) (which has none, and
//! therefore asks for leave), [`ran`](Ledger::ran). Before each of them a line with the former
//! state is on the disk of that machine.
//!
//! [Undo](Ledger::undo) walks backward and compares: what is as before is left alone, what is as
//! the ledger left it is taken back, anything else was changed by somebody else, so it is left and
//! told. It may be killed too, and done again.

pub mod line;
#[cfg(test)]
mod tests;
mod undo;

use std::time::Duration;

use line::{Change, Form, Line, Probe, VERSION, Witness};
use serde_json::Value;

use crate::ground::{Book, Command, Fault, Hands, Kind, Output, Result, Volume};

pub use undo::{Left, Undone};

/// A change of the ledger and how far it is.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    boot: String,
    by: String,
    what: Change,
    is_done: bool,
    is_undone: bool,
}

/// The ledger of a machine.
pub struct Ledger<'g> {
    hands: &'g dyn Hands,
    book: Box<dyn Book + 'g>,
    id: String,
    owner: String,
    entries: Vec<Entry>,
    /// The module that is at work.
    by: String,
    /// Texts that modules want to keep with the results, by their names.
    kept: Vec<(String, String)>,
}

/// Something that is to be made.
#[derive(Clone, Debug)]
pub struct Making {
    /// What it is, in a word.
    pub kind: &'static str,
    /// Its name.
    pub id: String,
    /// What makes it, with our tag.
    pub create: Command,
    /// What removes it.
    pub remove: Command,
    /// What tells whether it is there, and ours.
    pub exists: Probe,
}

/// Whether a thing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is not.
    Absent,
    /// It is, and bears our tag.
    Ours,
    /// Something else has its name.
    Foreign,
}

impl<'g> Ledger<'g> {
    /// A new ledger. `id` is unlike that of any other, and has letters and digits only.
    ///
    /// # Errors
    ///
    /// If its first line cannot be stored.
    pub fn open(
        hands: &'g dyn Hands,
        mut book: Box<dyn Book + 'g>,
        id: &str,
        owner: &str,
    ) -> Result<Self> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        append(
            &mut *book,
            &Line::Opened { version: VERSION, id: id.clone(), owner: owner.clone() },
        )?;
        Ok(Self::with(hands, book, id, owner, Vec::new()))
    }

    /// The ledger that an earlier process left. A line that was cut is left out: what it speaks of
    /// was not begun.
    ///
    /// # Errors
    ///
    /// If another version wrote it, or a line cannot be read.
    pub fn left(hands: &'g dyn Hands, book: Box<dyn Book + 'g>) -> Result<Self> {
        let text = book.text()?;
        let mut entries: Vec<Entry> = Vec::new();
        let (mut id, mut owner) = (String::new(), String::new());
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        while let Some((at, text)) = lines.next() {
            if !text.ends_with('\n') && lines.peek().is_none() {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let wrong =
                |what: &str| Fault::Failed(format!("line {} of the undo file {what}", at + 1));
            let line: Line = match serde_json::from_str(text.trim_end()) {
                Ok(line) => line,
                // A cut line got its end when the next process went on.
                Err(error) if error.is_eof() => continue,
                Err(_) => return Err(wrong("cannot be read")),
            };
            match line {
                Line::Opened { version, .. } if version != VERSION => {
                    return Err(wrong(&format!("has version {version}, and {VERSION} is known")));
                }
                Line::Opened { id: other, owner: of, .. } => (id, owner) = (other, of),
                Line::Begun { number, boot, by, what } => {
                    if number != entries.len() {
                        return Err(wrong("has another number than expected"));
                    }
                    let (is_done, is_undone) = (false, false);
                    entries.push(Entry { boot, by, what: *what, is_done, is_undone });
                }
                Line::Done { number } | Line::Undone { number } if number >= entries.len() => {
                    return Err(wrong("speaks of what was not begun"));
                }
                Line::Done { number } => entries[number].is_done = true,
                Line::Undone { number } => entries[number].is_undone = true,
            }
        }
        let mut ledger = Self::with(hands, book, id, owner, entries);
        if !text.is_empty() && !text.ends_with('\n') {
            ledger.book.append("\n")?;
        }
        Ok(ledger)
    }

    fn with(
        hands: &'g dyn Hands,
        book: Box<dyn Book + 'g>,
        id: String,
        owner: String,
        entries: Vec<Entry>,
    ) -> Self {
        let (by, kept) = (String::new(), Vec::new());
        Self { hands, book, id, owner, entries, by, kept }
    }

    /// What can be seen of the machine.
    pub fn ground(&self) -> &'g dyn Hands {
        self.hands
    }

    /// For whom it was opened.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What everything that is made must bear in its name, or as a tag.
    pub fn tag(&self) -> String {
        format!("ioecho-{}", self.id)
    }

    /// Tells which module is at work.
    pub fn works_for(&mut self, module: &str) {
        module.clone_into(&mut self.by);
    }

    /// Keeps a text with the results of the cell. The name becomes that of a file.
    pub fn keep(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.kept.push((name.into(), text.into()));
    }

    /// The texts that were kept since this was asked last.
    pub fn take_kept(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.kept)
    }

    /// How many changes there are. [`undo`](Self::undo) goes back to such a mark.
    pub fn mark(&self) -> usize {
        self.entries.len()
    }

    /// Gives a file of the kernel another value. A value that it has already is no change.
    ///
    /// # Errors
    ///
    /// If there is no such file, or the kernel does not take the value as it is.
    pub fn set(
        &mut self,
        file: &str,
        form: &Form,
        value: &str,
        witness: Option<Witness>,
    ) -> Result<()> {
        let before = self.value(file, form)?;
        if before == value {
            return Ok(());
        }
        let change = Change::Set {
            file: file.to_owned(),
            form: form.clone(),
            before: before.clone(),
            after: value.to_owned(),
            witness,
        };
        let number = self.begin(change)?;
        let written = self.hands.write(file, value);
        let now = self.value(file, form)?;
        if now == value {
            return self.done(number);
        }
        // It must not stay half changed. What the kernel made of it is told.
        if now != before {
            self.hands.write(file, &before)?;
        }
        self.undone(number)?;
        written?;
        Err(Fault::Failed(format!("{file}: the kernel made '{now}' of '{value}'")))
    }

    fn value(&self, file: &str, form: &Form) -> Result<String> {
        let text = self.hands.read(file)?;
        let text = text.ok_or_else(|| Fault::Lacking(format!("{file}: there is no such file")))?;
        Ok(form.value(&text))
    }

    /// Writes to a file within a directory that the ledger made, and that goes with it.
    ///
    /// # Errors
    ///
    /// If no directory of the ledger has this file, or the kernel refuses it.
    pub fn set_within(&mut self, file: &str, value: &str) -> Result<()> {
        let has = |entry: &Entry| match &entry.what {
            Change::Make { exists: Probe::File { path, .. }, .. } => {
                !entry.is_undone
                    && file.strip_prefix(path.as_str()).is_some_and(|it| it.starts_with('/'))
            }
            _ => false,
        };
        if !self.entries.iter().any(has) {
            return Err(Fault::Refused(format!("{file}: it lies in nothing that was made here")));
        }
        self.hands.write(file, value)
    }

    /// Makes something that is not there.
    ///
    /// # Errors
    ///
    /// If something of its name is there, or it cannot be made.
    pub fn make(&mut self, making: Making) -> Result<Output> {
        let Making { kind, id, create, remove, exists } = making;
        if self.presence(&exists)? != Presence::Absent {
            return Err(Fault::Refused(format!("there is a {kind} '{id}' already")));
        }
        let number = self.begin(Change::Make {
            kind: kind.to_owned(),
            id: id.clone(),
            create: create.clone(),
            remove,
            exists: exists.clone(),
        })?;
        let output = self.hands.run(&create)?.good(&create)?;
        if self.presence(&exists)? != Presence::Ours {
            return Err(Fault::Failed(format!("{create}: there is no {kind} '{id}' after it")));
        }
        self.done(number)?;
        Ok(output)
    }

    /// Runs a command by which data are lost. Nothing takes this back.
    ///
    /// # Errors
    ///
    /// If the volume may not lose its data, is in use, or the command fails.
    pub fn lose(&mut self, volume: &Volume, command: &Command) -> Result<Output> {
        if !volume.may_lose {
            return Err(Fault::Refused(format!(
                "{}: its data would be lost, and nothing allows it",
                volume.path
            )));
        }
        if volume.kind == Kind::Block {
            self.hands.unused(&volume.path)?;
        }
        let change = Change::Lose { volume: volume.path.clone(), command: command.clone() };
        let number = self.begin(change)?;
        let output = self.hands.run(command)?.good(command)?;
        self.done(number)?;
        Ok(output)
    }

    /// Runs a program that changes what only it knows, and what takes that back. `undo` must be
    /// harmless where nothing was changed.
    ///
    /// # Errors
    ///
    /// If the program fails.
    pub fn ran(
        &mut self,
        program: &Command,
        undo: Option<Command>,
        state: Value,
    ) -> Result<Output> {
        let number = self.begin(Change::Ran { undo, state, answers: false })?;
        let output = self.hands.run(program)?.good(program)?;
        self.done(number)?;
        Ok(output)
    }

    /// Runs a program that answers, and so does what takes it back.
    ///
    /// # Errors
    ///
    /// If it cannot be run. What it answers is for the caller to judge.
    pub(crate) fn called(
        &mut self,
        program: &Command,
        undo: Option<Command>,
        state: Value,
    ) -> Result<Output> {
        let number = self.begin(Change::Ran { undo, state, answers: true })?;
        let output = self.hands.run(program)?;
        self.done(number)?;
        Ok(output)
    }

    /// Asks a person to do something, and what takes that back. `undo` must be harmless where
    /// nothing was done.
    ///
    /// # Errors
    ///
    /// If there is no terminal, nobody answers, or it was not done.
    pub fn asked(&mut self, task: &str, undo: Option<String>, limit: Duration) -> Result<()> {
        let (task, limit_s) = (task.to_owned(), limit.as_secs());
        let number = self.begin(Change::Asked { task: task.clone(), undo, limit_s })?;
        if !self.hands.is_done_by_person(&task, limit)? {
            return Err(Fault::Refused(format!("a person says that it is not done: {task}")));
        }
        self.done(number)
    }

    /// Whether a thing is there.
    ///
    /// # Errors
    ///
    /// If that cannot be told.
    pub fn presence(&self, probe: &Probe) -> Result<Presence> {
        let found = |is_ours: bool| if is_ours { Presence::Ours } else { Presence::Foreign };
        match probe {
            Probe::File { path, ours } => {
                if !self.hands.exists(path) {
                    return Ok(Presence::Absent);
                }
                let Some(ours) = ours else { return Ok(Presence::Ours) };
                Ok(match self.hands.read(path)? {
                    None => Presence::Absent,
                    Some(text) => found(text.trim() == ours),
                })
            }
            Probe::Line { path, word, ours } => {
                let text = self.hands.read(path)?.unwrap_or_default();
                let has = |line: &str, word: &str| line.split_whitespace().any(|it| it == word);
                let mut lines = text.lines().filter(|line| has(line, word)).peekable();
                if lines.peek().is_none() {
                    return Ok(Presence::Absent);
                }
                Ok(found(lines.all(|line| has(line, ours))))
            }
            Probe::Command { ask, ours } => {
                let output = self.hands.ask(ask)?;
                if !output.is_good() || output.stdout.trim().is_empty() {
                    return Ok(Presence::Absent);
                }
                let mut words = output.stdout.split([' ', ',', '\n', '\t']);
                Ok(found(words.any(|word| word == ours)))
            }
        }
    }

    fn begin(&mut self, what: Change) -> Result<usize> {
        let (number, boot, by) = (self.entries.len(), self.hands.boot(), self.by.clone());
        let line = Line::Begun {
            number,
            boot: boot.clone(),
            by: by.clone(),
            what: Box::new(what.clone()),
        };
        append(&mut *self.book, &line)?;
        self.entries.push(Entry { boot, by, what, is_done: false, is_undone: false });
        Ok(number)
    }

    fn done(&mut self, number: usize) -> Result<()> {
        append(&mut *self.book, &Line::Done { number })?;
        self.entries[number].is_done = true;
        Ok(())
    }

    fn undone(&mut self, number: usize) -> Result<()> {
        append(&mut *self.book, &Line::Undone { number })?;
        self.entries[number].is_undone = true;
        Ok(())
    }
}

fn append(book: &mut dyn Book, line: &Line) -> Result<()> {
    // A line consists of texts and numbers, which always have a form in JSON.
    let text = serde_json::to_string(line).unwrap_or_default();
    book.append(&(text + "\n"))
}
