//! The other hosts of a campaign: their agents, and what is said to them.
//!
//! The conversation itself is `ioecho_campaign::conversation`, which is pure; here are the
//! processes and pipes ([`link`], [`reach`]), the hosts of a cell in one pair of hands ([`party`]),
//! loads and results ([`bulk`], for [`several`] hosts at once), an attempt at a cell ([`attempt`]),
//! its set-up ([`across`]), and what hosts say before any of it ([`probe`]).

mod across;
pub(super) mod attempt;
pub(super) mod build;
pub(super) mod bulk;
mod link;
mod party;
pub(super) mod probe;
mod reach;
mod several;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use ioecho_campaign::across::Up;
use ioecho_campaign::file::{File, Host};
use ioecho_campaign::protocol::{ALIVE_EVERY_S, ToAgent};
use ioecho_run::digest;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::link::{Link, Mouth};
use self::party::Party;
use crate::exit::{self, Coded};

/// How long an agent may take to undo and to end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A host, and its agent while there is one.
struct There {
    /// Its number in the campaign.
    number: usize,
    host: Host,
    link: Option<Link>,
    /// How many agents were started there.
    turns: u32,
    /// Whether an agent there has worked for this process.
    was_ours: bool,
    facts: BTreeMap<String, String>,
    /// What is set up there.
    up: Up,
    /// How far its replay is.
    progress: Progress,
}

/// How far the replay of a host is.
#[derive(Clone, Copy, Default)]
struct Progress {
    seconds: f64,
    completed: u64,
    p99_ns: Option<u64>,
}

/// All hosts of a campaign.
pub(super) struct Hosts<'a> {
    names: Vec<String>,
    /// How high each stands in stacks that go across hosts.
    ranks: Vec<usize>,
    /// Those that are in no hands, by their numbers.
    all: Mutex<Vec<Option<There>>>,
    /// The campaign's name in spools.
    campaign: String,
    build: String,
    mouths: Arc<Mutex<Vec<Weak<Mouth>>>>,
    is_quiet: bool,
    /// Whether somebody asks for the end.
    asked: Box<dyn Fn() -> bool + Send + Sync + 'a>,
    is_given_up: AtomicBool,
}

impl<'a> Hosts<'a> {
    /// The hosts of a campaign with this store. Nothing is started yet.
    pub(super) fn new(
        file: &File,
        store: &Path,
        is_quiet: bool,
        asked: impl Fn() -> bool + Send + Sync + 'a,
    ) -> anyhow::Result<Self> {
        let there = |(number, host): (usize, &Host)| There {
            number,
            host: host.clone(),
            link: None,
            turns: 0,
            was_ours: false,
            facts: BTreeMap::new(),
            up: Up::Nothing,
            progress: Progress::default(),
        };
        open_files(file.hosts.len())?;
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let path = std::path::absolute(store)?;
        let named = digest::of_bytes(format!("{}\n{}", machine.trim(), path.display()).as_bytes());
        let mouths = Arc::new(Mutex::new(Vec::<Weak<Mouth>>::new()));
        let own = Arc::downgrade(&mouths);
        ioecho_linux::thread::start("alive", move || {
            // It ends with the campaign.
            while let Some(mouths) = own.upgrade() {
                let mut all = mouths.lock().unwrap_or_else(PoisonError::into_inner);
                all.retain(|mouth| mouth.strong_count() > 0);
                let there: Vec<Arc<Mouth>> = all.iter().filter_map(Weak::upgrade).collect();
                drop(all);
                for mouth in there {
                    // One that cannot hear is noticed by what it does not say.
                    let _ = mouth.say(&ToAgent::Alive, Duration::ZERO);
                }
                drop(mouths);
                thread::sleep(Duration::from_secs(ALIVE_EVERY_S));
            }
        })?;
        Ok(Self {
            names: file.hosts.iter().map(|host| host.name.clone()).collect(),
            ranks: file.hosts.iter().map(|host| file.rank(&host.name)).collect(),
            all: Mutex::new(file.hosts.iter().enumerate().map(there).map(Some).collect()),
            campaign: named[..16].to_owned(),
            build: build::own()?,
            mouths,
            is_quiet,
            asked: Box::new(asked),
            is_given_up: AtomicBool::new(false),
        })
    }

    /// Takes the hosts of these names in hand, in their order. What is told of them begins with
    /// `of`.
    ///
    /// # Errors
    ///
    /// In words, if there is no such host, or another party has it.
    fn party<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        of: String,
    ) -> Result<Party<'_>, String> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        for name in names {
            let number = self.names.iter().position(|other| other == name);
            let Some(there) = number.and_then(|number| all.get_mut(number)?.take()) else {
                Self::put_back(&mut all, taken);
                return Err(format!("{name} is no host that has nothing to do"));
            };
            taken.push(there);
        }
        drop(all);
        Ok(Party::new(self, taken, of))
    }

    fn take_back(&self, taken: Vec<There>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        Self::put_back(&mut all, taken);
    }

    fn put_back(all: &mut [Option<There>], taken: Vec<There>) {
        for there in taken {
            let number = there.number;
            all[number] = Some(there);
        }
    }

    /// An agent is told again and again that its campaign is there.
    fn is_alive_to(&self, mouth: Weak<Mouth>) {
        self.mouths.lock().unwrap_or_else(PoisonError::into_inner).push(mouth);
    }

    /// Whether somebody asks for the end.
    fn is_asked(&self) -> bool {
        self.is_given_up.load(Relaxed) || (self.asked)()
    }

    /// Ends what goes on on all hosts.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
    }
}

/// How many files this process has open beside those of agents: its store, results, a merge.
const OTHER_FILES: u64 = 256;

/// Makes room for the open files of so many agents: three pipes each.
fn open_files(agents: usize) -> anyhow::Result<()> {
    let needed = 3 * agents as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    // No limit is none.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let too_few = || {
        let most = limit.maximum.unwrap_or(needed);
        let text = format!(
            "{agents} hosts need {needed} open files, and the limit is {most}\n  = help: `ulimit \
             -Hn {needed}` as root, or LimitNOFILE of the service, before the campaign"
        );
        Coded::error(exit::REFUSED, text)
    };
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(too_few());
    }
    let current = Some(needed);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).map_err(|_| too_few())
}
