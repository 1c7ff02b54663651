//! What is wrong with files is told.

use weir_tls::{Credentials, File};

use crate::pem;

#[track_caller]
fn refused(certificate: &[u8], key: &[u8], ca: &[u8], file: File, problem: &str) {
    let wrong = Credentials::new(certificate, key, ca).unwrap_err();
    assert_eq!(wrong.file, file, "{wrong:?}");
    assert!(wrong.problem.contains(problem) && !wrong.remedy.is_empty(), "{wrong:?}");
}

#[test]
fn each_file_that_is_wrong_is_named() {
    let (certificate, key, ca) = (&pem!("switch.pem")[..], &pem!("switch.key")[..], &pem!("ca.pem")[..]);
    assert!(Credentials::new(certificate, key, ca).is_ok());
    // With those between it and its CA behind it, and with several CAs.
    let both = [certificate, ca].concat();
    assert!(Credentials::new(&both, key, &[ca, pem!("other-ca.pem")].concat()).is_ok());
    refused(b"", key, ca, File::Certificate, "holds no certificate");
    refused(key, key, ca, File::Certificate, "holds no certificate");
    refused(&certificate[..certificate.len() / 2], key, ca, File::Certificate, "");
    refused(&certificate.repeat(65), key, ca, File::Certificate, "more than 64");
    refused(certificate, b"\xff\x00", ca, File::PrivateKey, "holds no private key");
    refused(certificate, certificate, ca, File::PrivateKey, "holds no private key");
    refused(certificate, pem!("locked.key"), ca, File::PrivateKey, "pass phrase");
    refused(certificate, pem!("controller.key"), ca, File::PrivateKey, "does not belong to the certificate");
    refused(certificate, key, b"", File::Ca, "holds no certificate");
    let nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    refused(certificate, key, nonsense, File::Ca, "cannot be trusted by");
    refused(nonsense, key, ca, File::Certificate, "cannot be used");
}

#[test]
fn what_is_secret_is_not_shown() {
    assert_eq!(format!("{:?}", crate::switch()), "Credentials { .. }");
}
