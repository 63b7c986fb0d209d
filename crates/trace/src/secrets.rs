//! Secrets in URLs.
//!
//! Anybody who reads a URL with a password or a signature can open the store, and many people read
//! about a trace: a header goes with its file, a run's directory keeps the command line, messages
//! are pasted into mails. So user name, password and query of a URL are never shown or kept,
//! whether the URL is valid or not, alone or within other text.

/// Replaces a hidden part.
pub const HIDDEN: char = '…';

/// The scheme that a word begins with, if it does: `https` of `https://host/x` (RFC 3986, section
/// 3.1).
pub fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_name =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme);
    is_name.then_some(scheme)
}

fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-.".contains(c)
}

/// Whether `text` is a placeholder: the mark, and a number if there are several.
fn is_hidden(text: &str) -> bool {
    let number = text.strip_prefix(HIDDEN);
    number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The part of a URL, valid or not, that may be shown: without user name, password and query. Any
/// other text is returned unchanged.
pub fn url_shown(url: &str) -> String {
    let Some(scheme) = scheme_of(url) else { return url.to_owned() };
    let rest = &url[scheme.len() + "://".len()..];
    let host_end = |text: &str| text.find(['/', '?', '#']).unwrap_or(text.len());
    let mut rest = match rest[..host_end(rest)].rfind('@') {
        Some(at) if is_hidden(&rest[..at]) => rest,
        Some(at) => &rest[at + 1..],
        None => rest,
    };
    // A wrongly encoded password may contain characters that end a host.
    let authority = &rest[..host_end(rest)];
    if let (Some((host, port)), Some(at)) = (authority.rsplit_once(':'), rest.rfind('@'))
        && at > authority.len()
        && !authority.starts_with('[')
    {
        if port.parse::<u16>().is_ok() {
            return format!("{scheme}://{host}/{HIDDEN}");
        }
        rest = &rest[at + 1..];
    }
    let (rest, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    match rest.split_once('?') {
        Some((_, query)) if is_hidden(query) => format!("{scheme}://{rest}{fragment}"),
        Some((rest, _)) => format!("{scheme}://{rest}?{HIDDEN}{fragment}"),
        None => format!("{scheme}://{rest}{fragment}"),
    }
}

/// A text with URLs, such as a shell command, with the secrets of each URL hidden. An URL ends at a
/// blank or a quotation mark.
pub fn text_shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let named = rest[..at].trim_end_matches(is_of_scheme).len();
        let name = &rest[named..at];
        let before = name.len() - name.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).len();
        let is_end = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
        let end = rest[at..].find(is_end).map_or(rest.len(), |end| at + end);
        let begin = named + before;
        shown.push_str(&rest[..begin]);
        shown.push_str(&url_shown(&rest[begin..end]));
        rest = &rest[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_with_a_scheme_is_an_url() {
        for url in ["https://x/y", "HTTP://x", "ftp://x", "s3+x://y"] {
            assert!(scheme_of(url).is_some(), "{url}");
        }
        for file in ["x", "gen:zipf", "/tmp/a://b", "-", "C:/x", "://x", "a b://c"] {
            assert!(scheme_of(file).is_none(), "{file}");
        }
    }

    #[test]
    fn neither_password_nor_query_is_shown_of_any_url_right_or_wrong() {
        for (url, is_shown) in [
            ("https://me:word@host:8443/a/b?sign=abc#oltp", "https://host:8443/a/b?…#oltp"),
            ("https://me:word@host/a b?c", "https://host/a b?…"),
            ("ftp://me:word@host/x", "ftp://host/x"),
            ("file:///tmp/x", "file:///tmp/x"),
            ("http://me:wo/rd@host/x", "http://host/x"),
            ("http://me:wo#rd@host/x", "http://host/x"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("http://host/a@b", "http://host/a@b"),
            ("http://host:80/a?b", "http://host:80/a?…"),
            // Either the name of a user and a password, or a host and a port: the text does not
            // tell which.
            ("http://host:80/a@b", "http://host/…"),
            ("https://me:12/3@h", "https://me/…"),
            ("https://me:12?3@h/x#y", "https://me/…"),
            ("https://me:12#3@h/x", "https://me/…"),
            ("https://me:123456/7@h/x", "https://h/x"),
            ("https://me:/7@h/x", "https://h/x"),
            ("https://me@corp:12/3@h", "https://corp/…"),
            ("https://me@corp:wo/rd@h/x", "https://h/x"),
            ("http://me@/?", "http:///?…"),
            ("x?y@z", "x?y@z"),
            // A text whose secrets are hidden already stays unchanged.
            ("http://…2@host:80/x?…3#n", "http://…2@host:80/x?…3#n"),
            ("http://…2:word@host/x?…a", "http://host/x?…"),
        ] {
            assert_eq!(url_shown(url), is_shown);
            assert_eq!(url_shown(is_shown), is_shown);
            let word = url.split(' ').next().unwrap();
            assert_eq!(text_shown(word), url_shown(word));
        }
    }

    #[test]
    fn an_url_in_the_midst_of_other_words_is_shown_as_if_it_were_alone() {
        for (text, is_shown) in [
            ("curl -d @- 'http://me:word@h/x?sig=1' | sort", "curl -d @- 'http://h/x?…' | sort"),
            ("to=http://me:word@h", "to=http://h"),
            ("2http://me:word@h http://you:word@i/", "2http://h http://i/"),
            ("http://me:word@h,http://you:word@i/x", "http://i/x"),
            ("no url: //x @y ://z", "no url: //x @y ://z"),
            ("ü://me@h ü", "ü://me@h ü"),
            ("", ""),
        ] {
            assert_eq!(text_shown(text), is_shown);
            assert_eq!(text_shown(is_shown), is_shown);
        }
    }
}
