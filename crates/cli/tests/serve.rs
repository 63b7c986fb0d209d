//! The served page of a running run: its answers, and the requests that it refuses.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A run that is served, on a file of its own.
struct Served {
    directory: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
}

impl Served {
    /// Starts a run of so many milliseconds.
    fn start(ms: u64, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for n in 0..ms {
            let sector = n * 7 % 2000 * 8;
            writeln!(load, "{}.{:03} ; {sector} ; 8 ; R ; 0.0 ; 0.0", n / 1000, n % 1000).unwrap();
        }
        // A name may hold such characters, and the page must escape them.
        fs::write(path("<b>load"), load).unwrap();
        fs::File::create(path("target")).unwrap().set_len(16 << 20).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ioecho"))
            .args(["replay", "<b>load", "--target", "target", "--allow-cached", "-o", "run", "-q"])
            .args(["--read-only", "--serve", "127.0.0.1:0", "--interval", "100ms"])
            .args(flags)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| {
            let line = line.unwrap();
            line.contains("http://").then_some(line)
        });
        let line = line.unwrap();
        let address = line.split("http://").nth(1).unwrap().trim_end_matches('/').parse().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { directory, child, address }
    }

    /// Sends the bytes. Returns the status and the whole answer.
    fn send(&self, request: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    fn json(&self, path: &str) -> Value {
        let (status, answer) = self.get(path);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Waits until the page shows figures.
    fn wait_for_intervals(&self) {
        let until = Instant::now() + Duration::from_mins(1);
        while self.json("/state.json")["interval"].as_u64().unwrap() < 3 {
            assert!(Instant::now() < until, "no interval after a minute");
            sleep(Duration::from_millis(50));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_a_run_that_goes_on_grows_until_it_is_the_report() {
    let mut served = Served::start(2500, &["--serve-after", "10m"]);
    served.wait_for_intervals();
    let (status, page) = served.get("/");
    assert_eq!(status, 200);
    assert!(page.contains("connect-src 'self'"), "the page may not fetch");
    assert!(page.contains("/state.json"), "the page does not look for news");
    assert!(page.contains("&#60;b&#62;load") && !page.contains("<b>load"), "a name is obeyed");
    let so_far = served.json("/data.json");
    assert!(so_far["texts"]["words"].as_str().unwrap().contains("So far:"));

    let until = Instant::now() + Duration::from_mins(2);
    while served.json("/state.json")["ended"] != true {
        assert!(Instant::now() < until, "the run does not end");
        sleep(Duration::from_millis(100));
    }
    let last = served.json("/data.json");
    assert_ne!(last["data"], so_far["data"]);
    // The file has the same page, with the same pictures.
    let report = fs::read_to_string(served.path("run/report.html")).unwrap();
    let data = report.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), last["data"]);
    let summary = fs::read_to_string(served.path("run/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let (_, metrics) = served.get("/metrics");
    let reads = summary["service_time"]["read"]["count"].to_string();
    assert!(metrics.contains(&format!("ioecho_requests_total{{kind=\"read\"}} {reads}\n")));

    // Ctrl-C ends the server at once. The exit code is that of the run.
    let id = served.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let code = served.child.wait().unwrap().code().unwrap();
    assert!([0, 10, 11, 12, 14].contains(&code), "{code}");
}

#[test]
fn the_server_ends_with_the_run() {
    let mut served = Served::start(300, &[]);
    let code = served.child.wait().unwrap().code().unwrap();
    assert!([0, 10, 11, 12, 14].contains(&code), "{code}");
    assert!(TcpStream::connect(served.address).is_err());
}

#[test]
fn a_request_that_names_another_host_or_another_path_learns_nothing() {
    let served = Served::start(20_000, &[]);
    let with_host =
        |host: &str| served.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).0;
    assert_eq!(with_host("127.0.0.1"), 200);
    assert_eq!(with_host("rebound.example"), 421);
    assert_eq!(served.send(b"GET / HTTP/1.1\r\n\r\n").0, 421);
    for path in ["/run.toml", "/../../../../etc/passwd", "/%2e%2e/run.toml", "/report.html"] {
        let (status, answer) = served.get(path);
        assert_eq!(status, 404, "{path}: {answer}");
        assert!(answer.ends_with("404 Not Found\n"), "{path}: {answer}");
    }
    assert_eq!(served.send(b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n").0, 405);
    assert_eq!(served.send(b"\x16\x03\x01 hello\r\n\r\n").0, 400);
    let (status, head) = served.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status, 200);
    assert!(head.ends_with("\r\n\r\n") && head.contains("no-store"), "{head}");
}

#[test]
fn idle_and_endless_requests_take_no_place_for_long_and_the_run_goes_on() {
    let served = Served::start(30_000, &[]);
    served.wait_for_intervals();
    // More connections than the server has places, all of them silent.
    let idle: Vec<TcpStream> =
        (0..20).filter_map(|_| TcpStream::connect(served.address).ok()).collect();
    let until = Instant::now() + Duration::from_mins(1);
    while served.get("/state.json").0 != 200 {
        assert!(Instant::now() < until, "nobody is answered any more");
        sleep(Duration::from_millis(200));
    }
    drop(idle);
    let endless = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'a'; 32 << 10]].concat();
    let (status, _) = served.send(&endless);
    assert!([431, 0].contains(&status), "{status}");
    let before = served.json("/state.json")["interval"].as_u64();
    sleep(Duration::from_millis(600));
    assert!(served.json("/state.json")["interval"].as_u64() > before, "the run stands still");
}

#[test]
fn an_address_that_is_taken_is_told_before_anything_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(directory.path().join("load"), "start ; sector; length ; op\n0.0 ; 0 ; 8 ; R\n")
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(["replay", "load", "-t", "sim:size=1M", "-o", "run", "--serve", &address])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("name another port"));
    assert!(!directory.path().join("run").exists());
}
