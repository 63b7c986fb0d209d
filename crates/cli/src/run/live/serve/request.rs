//! Reads the head of an HTTP request, and refuses requests that this server does not serve.
//!
//! Requests may be hostile. A page in the user's own browser can send requests to localhost.
//! Through a host name that its owner controls it can also read the answers (DNS rebinding). So a
//! request must name this server by an address or as localhost. Any other name could belong to
//! somebody else. The path is only compared with the few paths that exist.

use std::io::{self, Read};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The longest head, in bytes.
const HEAD_BYTES: usize = 8 << 10;

/// How long a whole head may take to arrive.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Page,
    Data,
    State,
    Metrics,
}

/// A request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) asked: Asked,
    /// Whether the client wants only the head of the answer.
    pub(crate) head_only: bool,
}

/// The status that refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16, pub(crate) &'static str);

const MALFORMED: Refusal = Refusal(400, "Bad Request");
const MISDIRECTED: Refusal = Refusal(421, "Misdirected Request");

/// The part of a connection that this module needs, besides its timeouts.
pub(crate) trait Timed: Read {
    /// Makes reads fail after this long.
    fn give_up_after(&mut self, span: Duration) -> io::Result<()>;
}

/// Reads a head. Returns `None` if the client sent nothing.
pub(crate) fn read(stream: &mut impl Timed) -> Option<Result<Request, Refusal>> {
    let deadline = Instant::now() + HEAD_TIME;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            return Some(parse(&head[..end]));
        }
        if head.len() > HEAD_BYTES {
            return Some(Err(Refusal(431, "Request Header Fields Too Large")));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let late = Some(Err(Refusal(408, "Request Timeout")));
        if left.is_zero() {
            return late;
        }
        stream.give_up_after(left).ok()?;
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                use io::ErrorKind::{TimedOut, WouldBlock};
                return if matches!(error.kind(), TimedOut | WouldBlock) { late } else { None };
            }
        }
    }
}

/// The head without the empty line at its end.
pub(crate) fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let head = std::str::from_utf8(head).map_err(|_| MALFORMED)?;
    let mut lines = head.split("\r\n");
    let [method, target, version] = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| MALFORMED)?;
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Refusal(505, "HTTP Version Not Supported"));
    }
    let mut host = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(MALFORMED)?;
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic()) {
            return Err(MALFORMED);
        }
        if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
            return Err(MALFORMED);
        }
    }
    if !host.is_some_and(is_ours) {
        return Err(MISDIRECTED);
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Refusal(405, "Method Not Allowed")),
    };
    let asked = match target.split_once('?').map_or(target, |(path, _)| path) {
        "/" | "/index.html" => Asked::Page,
        "/data.json" => Asked::Data,
        "/state.json" => Asked::State,
        "/metrics" => Asked::Metrics,
        _ => return Err(Refusal(404, "Not Found")),
    };
    Ok(Request { asked, head_only })
}

/// Whether a host name can only mean this server: an address, or localhost. Any port is accepted,
/// because a tunnel may have changed it.
fn is_ours(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    };
    if without_port.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = without_port.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bare {
        Some(address) => matches!(address.parse(), Ok(IpAddr::V6(_))),
        None => matches!(without_port.parse(), Ok(IpAddr::V4(_))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that returns so many bytes at a time, and then nothing more.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    impl Timed for Slow<'_> {
        fn give_up_after(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn asked(path: &str, host: &str) -> Result<Asked, u16> {
        let head = format!("GET {path} HTTP/1.1\r\nAccept: */*\r\nHost: {host}");
        parse(head.as_bytes()).map(|request| request.asked).map_err(|refusal| refusal.0)
    }

    #[test]
    fn each_path_that_exists_is_answered_and_no_other() {
        let at = |path| asked(path, "localhost:8080");
        assert_eq!(at("/"), Ok(Asked::Page));
        assert_eq!(at("/data.json?7"), Ok(Asked::Data));
        assert_eq!(at("/state.json"), Ok(Asked::State));
        assert_eq!(at("/metrics"), Ok(Asked::Metrics));
        for wrong in ["/etc/passwd", "/../run.toml", "//", "/%2e%2e/", "http://x/", "*", "/data"] {
            assert_eq!(at(wrong), Err(404), "{wrong}");
        }
    }

    #[test]
    fn only_an_address_or_localhost_names_this_server() {
        for ours in ["localhost", "LOCALHOST:1", "127.0.0.1", "192.168.0.7:8080", "[::1]:80"] {
            assert_eq!(asked("/", ours), Ok(Asked::Page), "{ours}");
        }
        let others = [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
            "",
            "::1",
            ":80",
        ];
        for other in others {
            assert_eq!(asked("/", other), Err(421), "{other}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1").map_err(|refusal| refusal.0), Err(421));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (head, status) in [
            ("", 400),
            ("GET /", 400),
            ("GET  / HTTP/1.1", 400),
            ("GET / HTTP/2", 505),
            ("POST / HTTP/1.1\r\nHost: localhost", 405),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1", 400),
            ("GET / HTTP/1.1\r\nHost : localhost", 400),
            ("GET / HTTP/1.1\r\n Host: localhost", 400),
            ("GET / HTTP/1.1\r\nnonsense", 400),
        ] {
            assert_eq!(parse(head.as_bytes()).map_err(|r| r.0), Err(status), "{head:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1").map_err(|r| r.0), Err(400));
    }

    #[test]
    fn a_head_may_come_in_pieces_but_not_without_end() {
        let whole = b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nrest";
        let request = Request { asked: Asked::Metrics, head_only: true };
        assert_eq!(read(&mut Slow(whole, 1)), Some(Ok(request)));
        assert_eq!(read(&mut Slow(&whole[..20], 3)), None);
        let endless = vec![b'a'; 1 << 16];
        assert_eq!(read(&mut Slow(&endless, 500)).unwrap().map_err(|r| r.0), Err(431));
    }
}
