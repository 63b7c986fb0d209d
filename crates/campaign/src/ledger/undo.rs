//! Walking backward through a ledger.

use std::ops::Range;
use std::time::Duration;

use super::line::{Change, Form, Probe, Witness};
use super::{Entry, Ledger, Presence};
use crate::ground::{Command, Hands, Result};
use crate::program;

/// What lies here does not outlive a boot of the machine.
const VOLATILE: [&str; 2] = ["/sys/", "/proc/"];

/// How often it is looked whether a thing is gone, and how long after another.
const LOOKS: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What undoing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// What was taken back, in words, in that order.
    pub back: Vec<String>,
    /// What is not as it was found.
    pub left: Vec<Left>,
}

/// Something that was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What is to be done about a change.
enum Way {
    /// It is as before.
    Nothing,
    /// The file gets its former value.
    Write(String, String),
    /// The command takes it back; then the thing must be gone.
    Run(Command, Option<Probe>),
    /// The program takes it back, and answers whether it did.
    Program(Command),
    /// A person takes it back, and is waited for so long.
    Person(String, Duration),
    /// Somebody else changed it.
    Leave(String),
}

impl Ledger<'_> {
    /// Takes back everything behind a mark, the last first.
    ///
    /// # Errors
    ///
    /// If the undo file cannot be written. What cannot be taken back is no error.
    pub fn undo(&mut self, mark: usize) -> Result<Undone> {
        self.undo_of(mark..self.entries.len())
    }

    /// Takes back what was changed between two marks, the last first, while what came later stays.
    /// Nothing that came later may have been made on it.
    ///
    /// # Errors
    ///
    /// As of [`undo`](Self::undo).
    pub fn undo_of(&mut self, marks: Range<usize>) -> Result<Undone> {
        let mut came = Undone::default();
        let mut stays = false;
        for number in marks.rev() {
            if self.entries[number].is_undone {
                continue;
            }
            let what = told(&self.entries[number]);
            let is_made = matches!(self.entries[number].what, Change::Make { .. });
            let taken = self.take_back(number, stays);
            // What something that stays was made on is needed by it.
            stays |= is_made && taken.is_err();
            match taken {
                Ok(is_changed) => {
                    self.undone(number)?;
                    if is_changed {
                        came.back.push(what);
                    }
                }
                Err(why) => came.left.push(Left { what, why }),
            }
        }
        Ok(came)
    }

    /// What [`undo`](Self::undo) would do from the state of now on, without doing it.
    pub fn would_undo(&self) -> Undone {
        let mut came = Undone::default();
        for entry in self.entries.iter().rev().filter(|entry| !entry.is_undone) {
            let what = told(entry);
            match self.way(entry) {
                Ok(Way::Nothing) => {}
                Ok(Way::Write(file, value)) => came.back.push(format!("{file} = {value}")),
                Ok(Way::Run(command, _) | Way::Program(command)) => {
                    came.back.push(command.to_string());
                }
                Ok(Way::Person(task, _)) => came.back.push(format!("asks a person: {task}")),
                Ok(Way::Leave(why)) => came.left.push(Left { what, why }),
                Err(fault) => came.left.push(Left { what, why: fault.to_string() }),
            }
        }
        came
    }

    /// Whether everything was taken back.
    pub fn is_clear(&self) -> bool {
        self.entries.iter().all(|entry| entry.is_undone)
    }

    /// Closes the ledger: its file goes. What was not taken back is accepted as it is.
    ///
    /// # Errors
    ///
    /// If the file is still there.
    pub fn close(mut self) -> Result<()> {
        self.book.close()
    }

    /// Takes back a change; whether there was something to do. The error is the reason why it is
    /// left. If something `stays` that was made later, nothing is removed below it.
    fn take_back(&self, number: usize, stays: bool) -> std::result::Result<bool, String> {
        let hands: &dyn Hands = self.hands;
        match self.way(&self.entries[number]).map_err(|fault| fault.to_string())? {
            Way::Nothing => Ok(false),
            Way::Leave(why) => Err(why),
            Way::Person(task, limit) => match hands.is_done_by_person(&task, limit) {
                Ok(true) => Ok(true),
                Ok(false) => Err("a person says that it is not done".to_owned()),
                Err(fault) => Err(fault.to_string()),
            },
            Way::Run(_, Some(_)) if stays => {
                Err("something that was made on it may need it, and stays".to_owned())
            }
            Way::Write(file, value) => {
                hands.write(&file, &value).map_err(|fault| fault.to_string())?;
                match self.way(&self.entries[number]) {
                    Ok(Way::Nothing) => Ok(true),
                    Ok(_) => Err(format!("the kernel does not take '{value}'")),
                    Err(fault) => Err(fault.to_string()),
                }
            }
            Way::Program(command) => {
                let output = hands.run(&command).map_err(|fault| fault.to_string())?;
                let answer = program::answer(&command, output);
                answer.map(|_| true).map_err(|fault| fault.to_string())
            }
            Way::Run(command, gone) => {
                let output = hands.run(&command).and_then(|output| output.good(&command));
                let Some(probe) = gone else {
                    return output.map(|_| true).map_err(|fault| fault.to_string());
                };
                // Whether the thing is gone counts, not what the command says.
                let presence = match &output {
                    Ok(_) => self.presence_soon(&probe),
                    Err(_) => self.presence(&probe),
                };
                match (presence, output) {
                    (Ok(Presence::Absent), _) => Ok(true),
                    (_, Err(fault)) | (Err(fault), _) => Err(fault.to_string()),
                    (Ok(_), Ok(_)) => Err(format!("it is still there after {command}")),
                }
            }
        }
    }

    /// Whether a thing is still there that a command has removed. A loop device that another
    /// program looks at in that moment goes when it is closed there.
    fn presence_soon(&self, probe: &Probe) -> Result<Presence> {
        for _ in 1..LOOKS {
            let presence = self.presence(probe)?;
            if presence == Presence::Absent || self.hands.wait(LOOK_EVERY).is_err() {
                return Ok(presence);
            }
        }
        self.presence(probe)
    }

    /// What is to be done about a change, from the state of now on.
    fn way(&self, entry: &Entry) -> Result<Way> {
        match &entry.what {
            // What is lost is lost, and was allowed to be.
            Change::Lose { .. }
            | Change::Ran { undo: None, .. }
            | Change::Asked { undo: None, .. } => Ok(Way::Nothing),
            Change::Asked { undo: Some(undo), limit_s, .. } => {
                Ok(Way::Person(undo.clone(), Duration::from_secs(*limit_s)))
            }
            Change::Ran { undo: Some(undo), answers: true, .. } => Ok(Way::Program(undo.clone())),
            Change::Ran { undo: Some(undo), .. } => Ok(Way::Run(undo.clone(), None)),
            Change::Set { file, form, before, after, witness } => {
                let is_volatile = VOLATILE.iter().any(|it| file.starts_with(it));
                if (is_volatile && entry.boot != self.hands.boot())
                    || !self.is_same(witness.as_ref())?
                {
                    return Ok(Way::Nothing);
                }
                self.way_of_set(file, form, before, after)
            }
            Change::Make { kind, id, remove, exists, .. } => Ok(match self.presence(exists)? {
                Presence::Absent => Way::Nothing,
                Presence::Ours => Way::Run(remove.clone(), Some(exists.clone())),
                // It was never made, because somebody else was faster.
                Presence::Foreign if !entry.is_done => Way::Nothing,
                Presence::Foreign => {
                    Way::Leave(format!("the {kind} '{id}' is now somebody else's"))
                }
            }),
        }
    }

    fn way_of_set(&self, file: &str, form: &Form, before: &str, after: &str) -> Result<Way> {
        // Its device is gone, and its settings with it.
        let Some(text) = self.hands.read(file)? else { return Ok(Way::Nothing) };
        let now = form.value(&text);
        Ok(if now == before {
            Way::Nothing
        } else if now == after {
            Way::Write(file.to_owned(), before.to_owned())
        } else {
            let why = format!("it was '{before}', was set to '{after}', and is '{now}' now");
            Way::Leave(why)
        })
    }

    /// Whether a thing is the same one as then.
    fn is_same(&self, witness: Option<&Witness>) -> Result<bool> {
        let Some(Witness { file, text }) = witness else { return Ok(true) };
        Ok(self.hands.read(file)?.is_some_and(|now| now.trim() == text))
    }
}

/// A change in words.
fn told(entry: &Entry) -> String {
    let by = &entry.by;
    match &entry.what {
        Change::Set { file, before, after, .. } => format!("{by}: {file} from {before} to {after}"),
        Change::Make { kind, id, .. } => format!("{by}: the {kind} {id}"),
        Change::Lose { volume, .. } => format!("{by}: the data of {volume}"),
        Change::Ran { undo, answers, .. } => {
            let verb = if *answers { " (undo)" } else { "" };
            let undo = undo.as_ref().map(|undo| format!("{undo}{verb}"));
            format!("{by}: {}", undo.unwrap_or_else(|| "a command without undo".to_owned()))
        }
        Change::Asked { task, undo, .. } => {
            format!("{by}: {}", undo.as_ref().unwrap_or(task))
        }
    }
}
