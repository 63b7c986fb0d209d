//! One question to a web server.
//!
//! The rest of the program knows a server by what it answered, never by the library that asked: the
//! answers that matter here are few, and each has its sentence.

use std::io::Read;
#[cfg(not(feature = "fetch"))]
use std::time::Duration;

use jiff::fmt::rfc2822;

use super::location::Location;

/// What is asked besides the file itself.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "fetch"), allow(dead_code))]
pub(crate) struct Question {
    /// Only if the file is no longer what this `ETag` names.
    pub(crate) unless_etag: Option<String>,
    /// Only if the file has changed since this instant, in the server's own words.
    pub(crate) unless_modified: Option<String>,
    /// From this byte on, if the file is still what the validator names.
    pub(crate) from: Option<(u64, String)>,
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// When it was answered, by the server's clock.
    pub(crate) date: Option<String>,
    /// How many bytes follow, where it says so.
    pub(crate) length: Option<u64>,
    /// Whether what follows says itself where it ends: by a length, or as chunks (RFC 9112, section
    /// 6.3). Otherwise a connection that breaks looks like the end.
    pub(crate) has_end: bool,
    /// The first byte that follows, where it is a part.
    pub(crate) first: Option<u64>,
    pub(crate) body: Box<dyn Read>,
}

/// A file may change again in the second that `Last-Modified` names. Only where the answer is later
/// than that second does it tell one state from another (RFC 9110, section 8.8.2.2, with a second
/// more for servers whose clocks differ from those of their disks).
const LASTING_S: i64 = 2;

impl Answer {
    /// The instant of the last change, where no other state of the file can bear it, too.
    pub(crate) fn lasting_modified(&self) -> Option<String> {
        let seconds = |text: &str| Some(rfc2822::parse(text).ok()?.timestamp().as_second());
        let modified = self.modified.as_deref()?;
        let since = seconds(self.date.as_deref()?)?.saturating_sub(seconds(modified)?);
        (since >= LASTING_S).then(|| modified.to_owned())
    }
}

/// Why there is no answer, and what to do.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) reason: String,
    pub(crate) help: &'static str,
}

/// What to do where the network is at fault.
const NETWORK: &str = "is the network there, and does https_proxy name the proxy, if there must be \
                       one? --offline takes what was fetched before";

#[cfg(not(feature = "fetch"))]
pub(crate) fn ask(_: &Location, _: &Question, _: Duration) -> Result<Answer, NoAnswer> {
    let _ = NETWORK;
    let reason = "this ioecho was built without its feature `fetch`".to_owned();
    Err(NoAnswer { reason, help: "fetch it with another program, and name the file" })
}

#[cfg(feature = "fetch")]
pub(crate) use asking::ask;

#[cfg(feature = "fetch")]
mod asking {
    use std::io::{self, Read};
    use std::path::Path;
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustls::CertificateError as Wrong;
    use rustls::Error as NotSecure;
    use ureq::Agent;
    use ureq::http::HeaderMap;
    use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

    use super::{Answer, Location, NETWORK, NoAnswer, Question};

    /// How often a server may send us elsewhere.
    const REDIRECTS_MAX: u32 = 5;

    /// Where distributions keep the certificates that their users trust: Debian, Fedora, SUSE,
    /// Alpine. A company's own authority stands there and in no program's list.
    const BUNDLES: [&str; 4] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ];

    /// Names a file with the certificates to trust, as for other programs.
    const NAMED: &str = "SSL_CERT_FILE";

    /// The certificates in a file.
    fn certificates_in(file: impl AsRef<Path>) -> io::Result<Vec<Certificate<'static>>> {
        let pem = std::fs::read(file)?;
        let items = parse_pem(&pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        Ok(items.collect())
    }

    /// The certificates that the user names; those of this host, where none are named; those that
    /// the program brings, where there are none.
    fn trusted() -> Result<RootCerts, NoAnswer> {
        static TRUSTED: OnceLock<RootCerts> = OnceLock::new();
        if let Some(trusted) = TRUSTED.get() {
            return Ok(trusted.clone());
        }
        let is_some = |of: &Vec<_>| !of.is_empty();
        let roots = match std::env::var_os(NAMED).filter(|file| !file.is_empty()) {
            // Whoever names an authority of their own wants no other in its place.
            Some(file) => {
                let none = |reason: String| NoAnswer {
                    reason: format!("{NAMED} is {}, and {reason}", Path::new(&file).display()),
                    help: "name a file with certificates (PEM), or none for those of this host",
                };
                let found = certificates_in(&file)
                    .map_err(|error| none(format!("that cannot be read: {error}")))?;
                let found = Some(found).filter(is_some);
                Some(found.ok_or_else(|| none("no certificate stands in it".to_owned()))?)
            }
            None => BUNDLES.iter().filter_map(|file| certificates_in(file).ok()).find(is_some),
        };
        let roots = roots.map_or(RootCerts::WebPki, RootCerts::from);
        Ok(TRUSTED.get_or_init(|| roots).clone())
    }

    fn agent(is_secure: bool, patience: Duration) -> Result<Agent, NoAnswer> {
        // Where no certificate is looked at, it does not matter which would be trusted.
        let roots = if is_secure { trusted()? } else { RootCerts::WebPki };
        let tls = TlsConfig::builder().root_certs(roots).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(REDIRECTS_MAX)
            .max_redirects_will_error(true)
            // Who asked in secret is not sent on to where everybody listens.
            .https_only(is_secure)
            // What is counted and resumed are the bytes of the file.
            .accept_encoding("identity")
            .user_agent(concat!("ioecho/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(patience))
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience));
        Ok(config.tls_config(tls).build().new_agent())
    }

    /// Asks for a file; follows where the server sends us. A server may be silent for as long as
    /// `patience` says, before it answers and between any two pieces of the file.
    pub(crate) fn ask(
        location: &Location,
        question: &Question,
        patience: Duration,
    ) -> Result<Answer, NoAnswer> {
        let mut request = agent(location.is_secure(), patience)?.get(location.asked());
        if let Some(etag) = &question.unless_etag {
            request = request.header("If-None-Match", etag);
        }
        if let Some(modified) = &question.unless_modified {
            request = request.header("If-Modified-Since", modified);
        }
        if let Some((first, validator)) = &question.from {
            request = request.header("Range", format!("bytes={first}-"));
            request = request.header("If-Range", validator);
        }
        let answer = request.call().map_err(|error| no_answer(location, &error))?;
        let headers = answer.headers();
        let (status, etag) = (answer.status().as_u16(), text(headers, "etag"));
        let coding = text(headers, "transfer-encoding").unwrap_or_default();
        let is_chunked = coding.to_ascii_lowercase().trim_end().ends_with("chunked");
        let length = text(headers, "content-length").and_then(|length| length.parse().ok());
        let first = text(headers, "content-range").as_deref().and_then(first_of);
        Ok(Answer {
            status,
            etag,
            modified: text(headers, "last-modified"),
            date: text(headers, "date"),
            has_end: is_chunked || length.is_some(),
            length,
            first,
            body: Box::new(Body(answer.into_body().into_reader())),
        })
    }

    /// What follows an answer; a time that is over is told as one.
    struct Body<R>(R);

    impl<R: Read> Read for Body<R> {
        fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
            self.0.read(piece).map_err(|error| {
                let of_ureq = error.get_ref().and_then(|error| error.downcast_ref());
                match of_ureq {
                    Some(ureq::Error::Timeout(_)) => io::ErrorKind::TimedOut.into(),
                    _ => error,
                }
            })
        }
    }

    fn text(headers: &HeaderMap, name: &str) -> Option<String> {
        Some(headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// The first byte of `bytes FIRST-LAST/ALL` (RFC 9110, section 14.4).
    fn first_of(range: &str) -> Option<u64> {
        range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
    }

    fn no_answer(location: &Location, error: &ureq::Error) -> NoAnswer {
        let host = location.host();
        let (reason, help) = match error {
            ureq::Error::HostNotFound => (format!("nobody knows a host called {host}"), NETWORK),
            ureq::Error::Timeout(_) => (
                format!("{host} does not answer in time ({error})"),
                "--download-timeout SPAN waits longer, and --offline takes what was fetched before",
            ),
            // It would quote an URL, which may hold what opens a store.
            ureq::Error::BadUri(_) | ureq::Error::Protocol(_) | ureq::Error::Http(_) => (
                format!("{host} is no host, sends us to what is no URL, or speaks no HTTP"),
                "is this the URL of a load?",
            ),
            ureq::Error::TooManyRedirects => (
                format!("{host} sends us elsewhere more than {REDIRECTS_MAX} times"),
                "ask its owner for the load's own URL",
            ),
            ureq::Error::RequireHttpsOnly(_) => (
                format!("{host} sends us from https to http, where everybody can listen"),
                "if that may be, name the http URL itself",
            ),
            ureq::Error::Rustls(error) => not_secure(&host, error),
            ureq::Error::Io(error) => {
                match error.get_ref().and_then(|error| error.downcast_ref()) {
                    Some(error) => not_secure(&host, error),
                    // A server without https hangs up at what it cannot read.
                    None if location.is_secure()
                        && error.kind() == io::ErrorKind::UnexpectedEof =>
                    {
                        (format!("{host} hangs up before it has proved who it is"), NO_HTTPS)
                    }
                    None => (format!("no connection to {host}: {error}"), NETWORK),
                }
            }
            ureq::Error::ConnectionFailed => (format!("no connection to {host}"), NETWORK),
            _ => (error.to_string(), NETWORK),
        };
        NoAnswer { reason, help }
    }

    /// What to look at where a host answers, and not in secret.
    const NO_HTTPS: &str = "does it speak https at this port?";

    /// Why nothing can be said in secret to this host.
    fn not_secure(host: &str, error: &NotSecure) -> (String, &'static str) {
        let NotSecure::InvalidCertificate(wrong) = error else {
            return (format!("{host} makes no secure connection: {error}"), NO_HTTPS);
        };
        let (reason, help) = match wrong {
            Wrong::UnknownIssuer => (
                "nobody whom this host trusts vouches for its certificate".to_owned(),
                "SSL_CERT_FILE names a file with the certificates to trust, such as that of your \
                 own authority",
            ),
            Wrong::Expired | Wrong::ExpiredContext { .. } => (
                format!("its certificate is no longer valid: {wrong}"),
                "tell its owner; is the clock of this host right?",
            ),
            Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => (
                format!("its certificate is not valid yet: {wrong}"),
                "is the clock of this host right?",
            ),
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => (
                format!("its certificate is of another host: {wrong}"),
                "name the host as its certificate does",
            ),
            _ => (format!("its certificate is not valid: {wrong}"), "tell its owner"),
        };
        (format!("{host} cannot prove who it is: {reason}"), help)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_first_byte_of_a_part_is_read_and_nonsense_is_none() {
            assert_eq!(first_of("bytes 7-9/10"), Some(7));
            assert_eq!(first_of("bytes */10"), None);
            assert_eq!(first_of("seconds 7-9/10"), None);
            assert_eq!(first_of(""), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_change_is_kept_only_if_the_file_cannot_change_again_in_its_second() {
        let modified = "Sun, 22 Nov 2026 05:10:46 GMT";
        let answered = |date: Option<&str>| Answer {
            status: 200,
            etag: None,
            modified: Some(modified.to_owned()),
            date: date.map(str::to_owned),
            length: None,
            has_end: true,
            first: None,
            body: Box::new(std::io::empty()),
        };
        for date in [
            None,
            Some("now"),
            Some(modified),
            Some("Sun, 22 Nov 2026 05:10:47 GMT"),
            Some("Sun, 22 Nov 2026 04:00:00 GMT"),
        ] {
            assert_eq!(answered(date).lasting_modified(), None, "{date:?}");
        }
        let later = answered(Some("Sun, 22 Nov 2026 05:10:48 GMT"));
        assert_eq!(later.lasting_modified().as_deref(), Some(modified));
    }
}
