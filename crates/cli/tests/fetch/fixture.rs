//! A server, a cache and a library for one test.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::server::{Served, Server};

pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) server: Server,
    /// The environment of every command.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
}

/// The output of a command, and its exit code.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Fixture {
    /// Makes a fixture with a load of so many requests in `in.load`.
    pub(crate) fn new(requests: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for n in 0..requests {
            let (sector, op) = (n * 7919 % 100_000 * 8, if n % 3 == 0 { 'W' } else { 'R' });
            writeln!(load, "0.{n:06} ; {sector} ; 8 ; {op} ; 0.0 ; 0.0").unwrap();
        }
        fs::write(directory.path().join("in.load"), load).unwrap();
        Self { directory, server: Server::start(), environment: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn ioecho(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(proxy).env_remove(proxy.to_ascii_lowercase());
        }
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("SSL_CERT_FILE");
        command.envs(self.environment.iter().cloned());
        let Output { status, stdout, stderr } =
            command.args(arguments).current_dir(self.directory.path()).output().unwrap();
        Said {
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
            code: status.code().unwrap_or(-1),
        }
    }

    /// The same for a command that must succeed.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let said = self.ioecho(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
        said.out
    }

    /// Makes a library in `lib` with the load as `NAME`.
    pub(crate) fn add(&self, name: &str) {
        self.done(&[
            "library",
            "add",
            "lib",
            "in.load",
            "--name",
            name,
            "--license",
            "CC0-1.0",
            "--origin",
            "a test",
            "--description",
            "made",
        ]);
    }

    /// Publishes the files of the library below `/lib`.
    pub(crate) fn publish(&self) {
        let mut names = vec!["library.json".to_owned()];
        for entry in fs::read_dir(self.path("lib")).unwrap().flatten() {
            if entry.path().is_dir() {
                for file in fs::read_dir(entry.path()).unwrap().flatten() {
                    let (of, file) = (entry.file_name(), file.file_name());
                    names.push(format!("{}/{}", of.to_str().unwrap(), file.to_str().unwrap()));
                }
            }
        }
        for name in names {
            let bytes = fs::read(self.path("lib").join(&name)).unwrap();
            let served =
                Served { bytes, etag: Some("\"one\""), in_parts: true, ..Served::default() };
            self.server.serve(&format!("/lib/{name}"), served);
        }
    }

    /// The number of requests that `info` prints.
    pub(crate) fn requests(&self, trace: &str) -> u64 {
        let json = self.done(&["info", "--json", trace]);
        let all: serde_json::Value = serde_json::from_str(&json).unwrap();
        all["requests"].as_u64().unwrap()
    }
}
