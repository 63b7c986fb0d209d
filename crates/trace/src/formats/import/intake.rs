//! Takes the requests of every reader, and the lines that are no requests.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::{Facts, Told};
use crate::batch::{Batch, Columns};
use crate::dependencies::Dependency;
use crate::error::TraceError;
use crate::header::{Header, Imported, NoteKind, Topic, Volume};
use crate::request::{Op, Request};
use crate::syscalls::{Event, Model, Row};
use crate::text;
use crate::units::{Bytes, Nanos, VolumeId};
use crate::wording::Wording;

/// The loss of a line that does not parse.
pub const JUNK: &str = "junk lines";

const ZERO_LENGTH: &str = "requests of zero length";
pub(super) const TOO_FAR: &str = "requests that reach beyond 64-bit addresses";
const VOLUMES_FULL: &str = "requests to volumes beyond the first 65,536";

/// The largest number of volumes in a trace. Tencent's 5,584 are the most of a published trace, and
/// a column that does not hold volumes must not fill the memory.
const VOLUMES_MAX: usize = 65_536;

/// The largest number of processes whose names are kept.
const PROCESSES_MAX: usize = 65_536;

/// The volume that all requests of a load on files go to.
const OF_FILES: &[u8] = b"files";

/// The longest part of a name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The reason why a line or record is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place of the fault: the column of a line, counted from 1, or the byte of a record.
    pub column: usize,
    /// The topic of the loss; [`JUNK`] mostly.
    pub loss: Topic<'static>,
    /// The reason, as a clause for the error of `--strict`.
    pub reason: &'static str,
}

impl Fault {
    /// The fault of text at `column` that is not what the format says.
    pub const fn junk(column: usize, reason: &'static str) -> Self {
        Self::lost(column, JUNK, reason)
    }

    /// A line or record that cannot become a request because of its `column`. `loss` is a phrase
    /// that follows a number.
    pub const fn lost(column: usize, loss: &'static str, reason: &'static str) -> Self {
        Self { column, loss: NoteKind::Unreadable.of(loss), reason }
    }
}

/// Takes the requests and the notes of a reader.
pub struct Intake {
    /// The header so far. Parsers may add losses, guesses, a recorder, a description.
    pub header: Header,
    pub(super) path: PathBuf,
    pub(super) strict: bool,
    pub(super) batch: Batch,
    /// The number of requests taken so far.
    pub(super) requests: u64,
    volumes: FxHashMap<Box<[u8]>, VolumeId>,
    /// The volume's name that was asked for last, and its number: most lines have the same as
    /// before.
    last_volume: Option<(Box<[u8]>, VolumeId)>,
}

impl Intake {
    pub(super) fn new(path: &Path, strict: bool, facts: &Facts) -> Self {
        let header = Header {
            source: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            format: facts.format.to_owned(),
            columns: facts.columns,
            ..Header::default()
        };
        let batch = Batch::new(facts.columns);
        Self {
            header,
            path: path.to_owned(),
            strict,
            batch,
            requests: 0,
            volumes: FxHashMap::default(),
            last_volume: None,
        }
    }

    /// Sets the optional columns if only the first lines show them; call it before the first
    /// request.
    pub fn set_columns(&mut self, columns: Columns) {
        debug_assert_eq!(self.requests, 0, "the columns of a trace never change");
        self.header.columns = columns;
        self.batch.reset(columns);
    }

    /// Takes a request. Its instant counts from the format's own epoch. The range of a flush is
    /// dropped; any other request of zero length, or one beyond 64-bit addresses, is refused,
    /// because it cannot be replayed.
    #[inline]
    pub fn push(&mut self, request: &Request) -> Result<(), Fault> {
        if request.offset.0.checked_add(request.length.0).is_none() {
            return Err(Fault::lost(1, TOO_FAR, "the range ends beyond 64 bits"));
        }
        if request.op == Op::Flush {
            let flush = Request { offset: Bytes::ZERO, length: Bytes::ZERO, ..*request };
            self.batch.push(&flush);
        } else if request.length == Bytes::ZERO
            && request.op != Op::Zone
            && !request.op.is_of_files()
        {
            let reason = "the request covers nothing";
            return Err(Fault::lost(1, ZERO_LENGTH, reason));
        } else {
            self.batch.push(request);
        }
        self.requests += 1;
        Ok(())
    }

    /// Takes a request with its dependency.
    pub fn push_linked(
        &mut self,
        request: &Request,
        dependency: Dependency<'_>,
    ) -> Result<(), Fault> {
        self.push(request)?;
        self.batch.link_last(dependency);
        Ok(())
    }

    /// Takes a request of a load on files, of which a read at a file's end covers nothing.
    pub fn push_of_files(
        &mut self,
        request: &Request,
        dependency: Option<Dependency<'_>>,
    ) -> Result<(), Fault> {
        if request.offset.0.checked_add(request.length.0).is_none() {
            return Err(Fault::lost(1, TOO_FAR, "the range ends beyond 64 bits"));
        }
        self.batch.push(request);
        self.requests += 1;
        if let Some(dependency) = dependency {
            self.batch.link_last(dependency);
        }
        Ok(())
    }

    /// Takes a call on files, and gives its requests; answers the earliest of their instants.
    pub fn push_call(&mut self, model: &mut Model, event: &Event) -> Result<Option<Nanos>, Fault> {
        let volume = self.volume(OF_FILES)?;
        let mut first: Option<Nanos> = None;
        let mut fault = Ok(());
        model.take(event, &mut |Row { mut request, dependency }: Row<'_>| {
            request.volume = volume;
            first = Some(first.map_or(request.issue, |first| first.min(request.issue)));
            let pushed = self.push_of_files(&request, dependency);
            fault = fault.and(pushed);
        });
        fault.map(|()| first)
    }

    /// The number of the volume with this name; a new name becomes a volume of the header.
    #[inline]
    pub fn volume(&mut self, name: &[u8]) -> Result<VolumeId, Fault> {
        match &self.last_volume {
            Some((last, id)) if **last == *name => Ok(*id),
            _ => self.other_volume(name),
        }
    }

    fn other_volume(&mut self, name: &[u8]) -> Result<VolumeId, Fault> {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        let id = match self.volumes.get(name) {
            Some(id) => *id,
            None if self.volumes.len() >= VOLUMES_MAX => {
                let reason = "there are more volumes than 65,536";
                return Err(Fault::lost(1, VOLUMES_FULL, reason));
            }
            None => {
                let id = VolumeId(self.volumes.len() as u32);
                self.volumes.insert(name.into(), id);
                let name = text::shown(name);
                self.header.volumes.push(Volume { id, name, size: None });
                id
            }
        };
        self.last_volume = Some((name.into(), id));
        Ok(id)
    }

    /// Keeps the first name of process `pid` for the header; returns whether `name` is the one
    /// kept.
    #[inline]
    pub fn process(&mut self, pid: u32, name: &[u8]) -> bool {
        let processes = &mut self.header.processes;
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        if let Some(kept) = processes.get(&pid) {
            return kept.as_bytes() == name || *kept == text::shown(name);
        }
        if processes.len() >= PROCESSES_MAX {
            return false;
        }
        processes.insert(pid, text::shown(name));
        true
    }

    /// The number of requests that wait to be given as a batch.
    pub fn rows(&self) -> usize {
        self.batch.len()
    }

    /// The number of requests taken.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Notes what the parser lost and guessed, and how much was read: `units` of the name `unit`.
    /// All of it counts from the beginning of the file.
    pub(super) fn learn(&mut self, told: &Told, unit: &str, units: u64) {
        self.header.losses.catch_up(&told.losses);
        self.header.guesses.catch_up(&told.guesses);
        let (unit, requests) = (unit.to_owned(), self.requests);
        self.header.imported = Some(Imported { unit, units, requests });
    }

    /// Counts a line as lost, or refuses it if reading is strict.
    #[cold]
    pub(super) fn lose_line(
        &mut self,
        line: &[u8],
        number: u64,
        fault: &Fault,
    ) -> Result<(), TraceError> {
        if self.strict {
            return Err(TraceError::Line {
                path: self.path.clone(),
                line: number,
                column: fault.column,
                reason: fault.reason.to_owned(),
                text: text::shown(line),
                remedy: Wording::from("mend the line, or read without ")
                    .setting("strict")
                    .text(" to count and skip such lines"),
            });
        }
        let example = format!("line {number}: {}", text::shown(line));
        self.header.losses.add(fault.loss, 1, Some(example));
        Ok(())
    }

    /// Counts a record as lost, or refuses it if reading is strict.
    #[cold]
    pub(super) fn lose_record(&mut self, offset: u64, fault: &Fault) -> Result<(), TraceError> {
        if self.strict {
            return Err(TraceError::Binary {
                path: self.path.clone(),
                offset,
                reason: fault.reason.to_owned(),
                remedy: Wording::from("read without ")
                    .setting("strict")
                    .text(" to count and skip such records"),
            });
        }
        let example = format!("byte {offset}: {}", fault.reason);
        self.header.losses.add(fault.loss, 1, Some(example));
        Ok(())
    }
}
