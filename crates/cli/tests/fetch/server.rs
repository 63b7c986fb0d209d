//! A web server of a few lines that can be told to fail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How a file is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    pub(crate) bytes: Vec<u8>,
    pub(crate) etag: Option<&'static str>,
    /// Whether the server sends a part of the file if it is asked for one.
    pub(crate) in_parts: bool,
    /// After so many bytes of the body the connection ends, as often as `cuts` says.
    pub(crate) cut_after: usize,
    pub(crate) cuts: usize,
    /// The server delays instead of a cut: the connection stays open, and either a byte follows
    /// from time to time, or nothing.
    pub(crate) slowly: Option<Slowly>,
    /// The file after all cuts.
    pub(crate) then: Option<Box<Served>>,
    /// A status instead of the file, and the URL of a redirection.
    pub(crate) status: Option<(u16, Option<String>)>,
}

/// How a server delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slowly {
    Silent,
    Trickling,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Served>,
    /// The requests, in order: the path, and the range if there was one.
    asked: Vec<String>,
    /// The answers, in order.
    answered: Vec<u16>,
}

/// A server on an address of this host. It runs until the process ends.
pub(crate) struct Server {
    scheme: &'static str,
    address: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_as(None)
    }

    /// A server for https.
    pub(crate) fn start_secure(config: ServerConfig) -> Self {
        Self::start_as(Some(Arc::new(config)))
    }

    fn start_as(config: Option<Arc<ServerConfig>>) -> Self {
        let scheme = if config.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, config) = (Arc::clone(&of_thread), config.clone());
                // Some tests close the connection early.
                thread::spawn(move || match config {
                    None => _ = answer(stream, &state),
                    Some(config) => {
                        let secure = ServerConnection::new(config).unwrap();
                        let mut stream = StreamOwned::new(secure, stream);
                        let _ = answer(&mut stream, &state);
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                });
            }
        });
        Self { scheme, address, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub(crate) fn serve(&self, path: &str, served: Served) {
        self.state.lock().unwrap().files.insert(path.to_owned(), served);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    pub(crate) fn answered(&self) -> Vec<u16> {
        std::mem::take(&mut self.state.lock().unwrap().answered)
    }
}

fn answer(mut stream: impl Read + Write, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(&mut stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let range = headers.get("range");
    let mut state = state.lock().unwrap();
    state.asked.push(range.map_or(path.clone(), |range| format!("{path} {range}")));
    let served = state.files.get(&path).cloned();
    if let Some(there) = state.files.get_mut(&path)
        && there.cuts > 0
    {
        there.cuts -= 1;
        if let (0, Some(then)) = (there.cuts, there.then.take()) {
            *there = *then;
        }
    }
    let (status, extra, body) = what(served.as_ref(), &headers);
    state.answered.push(status);
    drop(state);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let end = match &served {
        Some(served) if served.cuts > 0 => served.cut_after.min(length),
        _ => length,
    };
    stream.write_all(&body[..end])?;
    let slowly = served.and_then(|served| served.slowly).filter(|_| end < length);
    for byte in body[end..].chunks(1) {
        match slowly {
            None => break,
            Some(Slowly::Silent) => thread::sleep(Duration::from_mins(10)),
            Some(Slowly::Trickling) => thread::sleep(Duration::from_millis(20)),
        }
        stream.write_all(byte)?;
    }
    Ok(())
}

fn what(served: Option<&Served>, headers: &BTreeMap<String, String>) -> (u16, String, Vec<u8>) {
    let Some(served) = served else { return (404, String::new(), b"nothing here".to_vec()) };
    if let Some((status, to)) = &served.status {
        let to = to.as_ref().map_or(String::new(), |to| format!("Location: {to}\r\n"));
        return (*status, to, Vec::new());
    }
    let mut extra = served.etag.map_or(String::new(), |etag| format!("ETag: {etag}\r\n"));
    let named = |header: &str| headers.get(header).map(String::as_str) == served.etag;
    if headers.contains_key("if-none-match") && named("if-none-match") {
        return (304, extra, Vec::new());
    }
    let from = headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    match from {
        Some(from) if served.in_parts && named("if-range") => {
            let all = served.bytes.len();
            let range = format!("Content-Range: bytes {from}-{}/{all}\r\n", all - 1);
            extra.push_str(&range);
            (206, extra, served.bytes[from..].to_vec())
        }
        _ => (200, extra, served.bytes.clone()),
    }
}
