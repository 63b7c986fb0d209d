//! The URL of a load, taken apart.
//!
//! What a library names must never lead out of that library, what is no URL must not become another
//! request, and who reads a message must not learn what opens the store
//! ([`ioecho_trace::secrets`]).

use std::fmt;
use std::net::Ipv6Addr;
use std::path::Path;

use ioecho_trace::secrets::{HIDDEN, scheme_of, url_shown};

/// An URL of `http` or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// `http` or `https`.
    scheme: String,
    /// The host, with a port and with who asks, where these are named.
    authority: String,
    /// What follows the host, from its slash on.
    path: String,
    /// What follows the path, from its question mark on.
    query: String,
    /// What follows the mark `#`: the name of a load in the library at the URL.
    pub(crate) fragment: Option<String>,
}

/// Whether the words name something on the network: `SCHEME://`.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| scheme_of(text).is_some())
}

/// What a word begins with that was meant as an URL and is none: `http:/host`, `https:host`.
pub(super) fn nearly_url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let end = text.find([':', '/'])?;
    let scheme = &text[..end];
    let is_meant = ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    (is_meant && scheme_of(text).is_none()).then_some(scheme)
}

/// Says what is wrong with a host and its port (RFC 3986, section 3.2). Nothing of them is quoted:
/// where a password is not written as it should be, it may be a part of one.
fn check_host(host: &str) -> Result<(), String> {
    let port = if let Some(rest) = host.strip_prefix('[') {
        let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
        match rest.split_once(']') {
            Some((address, port)) if is_address(address) => port,
            _ => return Err("between '[' and ']' stands no IPv6 address".to_owned()),
        }
    } else {
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        if name.is_empty() && port.matches(':').count() < 2 {
            return Err("it names no host".to_owned());
        }
        if port.matches(':').count() > 1 {
            let text = "there is more than one ':' in its host: an IPv6 address stands in \
                        brackets, as in http://[::1]/x";
            return Err(text.to_owned());
        }
        if !name.is_ascii() {
            return Err("the name of its host is to be written in ASCII (xn--…)".to_owned());
        }
        if !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._".contains(&c)) {
            let text = "the name of a host has letters, digits, '-', '.' and '_', and this one \
                        has others";
            return Err(text.to_owned());
        }
        port
    };
    let digits = port.strip_prefix(':').unwrap_or_default();
    let is_port = digits.bytes().all(|c| c.is_ascii_digit())
        && digits.parse::<u16>().is_ok_and(|port| port > 0);
    if (port.is_empty() || port.starts_with(':')) && (digits.is_empty() || is_port) {
        return Ok(());
    }
    let text = "what follows its host is no port, 1 to 65535; in a password '/' is written %2F, \
                '?' %3F and '#' %23";
    Err(text.to_owned())
}

/// Whether each `%` begins a character's two digits (RFC 3986, section 2.1).
fn is_encoded(text: &str) -> bool {
    let digits = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%').skip(1).all(digits)
}

impl Location {
    /// Takes an URL apart. The error says what is wrong with it, and what would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let scheme = scheme_of(text).ok_or("it does not begin like https://")?;
        let rest = &text[scheme.len() + "://".len()..];
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            return Err("a file of this host has no URL here: name it by its path".to_owned());
        }
        if scheme != "http" && scheme != "https" {
            return Err(format!("loads are fetched by http and https, not by {scheme}"));
        }
        if text.contains(HIDDEN) {
            return Err("'…' stands for what is kept nowhere: type the URL as it was".to_owned());
        }
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment.to_owned())),
            None => (rest, None),
        };
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        check_host(authority.rsplit('@').next().unwrap_or_default())?;
        // Whatever else it is, it is no name that a server knows, and might become another request.
        let is_other = |c: char| !c.is_ascii_graphic() || "\\\"<>`".contains(c);
        if text.chars().any(is_other) {
            return Err("it holds characters that have to be written as %XX".to_owned());
        }
        if !is_encoded(rest) {
            let text = "behind a '%' stand two digits of 0-9 and A-F; '%' itself is written %25";
            return Err(text.to_owned());
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            scheme,
            authority: authority.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            fragment,
        })
    }

    /// What is asked of the server: everything but the fragment.
    pub(crate) fn asked(&self) -> String {
        format!("{}://{}{}{}", self.scheme, self.authority, self.path, self.query)
    }

    /// Whether what is said on the way is hidden from others.
    #[cfg_attr(not(feature = "fetch"), allow(dead_code))]
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// The host, with its port, as far as it may be shown.
    #[cfg_attr(not(feature = "fetch"), allow(dead_code))]
    pub(crate) fn host(&self) -> String {
        let shown = self.to_string();
        let (_, rest) = shown.split_once("://").unwrap_or_default();
        rest.split(['/', '?']).next().unwrap_or_default().to_owned()
    }

    /// The last part of the path, as it is on the server.
    pub(crate) fn last_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The same as the name of a file that cannot lead anywhere.
    pub(crate) fn file_name(&self) -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
        let name: String = self.last_name().chars().filter(is_plain).take(80).collect();
        let name = name.trim_start_matches(['.', '-']);
        if name.is_empty() { "load".to_owned() } else { name.to_owned() }
    }

    /// A file in the same directory.
    pub(crate) fn beside(&self, name: &str) -> Self {
        let directory = self.path.rfind('/').map_or("/", |at| &self.path[..=at]);
        Self { path: format!("{directory}{name}"), fragment: None, ..self.clone() }
    }

    /// A file of the library at this URL, which is that of its directory or of its index.
    pub(crate) fn in_library(&self, name: &str) -> Self {
        let directory = self.path.strip_suffix("/library.json").unwrap_or(&self.path);
        let directory = directory.trim_end_matches('/');
        Self { path: format!("{directory}/{name}"), fragment: None, ..self.clone() }
    }
}

/// Without what opens a store.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fragment = self.fragment.as_ref().map(|name| format!("#{name}")).unwrap_or_default();
        f.write_str(&url_shown(&format!("{}{fragment}", self.asked())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn only_what_begins_with_a_scheme_is_an_url() {
        assert!(is_url(Path::new("https://x/y")) && !is_url(Path::new("/tmp/a://b")));
        for (nearly, scheme) in [("http:/h/x", "http"), ("HTTPS:h", "HTTPS"), ("http//h", "http")] {
            assert_eq!(nearly_url(Path::new(nearly)), Some(scheme), "{nearly}");
        }
        for other in ["http", "http.load", "http://h", "x:/http:/h", ":", ""] {
            assert_eq!(nearly_url(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn an_url_is_shown_without_what_opens_a_store() {
        let secret = "https://me:word@host:8443/a/b.parquet?sign=abc#oltp";
        let location = location(secret);
        assert_eq!(location.to_string(), "https://host:8443/a/b.parquet?…#oltp");
        assert_eq!(location.asked(), "https://me:word@host:8443/a/b.parquet?sign=abc");
        assert_eq!((&*location.host(), location.is_secure()), ("host:8443", true));
    }

    #[test]
    fn files_of_a_library_are_found_from_its_directory_and_from_its_index() {
        for base in ["http://h/lib", "http://h/lib/", "http://h/lib/library.json"] {
            let file = location(base).in_library("a/load.parquet");
            assert_eq!(file.asked(), "http://h/lib/a/load.parquet", "{base}");
        }
        assert_eq!(location("http://h").in_library("x").asked(), "http://h/x");
        let sums = location("http://h/lib/a/load.parquet").beside("SHA256SUMS");
        assert_eq!(sums.asked(), "http://h/lib/a/SHA256SUMS");
    }

    #[test]
    fn the_name_of_the_file_leads_nowhere() {
        let name = |url: &str| location(url).file_name();
        assert_eq!(name("http://h/a/load.parquet"), "load.parquet");
        assert_eq!(name("http://h/a/..%2f..%2fx?y=/z"), "2f..2fx");
        assert_eq!(name("http://h/.."), "load");
        assert_eq!(name("http://h"), "load");
    }

    #[test]
    fn what_is_no_url_of_a_load_is_refused_with_what_is_wrong() {
        for (wrong, reason) in [
            ("x", "does not begin like https://"),
            ("ftp://h/x", "not by ftp"),
            ("file:///tmp/x", "by its path"),
            ("http://h/x?…", "type the URL as it was"),
            ("https://", "names no host"),
            ("https:///x", "names no host"),
            ("http://me@/x", "names no host"),
            ("http://:80/", "names no host"),
            ("http://h/a b", "as %XX"),
            ("http://h/\nX: y", "as %XX"),
            ("http://h/ä", "as %XX"),
            ("http://h/<x>", "as %XX"),
            ("http://h/%zz", "written %25"),
            ("http://h/100%", "written %25"),
            ("http://h/%é0", "as %XX"),
            ("http://ä/x", "in ASCII"),
            ("http://a b/x", "letters, digits"),
            ("http://%41/x", "letters, digits"),
            ("http://::1/x", "in brackets"),
            ("http://h:80:90/x", "in brackets"),
            ("http://[::1/x", "no IPv6 address"),
            ("http://[zz]/x", "no IPv6 address"),
            ("http://[::1]80/x", "no port"),
            ("http://h:port/x", "no port"),
            ("http://h:99999/x", "no port"),
            ("http://h:+80/x", "no port"),
            ("http://h:0/x", "no port"),
            ("http://me:pass/word@h/x", "is written %2F"),
        ] {
            let error = Location::parse(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
            assert!(!error.contains("pass/") && !error.contains("99999"), "{wrong}: {error}");
        }
        for right in
            ["http://[::1]:80/x", "http://h:/x", "http://a_b.c-d./%2fx?{y}|z", "http://m:p@h#n"]
        {
            assert_eq!(
                location(right).asked(),
                right.trim_end_matches("#n").replace("m:p@h", "m:p@h/")
            );
        }
    }
}
