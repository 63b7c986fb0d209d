//! A server that delays. A command waits for the stated time, a few times, and not after Ctrl-C.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{published, serve};
use crate::server::{Served, Slowly};

const ETAG: Option<&str> = Some("\"one\"");

#[test]
fn a_server_that_falls_silent_is_asked_for_the_rest() {
    let (fixture, url, bytes) = published();
    let half = bytes.len() / 2;
    let slowly = Some(Slowly::Silent);
    serve(
        &fixture,
        Served {
            bytes: bytes.clone(),
            etag: ETAG,
            in_parts: true,
            cut_after: half,
            cuts: 2,
            slowly,
            then: Some(Box::new(Served { bytes, etag: ETAG, in_parts: true, ..Served::default() })),
            ..Served::default()
        },
    );
    let said = fixture.ioecho(&["info", &url, "--download-timeout", "300ms"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("asking for the rest"), "{}", said.err);
    let last = fixture.server.asked().pop().unwrap();
    assert!(last.starts_with("/lib/oltp/load.parquet bytes="), "{last}");
}

#[test]
fn a_server_that_stays_silent_or_all_but_silent_is_given_up_with_what_came() {
    for slowly in [Slowly::Silent, Slowly::Trickling] {
        let (fixture, url, bytes) = published();
        serve(
            &fixture,
            Served {
                bytes,
                etag: ETAG,
                in_parts: true,
                cut_after: 100,
                cuts: 1000,
                slowly: Some(slowly),
                ..Served::default()
            },
        );
        let begin = Instant::now();
        let said = fixture.ioecho(&["info", &url, "--download-timeout", "200ms"]);
        assert_eq!(said.code, 8, "{slowly:?}: {}", said.err);
        assert!(said.err.contains("it breaks off after"), "{}", said.err);
        assert!(said.err.contains("came in 200 ms (--download-timeout)"), "{}", said.err);
        assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", begin.elapsed());
    }
}

#[test]
fn who_waits_for_a_server_ends_at_once_when_told_to() {
    let (fixture, url, bytes) = published();
    let slowly = Some(Slowly::Silent);
    serve(&fixture, Served { bytes, cut_after: 100, cuts: 1000, slowly, ..Served::default() });
    fixture.server.asked();
    let library = fixture.server.url("/lib");
    for command in [
        &["info", &url][..],
        &["replay", &url, "--target", "sim:size=1G"],
        &["library", "verify", &library],
    ] {
        // The process that runs the tests may ignore a signal, and a child inherits that.
        let child = Command::new("env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_ioecho")])
            .args(command)
            .env("XDG_CACHE_HOME", fixture.path("cache"))
            .current_dir(fixture.directory.path())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let begin = Instant::now();
        while !fixture.server.asked().iter().any(|path| path.ends_with("load.parquet")) {
            assert!(begin.elapsed() < Duration::from_mins(1), "nothing is asked for");
            sleep(Duration::from_millis(10));
        }
        let begin = Instant::now();
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        child.wait().unwrap();
        assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
        assert!(!fixture.path("cache/ioecho/loads/verify").exists(), "{command:?}");
    }
}
