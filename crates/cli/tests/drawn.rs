//! Pages and pictures, from the command line to the files.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A load of 300 requests, and a run of it on a simulated device.
struct Fixture {
    directory: TempDir,
}

const SIM: &str = "sim:size=16M,units=4,service=80us,model=exp";

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fixture.write_load("a.load", 300);
        fixture
    }

    fn with_run() -> Self {
        let fixture = Self::new();
        fixture.ok(&["replay", "a.load", "--target", SIM, "-o", "run"]);
        fixture
    }

    fn write_load(&self, name: &str, count: u64) {
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for n in 0..count {
            let (us, op) = (n * 10_000, if n % 3 == 0 { 'W' } else { 'R' });
            let sector = n * 7 % 200 * 8;
            let (secs, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
            writeln!(load, "{secs}.{ns:09} ; {sector} ; 8 ; {op} ; 0.0 ; 0.0").unwrap();
        }
        fs::write(self.path(name), load).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(arguments).current_dir(self.directory.path()).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        output
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of the files in a directory.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_pictures_beside_a_page_are_those_of_plot_under_the_same_names() {
    let fixture = Fixture::with_run();
    fixture.ok(&["report", "run", "--figures", "beside"]);
    fixture.ok(&["plot", "run", "-o", "plotted", "--to", "svg"]);
    let names = fixture.names("beside");
    assert_eq!(names.len(), 12, "six pictures in two forms: {names:?}");
    assert!(names.contains(&"run.g04.delay.setpoint.svg".to_owned()), "{names:?}");
    let heading =
        |text: String| text.lines().find(|line| line.starts_with("<title>")).unwrap().to_owned();
    for name in fixture.names("plotted").iter().filter(|name| names.contains(name)) {
        let [beside, plotted] =
            ["beside", "plotted"].map(|at| fixture.text(&format!("{at}/{name}")));
        assert_eq!(heading(beside), heading(plotted), "{name}");
    }
}

#[test]
fn a_load_has_a_page_without_a_verdict() {
    let fixture = Fixture::new();
    fixture.ok(&["report", "a.load", "-o", "page.html"]);
    let page = fixture.text("page.html");
    assert!(page.contains("not a run: nothing was measured"));
    assert!(page.contains("report a.load -o page.html"), "the command stands on the page");
    assert!(page.contains("g31.ws_lin") && page.contains("\"kind\":\"load\""));
    fixture.ok(&["report", "a.load", "--duration", "1s"]);
    assert!(fixture.text("a.load.html").contains("100 requests"));
}

#[test]
fn the_page_of_a_run_has_charts_the_slowest_requests_and_its_command() {
    let fixture = Fixture::with_run();
    let page = fixture.text("run/report.html");
    for part in ["g10.latency.xy", "Slowest requests by service time", "id=\"copy\"", SIM] {
        assert!(page.contains(part), "{part}");
    }
    // The results without their directory are a run without a verdict.
    fixture.ok(&["report", "run/requests.parquet", "-o", "page.html"]);
    assert!(fixture.text("page.html").contains("Not judged"));
    let refused = fixture.run(&["report", "run", "--duration", "1s"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("requests.parquet"));
}

#[test]
fn pictures_bear_the_names_of_the_manual() {
    let fixture = Fixture::with_run();
    fixture.ok(&["plot", "run", "-o", "pictures", "--to", "svg"]);
    let names = fixture.names("pictures");
    for name in [
        "g000.overview.thrp",
        "g000.overview.thrs",
        "g00.thrp.setpoint",
        "g00.thrs.completed",
        "g01.latency.realtime",
        "g02.latency.setpoint",
        "g03.latency.completed",
        "g03.latency.points",
        "g04.delay.setpoint",
        "g05.delay.points",
        "g06.latency.bins",
        "g07.delay.bins",
        "g08.latency.flying",
        "g08.smooth.latency.flying",
        "g10.latency.xy",
        "g11.delay.xy",
        "g12.latency.delay.xy",
        "g30.ws_log",
        "g31.ws_lin",
        "g32.sum_dist.006",
        "g33.avg_dist.600",
        "g40.rqsize.bins",
        "g41.rqpos.bins",
        "g42.turns.setpoint",
        "g43.turns.completed",
        "g44.freq.bins",
        "map",
        "missratio",
        "percentiles",
    ] {
        assert!(names.contains(&format!("run.{name}.svg")), "{name} is not in {names:?}");
    }
    let sonar = fixture.text("pictures/run.g01.latency.realtime.svg");
    assert!(sonar.contains("SIMULATED") && sonar.contains("wraparound factor"));
}

#[test]
fn a_picture_is_as_large_as_asked_for() {
    let fixture = Fixture::new();
    fixture.ok(&["plot", "a.load", "--only", "g40,missratio", "--size", "640x480"]);
    let pictures: Vec<String> =
        fixture.names(".").into_iter().filter(|name| name != "a.load").collect();
    assert_eq!(pictures, ["a.g40.rqsize.bins.png", "a.missratio.png"]);
    let bytes = fs::read(fixture.path("a.missratio.png")).unwrap();
    assert_eq!(bytes[16..24], [0, 0, 2, 128, 0, 0, 1, 224]);
    let unknown = fixture.run(&["plot", "a.load", "--only", "g99"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said(&unknown).contains("there is no such picture"));
}

#[test]
fn a_run_of_a_future_version_is_refused_and_one_of_the_first_is_read() {
    let fixture = Fixture::with_run();
    let facts = fixture.text("run/run.toml");
    let future = facts.replacen("version = 1\n", "version = 99\n", 1);
    fs::write(fixture.path("run/run.toml"), future).unwrap();
    for command in ["report", "plot"] {
        let refused = fixture.run(&[command, "run", "-o", "out"]);
        assert_eq!(refused.status.code(), Some(3), "{command}: {}", said(&refused));
        assert!(said(&refused).contains("use a newer ioecho"), "{}", said(&refused));
    }
    // Later versions added facts that earlier runs do not have.
    let lines = facts.lines().filter(|line| !line.starts_with("wake_up_") && !line.contains("map"));
    fs::write(fixture.path("run/run.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    let summary: serde_json::Value =
        serde_json::from_str(&fixture.text("run/summary.json")).unwrap();
    let mut old = summary;
    for key in ["host", "load", "timing", "verify", "empty_share"] {
        old["engine"].as_object_mut().unwrap().remove(key);
    }
    fs::write(fixture.path("run/summary.json"), old.to_string()).unwrap();
    fixture.ok(&["report", "run", "-o", "old.html"]);
    assert!(fixture.text("old.html").contains("Slowest requests"));
}

#[test]
fn a_page_shows_names_with_markup_as_text() {
    let fixture = Fixture::new();
    let name = "<img src=x onerror=alert(1)>'\".load";
    fs::rename(fixture.path("a.load"), fixture.path(name)).unwrap();
    fixture.ok(&["report", name, "-o", "page.html"]);
    let page = fixture.text("page.html");
    assert!(page.contains("&#60;img src=x onerror=alert(1)&#62;") && !page.contains("<img"));
    fixture.ok(&["plot", name, "--only", "g40", "-o", "pictures", "--to", "svg"]);
    let names = fixture.names("pictures");
    assert_eq!(names, ["<img src=x onerror=alert(1)>'\".g40.rqsize.bins.svg"]);
    assert!(!fixture.text(&format!("pictures/{}", names[0])).contains("<img"));
}

#[test]
fn loads_of_one_request_and_runs_that_failed_have_sound_pages() {
    let fixture = Fixture::new();
    fixture.write_load("one.load", 1);
    fixture.ok(&["report", "one.load", "-o", "one.html"]);
    assert!(
        fixture.text("one.html").contains("1 request ")
            || fixture.text("one.html").contains("1 request<")
    );
    fixture.ok(&["plot", "one.load", "-o", "pictures"]);
    let failing = format!("{SIM},errors=1");
    fixture.run(&["replay", "a.load", "--target", &failing, "-o", "failed"]);
    fixture.ok(&["report", "failed", "-o", "failed.html"]);
    let page = fixture.text("failed.html");
    assert!(page.contains("errno") && !page.contains("NaN"));
    fixture.ok(&["plot", "failed", "-o", "pictures"]);
    let missing = fixture.run(&["report", "pictures"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(said(&missing).contains("holds no run.toml"));
}
