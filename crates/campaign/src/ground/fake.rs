//! A machine in memory, for tests: files, programs, a boot, and a power switch.
//!
//! Programs are closures on its state. [`Fake::dies_at`] lets the machine lose the process at a
//! given operation, before or after its effect; every later operation fails until
//! [`Fake::revive`], so a test can kill at each of them in turn.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::{Book, Command, Fault, Ground, Hands, Kind, Output, Result, Volume};

/// A program of the machine.
type Program = Rc<dyn Fn(&mut State, &[&str]) -> Output>;

/// Where a program finds what it reads.
pub(crate) const INPUT: &str = "/dev/stdin";

/// What the machine has.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Its files by their paths; a directory is a path with an empty text.
    pub(crate) files: BTreeMap<String, String>,
    /// Its volumes by their paths.
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Why volumes are in use, by their paths.
    pub(crate) used: BTreeMap<String, String>,
    /// Its boot.
    pub(crate) boot: u32,
    /// What was run, in words.
    pub(crate) ran: Vec<String>,
}

impl State {
    /// Adds a file.
    pub(crate) fn put(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.to_owned());
    }

    /// Adds a block device of this size.
    pub(crate) fn put_disk(&mut self, path: &str, size: u64) {
        let kind = Kind::Block;
        let volume = Volume { path: path.to_owned(), kind, size, may_lose: false, is_there: true };
        self.volumes.insert(path.to_owned(), volume);
    }
}

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Before the effect of the operation.
    Before(usize),
    /// After it, before anybody learns of it.
    After(usize),
    /// In the middle of it, if it writes a line; otherwise as `Before`.
    Within(usize),
}

/// A machine in memory.
#[derive(Default)]
pub(crate) struct Fake {
    state: RefCell<State>,
    programs: RefCell<BTreeMap<String, Program>>,
    /// The undo file; it outlives the process and the boot.
    book: RefCell<Option<String>>,
    operations: Cell<usize>,
    death: Cell<Option<Death>>,
    is_dead: Cell<bool>,
    clock_s: Cell<f64>,
    /// A file that changes whenever time goes by.
    busy: RefCell<Option<String>>,
    /// Files that go when the clock has come so far.
    going: RefCell<Vec<(f64, String)>>,
    /// What was told to whoever watches.
    told: RefCell<Vec<String>>,
    /// What a person will answer, line by line; without any there is no terminal.
    answers: RefCell<VecDeque<String>>,
}

impl Fake {
    /// A machine with nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// What it has.
    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// What it has, to be changed by somebody else.
    pub(crate) fn state_mut(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Installs a program; its arguments are without its name.
    pub(crate) fn install(
        &self,
        name: &str,
        program: impl Fn(&mut State, &[&str]) -> Output + 'static,
    ) {
        self.programs.borrow_mut().insert(name.to_owned(), Rc::new(program));
    }

    /// The undo file.
    pub(crate) fn book(&self) -> Box<dyn Book + '_> {
        Box::new(FakeBook(self))
    }

    /// The text of the undo file, if there is one.
    pub(crate) fn book_text(&self) -> Option<String> {
        self.book.borrow().clone()
    }

    /// Lets the process die at an operation, counted from now on.
    pub(crate) fn dies_at(&self, death: Option<Death>) {
        self.operations.set(0);
        self.death.set(death);
    }

    /// Lets a file change whenever time goes by.
    pub(crate) fn keeps_busy(&self, file: &str) {
        *self.busy.borrow_mut() = Some(file.to_owned());
    }

    /// Lets a file go after so many seconds.
    pub(crate) fn lets_go(&self, file: &str, after_s: f64) {
        self.going.borrow_mut().push((self.clock_s.get() + after_s, file.to_owned()));
    }

    /// What was told to whoever watches.
    pub(crate) fn told(&self) -> Vec<String> {
        self.told.borrow().clone()
    }

    /// Lets a person answer this.
    pub(crate) fn will_answer(&self, line: &str) {
        self.answers.borrow_mut().push_back(line.to_owned());
    }

    /// Whether the process died.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Begins another process.
    pub(crate) fn revive(&self) {
        self.is_dead.set(false);
        self.dies_at(None);
    }

    /// Does a changing operation, unless the process dies at it. `half` is what is left of it where
    /// it dies in the middle.
    fn operate<T>(&self, half: impl FnOnce(), effect: impl FnOnce() -> Result<T>) -> Result<T> {
        let dead = || Fault::Failed("killed".to_owned());
        if self.is_dead.get() {
            return Err(dead());
        }
        let number = self.operations.get();
        self.operations.set(number + 1);
        match self.death.get() {
            Some(Death::Before(at)) if at == number => self.is_dead.set(true),
            Some(Death::Within(at)) if at == number => {
                half();
                self.is_dead.set(true);
            }
            Some(Death::After(at)) if at == number => {
                let _ = effect();
                self.is_dead.set(true);
            }
            _ => return effect(),
        }
        Err(dead())
    }

    fn call(&self, command: &Command) -> Result<Output> {
        let program = self.programs.borrow().get(command.program()).cloned();
        let Some(program) = program else {
            return Err(Fault::Lacking(format!("{}: there is no such program", command.program())));
        };
        if let Some(input) = &command.input {
            self.state_mut().put(INPUT, input);
        }
        let words: Vec<&str> = command.argv.iter().skip(1).map(String::as_str).collect();
        Ok(program(&mut self.state.borrow_mut(), &words))
    }

    fn alive(&self) -> Result<()> {
        if self.is_dead.get() { Err(Fault::Failed("killed".to_owned())) } else { Ok(()) }
    }
}

impl Ground for Fake {
    fn boot(&self) -> String {
        format!("boot-{}", self.state.borrow().boot)
    }

    fn read(&self, path: &str) -> Result<Option<String>> {
        self.alive()?;
        Ok(self.state.borrow().files.get(path).cloned())
    }

    fn exists(&self, path: &str) -> bool {
        let state = self.state.borrow();
        state.files.contains_key(path) || state.volumes.contains_key(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        self.alive()?;
        let within = format!("{}/", path.trim_end_matches('/'));
        let state = self.state.borrow();
        let mut files = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
        let is_text = |it: &&str| state.files.get(*it).is_some_and(|text| !text.is_empty());
        if let Some(file) = files.find(is_text) {
            return Err(Fault::Failed(format!("{path}: {file} is no directory")));
        }
        let below = state.files.keys().filter_map(|file| file.strip_prefix(&within));
        let mut names: Vec<String> =
            below.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        names.dedup();
        Ok(names)
    }

    fn real(&self, path: &str) -> Option<String> {
        self.exists(path).then(|| path.to_owned())
    }

    fn volume(&self, path: &str) -> Result<Volume> {
        self.alive()?;
        let found = self.state.borrow().volumes.get(path).cloned();
        found.ok_or_else(|| Fault::Lacking(format!("{path}: there is no such device or file")))
    }

    fn unused(&self, path: &str) -> Result<()> {
        self.alive()?;
        let why = self.state.borrow().used.get(path).cloned();
        why.map_or(Ok(()), |why| Err(Fault::Refused(format!("{path}: {why}"))))
    }

    fn has_program(&self, name: &str) -> bool {
        self.programs.borrow().contains_key(name)
    }

    fn ioecho(&self) -> String {
        "ioecho".to_owned()
    }

    fn ask(&self, command: &Command) -> Result<Output> {
        self.alive()?;
        let before = self.state.borrow().clone();
        let output = self.call(command);
        // What only asks changes nothing, whatever the program did.
        *self.state.borrow_mut() = before;
        output
    }

    fn tell(&self, text: &str) {
        self.told.borrow_mut().push(text.to_owned());
    }

    fn is_attended(&self) -> bool {
        !self.answers.borrow().is_empty()
    }

    fn person(&self, question: &str, _: Duration) -> Result<String> {
        self.alive()?;
        let answer = self.answers.borrow_mut().pop_front();
        let answer = answer.ok_or_else(|| Fault::Lacking("there is no terminal".to_owned()))?;
        self.tell(question);
        Ok(answer)
    }

    fn seconds(&self) -> f64 {
        self.clock_s.get()
    }

    fn wait(&self, span: Duration) -> Result<()> {
        self.alive()?;
        self.clock_s.set(self.clock_s.get() + span.as_secs_f64());
        if let Some(file) = &*self.busy.borrow() {
            self.state_mut().put(file, &self.clock_s.get().to_string());
        }
        for (at_s, file) in &*self.going.borrow() {
            if *at_s <= self.clock_s.get() {
                self.state_mut().files.remove(file);
            }
        }
        Ok(())
    }
}

impl Hands for Fake {
    fn write(&self, path: &str, text: &str) -> Result<()> {
        self.operate(
            || {},
            || match self.state.borrow_mut().files.get_mut(path) {
                Some(file) => {
                    *file = written(file, text);
                    Ok(())
                }
                None => Err(Fault::Failed(format!("{path}: there is no such file"))),
            },
        )
    }

    fn run(&self, command: &Command) -> Result<Output> {
        self.operate(
            || {},
            || {
                self.state.borrow_mut().ran.push(command.to_string());
                self.call(command)
            },
        )
    }
}

/// The text of a file of the kernel after a write: of `none [other]` the written word is chosen, of
/// words with `+` and `-` one comes or goes, any other file has the text.
fn written(file: &str, text: &str) -> String {
    if file.contains('[') {
        let words = file.split_whitespace().map(|word| word.trim_matches(['[', ']']));
        let chosen =
            words.map(|word| if word == text { format!("[{word}]") } else { word.to_owned() });
        return chosen.collect::<Vec<_>>().join(" ");
    }
    let mut words: Vec<&str> = file.split_whitespace().collect();
    if let Some(word) = text.strip_prefix('+') {
        words.push(word);
        return words.join(" ");
    }
    if let Some(word) = text.strip_prefix('-').filter(|it| words.contains(it)) {
        words.retain(|other| *other != word);
        return words.join(" ");
    }
    text.to_owned()
}

struct FakeBook<'f>(&'f Fake);

impl Book for FakeBook<'_> {
    fn append(&mut self, line: &str) -> Result<()> {
        let add = |text: &str| {
            self.0.book.borrow_mut().get_or_insert_default().push_str(text);
        };
        self.0.operate(
            || add(&line[..line.len() / 2]),
            || {
                add(line);
                Ok(())
            },
        )
    }

    fn text(&self) -> Result<String> {
        self.0.alive()?;
        Ok(self.0.book.borrow().clone().unwrap_or_default())
    }

    fn close(&mut self) -> Result<()> {
        self.0.operate(
            || {},
            || {
                *self.0.book.borrow_mut() = None;
                Ok(())
            },
        )
    }
}
