//! Loads to a host, and results from it.
//!
//! They go through a second agent, so that a large file never stands before a ping. Each file is
//! known by its hash, and a transfer that broke goes on where it was.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};

use ioecho_campaign::name::is_name;
use ioecho_campaign::protocol::{Given, Offered, Taken, Wanted, line};
use ioecho_run::{digest, regular};
use serde::de::DeserializeOwned;

use super::home::{Home, of_attempt};
use super::input;
use crate::exit;
use crate::print::for_a_program;

/// The longest line that makes sense.
const LINE_MAX: u64 = 64 << 10;

/// The next line; `None` at the end.
fn next<T: DeserializeOwned>(from: &mut BufReader<File>) -> anyhow::Result<Option<T>> {
    let mut text = Vec::new();
    from.by_ref().take(LINE_MAX).read_until(b'\n', &mut text)?;
    if text.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&text)?)) }
}

/// Gives files of results until nobody wants one.
pub(super) fn give(home: &Home) -> anyhow::Result<u8> {
    let (mut from, mut to) = (BufReader::new(input()?), for_a_program()?);
    while let Some(wanted) = next::<Wanted>(&mut from)? {
        let opened = opened(home, &wanted);
        match opened {
            Ok((file, bytes)) => {
                to.write_all(&line(&Given::Bytes(bytes)))?;
                io::copy(&mut file.take(bytes), &mut to)?;
            }
            Err(error) => to.write_all(&line(&Given::Nothing(error.to_string())))?,
        }
    }
    Ok(exit::OK)
}

/// A wanted file at the place from which on it is wanted, and how many bytes follow.
fn opened(home: &Home, wanted: &Wanted) -> io::Result<(File, u64)> {
    use std::io::Seek as _;
    let Wanted { campaign, host, run, file, from } = wanted;
    let attempt = of_attempt(&run.key, run.attempt)?;
    let mut opened = home.result([campaign, host, &attempt, &run.name, file])?;
    let bytes = opened.metadata()?.len();
    opened.seek(io::SeekFrom::Start((*from).min(bytes)))?;
    Ok((opened, bytes.saturating_sub(*from)))
}

/// Takes loads until there are no more.
pub(super) fn take(home: &Home) -> anyhow::Result<u8> {
    let (mut from, mut to) = (BufReader::new(input()?), for_a_program()?);
    while let Some(offered) = next::<Offered>(&mut from)? {
        let taken = taken(home, &offered, &mut from, &mut to);
        let said = taken.unwrap_or_else(|error| Taken::Refused(error.to_string()));
        to.write_all(&line(&said))?;
    }
    Ok(exit::OK)
}

fn taken(
    home: &Home,
    offered: &Offered,
    from: &mut BufReader<File>,
    to: &mut File,
) -> io::Result<Taken> {
    let Offered { sha256, name, bytes } = offered;
    if !is_name(name) {
        return Err(io::Error::other("this is no name of a load"));
    }
    let place = home.loads(sha256)?;
    let path = home.load(sha256, name)?;
    if regular::open(&path).is_ok() && digest::of_file(&path)? == *sha256 {
        return Ok(Taken::Whole);
    }
    // What an earlier transfer left, which no other process fills at the same time.
    let part = format!(".{name}.part");
    let mut file = place.append(&part)?;
    file.lock()?;
    let have = file.metadata()?.len();
    if have > *bytes {
        file.set_len(0)?;
    }
    let have = file.metadata()?.len();
    to.write_all(&line(&Taken::Have(have)))?;
    let copied = io::copy(&mut from.take(bytes - have), &mut file)?;
    file.sync_data()?;
    if have + copied < *bytes {
        return Err(io::Error::other("it ended early"));
    }
    if digest::of_file(&place.path().join(&part))? != *sha256 {
        file.set_len(0)?;
        return Err(io::Error::other("it is not the load of this hash"));
    }
    place.rename(&part, name)?;
    place.sync()?;
    Ok(Taken::Whole)
}
