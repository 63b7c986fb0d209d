//! The name of a merged trace in the header.
//!
//! The name stays in the header, and so in every published file made of the two traces. The path of
//! a file is private, and a URL may hold a password or a signature that opens a store.

use std::path::{Path, PathBuf};

use crate::generate;

/// The name of the file; a URL without user name, password and query; the line of a generated load.
pub(super) fn called(file: &Path) -> String {
    if let Some(url) = of_url(file) {
        return url;
    }
    let name = if generate::is_line(file) { None } else { file.file_name() };
    name.unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// The name in messages to the user who typed it: its path, or a URL as in [`called`].
pub(super) fn shown(file: &Path) -> PathBuf {
    of_url(file).map_or_else(|| file.to_owned(), PathBuf::from)
}

/// A URL without user name, password and query; `None` for any other text.
fn of_url(file: &Path) -> Option<String> {
    let text = file.to_str()?;
    let (scheme, rest) = text.split_once("://")?;
    let is_name = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_name {
        return None;
    }
    let (rest, load) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    Some(format!("{scheme}://{host}{path}{load}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_directory_nor_what_opens_a_store_is_told() {
        for (file, name) in [
            ("/home/me/customer/b.load", "b.load"),
            ("b.load", "b.load"),
            ("-", "-"),
            ("..", ".."),
            ("gen:random?read=7/8", "gen:random?read=7/8"),
            ("https://me:word@h:1/a/b.load?sig=x/y@z#oltp", "https://h:1/a/b.load#oltp"),
            ("https://me:word@h?sig=x", "https://h"),
            ("/tmp/a://b", "b"),
        ] {
            assert_eq!(called(Path::new(file)), name);
        }
        assert_eq!(shown(Path::new("/home/b.load")), Path::new("/home/b.load"));
        assert_eq!(shown(Path::new("http://me@h/b?c")), Path::new("http://h/b"));
    }
}
