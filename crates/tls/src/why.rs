//! Why a connection cannot be, in words for people.

use rustls::{AlertDescription, CertificateError, Error};

/// A phrase whose subject is the peer.
pub(crate) fn why(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => "it showed no certificate".to_owned(),
        Error::InvalidCertificate(wrong) => certificate(wrong),
        Error::AlertReceived(alert) => told(*alert),
        Error::InvalidMessage(_) => "what it sends is not TLS".to_owned(),
        Error::PeerIncompatible(_) => format!("it speaks TLS in no way that goes together with ours: {error}"),
        other => format!("its TLS is broken: {other}"),
    }
}

fn certificate(wrong: &CertificateError) -> String {
    match wrong {
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by the CA that it is to be trusted by".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or this clock is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or this clock is wrong".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose (extended key usage)".to_owned()
        }
        other => format!("its certificate cannot be trusted: {other:?}"),
    }
}

/// What the peer has to say before it goes.
fn told(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => {
            "it refuses the certificate that it is shown: a CA that it does not trust has signed that".to_owned()
        }
        AlertDescription::CertificateExpired => {
            "it refuses the certificate that it is shown: that has expired".to_owned()
        }
        AlertDescription::CertificateRequired => "it refuses to go on without a certificate".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown => format!("it refuses the certificate that it is shown ({alert:?})"),
        other => format!("it refuses to go on ({other:?})"),
    }
}
