//! Loads at a URL, against a server that breaks off, lies and forgets.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "fetch")]

mod fixture;
mod https;
mod secrets;
mod server;
mod slow;

use std::fs;

use fixture::Fixture;
use server::Served;

/// The path of the fixture's load in a library, and on the server.
fn published() -> (Fixture, String, Vec<u8>) {
    let fixture = Fixture::new(500);
    fixture.add("oltp");
    fixture.publish();
    let bytes = fs::read(fixture.path("lib/oltp/load.parquet")).unwrap();
    let url = fixture.server.url("/lib/oltp/load.parquet");
    (fixture, url, bytes)
}

fn serve(fixture: &Fixture, served: Served) {
    fixture.server.serve("/lib/oltp/load.parquet", served);
}

#[test]
fn a_load_is_read_from_an_url_and_from_a_library_wherever_a_file_is() {
    let (fixture, url, _) = published();
    let library = fixture.server.url("/lib#oltp");
    assert_eq!(fixture.requests(&url), 500);
    assert_eq!(fixture.requests(&library), 500);
    fixture.done(&["analyze", "--json", &library]);
    fixture.done(&["convert", &library, "out.csv", "--merge", &url]);
    assert_eq!(fs::read_to_string(fixture.path("out.csv")).unwrap().lines().count(), 1001);
    fixture.done(&["report", &library, "-o", "page.html"]);
    fixture.done(&["replay", &library, "--target", "sim:size=1G", "-o", "run"]);
    let run = fs::read_to_string(fixture.path("run/run.toml")).unwrap();
    assert!(run.contains(&library), "{run}");
}

#[test]
fn a_library_at_an_url_is_listed_and_shown() {
    let (fixture, ..) = published();
    let library = fixture.server.url("/lib/");
    assert!(fixture.done(&["library", "list", &library]).contains("oltp"));
    let json = fixture.done(&["library", "list", "--json", &library]);
    assert_eq!(json, fixture.done(&["library", "list", "--json", "lib"]));
    let shown = fixture.done(&["library", "show", &library, "oltp"]);
    assert!(shown.contains("CC0-1.0") && shown.contains("#oltp"), "{shown}");
    let said = fixture.ioecho(&["library", "show", &library, "nope"]);
    assert!(said.code == 3 && said.err.contains("there are: oltp"), "{}", said.err);
}

#[test]
fn what_was_fetched_is_used_again_as_long_as_the_server_says_so() {
    let (fixture, ..) = published();
    let url = fixture.server.url("/x.load");
    let load = fs::read(fixture.path("in.load")).unwrap();
    let served = |bytes: &[u8], etag| Served { bytes: bytes.to_vec(), etag, ..Served::default() };
    fixture.server.serve("/x.load", served(&load, Some("\"one\"")));
    assert_eq!((fixture.requests(&url), fixture.requests(&url)), (500, 500));
    assert_eq!(fixture.server.answered(), [200, 304]);
    // The file on the server has changed.
    let lines: Vec<&[u8]> = load.split_inclusive(|byte| *byte == b'\n').collect();
    fixture.server.serve("/x.load", served(&lines[..101].concat(), Some("\"two\"")));
    assert_eq!(fixture.requests(&url), 100);
    assert_eq!(fixture.server.answered(), [200]);
}

#[test]
fn a_load_whose_hash_is_known_is_fetched_once_whatever_the_server_says() {
    let (fixture, url, bytes) = published();
    serve(&fixture, Served { bytes, ..Served::default() });
    assert_eq!((fixture.requests(&url), fixture.requests(&url)), (500, 500));
    let asked = fixture.server.asked();
    let loads = asked.iter().filter(|path| path.ends_with("load.parquet")).count();
    assert_eq!(loads, 1, "{asked:?}");
}

#[test]
fn offline_takes_what_was_fetched_and_asks_nobody() {
    let (fixture, url, _) = published();
    let library = fixture.server.url("/lib#oltp");
    let said = fixture.ioecho(&["info", "--offline", &library]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("--offline"), "{}", said.err);
    fixture.done(&["info", &library]);
    fixture.done(&["info", &url]);
    fixture.server.asked();
    fixture.done(&["info", "--offline", &library]);
    fixture.done(&["--offline", "info", &url]);
    assert_eq!(fixture.server.asked(), Vec::<String>::new());
}

#[test]
fn offline_takes_what_was_fetched_where_no_hashes_stand_beside_it() {
    let (fixture, _, bytes) = published();
    let url = fixture.server.url("/alone/load.parquet");
    fixture.server.serve("/alone/load.parquet", Served { bytes, ..Served::default() });
    assert_eq!(fixture.requests(&url), 500);
    fixture.server.asked();
    fixture.done(&["info", "--offline", &url]);
    assert_eq!(fixture.server.asked(), Vec::<String>::new());
}

#[test]
fn a_file_that_breaks_off_is_gone_on_with_where_it_broke() {
    let (fixture, url, bytes) = published();
    let half = bytes.len() / 2;
    let etag = Some("\"one\"");
    serve(
        &fixture,
        Served { bytes, etag, in_parts: true, cut_after: half, cuts: 1, ..Served::default() },
    );
    assert_eq!(fixture.requests(&url), 500);
    let asked = fixture.server.asked();
    assert_eq!(asked.last().unwrap(), &format!("/lib/oltp/load.parquet bytes={half}-"));
}

#[test]
fn a_server_that_knows_no_parts_is_asked_for_the_whole_again() {
    let (fixture, url, bytes) = published();
    let half = bytes.len() / 2;
    let etag = Some("\"one\"");
    serve(&fixture, Served { bytes, etag, cut_after: half, cuts: 1, ..Served::default() });
    assert_eq!(fixture.requests(&url), 500);
}

#[test]
fn a_file_that_is_replaced_while_it_is_fetched_is_fetched_anew() {
    let (fixture, ..) = published();
    let url = fixture.server.url("/x.load");
    let load = fs::read(fixture.path("in.load")).unwrap();
    let other = String::from_utf8(load.clone()).unwrap().replace(" ; 8 ; ", " ; 16 ; ");
    let then = Served {
        bytes: other.into_bytes(),
        etag: Some("\"two\""),
        in_parts: true,
        ..Served::default()
    };
    let first = Served {
        cut_after: load.len() / 2,
        bytes: load,
        etag: Some("\"one\""),
        in_parts: true,
        cuts: 1,
        then: Some(Box::new(then)),
        ..Served::default()
    };
    fixture.server.serve("/x.load", first);
    let all: serde_json::Value =
        serde_json::from_str(&fixture.done(&["info", "--json", &url])).unwrap();
    assert_eq!(all["requests"], 500);
    // The result holds nothing of the first file and all of the second.
    assert_eq!((&all["length_min"], &all["length_max"]), (&8192.into(), &8192.into()));
    let asked = fixture.server.asked();
    assert!(asked.len() == 2 && asked[1].contains("bytes="), "{asked:?}");
    assert_eq!(fixture.server.answered(), [200, 200]);
}

#[test]
fn a_part_of_a_file_is_gone_on_with_by_the_next_command() {
    let (fixture, url, bytes) = published();
    let (etag, length) = (Some("\"one\""), bytes.len());
    // The second answer is no part of the file. So the received part is dropped and the whole file
    // is requested. That breaks off again and again, always at the same place.
    let cut = Served {
        bytes: bytes.clone(),
        etag,
        cut_after: length / 2,
        cuts: 100,
        ..Served::default()
    };
    serve(&fixture, cut);
    assert_eq!(fixture.ioecho(&["info", &url]).code, 8);
    serve(&fixture, Served { bytes, etag, in_parts: true, ..Served::default() });
    fixture.server.asked();
    assert_eq!(fixture.requests(&url), 500);
    let last = fixture.server.asked().pop().unwrap();
    assert_eq!(last, format!("/lib/oltp/load.parquet bytes={}-", length / 2));
}

#[test]
fn a_file_that_always_breaks_off_is_no_load_and_is_told() {
    let (fixture, url, bytes) = published();
    serve(&fixture, Served { bytes, cut_after: 100, cuts: 100, ..Served::default() });
    let said = fixture.ioecho(&["info", &url]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("breaks off after 100"), "{}", said.err);
    let said = fixture.ioecho(&["info", "--offline", &url]);
    assert_eq!(said.code, 8, "a half file must never be read: {}", said.out);
}

#[test]
fn what_is_not_what_the_library_says_is_not_used() {
    let (fixture, url, mut bytes) = published();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    serve(&fixture, Served { bytes, etag: Some("\"one\""), ..Served::default() });
    for name in [url, fixture.server.url("/lib#oltp")] {
        let said = fixture.ioecho(&["info", &name]);
        assert_eq!(said.code, 17, "{}", said.err);
        assert!(said.err.contains("not what its library says"), "{}", said.err);
    }
}

#[test]
fn what_a_server_refuses_is_told_with_what_to_do() {
    let (fixture, ..) = published();
    for (status, words) in
        [(403, "not given to everybody"), (503, "in trouble"), (204, "no answer")]
    {
        let served = Served { status: Some((status, None)), ..Served::default() };
        fixture.server.serve("/refused", served);
        let said = fixture.ioecho(&["info", &fixture.server.url("/refused")]);
        assert_eq!(said.code, 8, "{}", said.err);
        assert!(said.err.contains(words) && said.err.contains("= help:"), "{}", said.err);
    }
    let said = fixture.ioecho(&["info", &fixture.server.url("/missing.parquet")]);
    assert!(said.code == 8 && said.err.contains("404"), "{}", said.err);
    let said = fixture.ioecho(&["info", &fixture.server.url("/a%20b.load?x=y")]);
    assert!(said.code == 8 && said.err.contains("is a%20b.load spelt"), "{}", said.err);
    let said = fixture.ioecho(&["info", "http://127.0.0.1:1/x"]);
    assert!(said.code == 8 && said.err.contains("no connection to 127.0.0.1:1"), "{}", said.err);
    let said = fixture.ioecho(&["info", "ftp://127.0.0.1/x"]);
    assert!(said.code == 2 && said.err.contains("not by ftp"), "{}", said.err);
}

#[test]
fn what_is_no_url_is_told_before_anybody_is_asked() {
    let fixture = Fixture::new(1);
    for (wrong, words) in [
        ("http://[::1/x", "no IPv6 address"),
        ("http://127.0.0.1:99999/x", "no port"),
        ("http:/127.0.0.1/x", "an URL begins with http://"),
        ("HTTPS:me:word@127.0.0.1/x", "an URL begins with https://"),
    ] {
        let said = fixture.ioecho(&["info", wrong]);
        assert_eq!(said.code, 2, "{wrong}: {}", said.err);
        assert!(said.err.contains(words) && !said.err.contains("word@"), "{wrong}: {}", said.err);
    }
    fs::create_dir(fixture.path("http:")).unwrap();
    fs::rename(fixture.path("in.load"), fixture.path("http:/in.load")).unwrap();
    assert_eq!(fixture.requests("http:/in.load"), 1);
}

#[test]
fn a_redirect_is_followed_and_a_circle_of_them_is_not() {
    let (fixture, url, _) = published();
    let to = |to: String| Served { status: Some((302, Some(to))), ..Served::default() };
    fixture.server.serve("/moved", to(url));
    assert_eq!(fixture.requests(&fixture.server.url("/moved")), 500);
    fixture.server.serve("/circle", to(fixture.server.url("/circle")));
    let said = fixture.ioecho(&["info", &fixture.server.url("/circle")]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("elsewhere more than 5 times"), "{}", said.err);
}

#[test]
fn a_file_that_is_too_large_is_not_fetched() {
    let (fixture, url, bytes) = published();
    let less = (bytes.len() - 1).to_string();
    let said = fixture.ioecho(&["info", &url, "--download-limit", &less]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("--download-limit SIZE allows more"), "{}", said.err);
    fixture.done(&["info", &url, "--download-limit", &bytes.len().to_string()]);
}

#[test]
fn an_index_that_leads_out_of_its_library_is_not_followed() {
    let (fixture, ..) = published();
    let index = fs::read_to_string(fixture.path("lib/library.json")).unwrap();
    let bytes = index.replace("\"oltp\"", "\"../../etc\"").into_bytes();
    fixture.server.serve("/evil/library.json", Served { bytes, ..Served::default() });
    let said = fixture.ioecho(&["info", &fixture.server.url("/evil#../../etc")]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.err.contains("is no name for a load"), "{}", said.err);
    let paths = fixture.server.asked();
    assert!(paths.iter().all(|path| !path.contains("etc")), "{paths:?}");
}

#[test]
fn a_library_without_the_name_of_a_load_is_told_with_the_names() {
    let (fixture, ..) = published();
    for place in ["/lib", "/lib/", "/lib/library.json"] {
        let said = fixture.ioecho(&["info", &fixture.server.url(place)]);
        assert!(said.code == 3 && said.err.contains("there are: oltp"), "{}", said.err);
        assert!(said.err.contains("/lib#NAME"), "{}", said.err);
    }
    for place in ["lib", "lib/library.json"] {
        let said = fixture.ioecho(&["info", place]);
        assert!(said.code == 3 && said.err.contains("lib#NAME; there are: oltp"), "{}", said.err);
    }
}

#[test]
fn what_is_fetched_is_nobody_elses_to_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let (fixture, url, _) = published();
    let mode = || {
        let cache = fs::metadata(fixture.path("cache/ioecho/loads")).unwrap();
        cache.permissions().mode() & 0o777
    };
    fixture.requests(&url);
    assert_eq!(mode(), 0o700);
    // A directory that an older version made.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.path("cache/ioecho/loads"), open).unwrap();
    fixture.requests(&url);
    assert_eq!(mode(), 0o700);
}

#[test]
fn a_library_at_an_url_is_verified_as_it_is_there_now() {
    let (fixture, url, mut bytes) = published();
    let library = fixture.server.url("/lib");
    let verified = || fixture.ioecho(&["library", "verify", &library]);
    let whole = verified();
    assert!(whole.code == 0 && whole.out.contains("as published, 500"), "{}", whole.err);
    // The file on the server rots, with unchanged date and tag. This is found, although the whole
    // file was fetched before.
    fixture.requests(&url);
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    serve(&fixture, Served { bytes, etag: Some("\"one\""), in_parts: true, ..Served::default() });
    let broken = verified();
    assert!(broken.code == 17, "{}", broken.err);
    assert!(
        broken.out.contains("oltp: load.parquet is not what SHA256SUMS says"),
        "{}",
        broken.out
    );
    let gone = Served { status: Some((404, None)), ..Served::default() };
    fixture.server.serve("/lib/oltp/report.html", gone);
    assert!(verified().out.contains("oltp: cannot read report.html"));
    // The same holds for an index that the server takes for unchanged.
    let bytes = b"{\"version\": 1, \"loads\": []}".to_vec();
    let served = Served { bytes, etag: Some("\"one\""), ..Served::default() };
    fixture.server.serve("/lib/library.json", served);
    assert!(verified().out.contains("0 loads"));
    assert!(!fixture.path("cache/ioecho/loads/verify").exists());
    // The file in the cache has not changed.
    assert_eq!(fixture.requests(&url), 500);
}

#[test]
fn a_library_that_cannot_be_verified_to_its_end_leaves_nothing() {
    let (fixture, ..) = published();
    let library = fixture.server.url("/lib");
    let refused = Served { status: Some((503, None)), ..Served::default() };
    fixture.server.serve("/lib/oltp/load.toml", refused);
    let said = fixture.ioecho(&["library", "verify", &library]);
    assert!(said.code == 8 && said.err.contains("in trouble"), "{}", said.err);
    assert!(!fixture.path("cache/ioecho/loads/verify").exists());
    fixture.server.asked();
    let said = fixture.ioecho(&["--offline", "library", "verify", &library]);
    assert!(said.code == 8 && said.err.contains("leave away --offline"), "{}", said.err);
    assert_eq!(fixture.server.asked(), [""; 0]);
}
