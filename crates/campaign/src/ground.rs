//! What a module may see and do of the machine on which it sets things up.
//!
//! Set-up changes a machine, and a test of it must be able to fail at every step, a thousand times
//! in a second. So modules see the machine through a narrow trait: [`Ground`] looks and changes
//! nothing, [`Hands`] change. Only the [ledger](crate::ledger) has hands. The real ones are the
//! command line's; `fake` is a machine in memory, for tests.

#[cfg(test)]
pub(crate) mod fake;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a command may take where nothing else is asked for.
pub const LIMIT: Duration = Duration::from_mins(10);

/// The longest part of a command's error text that is quoted, in characters.
const QUOTED_MAX: usize = 300;

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused, and nothing was touched.
    Refused(String),
    /// A tool or a facility of the kernel is missing.
    Lacking(String),
    /// It failed.
    Failed(String),
    /// Somebody asks for the end.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Lacking(text) | Self::Failed(text) => f.write_str(text),
            Self::Stopped => f.write_str("somebody asks for the end"),
        }
    }
}

impl std::error::Error for Fault {}

/// The result of looking at a machine or changing it.
pub type Result<T> = std::result::Result<T, Fault>;

/// A command, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The longest time that it may take, in seconds.
    pub limit_s: u64,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Where it begins, if that is not the machine's usual place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

impl Command {
    /// A command with the usual limit.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { argv, limit_s: LIMIT.as_secs(), input: None, directory: None }
    }

    /// The same with another limit.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit_s: limit.as_secs().max(1), ..self }
    }

    /// The same, which reads a text.
    #[must_use]
    pub fn reading(self, input: impl Into<String>) -> Self {
        Self { input: Some(input.into()), ..self }
    }

    /// The same, which begins in a directory.
    #[must_use]
    pub fn at(self, directory: &str) -> Self {
        let directory = (!directory.is_empty()).then(|| directory.to_owned());
        Self { directory, ..self }
    }

    /// The program.
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        for (number, word) in self.argv.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            if !word.is_empty() && word.chars().all(is_plain) {
                write!(f, "{space}{word}")?;
            } else {
                write!(f, "{space}'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
}

impl Output {
    /// Whether it succeeded.
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// The output of a command that had to succeed.
    ///
    /// # Errors
    ///
    /// If it did not, with what it said.
    pub fn good(self, command: &Command) -> Result<Self> {
        if self.is_good() {
            return Ok(self);
        }
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let said: String = said.trim().chars().take(QUOTED_MAX).collect();
        let code = self.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(Fault::Failed(format!("{command}: {code}{said}")))
    }
}

/// What a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A block device.
    Block,
    /// A file.
    File,
    /// A volume that is exported to other hosts: its path is an address, and it becomes a block
    /// device where a module takes it in.
    Exported,
    /// A simulation, which has nothing that could be set up.
    Simulated,
}

impl Kind {
    /// Whether it can be written and read on this host.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Block | Self::File)
    }
}

/// Something that can be replayed against, and on which the next module builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its path.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Whether its data may be lost: its device was named and identified, or the stack made it.
    pub may_lose: bool,
    /// Whether it is there; one that a module will make is not.
    pub is_there: bool,
}

impl Volume {
    /// The name of a block device in `/sys/block`, or of a file.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// What can be seen of a machine. Nothing here changes it.
pub trait Ground {
    /// The identity of this boot of the machine.
    fn boot(&self) -> String;

    /// The text of a file; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn read(&self, path: &str) -> Result<Option<String>>;

    /// Whether a file or directory is there.
    fn exists(&self, path: &str) -> bool;

    /// The names in a directory, in order; none if there is no such directory.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn list(&self, path: &str) -> Result<Vec<String>>;

    /// The path without links; `None` if there is nothing.
    fn real(&self, path: &str) -> Option<String>;

    /// What a path is: its kind and its size. `may_lose` is false.
    ///
    /// # Errors
    ///
    /// If there is nothing that could be replayed against.
    fn volume(&self, path: &str) -> Result<Volume>;

    /// Refuses a volume that is in use: mounted, swap, held, or open elsewhere.
    ///
    /// # Errors
    ///
    /// The reason.
    fn unused(&self, path: &str) -> Result<()>;

    /// Whether there is such a program.
    fn has_program(&self, name: &str) -> bool;

    /// The path of ioecho itself.
    fn ioecho(&self) -> String;

    /// Whether commands may be run that change nothing. Not where a plan is only shown.
    fn may_ask(&self) -> bool {
        true
    }

    /// Runs a command that changes nothing.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or takes too long. Its exit code is no error.
    fn ask(&self, command: &Command) -> Result<Output>;

    /// Tells whoever watches something.
    fn tell(&self, text: &str);

    /// Whether a person can be asked: there is a terminal.
    fn is_attended(&self) -> bool;

    /// Asks the person at the terminal, and waits for a line.
    ///
    /// # Errors
    ///
    /// If there is no terminal, nobody answers in time, or somebody asks for the end.
    fn person(&self, question: &str, limit: Duration) -> Result<String>;

    /// Asks the person at the terminal to do something; whether it was done.
    ///
    /// # Errors
    ///
    /// As of [`person`](Self::person).
    fn is_done_by_person(&self, task: &str, limit: Duration) -> Result<bool> {
        loop {
            match self.person(&format!("{task}\n    Done? Type yes or no."), limit)?.as_str() {
                "yes" | "y" => return Ok(true),
                "no" | "n" => return Ok(false),
                _ => {}
            }
        }
    }

    /// Seconds of a clock that is never set.
    fn seconds(&self) -> f64;

    /// Waits.
    ///
    /// # Errors
    ///
    /// If somebody asks for the end.
    fn wait(&self, span: Duration) -> Result<()>;
}

/// What changes a machine. Only the ledger has it.
pub trait Hands: Ground {
    /// Writes a text to a file that is there, in one write.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    fn write(&self, path: &str, text: &str) -> Result<()>;

    /// Runs a command.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or takes too long. Its exit code is no error.
    fn run(&self, command: &Command) -> Result<Output>;
}

/// The undo file of a machine. Each line is on the disk when `append` returns.
pub trait Book {
    /// Appends a text of one line, with its end.
    ///
    /// # Errors
    ///
    /// If it may not be on the disk.
    fn append(&mut self, line: &str) -> Result<()>;

    /// Everything that was appended.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn text(&self) -> Result<String>;

    /// Removes the file: nothing is left to be undone.
    ///
    /// # Errors
    ///
    /// If it is still there.
    fn close(&mut self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let command = Command::new(["echo", "a b", "it's", "--size=1G", ""]);
        assert_eq!(command.to_string(), r"echo 'a b' 'it'\''s' --size=1G ''");
    }

    #[test]
    fn a_failed_command_says_what_it_printed() {
        let (command, stderr) = (Command::new(["false"]), "no such device\n".to_owned());
        let output = Output { code: Some(2), stdout: String::new(), stderr };
        let fault = output.good(&command).unwrap_err();
        assert_eq!(fault.to_string(), "false: exit code 2: no such device");
        let silent = Output { code: Some(1), ..Output::default() };
        assert_eq!(silent.good(&command).unwrap_err().to_string(), "false: exit code 1");
    }
}
