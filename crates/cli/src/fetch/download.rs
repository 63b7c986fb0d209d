//! The way of a file from a server into the cache.
//!
//! Connections break, servers restart, files are replaced while they are fetched, and disks fill
//! up. What was received stays, and the rest is asked for as long as it is a rest of the same file
//! (`If-Range`); otherwise the file is fetched from its beginning. It takes its name only when it
//! is all there.

use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_trace::{Bytes, Nanos};

use super::cache::{About, Entry, cannot_keep};
use super::client::{self, Answer, Question};
use super::location::Location;
use super::{Wanted, failed};
use crate::args::FetchArgs;
use crate::library::INDEX_FILE;
use crate::print::tell;

/// How often in a row an attempt may bring nothing new.
const FRUITLESS_MAX: u32 = 3;

/// How long to wait before the next attempt; longer each time.
const PAUSE: Duration = Duration::from_millis(300);

/// A server that brings less than this in the time that it may be silent is as good as silent, and
/// an attempt that brings less has brought nothing.
const PROGRESS_BYTES: u64 = 4 << 10;

/// How much is received at once.
const PIECE_BYTES: usize = 1 << 18;

/// The room on the disk is looked at again after so many bytes.
const LOOK_BYTES: u64 = 16 << 20;

/// How much of the disk is left to others.
const ROOM_BYTES: u64 = 256 << 20;

/// Larger files are announced: who waits wants to know for what.
const ANNOUNCED_BYTES: u64 = 8 << 20;

/// How an attempt ended.
enum Ended {
    Whole,
    Cut(String),
}

/// Sees to it that the file in its place is what the server has, and what is wanted.
pub(super) fn bring(place: &Entry, wanted: &Wanted, settings: FetchArgs) -> Result<About> {
    bring_if_there(place, wanted, settings)?.ok_or_else(|| {
        let location = &wanted.location;
        if wanted.sha256.is_none()
            && location.file_name() != INDEX_FILE
            && let Some(error) = super::at(location)
        {
            return error;
        }
        let name = match location.last_name() {
            "" => "it",
            name => name,
        };
        let help =
            format!("is {name} spelt as on the server? `ioecho library list URL` lists loads");
        failed(location, "the server has no such file (404)", &help)
    })
}

/// The same; `None` if the server has no such file.
pub(super) fn bring_if_there(
    place: &Entry,
    wanted: &Wanted,
    settings: FetchArgs,
) -> Result<Option<About>> {
    let held = place.about();
    if let (Some(held), Some(hash)) = (&held, &wanted.sha256)
        && held.sha256 == *hash
    {
        return Ok(Some(held.clone()));
    }
    if settings.offline {
        return offline(place, wanted, held).map(Some);
    }
    let location = &wanted.location;
    let (mut fruitless, mut most, mut is_resumed) = (0, 0_u64, false);
    loop {
        let begun = place.begun();
        let question = question(
            begun.as_ref().map(|(begun, at)| (*at, &*begun.validator)),
            wanted,
            held.as_ref(),
        );
        let ended = match client::ask(location, &question, settings.patience()) {
            // Where nobody answers the first question there is no point in more of them.
            Err(none) if most == 0 && fruitless == 0 => {
                return Err(failed(location, &none.reason, none.help));
            }
            Err(none) => Ended::Cut(none.reason),
            Ok(answer) if answer.status == 304 && held.is_some() => return Ok(held),
            Ok(answer) if matches!(answer.status, 404 | 410) => return Ok(None),
            Ok(answer) => {
                let at = match (answer.status, &question.from) {
                    (206, Some((at, validator)))
                        if answer.first == Some(*at) && is_of(&answer, validator) =>
                    {
                        *at
                    }
                    (200, _) => 0,
                    (206 | 416, _) => {
                        // What is here is no beginning of what is there.
                        place.forget_part();
                        fruitless += 1;
                        refuse_if_stuck(fruitless, location, "its parts do not fit together")?;
                        continue;
                    }
                    (status, _) => return Err(refused(location, status)),
                };
                is_resumed |= at > 0;
                let facts = (answer.etag.clone(), answer.lasting_modified());
                match receive(place, wanted, answer, at, settings)? {
                    Ended::Whole => {
                        if let Some(about) = finish(place, wanted, facts, is_resumed)? {
                            return Ok(Some(about));
                        }
                        is_resumed = false;
                        continue;
                    }
                    cut @ Ended::Cut(_) => cut,
                }
            }
        };
        let Ended::Cut(reason) = ended else { continue };
        let here = std::fs::metadata(place.partial()).map_or(0, |metadata| metadata.len());
        let is_more = here >= most.saturating_add(PROGRESS_BYTES);
        fruitless = if is_more { 0 } else { fruitless + 1 };
        most = most.max(here);
        let broken = format!("it breaks off after {}: {reason}", Bytes(here));
        refuse_if_stuck(fruitless, location, &broken)?;
        tell(&format!("{location}: {broken}; asking for the rest"));
        thread::sleep(PAUSE * (fruitless + 1));
    }
}

fn refuse_if_stuck(fruitless: u32, location: &Location, reason: &str) -> Result<()> {
    if fruitless < FRUITLESS_MAX {
        return Ok(());
    }
    let help = "try again later: what was received is kept, and the rest is asked for";
    Err(failed(location, reason, help))
}

fn offline(place: &Entry, wanted: &Wanted, held: Option<About>) -> Result<About> {
    let location = &wanted.location;
    match held {
        Some(held) if wanted.sha256.is_none() => Ok(held),
        Some(_) => Err(RunError::new(
            Kind::NotAsPublished,
            format!(
                "{location}: what was fetched of it is not what its library says\n  = help: leave \
                 away --offline to fetch it again"
            ),
        )),
        None => {
            let directory = place.directory().display();
            let reason = format!("it is not in {directory}, and --offline allows nothing else");
            Err(failed(location, &reason, "leave away --offline, once"))
        }
    }
}

/// What to ask for: the rest, or the file if it is another one than that which is here.
fn question(begun: Option<(u64, &str)>, wanted: &Wanted, held: Option<&About>) -> Question {
    if let Some((at, validator)) = begun {
        return Question { from: Some((at, validator.to_owned())), ..Question::default() };
    }
    match held {
        Some(held) if wanted.sha256.is_none() => Question {
            unless_etag: held.etag.clone(),
            unless_modified: held.modified.clone().filter(|_| held.etag.is_none()),
            from: None,
        },
        _ => Question::default(),
    }
}

/// What makes sure that a rest fits: an `ETag` that is not a weak one. An instant of change has the
/// resolution of a second, so it will do only where the whole is held against a hash.
fn validator(answer: &Answer, wanted: &Wanted) -> Option<String> {
    let strong = answer.etag.clone().filter(|etag| !etag.starts_with("W/"));
    strong.or_else(|| answer.modified.clone().filter(|_| wanted.sha256.is_some()))
}

/// Whether a rest is of what was asked for, even if the server did not look.
fn is_of(answer: &Answer, validator: &str) -> bool {
    let named = answer.etag.as_deref().filter(|_| validator.starts_with('"'));
    named.is_none_or(|etag| etag == validator)
}

fn refused(location: &Location, status: u16) -> RunError {
    let (reason, help) = match status {
        401 | 403 | 407 => ("it is not given to everybody", "ask its owner for leave"),
        429 => ("the server is asked too often", "try again later"),
        500.. => ("the server is in trouble", "try again later"),
        _ => ("this is no answer with a file", "is this the URL of a load?"),
    };
    failed(location, &format!("{reason} (HTTP status {status})"), help)
}

/// Receives the file from byte `at` on.
fn receive(
    place: &Entry,
    wanted: &Wanted,
    mut answer: Answer,
    at: u64,
    settings: FetchArgs,
) -> Result<Ended> {
    let (location, limit) = (&wanted.location, settings.download_limit);
    let unkept = |error: &io::Error| cannot_keep(place.directory(), error);
    let end = answer.length.map(|length| at.saturating_add(length));
    if let Some(end) = end {
        within(location, end, limit)?;
        room_for(place.directory(), location, end - at)?;
        if at == 0 && end > ANNOUNCED_BYTES {
            tell(&format!("fetching {location}: {}", Bytes(end)));
        }
    }
    let mut file = if at > 0 {
        place.open_part(true)
    } else {
        place.note_begun(validator(&answer, wanted))?;
        place.open_part(false)
    }
    .map_err(|error| unkept(&error))?;
    let (mut here, mut looked) = (at, at);
    let mut piece = vec![0; PIECE_BYTES];
    let (mut since, mut came) = (Instant::now(), 0);
    let ended = loop {
        let length = match answer.body.read(&mut piece) {
            Ok(0) => break Ended::Whole,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => {
                break Ended::Cut(silent(settings.download_timeout));
            }
            Err(error) => break Ended::Cut(error.to_string()),
        };
        here += length as u64;
        came += length as u64;
        if here > limit.0 {
            place.forget_part();
            within(location, here, limit)?;
        }
        file.write_all(&piece[..length]).map_err(|error| unkept(&error))?;
        if since.elapsed() >= settings.patience() {
            if came < PROGRESS_BYTES {
                break Ended::Cut(silent(settings.download_timeout));
            }
            (since, came) = (Instant::now(), 0);
        }
        if here - looked > LOOK_BYTES {
            room_for(place.directory(), location, 0)?;
            looked = here;
        }
    };
    file.sync_all().map_err(|error| unkept(&error))?;
    if matches!(ended, Ended::Whole) && !answer.has_end && wanted.sha256.is_none() {
        tell(&format!(
            "warning: {location}: nobody knows whether {} are all of it: the server says neither \
             how long it is nor where it ends, and no hash is known",
            Bytes(here)
        ));
    }
    Ok(match (ended, end) {
        (Ended::Whole, Some(end)) if here != end => Ended::Cut("the connection ended".to_owned()),
        (ended, _) => ended,
    })
}

/// What is said of a server that keeps us waiting.
fn silent(patience: Nanos) -> String {
    format!("less than {} came in {patience} (--download-timeout)", Bytes(PROGRESS_BYTES))
}

/// Whether a read ended because its time was over.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn within(location: &Location, bytes: u64, limit: Bytes) -> Result<()> {
    if bytes <= limit.0 {
        return Ok(());
    }
    let reason = format!("it has {} or more, and the limit is {limit}", Bytes(bytes));
    Err(failed(location, &reason, "--download-limit SIZE allows more"))
}

/// Refuses to fill the disk.
fn room_for(directory: &Path, location: &Location, bytes: u64) -> Result<()> {
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= bytes.saturating_add(ROOM_BYTES) {
        return Ok(());
    }
    let text = format!(
        "{location}: {} are free in {}, too few for it and the {} that are left to others\n  = \
         help: XDG_CACHE_HOME names another directory",
        Bytes(free),
        directory.display(),
        Bytes(ROOM_BYTES)
    );
    Err(RunError::new(Kind::Output, text))
}

/// Keeps what was received, if it is what is wanted; `None` if it may be two files put together,
/// and is to be fetched again.
fn finish(
    place: &Entry,
    wanted: &Wanted,
    called: (Option<String>, Option<String>),
    is_resumed: bool,
) -> Result<Option<About>> {
    let location = &wanted.location;
    let unkept = |error| cannot_keep(place.directory(), &error);
    let sha256 = digest::of_file(&place.partial()).map_err(unkept)?;
    if let Some(hash) = &wanted.sha256
        && sha256 != *hash
    {
        place.forget_part();
        if is_resumed {
            return Ok(None);
        }
        let text = format!(
            "{location}: this is not what its library says\n  = note: its SHA-256 is {sha256}, and \
             should be {hash}\n  = help: perhaps it is just being replaced: try again; or tell the \
             owner of the library"
        );
        return Err(RunError::new(Kind::NotAsPublished, text));
    }
    place.keep(About::new(location, called, sha256)).map(Some)
}
