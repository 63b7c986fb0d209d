//! Setting up and taking down: a stack on a machine.
//!
//! This is what an agent does on its host: it holds the ledger, raises a cell's stack on what
//! stands already, and takes down what the next cell does not share.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ground::Ground;
use serde::Serialize;

use crate::ground::{Fault, Result, Volume};
use crate::ledger::{Ledger, Undone};
use crate::modules::{Module, Outlook};
use crate::stack::{Placed, Standing, staying};

/// A module that stands.
struct Raised {
    standing: Standing,
    module: Box<dyn Module>,
    /// The ledger's mark before it.
    mark: usize,
    /// The volumes above it.
    volumes: Vec<Volume>,
}

/// The stack that stands on a machine.
pub struct Setup<'g> {
    ledger: Ledger<'g>,
    /// Relative paths begin here.
    base: String,
    bottom: Vec<Volume>,
    raised: Vec<Raised>,
    /// What taking down came to so far.
    undone: Undone,
}

/// A module of a stack, and what it would do.
#[derive(Clone, Debug, Serialize)]
pub struct Foreseen {
    /// The name of its entry.
    pub name: String,
    /// What it builds on.
    #[serde(skip)]
    pub on: Vec<Volume>,
    /// The files that it runs from the campaign's directory, by their hashes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// What it would do.
    #[serde(flatten)]
    pub outlook: Outlook,
}

impl Foreseen {
    /// The volumes whose data it would lose.
    pub fn lost(&self) -> impl Iterator<Item = &Volume> {
        self.on.iter().filter(|on| self.outlook.loses.contains(&on.path))
    }

    /// One of them whose data may not be lost.
    pub fn forbidden(&self) -> Option<&Volume> {
        self.lost().find(|on| !on.may_lose)
    }
}

/// What each module of a stack would do on these volumes.
///
/// # Errors
///
/// The first thing that does not go together. Nothing was touched.
pub fn outlook(
    ground: &dyn Ground,
    stack: &[Placed],
    bottom: &[Volume],
    base: &str,
) -> Result<Vec<Foreseen>> {
    let (mut volumes, mut all) = (bottom.to_vec(), Vec::new());
    for placed in stack {
        let outlook = read(placed, base)?.check(ground, &volumes).map_err(|it| by(placed, it))?;
        let on = std::mem::replace(&mut volumes, outlook.volumes.clone());
        let (name, programs) = (placed.name.clone(), placed.programs.clone());
        all.push(Foreseen { name, on, programs, outlook });
    }
    Ok(all)
}

impl<'g> Setup<'g> {
    /// Nothing stands yet.
    pub fn new(ledger: Ledger<'g>, base: &str) -> Self {
        let (bottom, raised, undone) = (Vec::new(), Vec::new(), Undone::default());
        Self { ledger, base: base.to_owned(), bottom, raised, undone }
    }

    /// Raises a stack on these volumes; what is returned are the volumes for the replay. `turn` is
    /// the branch and the repeat of the cell.
    ///
    /// # Errors
    ///
    /// If a module fails. What it began is taken back.
    pub fn raise(
        &mut self,
        stack: &[Placed],
        bottom: &[Volume],
        turn: (usize, u32),
    ) -> Result<Vec<Volume>> {
        let standing: Vec<Standing> = self.raised.iter().map(|it| it.standing.clone()).collect();
        let keep = if self.bottom == bottom { staying(&standing, stack, turn) } else { 0 };
        self.take_down(keep)?;
        if !self.undone.left.is_empty() {
            let text = "the machine is not as it was found, so nothing is set up on it";
            return Err(Fault::Refused(text.to_owned()));
        }
        self.bottom = bottom.to_vec();
        let mut volumes = self.volumes().to_vec();
        for placed in &stack[keep..] {
            let module = read(placed, &self.base)?;
            let mark = self.ledger.mark();
            self.ledger.works_for(&placed.name);
            let applied = module.apply(&mut self.ledger, &volumes).and_then(|after| {
                module.verify(self.ledger.ground(), &after)?;
                Ok(after)
            });
            match applied {
                Ok(after) => volumes = after,
                Err(fault) => {
                    self.undo(mark)?;
                    return Err(by(placed, fault));
                }
            }
            let standing = Standing { placed: placed.clone(), turn };
            self.raised.push(Raised { standing, module, mark, volumes: volumes.clone() });
        }
        Ok(volumes)
    }

    /// The volumes on top of what stands.
    fn volumes(&self) -> &[Volume] {
        self.raised.last().map_or(&self.bottom, |raised| &raised.volumes)
    }

    /// Does what is due while the replay goes on ([`Module::beside`]).
    ///
    /// # Errors
    ///
    /// If a module fails.
    pub fn beside(&mut self, span: &Range<f64>) -> Result<()> {
        for raised in &self.raised {
            self.ledger.works_for(&raised.standing.placed.name);
            raised
                .module
                .beside(&mut self.ledger, &raised.volumes, span.clone())
                .map_err(|fault| by(&raised.standing.placed, fault))?;
        }
        Ok(())
    }

    /// A replay has ended after so many seconds ([`Module::ended`]).
    ///
    /// # Errors
    ///
    /// The first fault of a module; each of them was asked.
    pub fn ended(&mut self, seconds: f64) -> Result<()> {
        let mut came = Ok(());
        for raised in &self.raised {
            self.ledger.works_for(&raised.standing.placed.name);
            let ended = raised.module.ended(&mut self.ledger, &raised.volumes, seconds);
            came = came.and(ended.map_err(|fault| by(&raised.standing.placed, fault)));
        }
        came
    }

    /// What is typed in front of the replay's command.
    ///
    /// # Errors
    ///
    /// If something that was set up is gone.
    pub fn launch(&self) -> Result<Vec<String>> {
        let (tag, mut words) = (self.ledger.tag(), Vec::new());
        for raised in &self.raised {
            let launched = raised.module.launch(self.ledger.ground(), &tag);
            words.extend(launched.map_err(|fault| by(&raised.standing.placed, fault))?);
        }
        Ok(words)
    }

    /// What the modules keep with the results: names of files, and their texts.
    ///
    /// # Errors
    ///
    /// If a module fails.
    pub fn collect(&mut self) -> Result<Vec<(String, String)>> {
        let mut kept = self.ledger.take_kept();
        for raised in &self.raised {
            let collected = raised.module.collect(self.ledger.ground(), &raised.volumes);
            kept.extend(collected.map_err(|fault| by(&raised.standing.placed, fault))?);
        }
        Ok(kept)
    }

    /// Takes down what stands above so many modules.
    ///
    /// # Errors
    ///
    /// If the undo file cannot be written.
    pub fn take_down(&mut self, keep: usize) -> Result<()> {
        let Some(first) = self.raised.get(keep) else { return Ok(()) };
        let mark = first.mark;
        self.raised.truncate(keep);
        self.undo(mark)
    }

    fn undo(&mut self, mark: usize) -> Result<()> {
        let came = self.ledger.undo(mark)?;
        self.undone.back.extend(came.back);
        self.undone.left.extend(came.left);
        Ok(())
    }

    /// Takes down everything, and closes the ledger if the machine is as it was found.
    ///
    /// # Errors
    ///
    /// If the undo file cannot be written or removed.
    pub fn end(mut self) -> Result<Undone> {
        self.raised.clear();
        // What was left before is looked at again.
        self.undone.left.clear();
        self.undo(0)?;
        if self.ledger.is_clear() {
            self.ledger.close()?;
        }
        Ok(self.undone)
    }

    /// Whether something could not be taken back.
    pub fn is_left(&self) -> bool {
        !self.undone.left.is_empty()
    }
}

fn read(placed: &Placed, base: &str) -> Result<Box<dyn Module>> {
    placed.read(base).map_err(|wrong| by(placed, Fault::Refused(wrong.reason)))
}

/// A fault with the name of its module in front.
fn by(placed: &Placed, fault: Fault) -> Fault {
    let told = |text: String| format!("{}: {text}", placed.name);
    match fault {
        Fault::Refused(text) => Fault::Refused(told(text)),
        Fault::Lacking(text) => Fault::Lacking(told(text)),
        Fault::Failed(text) => Fault::Failed(told(text)),
        Fault::Stopped => Fault::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ground::fake::Fake;
    use crate::modules::Every;
    use crate::value::Value;

    const REQUESTS: &str = "/sys/block/sda/queue/nr_requests";

    fn machine() -> Fake {
        let fake = Fake::new();
        fake.state_mut().put("/sys/block/sda/queue/scheduler", "[none] bfq");
        fake.state_mut().put("/sys/block/sda", "");
        fake.state_mut().put(REQUESTS, "256");
        fake.state_mut().put_disk("/dev/sda", 1 << 30);
        fake
    }

    fn queue(name: &str, key: &str, value: &str) -> Placed {
        let settings = [(format!("set.{key}"), Value::One(value.to_owned()))].into();
        let (module, name) = ("queue".to_owned(), name.to_owned());
        let (hosts, programs) = (Vec::new(), BTreeMap::new());
        Placed { every: Every::Once, hosts, module, name, programs, settings }
    }

    #[test]
    fn a_stack_is_raised_on_what_stands_and_ended() {
        let fake = machine();
        let on = [fake.volume("/dev/sda").unwrap()];
        let ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let mut setup = Setup::new(ledger, "");
        let requests = |fake: &Fake| fake.state().files[REQUESTS].clone();
        let (low, high) = (queue("a", "scheduler", "bfq"), queue("b", "nr_requests", "64"));
        setup.raise(&[low.clone(), high], &on, (0, 1)).unwrap();
        assert_eq!(requests(&fake), "64");
        let lines = fake.book_text().unwrap().lines().count();
        setup.raise(&[low, queue("b", "nr_requests", "32")], &on, (0, 1)).unwrap();
        assert_eq!(requests(&fake), "32");
        // The one below stood: what was undone, begun and done is one setting.
        assert_eq!(fake.book_text().unwrap().lines().count() - lines, 3);
        setup.raise(&[], &on, (0, 1)).unwrap();
        assert_eq!(requests(&fake), "256");
        assert_eq!(setup.end().unwrap().left, []);
        assert_eq!(fake.book_text(), None);
    }

    #[test]
    fn a_module_that_fails_is_taken_back_and_what_stands_below_stays() {
        let fake = machine();
        let on = [fake.volume("/dev/sda").unwrap()];
        let ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let mut setup = Setup::new(ledger, "");
        let (good, bad) = (queue("a", "nr_requests", "64"), queue("b", "scheduler", "cfq"));
        let fault = setup.raise(&[good, bad], &on, (0, 1)).unwrap_err();
        assert!(matches!(&fault, Fault::Failed(text) if text.starts_with("b: ")), "{fault:?}");
        assert_eq!(fake.state().files[REQUESTS], "64");
        setup.end().unwrap();
        assert_eq!(fake.state().files[REQUESTS], "256");
    }

    #[test]
    fn where_something_is_left_nothing_more_is_set_up() {
        let fake = machine();
        let on = [fake.volume("/dev/sda").unwrap()];
        let ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let mut setup = Setup::new(ledger, "");
        setup.raise(&[queue("a", "nr_requests", "64")], &on, (0, 1)).unwrap();
        fake.state_mut().put(REQUESTS, "1000");
        let fault = setup.raise(&[queue("a", "nr_requests", "32")], &on, (0, 1)).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
        assert!(setup.is_left());
        assert_eq!(setup.end().unwrap().left.len(), 1);
        assert!(fake.book_text().is_some(), "an open ledger keeps the machine closed");
    }
}
