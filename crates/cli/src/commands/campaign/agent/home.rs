//! Where an agent keeps things on its host.
//!
//! ```text
//! DIR/bin/BUILD/ioecho                    the program, as the campaign sent it
//! DIR/loads/SHA256/NAME                   loads
//! DIR/spool/CAMPAIGN/HOST/KEY-ATTEMPT/    results, until the campaign has them
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ioecho_campaign::name::{is_digest, is_name};
use ioecho_linux::OpenDirectory;
use ioecho_run::place::refuse_stranger;

use crate::exit::{self, Coded};

/// The directory of an agent.
#[derive(Clone, Debug)]
pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    /// The directory at this path, or at the usual one, which is made if it is not there.
    pub(super) fn make(path: Option<&Path>) -> anyhow::Result<Self> {
        let usual = || {
            let named = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
            let cache = named("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(named("HOME")?).join(".cache")));
            cache.map(|cache| cache.join("ioecho/agent"))
        };
        let path = path.map(Path::to_owned).or_else(usual).ok_or_else(|| {
            let text = "this user has no home directory\n  = help: name a place with directory = \
                        \"…\" in the campaign's [hosts]";
            Coded::error(exit::OUTPUT, text)
        })?;
        fs::create_dir_all(&path).map_err(|error| {
            Coded::error(exit::OUTPUT, format!("cannot make {}: {error}", path.display()))
        })?;
        refuse_stranger(&path)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The load of this hash and name.
    pub(super) fn load(&self, sha256: &str, name: &str) -> io::Result<PathBuf> {
        if !is_digest(sha256) || !is_name(name) {
            return Err(io::Error::other("this is no hash, or no name of a load"));
        }
        Ok(self.path.join("loads").join(sha256).join(name))
    }

    /// The directory of the loads of this hash, which is made if it is not there.
    pub(super) fn loads(&self, sha256: &str) -> io::Result<OpenDirectory> {
        if !is_digest(sha256) {
            return Err(io::Error::other("this is no hash of a load"));
        }
        self.below(&["loads", sha256])
    }

    /// The spool of a campaign on this host, which is made if it is not there.
    pub(super) fn spool(&self, campaign: &str, host: &str) -> io::Result<OpenDirectory> {
        if !is_name(campaign) || !is_name(host) {
            return Err(io::Error::other("this is no name of a campaign or of a host"));
        }
        self.below(&["spool", campaign, host])
    }

    /// A file of a run in the spool.
    pub(super) fn result(&self, names: [&str; 5]) -> io::Result<File> {
        if !names.iter().all(|name| is_name(name)) {
            return Err(io::Error::other("this is no name of a result"));
        }
        let path = self.path.join("spool");
        ioecho_run::regular::open_below(&path, &names)
    }

    fn below(&self, names: &[&str]) -> io::Result<OpenDirectory> {
        let mut place = OpenDirectory::at(&self.path)?;
        for name in names {
            place = match place.make_in(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    OpenDirectory::open(&place.path().join(name))?
                }
                made => made?,
            };
        }
        Ok(place)
    }
}

/// The name of an attempt's directory in the spool.
pub(super) fn of_attempt(key: &str, attempt: u32) -> io::Result<String> {
    if !is_digest(key) {
        return Err(io::Error::other("this is no key of a cell"));
    }
    Ok(format!("{key}-{attempt}"))
}
