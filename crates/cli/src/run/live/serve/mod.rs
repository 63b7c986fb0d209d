//! The report page of a running run, for a browser.
//!
//! A server inside a measuring program must be harmless. It has four fixed answers that are made in
//! memory, and opens no file. It takes one short request per connection and few connections at a
//! time, each for a limited time. It listens only at the given address. Its threads have low
//! priority. It makes the page at most once per interval, and only if a browser asks.

mod request;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_trace::Nanos;

use crate::run::live::view::View;
use crate::run::live::{About, metrics};
use ioecho_run::error::{Kind, Result, RunError};
use request::{Asked, Refusal, Request, Timed};

/// The script that fetches new figures in the browser.
const SCRIPT: &str = include_str!("../../../../assets/live.js");

/// How many connections are served at a time.
const CONNECTIONS_MAX: usize = 8;

/// How often the listening thread looks for a connection.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a client may take to receive an answer.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// A client that asked within this time counts as watching.
const WATCHES: Duration = Duration::from_secs(5);

/// How long a watching client has to fetch the last state.
const FAREWELL: Duration = Duration::from_secs(3);

/// The server; it ends when told.
pub(crate) struct Server {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
}

struct Shared {
    view: Arc<View>,
    about: About,
    interval: Nanos,
    end: AtomicBool,
    connections: AtomicUsize,
    /// When a client last asked for anything.
    asked_at: Mutex<Option<Instant>>,
    /// Whether a client has fetched the last state.
    told_last: AtomicBool,
    /// The last page that was made, and the state that it shows.
    page: Mutex<Made>,
    data: Mutex<Made>,
}

type Made = Option<((u64, bool), Arc<String>)>;

impl Server {
    /// Starts to listen. Fails if that is not possible.
    pub(crate) fn start(
        address: SocketAddr,
        view: Arc<View>,
        about: About,
        interval: Nanos,
    ) -> Result<Self> {
        let cannot = |error: io::Error| {
            let text = format!(
                "cannot serve at {address}: {error}\n  = help: name another port with --serve, or \
                 port 0 for any that is free"
            );
            RunError::new(Kind::Usage, text)
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared {
            view,
            about,
            interval,
            end: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            asked_at: Mutex::new(None),
            told_last: AtomicBool::new(false),
            page: Mutex::new(None),
            data: Mutex::new(None),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("ioecho-serve".to_owned());
        let thread = thread.spawn(move || listen(&listener, &theirs))?;
        Ok(Self { thread: Some(thread), shared, address })
    }

    /// Serves for `after` more, or until `stop`. A client that watches gets the last state in any
    /// case.
    pub(crate) fn linger(&self, after: Nanos, stop: &AtomicBool) {
        let ended = Instant::now();
        let after = Duration::from_nanos(after.0.max(0).unsigned_abs());
        while ended.elapsed() < after && !stop.load(Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        while self.is_watched() && ended.elapsed() < FAREWELL && !stop.load(Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether a client still waits for the last state.
    fn is_watched(&self) -> bool {
        let asked_at = *self.shared.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let told =
            self.shared.told_last.load(Relaxed) && self.shared.connections.load(Relaxed) == 0;
        asked_at.is_some_and(|at| at.elapsed() < WATCHES) && !told
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.end.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    // The threads for connections inherit the priority.
    let _ = ioecho_linux::thread::stand_back();
    while !shared.end.load(Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // Either there was no client, or no descriptor is left. Try again later in both cases.
            thread::sleep(LOOK_EVERY);
            continue;
        };
        if shared.connections.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Relaxed);
            drop(stream);
            continue;
        }
        let theirs = Arc::clone(shared);
        let started = thread::Builder::new().name("ioecho-answer".to_owned()).spawn(move || {
            converse(stream, &theirs);
            theirs.connections.fetch_sub(1, Relaxed);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Relaxed);
        }
    }
}

impl Timed for TcpStream {
    fn give_up_after(&mut self, span: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(span))
    }
}

/// Answers one request.
fn converse(mut stream: TcpStream, shared: &Shared) {
    let _ = stream.set_nonblocking(false);
    let Some(request) = request::read(&mut stream) else { return };
    let answer = match request {
        Ok(request) => answer(request, shared),
        Err(Refusal(status, reason)) => refusal(status, reason),
    };
    if give(&mut stream, &answer).is_ok() {
        // The rest of the request must be read. Otherwise closing the connection would cut off the
        // answer.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let _ = stream.read(&mut [0; 1024]);
    }
}

/// Sends the answer within the time limit.
fn give(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_TIME;
    for piece in answer.chunks(64 << 10) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        stream.write_all(piece)?;
    }
    stream.flush()
}

fn answer(request: Request, shared: &Shared) -> Vec<u8> {
    *shared.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    let (state, last) = shared.view.state();
    let made = match request.asked {
        Asked::Page => shared.made(&shared.page, "text/html; charset=utf-8", |page| {
            ioecho_report::live_html(page, SCRIPT)
        }),
        Asked::Data => shared.made(&shared.data, "application/json", ioecho_report::update),
        Asked::State => {
            let interval_ms = shared.interval.0 / 1_000_000;
            let text = format!(
                "{{\"interval\":{state},\"ended\":{last},\"interval_ms\":{interval_ms}}}\n"
            );
            Ok((Arc::new(text), "application/json"))
        }
        Asked::Metrics => {
            let board = shared.view.board.look();
            let (whole, ended) = (board.whole.clone(), board.ended);
            drop(board);
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            Ok((Arc::new(metrics::text(&whole, ended, &shared.about)), kind))
        }
    };
    let Ok((body, kind)) = made else { return refusal(500, "Internal Server Error") };
    if last && matches!(request.asked, Asked::Data | Asked::Page) {
        shared.told_last.store(true, Relaxed);
    }
    let mut answer = head("200 OK", kind, body.len());
    if !request.head_only {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

impl Shared {
    /// The page of the current state. It is made only once per state, however many clients ask.
    fn made<E>(
        &self,
        place: &Mutex<Made>,
        kind: &'static str,
        make: impl FnOnce(&ioecho_report::Page) -> Result<String, E>,
    ) -> Result<(Arc<String>, &'static str), E> {
        let mut made = place.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.view.state();
        let text = match made.take() {
            Some((of, text)) if of == state => text,
            _ => Arc::new(make(&self.view.page())?),
        };
        *made = Some((state, Arc::clone(&text)));
        Ok((text, kind))
    }
}

fn refusal(status: u16, reason: &str) -> Vec<u8> {
    let body = format!("{status} {reason}\n");
    let mut answer = head(&format!("{status} {reason}"), "text/plain; charset=utf-8", body.len());
    answer.extend_from_slice(body.as_bytes());
    answer
}

/// The head of an answer. It forbids browsers to store the page, to show it in a frame, and to let
/// another site read it.
fn head(status: &str, kind: &str, length: usize) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n"
    )
    .into_bytes()
}
