//! The exit code of a command does not depend on its reader.
//!
//! Every command is run with an output that takes everything. Then its output, or its error output,
//! has no reader, is closed, or is full. Only a full output may change the code, only from "done"
//! to "cannot be written", and only if the text is all that the command makes.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::process::{Command, Output, Stdio};

use fixture::{Fixture, said};

/// Exit codes of `docs/exit-codes.md`.
const OUTPUT: i32 = 7;

/// The purpose of a command's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    /// The text is the whole result.
    Product,
    /// The text describes files that the command made, or an error.
    Words,
}
use Text::{Product, Words};

/// The command lines, each with its exit code. `{}` is replaced by a new name each time.
const COMMANDS: &[(&str, i32, Text)] = &[
    ("info load", 0, Product),
    ("info --json load", 0, Product),
    ("info cut.parquet", 4, Product),
    ("info --json cut.parquet", 4, Product),
    ("info nothing", 3, Words),
    ("analyze load", 0, Product),
    ("analyze --json load", 0, Product),
    ("analyze cut.parquet", 4, Product),
    ("analyze --json cut.parquet", 4, Product),
    ("record nothing -o {}.parquet", 5, Words),
    ("convert load {}.parquet", 0, Words),
    ("convert load - --to csv", 0, Product),
    ("convert cut.parquet {}.csv", 4, Words),
    ("depend a", 0, Product),
    ("depend load", 3, Words),
    ("fit load", 0, Product),
    ("fit --json load", 0, Product),
    ("replay load -t sim:size=64M -o {} -q", 0, Words),
    ("replay load -t sim:size=64M -o {}", 0, Words),
    ("replay load -t sim:size=64M,units=1,service=50ms --in-flight-max 1 -o {} -q", 10, Words),
    ("replay cut.parquet -t sim:size=64M -o {} -q", 13, Words),
    ("replay load -t sim:size=64M -o {} -q --require content", 16, Words),
    ("replay load -t sim:size=64M --dry-run", 0, Product),
    ("predict load --device sim:size=64M --timing timed", 0, Product),
    ("predict load --device sim:size=64M --timing timed --json", 0, Product),
    ("predict load --device nowhere --timing timed", 3, Words),
    ("prepare {}.img --size 1M --allow-cached -q", 0, Words),
    ("prepare nothing", 5, Words),
    ("calibrate --span 1ms", 0, Product),
    ("calibrate --span 1ms --json", 0, Product),
    ("verify intact", 0, Product),
    ("verify spoilt", 15, Product),
    ("verify --json spoilt", 15, Product),
    ("run nothing.vdb --dry-run", 3, Words),
    ("vdbench -f nothing.vdb -s", 3, Words),
    ("report a", 0, Words),
    ("report a --require content", 16, Words),
    ("report load -o {}.html", 0, Words),
    ("explain", 0, Product),
    ("explain lateness", 0, Product),
    ("explain nothing", 2, Words),
    ("compare a b", 0, Product),
    ("compare a slow --fail-if p50>+1%", 21, Product),
    ("compare a slow --fail-if p50>+1% --json", 21, Product),
    ("compare a other", 20, Words),
    ("check load load", 0, Product),
    ("check load half", 22, Product),
    ("check load half --json", 22, Product),
    ("check load strange", 20, Words),
    ("merge a b -o {}", 0, Words),
    ("plot load -o {} --only g40", 0, Words),
    ("library add {} load --name x", 0, Words),
    ("library list library", 0, Product),
    ("library list library --json", 0, Product),
    ("library show library x", 0, Product),
    ("library show library x --json", 0, Product),
    ("library index library", 0, Words),
    ("library verify library", 0, Product),
    ("library verify rotten", 17, Product),
    ("library verify rotten --json", 17, Product),
    ("campaign plan two.toml", 0, Product),
    ("campaign plan two.toml --json", 0, Product),
    ("campaign run two.toml -o {} -q", 0, Words),
    ("campaign status two.campaign", 0, Product),
    ("campaign status nothing", 2, Words),
    ("demo --sim -o {}", 0, Words),
    ("completions bash", 0, Product),
    ("man .", 0, Words),
    ("help", 0, Product),
    ("--help", 0, Product),
    ("--version", 0, Product),
    ("replay --help", 0, Product),
    ("replay --nonsense", 2, Words),
];

/// Where something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A pipe whose reader reads everything.
    Read,
    /// A pipe whose reader has left.
    Left,
    /// A closed descriptor: `>&-`.
    Closed,
    /// A full disk.
    Full,
}
use Place::{Closed, Full, Left, Read};

struct Desk {
    fixture: Fixture,
    number: Cell<u32>,
}

impl Desk {
    /// The files for the commands.
    fn new() -> Self {
        let fixture = Fixture::regular(600, 1000);
        let desk = Self { fixture, number: Cell::new(0) };
        let path = |name: &str| desk.fixture.path(name);
        let text = fs::read_to_string(path("load")).unwrap();
        let (head, requests) = text.split_once('\n').unwrap();
        let half: Vec<&str> = requests.lines().step_by(2).collect();
        fs::write(path("half"), format!("{head}\n{}\n", half.join("\n"))).unwrap();
        let strange: Vec<String> = requests
            .lines()
            .map(|line| line.replacen(" ; ", " ; 999999", 1).replace(" ; 8 ;", " ; 24 ;"))
            .collect();
        fs::write(path("strange"), format!("{head}\n{}\n", strange.join("\n"))).unwrap();
        let made = |line: &str, codes: &[i32]| {
            let output = desk.ioecho(line, Read, Read);
            assert!(codes.contains(&output.status.code().unwrap()), "{line}: {}", said(&output));
        };
        made("convert load whole.parquet", &[0]);
        made("replay load -t sim:size=64M,service=80us -o a -q", &[0]);
        made("replay load -t sim:size=64M,service=80us -o b -q", &[0]);
        made("replay load -t sim:size=64M,service=500us -o slow -q", &[0]);
        made("replay half -t sim:size=64M -o other -q", &[0]);
        let cells = "[devices]\na = 'sim:size=64M'\n[replay]\ntrace = 'load'\ndevice = 'a'\n";
        fs::write(path("two.toml"), format!("name = 'two'\nrepeats = 2\n{cells}")).unwrap();
        made("campaign run two.toml -q", &[0]);
        // A run that was stopped is an incomplete trace.
        made("replay load -t sim:size=64M,errors=0.05 --on-error stop -o stopped -q", &[13]);
        made("convert stopped cut.parquet", &[4]);
        fs::copy(path("target"), path("lost")).unwrap();
        for (run, target) in [("intact", "target"), ("spoilt", "lost")] {
            let line = "--allow-cached -q --timing afap -t";
            // The timing of this host does not matter.
            made(
                &format!("replay load -o {run} {line} {target} --destroy {target}"),
                &[0, 10, 11, 12, 14],
            );
        }
        // The data that the run wrote are gone.
        File::create(path("lost")).unwrap().set_len(16 << 20).unwrap();
        for library in ["library", "rotten"] {
            made(&format!("library add {library} load --name x"), &[0]);
        }
        fs::write(path("rotten/x/report.html"), "something else").unwrap();
        desk
    }

    /// Runs a command line with such outputs.
    fn ioecho(&self, line: &str, output: Place, errors: Place) -> Output {
        self.number.set(self.number.get() + 1);
        let line = line.replace("{}", &format!("new-{}", self.number.get()));
        let closed = [(output, ">&-"), (errors, "2>&-")]
            .map(|(place, how)| if place == Closed { how } else { "" });
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$@\" {}", closed.join(" ")), "sh"]);
        command.arg(env!("CARGO_BIN_EXE_ioecho")).args(line.split(' '));
        command.current_dir(self.fixture.directory.path()).stdin(Stdio::null());
        command.stdout(stream(output)).stderr(stream(errors));
        command.output().unwrap()
    }
}

fn stream(place: Place) -> Stdio {
    match place {
        Read | Closed => Stdio::piped(),
        Left => Stdio::from(io::pipe().unwrap().1),
        Full => File::options().write(true).open("/dev/full").unwrap().into(),
    }
}

#[test]
fn a_code_is_what_was_found_out_whoever_reads_of_it() {
    let desk = Desk::new();
    let mut wrong = Vec::new();
    for &(line, expected, text) in COMMANDS {
        for (output, errors) in
            [(Read, Read), (Left, Read), (Full, Read), (Read, Left), (Closed, Closed), (Full, Full)]
        {
            let is_lost = output == Full && text == Product && expected == 0;
            let expected = if is_lost { OUTPUT } else { expected };
            let ended = desk.ioecho(line, output, errors);
            if ended.status.code() != Some(expected) {
                let (code, said) = (ended.status, said(&ended));
                wrong.push(format!(
                    "{line} ({output:?}, {errors:?}): {code}, not {expected}: {said}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_is_in_the_table() {
    let desk = Fixture::regular(1, 1);
    let help = String::from_utf8(desk.run(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: BTreeSet<&str> = list
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let tried: BTreeSet<&str> =
        COMMANDS.iter().filter_map(|(line, ..)| line.split(' ').next()).collect();
    let missing: Vec<_> = commands.difference(&tried).collect();
    assert!(commands.len() > 15 && missing.is_empty(), "{missing:?}");
}
