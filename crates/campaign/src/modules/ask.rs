//! `ask`: a person does what no program can.
//!
//! Somebody has to pull a disk, press a switch or plug in a cable, at the right moment of a long
//! campaign, and has to put it back. Without a terminal nobody can, and a cell that was measured
//! with the disk in place must not pass for one without it.

use std::time::Duration;

use super::command::with_volume;
use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Fault, Ground, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "ask",
    keys: Keys::AndNames(&["text", "undo", "without-terminal"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Ask::read(given)?)),
};

/// A person may sleep, or be in another town.
const LIMIT: Duration = Duration::from_hours(48);

/// What is done where there is no terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    Refuse,
    Skip,
}

struct Ask {
    name: String,
    /// What a person is asked to do.
    text: String,
    /// What takes it back.
    undo: Option<String>,
    alone: Alone,
    limit: Duration,
}

impl Ask {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        Ok(Self {
            name: given.name.clone(),
            text: given.needed("text")?.to_owned(),
            undo: given.text("undo")?.map(str::to_owned),
            alone: given
                .word("without-terminal", &[("refuse", Alone::Refuse), ("skip", Alone::Skip)])?,
            limit: given.span("limit")?.unwrap_or(LIMIT),
        })
    }
}

impl Module for Ask {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let mut does = vec![format!("asks a person: {}", with_volume(&self.text, on)?)];
        does.push(match &self.undo {
            Some(undo) => format!("undone by a person: {}", with_volume(undo, on)?),
            None => "not undone: it has no undo".to_owned(),
        });
        if self.alone == Alone::Refuse && ground.may_ask() && !ground.is_attended() {
            let text = "a person is to be asked, and there is no terminal\n  = help: run it at a \
                        terminal, or write without-terminal = \"skip\"";
            return Err(Fault::Lacking(text.to_owned()));
        }
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let (text, ground) = (with_volume(&self.text, on)?, ledger.ground());
        let undo = self.undo.as_ref().map(|undo| with_volume(undo, on)).transpose()?;
        let came = if self.alone == Alone::Skip && !ground.is_attended() {
            "skipped, because there was no terminal".to_owned()
        } else {
            let begun = ground.seconds();
            ledger.asked(&text, undo, self.limit)?;
            format!("done by a person, {:.1} s after it was asked", ground.seconds() - begun)
        };
        ledger.keep(format!("{}.txt", self.name), format!("{text}\n{came}\n"));
        Ok(on.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    fn ask(more: &[(&str, &str)]) -> Ask {
        let mut settings = vec![("text", "pull {volume}"), ("undo", "put {volume} back")];
        settings.extend(more);
        let one = |(key, value): (&str, &str)| (key.to_owned(), Value::One(value.to_owned()));
        let settings = settings.into_iter().map(one).collect();
        Ask::read(&Given { name: "ask".to_owned(), settings, ..Given::default() }).unwrap()
    }

    fn machine() -> (Fake, Vec<Volume>) {
        let fake = Fake::new();
        fake.state_mut().put_disk("/dev/sda", 1 << 30);
        let on = vec![fake.volume("/dev/sda").unwrap()];
        (fake, on)
    }

    #[test]
    fn a_person_is_asked_until_the_answer_is_yes_and_asked_to_take_it_back() {
        let (fake, on) = machine();
        for line in ["what?", "yes", "y"] {
            fake.will_answer(line);
        }
        ask(&[]).check(&fake, &on).unwrap();
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        ask(&[]).apply(&mut ledger, &on).unwrap();
        let kept = ledger.take_kept();
        assert_eq!(kept[0].1, "pull /dev/sda\ndone by a person, 0.0 s after it was asked\n");
        assert_eq!(ledger.undo(0).unwrap().back, [": put /dev/sda back"]);
        let told = fake.told();
        assert_eq!(told.len(), 3);
        assert!(told[0].starts_with("pull /dev/sda\n") && told[1] == told[0], "{told:?}");
        assert!(told[2].starts_with("put /dev/sda back\n"), "{told:?}");
    }

    #[test]
    fn what_a_person_does_not_do_or_take_back_is_told() {
        let (fake, on) = machine();
        fake.will_answer("no");
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let fault = ask(&[]).apply(&mut ledger, &on).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
        // A killed campaign is undone by another process, which may be at no terminal.
        let mut later = Ledger::left(&fake, fake.book()).unwrap();
        assert_eq!(later.would_undo().back, ["asks a person: put /dev/sda back"]);
        assert_eq!(later.undo(0).unwrap().left[0].why, "there is no terminal");
        fake.will_answer("no");
        assert_eq!(later.undo(0).unwrap().left[0].why, "a person says that it is not done");
        fake.will_answer("yes");
        assert_eq!(later.undo(0).unwrap().left, []);
        assert!(later.is_clear());
    }

    #[test]
    fn without_a_terminal_it_is_refused_before_any_cell_or_skipped_and_told() {
        let (fake, on) = machine();
        let fault = ask(&[]).check(&fake, &on).unwrap_err();
        assert!(matches!(fault, Fault::Lacking(_)), "{fault:?}");
        let skips = ask(&[("without-terminal", "skip")]);
        skips.check(&fake, &on).unwrap();
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        skips.apply(&mut ledger, &on).unwrap();
        assert_eq!(ledger.mark(), 0, "nothing is to be taken back");
        let kept = ledger.take_kept();
        assert_eq!(kept[0].1, "pull /dev/sda\nskipped, because there was no terminal\n");
    }
}
