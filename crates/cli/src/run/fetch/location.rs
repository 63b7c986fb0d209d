//! The URL of a load, taken apart.
//!
//! What a library names must never lead out of that library, what is no URL must not become another
//! request, and who reads a message must not learn what opens the store ([`super::secret`]).

use std::fmt;
use std::path::Path;

use super::secret;

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

/// The scheme that a word begins with, if it does.
pub(super) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_name = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_name.then_some(scheme)
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
        if text.contains('…') {
            return Err("'…' stands for what is kept nowhere: type the URL as it was".to_owned());
        }
        // Whatever else it is, it is no name that a server knows, and might become another request.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii() || c == '\\') {
            return Err("it holds characters that have to be written as %XX".to_owned());
        }
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment.to_owned())),
            None => (rest, None),
        };
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        if host.is_empty() || host.starts_with(':') {
            return Err("it names no host".to_owned());
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

    /// The last part of the path, as the name of a file that cannot lead anywhere.
    pub(crate) fn file_name(&self) -> String {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
        let name: String = last.chars().filter(is_plain).take(80).collect();
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
        f.write_str(&secret::shown(&format!("{}{fragment}", self.asked())))
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
        for url in ["https://x/y", "HTTP://x", "ftp://x", "s3+x://y"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for file in ["x", "gen:zipf", "/tmp/a://b", "-", "C:/x", "://x", "a b://c"] {
            assert!(!is_url(Path::new(file)), "{file}");
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
    fn what_is_no_url_of_a_load_is_refused() {
        for wrong in ["ftp://h/x", "https://", "https:///x", "http://h/a b", "http://:80/", "x"] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Location::parse("http://h/\nX: y").is_err());
        let reason = |text| Location::parse(text).unwrap_err();
        assert!(reason("file:///tmp/x").contains("by its path"));
        assert!(reason("http://h/x?…").contains("type the URL as it was"));
    }
}
