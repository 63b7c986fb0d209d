//! A file system in memory, in simulated time.
//!
//! It knows nothing of the states that threads share: what is there follows from the calls alone,
//! as on a real file system. So a load that errs about its tree fails here as it would fail there.
//! How long a call takes, and which fail of themselves, a simulated device says. It holds the data
//! of the files, too, where a run verifies them.
//!
//! Whether verification finds a lost name can be shown only by losing one and knowing it. So a tree
//! in memory lies where it is asked to, about names as its device does about data, and notes what
//! it did.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_trace::{Bytes, Nanos, Op, Outcome};

use super::geometry::Geometry;
use super::{FileState, Tree};
use crate::device::{Completion, Device, Io, Payload};
use crate::pattern::SplitMix64;
use crate::sim::{Copied, ENODEV, Mischief, SECTOR_BYTES, SectorStore, SimDevice};

/// The kernel's error numbers.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;
const ENOTEMPTY: i32 = 39;

/// A file that is not there.
const ABSENT: u64 = u64::MAX;

/// Makes the sequence of lies about names differ from others.
const LIES: u64 = 0x11E5;

/// A way to falsify names while reporting success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameMischief {
    /// A file or directory that was made is not there.
    Lost,
    /// One that was removed is there still.
    Kept,
    /// A file that was written beyond its end is as short as before.
    Short,
    /// A file that was moved to another tree is in both, or in neither.
    Half,
}

impl NameMischief {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Kept, Self::Short, Self::Half];

    /// What can be done to a call.
    const fn of(op: Op) -> Option<Self> {
        match op {
            Op::Create | Op::Mkdir => Some(Self::Lost),
            Op::Delete | Op::Rmdir => Some(Self::Kept),
            Op::Write => Some(Self::Short),
            Op::Move => Some(Self::Half),
            _ => None,
        }
    }
}

/// A falsified call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMisdeed {
    /// What was done.
    pub kind: NameMischief,
    /// The call that it was done to ([`Io::request`]).
    pub request: u64,
    /// The file or directory that it went to, directories behind the files.
    pub number: u64,
}

/// What is there of a tree in memory.
#[derive(Debug)]
pub struct Names {
    geometry: Geometry,
    /// The size of each file.
    files: Vec<u64>,
    /// What lies in each directory; `u32::MAX` if it is not there.
    directories: Vec<u32>,
    bytes: u64,
    capacity: u64,
    count: u64,
    count_limit: u64,
    /// How long after the first call on it the file system is gone.
    vanishes_after: Option<Nanos>,
    /// When it is gone, as soon as that is known.
    gone_at: Option<Nanos>,
    /// The data of files that came from other trees and that nothing has been done with since.
    arrived: Vec<Copied>,
}

impl Names {
    /// What the states of a tree say is there, on a file system of so many bytes and names.
    pub fn of(tree: &Tree, capacity: Bytes, count_limit: u64) -> Self {
        let geometry = tree.geometry.clone();
        let states = &tree.states;
        let size = |file| match states.file(file) {
            FileState::Absent => ABSENT,
            _ => states.written(file),
        };
        let files: Vec<u64> = (0..geometry.files()).map(size).collect();
        let there = |directory| if states.is_directory_there(directory) { 0 } else { u32::MAX };
        let directories: Vec<u32> = (0..geometry.directories()).map(there).collect();
        let mut names = Self {
            bytes: files.iter().filter(|size| **size != ABSENT).sum(),
            count: 0,
            files,
            directories,
            capacity: capacity.0,
            count_limit,
            vanishes_after: None,
            gone_at: None,
            arrived: Vec::new(),
            geometry,
        };
        for file in 0..names.files.len() as u64 {
            if names.files[file as usize] != ABSENT {
                names.count += 1;
                names.lies_in(names.geometry.directory_of(file), 1);
            }
        }
        for directory in 0..names.directories.len() as u64 {
            if names.directories[directory as usize] != u32::MAX {
                names.count += 1;
                names.lies_in(names.geometry.parent(directory), 1);
            }
        }
        names
    }

    /// The tree's shape.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The size of a file, if it is there.
    pub fn file(&self, file: u64) -> Option<u64> {
        self.size(file).ok()
    }

    /// Whether a directory is there.
    pub fn has_directory(&self, directory: u64) -> bool {
        self.is_there(Some(directory))
    }

    /// How many files and directories are there.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How many bytes all files have.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A call goes to it at this instant; answers when it is gone, if it is one that vanishes.
    fn is_called(&mut self, at: Nanos) -> Option<Nanos> {
        let after = self.vanishes_after?;
        Some(*self.gone_at.get_or_insert(at.saturating_add(after)))
    }

    /// Whether it is gone at this instant.
    fn is_gone(&self, at: Nanos) -> bool {
        self.gone_at.is_some_and(|gone| at >= gone)
    }

    fn lies_in(&mut self, directory: Option<u64>, by: i32) {
        if let Some(directory) = directory {
            let children = &mut self.directories[directory as usize];
            *children = children.wrapping_add_signed(by);
        }
    }

    fn is_there(&self, directory: Option<u64>) -> bool {
        directory.is_none_or(|directory| self.directories[directory as usize] != u32::MAX)
    }

    fn size(&self, file: u64) -> Result<u64, i32> {
        let size = self.files.get(file as usize).copied().filter(|size| *size != ABSENT);
        size.ok_or(ENOENT)
    }

    fn make(&mut self, file: u64) -> Result<(), i32> {
        let directory = self.geometry.directory_of(file);
        if !self.is_there(directory) {
            return Err(ENOENT);
        }
        if self.size(file).is_ok() {
            return Err(EEXIST);
        }
        if self.count >= self.count_limit {
            return Err(ENOSPC);
        }
        self.files[file as usize] = 0;
        self.count += 1;
        self.lies_in(directory, 1);
        Ok(())
    }

    fn remove(&mut self, file: u64) -> Result<u64, i32> {
        let size = self.size(file)?;
        self.files[file as usize] = ABSENT;
        self.bytes -= size;
        self.count -= 1;
        self.lies_in(self.geometry.directory_of(file), -1);
        Ok(size)
    }

    fn resize(&mut self, file: u64, to: u64) -> Result<(), i32> {
        let size = self.size(file)?;
        let bytes = self.bytes - size + to;
        if bytes > self.capacity && to > size {
            return Err(ENOSPC);
        }
        self.bytes = bytes;
        self.files[file as usize] = to;
        Ok(())
    }

    fn mkdir(&mut self, directory: u64) -> Result<(), i32> {
        let parent = self.geometry.parent(directory);
        if !self.is_there(parent) {
            return Err(ENOENT);
        }
        if self.is_there(Some(directory)) {
            return Err(EEXIST);
        }
        if self.count >= self.count_limit {
            return Err(ENOSPC);
        }
        self.directories[directory as usize] = 0;
        self.count += 1;
        self.lies_in(parent, 1);
        Ok(())
    }

    fn rmdir(&mut self, directory: u64) -> Result<(), i32> {
        match self.directories[directory as usize] {
            u32::MAX => return Err(ENOENT),
            0 => {}
            _ => return Err(ENOTEMPTY),
        }
        self.directories[directory as usize] = u32::MAX;
        self.count -= 1;
        self.lies_in(self.geometry.parent(directory), -1);
        Ok(())
    }

    /// Answers as if a call had been done, and does nothing of it.
    fn pretend(&mut self, io: &Io) -> Outcome {
        let number = self.geometry.number_at(io.offset.0);
        let directory = number.wrapping_sub(self.geometry.files());
        let undone = match io.op {
            Op::Create => self.make(number).and_then(|()| self.remove(number).map(|_| ())),
            Op::Mkdir => self.mkdir(directory).and_then(|()| self.rmdir(directory)),
            Op::Rmdir => self.rmdir(directory).and_then(|()| self.mkdir(directory)),
            _ => self.size(number).map(|_| ()),
        };
        undone.map_or_else(Outcome::Error, |()| Outcome::Ok)
    }

    /// Whether a write ends beyond the end of its file.
    fn is_beyond(&self, io: &Io) -> bool {
        let end = self.geometry.within(io.offset.0) + io.length.0;
        self.size(self.geometry.number_at(io.offset.0)).is_ok_and(|size| size < end)
    }

    /// Does what a call asks for; the names of the other tree are those of copies and moves.
    fn apply(&mut self, io: &Io, other: Option<&mut Self>) -> Outcome {
        let number = self.geometry.number_at(io.offset.0);
        let directory = number.wrapping_sub(self.geometry.files());
        let within = self.geometry.within(io.offset.0);
        let end = within + io.length.0;
        let done = match io.op {
            Op::Mkdir => self.mkdir(directory),
            Op::Rmdir => self.rmdir(directory),
            Op::Create => self.make(number),
            Op::Delete => self.remove(number).map(|_| ()),
            Op::Write => self.size(number).and_then(|size| self.resize(number, size.max(end))),
            Op::Read => match self.size(number) {
                Ok(size) if size < end => return Outcome::Short,
                read => read.map(|_| ()),
            },
            Op::Copy | Op::Move => match other {
                Some(other) => self.hand_over(io.op, number, other),
                None => Err(ENOENT),
            },
            _ => self.size(number).map(|_| ()),
        };
        done.map_or_else(Outcome::Error, |()| Outcome::Ok)
    }

    fn hand_over(&mut self, op: Op, file: u64, other: &mut Self) -> Result<(), i32> {
        let size = self.size(file)?;
        let is_new = other.size(file).is_err();
        if op == Op::Move && !is_new {
            return Err(EEXIST);
        }
        if is_new {
            other.make(file)?;
        }
        if let Err(error) = other.resize(file, size) {
            if is_new {
                other.remove(file)?;
            }
            return Err(error);
        }
        if op == Op::Move {
            self.remove(file)?;
        }
        Ok(())
    }

    /// Reads from a file whose data these are.
    fn read(&self, data: &SectorStore, (file, at): (u64, u64), into: &mut [u8]) -> Option<usize> {
        let length = self.file(file)?.saturating_sub(at).min(into.len() as u64) as usize;
        let first = (self.geometry.place_of_file(file) + at) / SECTOR_BYTES as u64;
        for (sector, part) in (first..).zip(into[..length].chunks_mut(SECTOR_BYTES)) {
            part.copy_from_slice(&data.get(sector)[..part.len()]);
        }
        Some(length)
    }

    /// Makes a move one that was done by half: the file is in both trees, or in neither.
    fn halve(&mut self, file: u64, other: &mut Self, in_both: bool) -> Result<(), i32> {
        if !in_both {
            return other.remove(file).map(|_| ());
        }
        let size = other.size(file)?;
        self.make(file)?;
        self.resize(file, size).or_else(|error| {
            self.remove(file)?;
            Err(error)
        })
    }
}

/// A tree in memory as a device in simulated time.
pub struct InMemory {
    device: SimDevice,
    names: Arc<Mutex<Names>>,
    other: Option<Arc<Mutex<Names>>>,
    geometry: Geometry,
    /// What was asked for, by tag.
    asked: Vec<Option<Io>>,
    /// Whether anything was asked for that was not submitted yet, and whether that goes to the
    /// other tree, too.
    is_asked: bool,
    hands_over: bool,
    /// The share of calls that are falsified, and in which ways.
    lies: (f64, Vec<NameMischief>),
    random: SplitMix64,
    misdeeds: Vec<NameMisdeed>,
}

impl InMemory {
    /// A tree whose calls take as long as the requests of this device. It lies about names where
    /// the device lies about data.
    pub fn new(
        device: SimDevice,
        names: Arc<Mutex<Names>>,
        other: Option<Arc<Mutex<Names>>>,
    ) -> Self {
        let mut device = device;
        let geometry = locked(&names).geometry.clone();
        device.holds_files(geometry.files(), Bytes(geometry.place_of_file(1)));
        locked(&names).vanishes_after = device.spec().faults.vanish;
        let (share, seed) = (device.spec().lies, device.spec().seed);
        Self {
            device,
            names,
            other,
            geometry,
            asked: Vec::new(),
            is_asked: false,
            hands_over: false,
            lies: (share, NameMischief::ALL.to_vec()),
            random: SplitMix64(seed ^ LIES),
            misdeeds: Vec::new(),
        }
    }

    /// The same tree on a device that holds data, which are falsified so, and this share of its
    /// calls on names in these ways.
    #[must_use]
    pub fn misbehaving(self, data: Mischief, names: (f64, Vec<NameMischief>)) -> Self {
        Self { device: self.device.misbehaving(data), lies: names, ..self }
    }

    /// The falsified calls on names, in order.
    pub fn misdeeds(&self) -> &[NameMisdeed] {
        &self.misdeeds
    }

    /// The device that takes the time.
    pub fn device_mut(&mut self) -> &mut SimDevice {
        &mut self.device
    }

    /// What is there.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        locked(&self.names)
    }

    /// Reads from a file, a whole number of sectors from the beginning of one on, as it is at rest;
    /// returns how much, which is less only at its end. `None` if the file is not there, or the
    /// tree holds no data.
    pub fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> Option<usize> {
        self.unpack();
        let data = self.device.sectors_mut()?;
        locked(&self.names).read(data, (file, at), into)
    }

    /// Whether a call is falsified.
    fn lies_about(&mut self, io: &Io) -> bool {
        let (share, kinds) = &self.lies;
        let Some(kind) = NameMischief::of(io.op).filter(|kind| kinds.contains(kind)) else {
            return false;
        };
        let is_fit = kind != NameMischief::Short || locked(&self.names).is_beyond(io);
        is_fit && *share > 0.0 && self.random.unit() < *share
    }

    /// Does what has completed.
    fn apply(&mut self, completions: &mut [Completion]) {
        for completion in completions {
            let asked = self.asked.get_mut(completion.tag as usize).and_then(Option::take);
            let Some(io) = asked else { continue };
            match completion.outcome {
                Outcome::Ok => completion.outcome = self.call(&io, completion.completed),
                // A read goes on behind what it got, so it comes short at the end of a file alone.
                Outcome::Short if io.op == Op::Read => completion.outcome = Outcome::Error(EIO),
                _ => {}
            }
        }
    }

    /// Does a call that has ended at this instant, or pretends to.
    fn call(&mut self, io: &Io, at: Nanos) -> Outcome {
        if self.lies_about(io) {
            if let (Op::Move, Some(other)) = (io.op, self.other.clone()) {
                return self.hand_over((io, at), &other, true);
            }
            let outcome = locked(&self.names).pretend(io);
            if let Some(kind) = NameMischief::of(io.op).filter(|_| outcome == Outcome::Ok) {
                let number = self.geometry.number_at(io.offset.0);
                self.misdeeds.push(NameMisdeed { kind, request: io.request, number });
            }
            return outcome;
        }
        if matches!(io.op, Op::Copy | Op::Move)
            && let Some(other) = self.other.clone()
        {
            return self.hand_over((io, at), &other, false);
        }
        let outcome = locked(&self.names).apply(io, None);
        if matches!(io.op, Op::Create | Op::Delete) && outcome == Outcome::Ok {
            // Also what was written to a name that was not there.
            let number = self.geometry.number_at(io.offset.0);
            self.device.clear(io.offset, Bytes(self.geometry.size(number)));
        }
        outcome
    }
}

/// What a tree in memory has come to when nobody works on it any more.
#[derive(Debug)]
pub struct AtRest {
    names: Arc<Mutex<Names>>,
    data: SectorStore,
}

impl AtRest {
    /// What is there.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        locked(&self.names)
    }

    /// Reads from a file, as [`InMemory::read`].
    pub fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> Option<usize> {
        let mut names = locked(&self.names);
        names.arrived.drain(..).for_each(|copied| copied.put_into(&mut self.data));
        names.read(&self.data, (file, at), into)
    }
}

impl InMemory {
    /// Ends the work on it; what it holds stays, and what other trees still hand over comes.
    pub fn at_rest(mut self) -> AtRest {
        let data = self.device.sectors_mut().map(std::mem::take).unwrap_or_default();
        AtRest { names: self.names, data }
    }

    /// Copies or moves a file to the other tree, or does so by half.
    fn hand_over(
        &mut self,
        (io, at): (&Io, Nanos),
        other: &Mutex<Names>,
        by_half: bool,
    ) -> Outcome {
        let number = self.geometry.number_at(io.offset.0);
        let own = Arc::clone(&self.names);
        // Of two trees that hand files to each other one is the first, whoever asks.
        let is_first = std::ptr::from_ref::<Mutex<Names>>(&own) < std::ptr::from_ref(other);
        let (mut names, mut others);
        if is_first {
            names = locked(&own);
            others = locked(other);
        } else {
            others = locked(other);
            names = locked(&own);
        }
        // The device that takes the time is that of the own tree alone.
        if others.is_gone(at) {
            return Outcome::Error(ENODEV);
        }
        let outcome = names.apply(io, Some(&mut others));
        if outcome != Outcome::Ok {
            return outcome;
        }
        let size = Bytes(self.geometry.size(number));
        others.arrived.push(self.device.copied(io.offset, size));
        let in_both = by_half && self.random.below(2) == 0;
        if by_half && names.halve(number, &mut others, in_both).is_ok() {
            let (kind, request) = (NameMischief::Half, io.request);
            self.misdeeds.push(NameMisdeed { kind, request, number });
        }
        if io.op == Op::Move && !in_both {
            self.device.clear(io.offset, size);
        }
        outcome
    }

    /// Puts the data of files that came from other trees where they belong.
    fn unpack(&mut self) {
        let arrived = std::mem::take(&mut locked(&self.names).arrived);
        for copied in arrived {
            self.device.take_over(copied);
        }
    }
}

fn locked(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device for InMemory {
    fn capacity(&self) -> Bytes {
        self.geometry.extent()
    }

    fn block_size(&self) -> Bytes {
        Bytes(1)
    }

    fn length_max(&self) -> Bytes {
        self.device.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        matches!(op, Op::Read | Op::Write) || op.is_of_files()
    }

    fn keep_data(&mut self, keep: bool) {
        self.device.keep_data(keep);
    }

    fn data(&mut self, tag: u32) -> &[u8] {
        self.device.data(tag)
    }

    fn release(&mut self, tag: u32) {
        self.device.release(tag);
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let tag = io.tag as usize;
        if self.asked.len() <= tag {
            self.asked.resize(tag + 1, None);
        }
        self.asked[tag] = Some(*io);
        self.is_asked = true;
        self.hands_over |= matches!(io.op, Op::Copy | Op::Move);
        // Whoever works on such a file has seen its move end.
        self.unpack();
        self.device.prepare(io, payload);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        if self.is_asked {
            self.is_asked = false;
            let now = self.device.standing();
            if let Some(gone) = locked(&self.names).is_called(now) {
                self.device.vanishes_at(gone);
            }
        }
        if self.hands_over {
            self.hands_over = false;
            let now = self.device.standing();
            if let Some(other) = &self.other {
                let _ = locked(other).is_called(now);
            }
        }
        self.device.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let from = completions.len();
        self.device.reap(completions)?;
        self.apply(&mut completions[from..]);
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let from = completions.len();
        self.device.wait(until, completions)?;
        self.apply(&mut completions[from..]);
        Ok(())
    }

    fn describe(&self) -> String {
        format!("a tree in memory; {}", self.device.describe())
    }
}
