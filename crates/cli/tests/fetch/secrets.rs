//! The secrets of a URL, searched for in all output and all files of every command.

use std::fs;
use std::path::Path;

use super::published;
use crate::fixture::Fixture;
use crate::server::Served;

/// Every command that takes a URL, and some to which it is a mistake. `URL` and `LIBRARY` stand for
/// the two URLs, `OUT` for an output of its own.
const COMMANDS: [&str; 47] = [
    "info URL",
    "info --json URL",
    "info URL --nonsense",
    "info URL URL",
    "info URL --filter size=1T",
    "info URL --format nonsense",
    "info --offline URL",
    "analyze URL",
    "analyze --json URL",
    "analyze in.load --merge URL",
    "analyze URL --partial OUT.part",
    "convert URL OUT.parquet",
    "convert URL OUT.load",
    "convert URL URL",
    "convert in.load URL",
    "convert in.load OUT.merged.parquet --merge URL",
    "convert in.load OUT.later.parquet --merge=URL,at=5s",
    "convert URL OUT{}.parquet --split volume",
    "fit URL",
    "fit --json URL",
    "report URL -o OUT.html",
    "report in.load -o URL",
    "plot URL -o OUT.plot",
    "replay URL --target sim:size=1G --dry-run",
    "replay URL --target sim:size=1G -o OUT.run",
    "replay URL --target sim:size=1G -o OUT.follow --follow-in-flight",
    "replay URL --target sim:size=1G -o OUT.lines --interval-json OUT.lines.json",
    "replay in.load --merge URL --target sim:size=1G -o OUT.merged",
    "replay in.load --target URL -o OUT.target",
    "replay in.load --map URL --target sim: -o OUT.map",
    "replay in.load --map-file URL --target sim: -o OUT.map",
    "replay in.load --target sim:size=1G -o URL",
    "prepare --part touched --trace URL OUT.file --size 16M",
    "compare URL URL",
    "check URL URL",
    "merge URL URL -o OUT.both",
    "verify URL",
    "record URL",
    "demo URL",
    "library add OUT.lib URL --name x",
    "library add OUT.lib in.load --name y --merge URL",
    "library add LIBRARY in.load",
    "library list LIBRARY",
    "library show LIBRARY oltp",
    "library show LIBRARY nope",
    "library verify LIBRARY",
    "library index LIBRARY",
];

/// Whatever the file contains, it contains no secret.
fn look(path: &Path, from: &str) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), from);
        }
    } else {
        holds_none(&fs::read(path).unwrap(), &format!("{from}: {}", path.display()));
    }
}

fn holds_none(bytes: &[u8], place: &str) {
    let text = String::from_utf8_lossy(bytes);
    for secret in ["PASSWORD", "SIGNATURE"] {
        assert!(!text.contains(secret), "{place}: {text}");
    }
}

fn with_secrets(url: &str) -> String {
    format!("{}?sig=SIGNATURE", url.replace("http://", "http://me:PASSWORD@"))
}

fn go_through(fixture: &Fixture, url: &str, library: &str) {
    fs::create_dir(fixture.path("out")).unwrap();
    for (n, line) in COMMANDS.into_iter().enumerate() {
        let words = line.replace("OUT", &format!("out/{n}"));
        let words = words.replace("URL", url).replace("LIBRARY", library);
        let said = fixture.ioecho(&words.split(' ').collect::<Vec<_>>());
        assert!((0..40).contains(&said.code), "{line}: {} {}", said.code, said.err);
        holds_none(said.out.as_bytes(), line);
        holds_none(said.err.as_bytes(), line);
        look(&fixture.path("out"), line);
    }
    look(&fixture.path("cache"), url);
    fs::remove_dir_all(fixture.path("out")).unwrap();
}

#[test]
fn passwords_and_signatures_are_shown_and_kept_nowhere() {
    let (fixture, ..) = published();
    let serve = |path: &str, bytes| {
        fixture.server.serve(path, Served { bytes, ..Served::default() });
    };
    serve("/x.load?sig=SIGNATURE", fs::read(fixture.path("in.load")).unwrap());
    for file in ["library.json", "oltp/load.parquet", "oltp/load.toml"] {
        let bytes = fs::read(fixture.path("lib").join(file)).unwrap();
        serve(&format!("/lib/{file}?sig=SIGNATURE"), bytes);
    }
    let library = with_secrets(&fixture.server.url("/lib"));
    let url = with_secrets(&fixture.server.url("/x.load"));
    go_through(&fixture, &url, &library);
    assert_eq!(fixture.requests(&url), 500);
    let run = ["replay", &url, "--target", "sim:size=1G", "-o", "run"];
    fixture.done(&run);
    let run = fs::read_to_string(fixture.path("run/run.toml")).unwrap();
    assert!(run.contains("/x.load?…"), "{run}");
    // URLs that cannot be fetched, hold no load, are malformed, or lead nowhere.
    for wrong in [
        with_secrets(&fixture.server.url("/none.load")),
        with_secrets("http://127.0.0.1:1/x"),
        with_secrets("http://127.0.0.1:99999/x"),
        with_secrets("http://:80/x"),
        "ftp://me:PASSWORD@h/x?sig=SIGNATURE".to_owned(),
        "http://me:PASS/PASSWORD@127.0.0.1:1/x?sig=SIGNATURE".to_owned(),
        format!("{library}#nope"),
    ] {
        let said = fixture.ioecho(&["info", &wrong]);
        assert!(said.code > 0, "{wrong}");
        holds_none(said.err.as_bytes(), &wrong);
    }
}

#[test]
fn a_redirect_to_what_is_signed_is_not_shown() {
    let (fixture, ..) = published();
    for to in ["http://127.0.0.1:1/x?sig=SIGNATURE", "http://me:PASSWORD@h h/x?SIGNATURE", "::"] {
        let served = Served { status: Some((302, Some(to.to_owned()))), ..Served::default() };
        fixture.server.serve("/moved", served);
        let said = fixture.ioecho(&["info", &fixture.server.url("/moved")]);
        assert_eq!(said.code, 8, "{}", said.err);
        holds_none(said.err.as_bytes(), to);
    }
}

#[test]
fn a_program_in_the_command_line_gets_what_opens_a_store_and_nobody_else_is_told() {
    let fixture = Fixture::new(50);
    let url = with_secrets("http://127.0.0.1:1/x");
    let program = format!("echo '{url}' > got; cat");
    fs::create_dir(fixture.path("out")).unwrap();
    for words in [
        &["replay", "in.load", "--target", "sim:size=1G", "-o", "out/run", "--expert"][..],
        &["convert", "in.load", "out/x.parquet"],
        &["report", "in.load", "-o", "out/x.html"],
        &["library", "add", "out/lib", "in.load"],
    ] {
        let said = fixture.ioecho(&[words, &["--cmd", &program]].concat());
        assert_eq!(said.code, 0, "{words:?}: {}", said.err);
        holds_none(format!("{}{}", said.out, said.err).as_bytes(), words[0]);
        look(&fixture.path("out"), words[0]);
        assert_eq!(fs::read_to_string(fixture.path("got")).unwrap().trim(), url, "{words:?}");
    }
    let run = fs::read_to_string(fixture.path("out/run/run.toml")).unwrap();
    assert!(run.contains("http://127.0.0.1:1/x?…"), "{run}");
}
