//! What an agent does, one thing after the other.

use std::fs::{self, File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};

use ioecho_campaign::ground::{Fault, Ground as _, Kind, Volume};
use ioecho_campaign::ledger::Ledger;
use ioecho_campaign::plan::is_simulated;
use ioecho_campaign::protocol::{DeviceThere, FaultKind, FromAgent, PROTOCOL, RunName, ToAgent};
use ioecho_campaign::setup::outlook;
use ioecho_campaign::stack::Placed;
use ioecho_linux::OpenDirectory;
use ioecho_run::{digest, regular};

use super::home::{Home, of_attempt};
use super::kept;
use super::others;
use super::replaying::{On, Replaying};
use super::voice::Voice;
use super::{Asked, Told};
use crate::commands::campaign::doing::environment;
use crate::commands::campaign::ground::Here;
use crate::commands::campaign::hosts::{build, bulk};
use crate::commands::campaign::machine::Machine;
use crate::commands::campaign::setting_up::{self, Host, Locks};
use crate::commands::campaign::undo_files::UndoFiles;
use crate::exit;
use crate::print::tell;

/// The campaign that an agent works for.
struct For {
    campaign: String,
    spool: OpenDirectory,
    /// The lock that a replay holds as well.
    running: File,
    _own: File,
}

/// What an agent has in its hands.
pub(super) struct Worker {
    home: Home,
    voice: Arc<Voice>,
    asked: Arc<Asked>,
    starts: mpsc::Receiver<Told>,
    works_for: Option<For>,
    /// This host, once something is set up on it. It is held as long as the agent lives, because
    /// commands hold its lock as well.
    ground: Option<(Locks, &'static Machine<'static>)>,
    /// What is set up, once something is.
    up: Option<Host<'static>>,
    on: On,
    /// What modules of an earlier agent had to say of the replay that it brought to its end.
    kept: Vec<(String, String)>,
    /// The replay that has come to its end last, unless the campaign has all of it.
    ended: Option<RunName>,
    /// Whether other hosts build on what is set up.
    hands_over: bool,
    /// Whether what is set up stays, because they still do.
    leaves: bool,
}

impl Worker {
    pub(super) fn new(
        home: Home,
        voice: Arc<Voice>,
        asked: Arc<Asked>,
        starts: mpsc::Receiver<Told>,
    ) -> Self {
        Self {
            home,
            voice,
            asked,
            starts,
            works_for: None,
            ground: None,
            up: None,
            on: On::default(),
            kept: Vec::new(),
            ended: None,
            hands_over: false,
            leaves: false,
        }
    }

    /// Does what is asked for, and says what came of it; whether it goes on.
    pub(super) fn does(&mut self, order: ToAgent) -> bool {
        let is_first = matches!(order, ToAgent::Hello { .. });
        let came = if is_first || self.works_for.is_some() {
            self.came_of(order)
        } else {
            Err(Fault::Refused("hello comes first".to_owned()))
        };
        let said = came.unwrap_or_else(|fault| {
            let kind = match &fault {
                Fault::Refused(_) => FaultKind::Refused,
                Fault::Lacking(_) => FaultKind::Lacking,
                Fault::Failed(_) => FaultKind::Failed,
                Fault::Stopped => FaultKind::Stopped,
            };
            FromAgent::Fault { kind, text: fault.to_string() }
        });
        let is_refused = is_first && matches!(said, FromAgent::Fault { .. });
        self.voice.say(&said) && !is_refused
    }

    fn came_of(&mut self, order: ToAgent) -> Result<FromAgent, Fault> {
        match order {
            ToAgent::Hello { protocol, build, campaign, host, stops_earlier } => {
                self.hello(protocol, &build, (campaign, &host), stops_earlier)
            }
            ToAgent::Check { stack, device } => self.check(&stack, &device),
            ToAgent::Apply { stack, device, turn, hands_over } => {
                self.hands_over = hands_over;
                self.apply(&stack, &device, turn)
            }
            ToAgent::Attend => {
                others::attend(self.up.as_ref(), &self.voice, &self.asked, &self.starts)
            }
            ToAgent::Leave => {
                self.leaves = true;
                Ok(FromAgent::Undone { left: Vec::new() })
            }
            ToAgent::Arm { run, flags, load, on_loss } => {
                let Some(works_for) = &self.works_for else { return Ok(FromAgent::Alive) };
                let replaying = Replaying {
                    home: &self.home,
                    voice: &self.voice,
                    asked: &self.asked,
                    starts: &self.starts,
                    spool: &works_for.spool,
                    running: &works_for.running,
                    host: self.up.as_ref(),
                    on: &self.on,
                    on_loss,
                };
                let came = replaying.run(&run, &flags, &load);
                self.asked.finishes.store(false, Relaxed);
                self.ended = came.is_ok().then_some(run);
                came
            }
            ToAgent::Look { run } => {
                let Some(works_for) = &self.works_for else { return Ok(FromAgent::Alive) };
                let left = kept::left(&works_for.spool, &run)?;
                self.kept = left.kept;
                let (seconds, said, files) = (left.seconds, left.said, left.files);
                Ok(FromAgent::Done { seconds, said, files })
            }
            ToAgent::Collect => {
                self.ended = None;
                let kept = std::mem::take(&mut self.kept);
                let texts = self.up.as_ref().map_or(Ok(kept), Host::collect)?;
                Ok(FromAgent::Kept { texts })
            }
            ToAgent::Undo => self.undo(),
            ToAgent::Drop { key, attempt } => self.forget(&key, attempt),
            // The ears know what to do with these.
            ToAgent::Start { .. }
            | ToAgent::Stop
            | ToAgent::Rest
            | ToAgent::Ping { .. }
            | ToAgent::Alive => Ok(FromAgent::Alive),
        }
    }

    fn hello(
        &mut self,
        protocol: u32,
        theirs: &str,
        (campaign, host): (String, &str),
        stops_earlier: bool,
    ) -> Result<FromAgent, Fault> {
        let own = build::own().map_err(|error| Fault::Failed(error.to_string()))?;
        if protocol != PROTOCOL {
            return Err(Fault::Refused(format!("this is protocol {PROTOCOL}, not {protocol}")));
        }
        // Another build is told what this one is, and gets no more than that.
        if own == theirs {
            let unusable = |error: std::io::Error| {
                Fault::Failed(format!("{}: {error}", self.home.path().display()))
            };
            let spool = self.home.spool(&campaign, host).map_err(unusable)?;
            let lock = |name: &str| {
                let file = spool.append(name).map_err(unusable)?;
                match file.try_lock() {
                    Ok(()) => Ok(Some(file)),
                    Err(TryLockError::WouldBlock) => Ok(None),
                    Err(TryLockError::Error(error)) => Err(unusable(error)),
                }
            };
            let busy = |what: &str| {
                let text = format!("{what} an earlier agent of this campaign began goes on");
                Ok(FromAgent::Fault { kind: FaultKind::Busy, text })
            };
            let Some(own_lock) = lock("lock")? else {
                if stops_earlier {
                    spool.put(kept::NO_USE, b"").map_err(unusable)?;
                }
                spool.put(others::WANTED, b"").map_err(unusable)?;
                return busy("what");
            };
            let _ = spool.remove(kept::NO_USE);
            let _ = spool.remove(others::WANTED);
            let Some(running) = lock("running")? else { return busy("a replay that") };
            self.works_for = Some(For { campaign, spool, running, _own: own_lock });
        }
        Ok(FromAgent::Hello { protocol: PROTOCOL, build: own, facts: environment() })
    }

    /// Where relative paths begin: on a host that is not the user's own, nowhere else.
    fn base(&self) -> &Path {
        self.home.path()
    }

    /// What a stack stands on, if the device is the one that is meant.
    fn bottom(&self, device: &DeviceThere) -> Result<Vec<Volume>, Fault> {
        let machine = Machine::new(self.base(), None, || false);
        if !device.handed.is_empty() {
            let found = |volume: &Volume| match volume.kind {
                Kind::Exported => Ok(volume.clone()),
                _ if !volume.is_there => Ok(volume.clone()),
                _ => Ok(Volume { may_lose: volume.may_lose, ..machine.volume(&volume.path)? }),
            };
            return device.handed.iter().map(found).collect();
        }
        let Some(path) = &device.path else { return Ok(Vec::new()) };
        if is_simulated(path) {
            let (path, kind) = (path.clone(), Kind::Simulated);
            return Ok(vec![Volume {
                path,
                kind,
                size: 0,
                may_lose: device.may_lose,
                is_there: true,
            }]);
        }
        if !path.starts_with('/') {
            let text =
                format!("{path} is no path from the root, and a host has no other directory");
            return Err(Fault::Refused(text));
        }
        let here = Here::new(self.base());
        here.device_now(path, &device.proof).map_err(|reason| match here.code() {
            exit::TARGET => Fault::Lacking(reason),
            _ => Fault::Refused(reason),
        })?;
        if device.may_lose && here.is_block(path) && !device.proof.is_given() {
            let text = format!(
                "{path} has no serial number in the campaign, and a path may lead to another disk \
                 tomorrow"
            );
            return Err(Fault::Refused(text));
        }
        Ok(vec![Volume { may_lose: device.may_lose, ..machine.volume(path)? }])
    }

    fn check(&self, stack: &[Placed], device: &DeviceThere) -> Result<FromAgent, Fault> {
        let machine = Machine::new(self.base(), None, || self.asked.to_stop());
        let stack = &self.with_programs(stack)?;
        let bottom = self.bottom(device)?;
        let is_real = bottom.iter().any(|volume| volume.kind != Kind::Simulated);
        if is_real || !stack.is_empty() {
            self.is_open()?;
        }
        let base = self.base().display().to_string();
        let (mut does, mut loses, mut volumes) = (Vec::new(), Vec::new(), bottom.clone());
        for module in outlook(&machine, stack, &bottom, &base)? {
            if let Some(volume) = module.forbidden() {
                let text = format!("{}: the data of {} would be lost", module.name, volume.path);
                return Err(Fault::Refused(text));
            }
            if UndoFiles::open_ones().is_empty() {
                for volume in module.lost().filter(|volume| volume.is_there) {
                    machine.unused(&volume.path)?;
                }
            }
            does.extend(module.outlook.does.iter().map(|it| format!("{}: {it}", module.name)));
            loses.extend(module.outlook.loses);
            volumes = module.outlook.volumes;
        }
        Ok(FromAgent::Outlook { does, loses, volumes })
    }

    /// A stack that runs the programs of the campaign's directory as they were sent here.
    fn with_programs(&self, stack: &[Placed]) -> Result<Vec<Placed>, Fault> {
        let place = |program: &str, hash: &str| {
            let lacking = |why: String| Fault::Lacking(format!("{program} is not here: {why}"));
            let sha256 = hash.strip_prefix("sha256:").unwrap_or_default();
            let path = self.home.load(sha256, &bulk::name_of(Path::new(program)));
            let path = path.map_err(|error| lacking(error.to_string()))?;
            let file = regular::open(&path).map_err(|error| lacking(error.to_string()))?;
            let found = digest::of_file(&path).map_err(|error| lacking(error.to_string()))?;
            if found != sha256 {
                return Err(lacking("somebody has changed it".to_owned()));
            }
            file.set_permissions(Permissions::from_mode(0o700))
                .map_err(|error| Fault::Failed(format!("{}: {error}", path.display())))?;
            Ok(path.display().to_string())
        };
        stack.iter().map(|placed| placed.elsewhere(&place)).collect()
    }

    /// Refuses a host that another campaign has not left as it found it.
    fn is_open(&self) -> Result<(), Fault> {
        if self.up.is_some() || UndoFiles::open_ones().is_empty() {
            return Ok(());
        }
        Err(Fault::Refused(setting_up::closed_text("another campaign")))
    }

    fn apply(
        &mut self,
        stack: &[Placed],
        device: &DeviceThere,
        turn: (usize, u32),
    ) -> Result<FromAgent, Fault> {
        let stack = &self.with_programs(stack)?;
        let bottom = self.bottom(device)?;
        let is_real = bottom.iter().any(|volume| volume.kind != Kind::Simulated);
        let volumes = if stack.is_empty() {
            if let Some(host) = &self.up {
                host.clear()?;
            } else if is_real {
                self.is_open()?;
            }
            self.on = On { launch: Vec::new(), targets: targets(&bottom) };
            bottom
        } else if self.hands_over {
            self.on = On::default();
            self.host()?.raise_for_others(stack, &bottom, turn)?
        } else {
            let place = self.host()?.raise(stack, &bottom, turn)?;
            self.on = On { launch: place.launch, targets: targets(&place.volumes) };
            place.volumes
        };
        Ok(FromAgent::Volumes { volumes })
    }

    /// The set-up of this host, which is taken if it is not yet.
    fn host(&mut self) -> Result<&Host<'static>, Fault> {
        if self.up.is_none() {
            let refused = |error: anyhow::Error| Fault::Refused(error.to_string());
            let (owner, base) = (self.owner(), self.base().to_owned());
            if self.ground.is_none() {
                let locks = Locks::take().map_err(refused)?;
                let asked = Arc::clone(&self.asked);
                let machine = Machine::new(&base, locks.running(), move || asked.to_stop());
                // It lives as long as the agent, which is one for all that it sets up.
                self.ground = Some((locks, Box::leak(Box::new(machine))));
            }
            if let Some((locks, machine)) = &self.ground {
                let setup = locks.begin(machine, &owner, &base).map_err(refused)?;
                self.up = Some(Host::new(machine, setup));
            }
        }
        self.up.as_ref().ok_or_else(|| Fault::Failed("nothing is set up".to_owned()))
    }

    /// Whom a ledger of this host belongs to.
    fn owner(&self) -> String {
        let campaign = self.works_for.as_ref().map_or("", |works_for| &works_for.campaign);
        format!("campaign {campaign}, from another host")
    }

    /// Whether an earlier agent of this campaign has left something set up.
    fn has_left_something(&self) -> Result<bool, Fault> {
        let open = UndoFiles::open_ones();
        if open.is_empty() {
            return Ok(false);
        }
        let refused = |error: anyhow::Error| Fault::Refused(error.to_string());
        let (files, owner) = (UndoFiles::make().map_err(refused)?, self.owner());
        let machine = Machine::new(self.base(), None, || false);
        for id in open {
            let book = Box::new(files.book(&id).map_err(refused)?);
            if Ledger::left(&machine, book)?.owner() == owner {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes down everything, also what an earlier agent of this campaign has left.
    fn undo(&mut self) -> Result<FromAgent, Fault> {
        if self.up.is_none() && self.has_left_something()? {
            self.host()?;
        }
        let mut left = Vec::new();
        if let Some(host) = self.up.take() {
            self.on = On::default();
            left = host.end().map_err(|error| Fault::Failed(error.to_string()))?;
        }
        Ok(FromAgent::Undone { left })
    }

    /// Removes the results of an attempt, and of those before it.
    fn forget(&self, key: &str, attempt: u32) -> Result<FromAgent, Fault> {
        let Some(works_for) = &self.works_for else { return Ok(FromAgent::Dropped) };
        let removed = (1..=attempt).try_for_each(|number| {
            let path = works_for.spool.path().join(of_attempt(key, number)?);
            if path.exists() { fs::remove_dir_all(path) } else { Ok(()) }
        });
        removed.map_err(|error| Fault::Failed(error.to_string()))?;
        Ok(FromAgent::Dropped)
    }

    /// Keeps what modules have to say of a replay that the campaign has not fetched yet: it will
    /// ask a later agent, when nothing is set up any more.
    fn keep(&self) -> Result<(), Fault> {
        let (Some(run), Some(host), Some(of)) = (&self.ended, &self.up, &self.works_for) else {
            return Ok(());
        };
        let mut left = kept::left(&of.spool, run)?;
        if left.kept.is_empty() {
            left.kept = host.collect()?;
            let failed = |error: std::io::Error| Fault::Failed(error.to_string());
            let name = of_attempt(&run.key, run.attempt).map_err(failed)?;
            let place = OpenDirectory::open(&of.spool.path().join(name)).map_err(failed)?;
            left.put(&place, &run.name).map_err(failed)?;
        }
        Ok(())
    }

    /// Ends: everything is taken down, unless others still stand on it.
    pub(super) fn end(mut self) -> anyhow::Result<u8> {
        if let Err(fault) = self.keep() {
            tell(&format!("what modules keep with the results is lost: {fault}"));
        }
        let Some(host) = self.up.take() else { return Ok(exit::OK) };
        let spool = self.works_for.as_ref().map(|works_for| &works_for.spool);
        let has_gone = |spool| others::have_gone(&self.asked, spool);
        if self.leaves || (self.hands_over && !spool.is_none_or(has_gone)) {
            return Ok(exit::MACHINE_CHANGED);
        }
        let left = host.end()?;
        Ok(if left.is_empty() { exit::OK } else { exit::MACHINE_CHANGED })
    }
}

fn targets(volumes: &[Volume]) -> Vec<(String, bool)> {
    volumes.iter().map(|volume| (volume.path.clone(), volume.may_lose)).collect()
}
