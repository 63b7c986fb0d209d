//! `program`: an executable of the user's sets up what no module knows.
//!
//! `command` has a fixed undo, and tells nothing of what it made. A program is asked verb by verb:
//! it tells which data it would lose before anything is touched, gives the ledger the state that
//! undoing needs, and says which volumes there are after it. What it says is not believed where
//! data are at stake.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value as Json;

use super::{Every, Family, Given, Keys, Module, Outlook, Over, Wrong};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;
use crate::program::{Answer, Answered, Question, Verb, answer};
use crate::value::Value;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "program",
    keys: Keys::These(&["run", "set.*", "at"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Program::read(given)?)),
};

/// The most lines of its log that are told where it fails.
const LINES_TOLD_MAX: usize = 20;

struct Program {
    name: String,
    run: Command,
    set: BTreeMap<String, Value>,
    /// The seconds of a replay at which it is called with `beside`.
    at: Vec<f64>,
    session: RefCell<Session>,
}

/// What is known since `apply`.
#[derive(Default)]
struct Session {
    tag: String,
    state: Json,
    /// The lines that it printed on standard error, and what it said.
    log: Vec<String>,
}

impl Program {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let missing = || Wrong::new("run", "'run' is missing", "write run = [\"./program\"]");
        let run = given.command("run")?.ok_or_else(missing)?.at(&given.base);
        let own = |(key, value): (&str, &Value)| (key.to_owned(), value.clone());
        let mut at = Vec::new();
        for text in given.list("at")?.unwrap_or_default() {
            let one = Given {
                settings: [("at".to_owned(), Value::One(text))].into(),
                ..Given::default()
            };
            at.extend(one.span("at")?.as_ref().map(Duration::as_secs_f64));
        }
        Ok(Self {
            name: given.name.clone(),
            run,
            set: given.table("set").into_iter().map(own).collect(),
            at,
            session: RefCell::default(),
        })
    }

    /// The call for a verb, with this state.
    fn call(&self, verb: Verb, on: &[Volume], state: &Json, at: Option<f64>) -> Command {
        let session = self.session.borrow();
        let tag = Some(session.tag.as_str()).filter(|tag| !tag.is_empty());
        let question = Question { tag, at, ..Question::new(verb, &self.set, on, state) };
        self.run.clone().reading(question.line())
    }

    /// The answer to a verb that changes nothing.
    fn ask(&self, ground: &dyn Ground, verb: Verb, on: &[Volume], state: &Json) -> Result<Answer> {
        let call = self.call(verb, on, state, None);
        self.heard(ground, verb, || ground.ask(&call).map(|output| (call, output)))
    }

    /// The answer of a call, whose words are told and whose log is kept.
    fn heard(
        &self,
        ground: &dyn Ground,
        verb: Verb,
        called: impl FnOnce() -> Result<(Command, crate::ground::Output)>,
    ) -> Result<Answer> {
        let of_verb = |fault: Fault| match fault {
            Fault::Refused(text) => Fault::Refused(format!("{}: {text}", verb.word())),
            Fault::Lacking(text) => Fault::Lacking(format!("{}: {text}", verb.word())),
            Fault::Failed(text) => Fault::Failed(format!("{}: {text}", verb.word())),
            Fault::Stopped => Fault::Stopped,
        };
        let (call, output) = called().map_err(of_verb)?;
        let line = |line: &str| format!("{}: {line}", verb.word());
        let log: Vec<String> = output.stderr.lines().map(line).collect();
        let answer = answer(&call, output).map_err(|fault| {
            // What it printed may be the only explanation, and there may be no results to keep it.
            for line in log.iter().take(LINES_TOLD_MAX) {
                ground.tell(&format!("    {}: {line}", self.name));
            }
            of_verb(fault)
        });
        self.session.borrow_mut().log.extend(log);
        let answer = answer?;
        if !answer.say.is_empty() {
            ground.tell(&format!("    {}: {}", self.name, answer.say));
            let said = format!("{}: said {}", verb.word(), answer.say);
            self.session.borrow_mut().log.push(said);
        }
        Ok(answer)
    }

    /// What it answers to `check`: whose data it loses is among the volumes that it was told.
    fn checked(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Answer> {
        let answer = self.ask(ground, Verb::Check, on, &Json::Null)?;
        let is_known = |path: &&String| on.iter().any(|volume| volume.path == **path);
        if let Some(path) = answer.loses.iter().find(|path| !is_known(path)) {
            let text = format!("it would lose the data of {path}, which it was not given");
            return Err(Fault::Refused(text));
        }
        Ok(answer)
    }

    fn apply_now(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let ground = ledger.ground();
        let loses = self.checked(ground, on)?.loses;
        for volume in on.iter().filter(|volume| loses.contains(&volume.path)) {
            if !volume.may_lose {
                let text =
                    format!("{}: its data would be lost, and nothing allows it", volume.path);
                return Err(Fault::Refused(text));
            }
            if volume.kind == Kind::Block {
                ground.unused(&volume.path)?;
            }
        }
        let state = self.ask(ground, Verb::Before, on, &Json::Null)?.state;
        let before = sizes(ground)?;
        let undo = self.call(Verb::Undo, on, &state, None);
        let answer = self.heard(ground, Verb::Apply, || {
            let call = self.call(Verb::Apply, on, &state, None);
            let output = ledger.called(&call, Some(undo), state.clone())?;
            Ok((call, output))
        })?;
        let mut session = self.session.borrow_mut();
        session.state = if answer.state.is_null() { state } else { answer.state };
        let Some(volumes) = answer.volumes else { return Ok(on.to_vec()) };
        let volume = |told: &Answered| made(ground, told, on, &before, &session.tag);
        volumes.iter().map(volume).collect()
    }
}

/// The sizes of all block devices, by their names.
fn sizes(ground: &dyn Ground) -> Result<BTreeMap<String, String>> {
    let mut sizes = BTreeMap::new();
    for name in ground.list("/sys/class/block")? {
        let size = ground.read(&format!("/sys/class/block/{name}/size"))?.unwrap_or_default();
        sizes.insert(name, size.trim().to_owned());
    }
    Ok(sizes)
}

/// A volume that a program names after `apply`. Its data may be lost if it is one from below that
/// may, if it bears our tag, or if there was no such device before: a program that names the wrong
/// disk must not cost anybody their data.
fn made(
    ground: &dyn Ground,
    told: &Answered,
    on: &[Volume],
    before: &BTreeMap<String, String>,
    tag: &str,
) -> Result<Volume> {
    let now = ground.volume(&told.path)?;
    if let Some(below) = on.iter().find(|below| below.path == now.path) {
        return Ok(Volume { may_lose: below.may_lose, ..now });
    }
    let is_tagged = !tag.is_empty() && now.path.contains(tag);
    let was_there = before.get(now.name()).is_some_and(|size| size != "0");
    let is_new = now.kind == Kind::Block && !was_there;
    Ok(Volume { may_lose: is_tagged || is_new, ..now })
}

/// A volume that a program announces.
fn announced(ground: &dyn Ground, told: &Answered, on: &[Volume]) -> Volume {
    let below = on.iter().find(|below| below.path == told.path).cloned();
    let now = || ground.volume(&told.path).ok();
    below.or_else(now).unwrap_or_else(|| Volume {
        path: told.path.clone(),
        kind: told.kind.unwrap_or(Kind::Block),
        size: told.size,
        may_lose: true,
        is_there: false,
    })
}

impl Module for Program {
    fn hands_over(&self) -> std::result::Result<Over, Wrong> {
        // Such as that of an array, whose volumes each host finds by their WWN.
        Ok(Over::Paths)
    }

    fn programs(&self) -> Vec<String> {
        // A script is often an argument of its interpreter.
        self.run.argv.iter().filter(|word| word.contains('/')).cloned().collect()
    }

    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        super::tools(ground, &[self.run.program()])?;
        let mut does = vec![format!("{} (apply, and undo at the end)", self.run)];
        if !ground.may_ask() {
            does.push(
                "what it does and loses it tells before the run, when it is asked".to_owned(),
            );
            // It may make the volume of the replay, whose name only it knows.
            let path = format!("what {} makes", self.name);
            let (kind, size, may_lose, is_there) = (Kind::Block, 0, true, false);
            let unknown = vec![Volume { path, kind, size, may_lose, is_there }];
            let volumes = if on.is_empty() { unknown } else { on.to_vec() };
            return Ok(Outlook { does, volumes, ..Outlook::default() });
        }
        // Nothing was touched, so whatever is wrong is a refusal.
        let answer = self.checked(ground, on).map_err(|fault| match fault {
            Fault::Failed(text) => Fault::Refused(text),
            other => other,
        })?;
        let told = |told: &Answered| announced(ground, told, on);
        let volumes = answer.volumes.map(|all| all.iter().map(told).collect());
        let volumes = volumes.unwrap_or_else(|| on.to_vec());
        Ok(Outlook { does, loses: answer.loses, seconds: None, volumes })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        *self.session.borrow_mut() = Session { tag: ledger.tag(), ..Session::default() };
        let applied = self.apply_now(ledger, on);
        if applied.is_err() {
            let log = std::mem::take(&mut self.session.borrow_mut().log);
            ledger.keep(format!("{}.log", self.name), log.join("\n") + "\n");
        }
        applied
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        let state = self.session.borrow().state.clone();
        self.ask(ground, Verb::Verify, on, &state).map(|_| ())
    }

    fn beside(&self, ledger: &mut Ledger<'_>, on: &[Volume], span: Range<f64>) -> Result<()> {
        for at in self.at.iter().filter(|at| span.contains(at)) {
            let state = self.session.borrow().state.clone();
            let call = self.call(Verb::Beside, on, &state, Some(*at));
            let ground = ledger.ground();
            // The undo of `apply` takes this back as well.
            let called = || Ok((call.clone(), ledger.called(&call, None, Json::Null)?));
            let answer = self.heard(ground, Verb::Beside, called)?;
            if !answer.state.is_null() {
                self.session.borrow_mut().state = answer.state;
            }
        }
        Ok(())
    }

    fn ended(&self, _: &mut Ledger<'_>, _: &[Volume], seconds: f64) -> Result<()> {
        match self.at.iter().find(|at| **at >= seconds) {
            Some(at) => Err(super::too_short(*at, seconds)),
            None => Ok(()),
        }
    }

    fn collect(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Vec<(String, String)>> {
        let state = self.session.borrow().state.clone();
        let answer = self.ask(ground, Verb::Collect, on, &state);
        let mut kept = Vec::new();
        let log = std::mem::take(&mut self.session.borrow_mut().log);
        if !log.is_empty() {
            kept.push((format!("{}.log", self.name), log.join("\n") + "\n"));
        }
        let state = answer?.state;
        if !state.is_null() {
            kept.push((format!("{}.json", self.name), format!("{state:#}\n")));
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests;
