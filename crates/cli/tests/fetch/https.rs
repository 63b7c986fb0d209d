//! Loads over https: only a server that proves to be the named host is trusted.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::fixture::Fixture;
use crate::server::{Served, Server};

/// A company's own authority, which is in no public list.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The configuration of a server on this host with a certificate for `host` that is valid in
    /// these years.
    fn vouch(&self, host: &str, years: (i32, i32)) -> ServerConfig {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key)
            .unwrap()
    }
}

const HOST: &str = "127.0.0.1";

/// A century in which the certificate is valid.
const NOW: (i32, i32) = (2000, 2100);

/// A fixture with a library on a server with this configuration. The commands trust its authority.
fn published(authority: &Authority, server: ServerConfig) -> Fixture {
    let mut fixture = Fixture::new(50);
    fixture.server = Server::start_secure(server);
    fixture.add("oltp");
    fixture.publish();
    fs::write(fixture.path("own.pem"), authority.0.pem()).unwrap();
    fixture.environment = vec![("SSL_CERT_FILE", fixture.path("own.pem"))];
    fixture
}

/// The error of `info` for the load over https, after exit code 8.
fn refusal(fixture: &Fixture) -> String {
    let said = fixture.ioecho(&["info", &fixture.server.url("/lib#oltp")]);
    assert_eq!(said.code, 8, "{}{}", said.out, said.err);
    assert_eq!(fixture.server.asked(), Vec::<String>::new());
    said.err
}

#[test]
fn a_load_is_fetched_by_https_where_the_hosts_own_authority_is_named() {
    let authority = Authority::new("our own");
    let fixture = published(&authority, authority.vouch(HOST, NOW));
    let url = fixture.server.url("/lib#oltp");
    assert!(url.starts_with("https://"), "{url}");
    assert_eq!(fixture.requests(&url), 50);
    assert!(fixture.done(&["library", "list", &fixture.server.url("/lib")]).contains("oltp"));
}

#[test]
fn who_cannot_prove_to_be_the_host_is_refused_with_the_reason() {
    let (own, other) = (Authority::new("our own"), Authority::new("another"));
    for (server, reason) in [
        (other.vouch(HOST, NOW), "nobody whom this host trusts vouches for its certificate"),
        (own.vouch("other.example", NOW), "its certificate is of another host"),
        (own.vouch(HOST, (2000, 2001)), "its certificate is no longer valid"),
        (own.vouch(HOST, (2099, 2100)), "its certificate is not valid yet"),
    ] {
        let err = refusal(&published(&own, server));
        assert!(err.contains(&format!("{HOST}:")) && err.contains(reason), "{reason}: {err}");
        assert!(err.contains("cannot prove who it is"), "{err}");
    }
}

#[test]
fn an_authority_of_ones_own_is_trusted_only_where_it_is_named() {
    let own = Authority::new("our own");
    let mut fixture = published(&own, own.vouch(HOST, NOW));
    fixture.environment.clear();
    let err = refusal(&fixture);
    assert!(err.contains("nobody whom this host trusts") && err.contains("SSL_CERT_FILE"), "{err}");
}

#[test]
fn a_file_that_names_no_certificate_is_told_and_not_passed_over() {
    let own = Authority::new("our own");
    let mut fixture = published(&own, own.vouch(HOST, NOW));
    fs::write(fixture.path("empty.pem"), "none\n").unwrap();
    for (file, reason) in [("none.pem", "cannot be read"), ("empty.pem", "no certificate")] {
        fixture.environment = vec![("SSL_CERT_FILE", fixture.path(file))];
        let err = refusal(&fixture);
        assert!(err.contains(file) && err.contains(reason), "{err}");
    }
}

#[test]
fn a_server_without_https_is_told_as_one() {
    let fixture = Fixture::new(1);
    fixture.server.serve("/x.load", Served::default());
    let url = fixture.server.url("/x.load").replace("http:", "https:");
    let said = fixture.ioecho(&["info", &url]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("does it speak https at this port?"), "{}", said.err);
}

#[test]
fn nobody_is_sent_from_https_to_where_everybody_can_listen() {
    let own = Authority::new("our own");
    let fixture = published(&own, own.vouch(HOST, NOW));
    let to = fixture.server.url("/lib/oltp/load.parquet").replace("https:", "http:");
    fixture.server.serve("/moved", Served { status: Some((302, Some(to))), ..Served::default() });
    let said = fixture.ioecho(&["info", &fixture.server.url("/moved")]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.contains("from https to http"), "{}", said.err);
}
