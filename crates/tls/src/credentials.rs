//! What one end of a connection proves itself by, and whom it trusts.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};

use crate::why::why;

/// Certificates that a file holds at most: each is tried for each peer.
const MOST: usize = 64;

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The certificate, and those between it and its CA.
    Certificate,
    /// The key that belongs to the certificate.
    PrivateKey,
    /// The CA that peers are trusted by.
    Ca,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which.
    pub file: File,
    /// What, as a phrase that follows its name.
    pub problem: String,
    /// What to do.
    pub remedy: &'static str,
}

/// What one end proves itself by, and whom it trusts.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl fmt::Debug for Credentials {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// From the contents of files in PEM: the certificate with those between it and its CA; its key, without a pass phrase; and the CA, or
    /// several, that peers have to be signed by.
    ///
    /// # Errors
    ///
    /// What is wrong with the first that is.
    pub fn new(certificate: &[u8], private_key: &[u8], ca: &[u8]) -> Result<Credentials, Wrong> {
        let chain = certificates(File::Certificate, certificate)?;
        let key = key(private_key)?;
        let roots = Arc::new(roots(ca)?);
        let provider = Arc::new(crypto::ring::default_provider());
        let unusual = |error: Error| Wrong {
            file: File::PrivateKey,
            problem: format!("cannot be used: {error}"),
            remedy: "use a key of RSA with 2,048 bits or more, of ECDSA on P-256 or P-384, or of Ed25519",
        };
        // Whether the key and the certificate are a pair.
        let paired = |error: Error| match error {
            Error::InconsistentKeys(_) => Wrong {
                file: File::PrivateKey,
                problem: "does not belong to the certificate".to_owned(),
                remedy: "name the key that the certificate was made of, and the own certificate as the first of its file",
            },
            Error::InvalidCertificate(_) => Wrong {
                file: File::Certificate,
                problem: format!("cannot be used: {}", why(&error)),
                remedy: "use a certificate of X.509 version 3",
            },
            error => unusual(error),
        };
        let trusted = SignedByCa { roots: Arc::clone(&roots), provider: Arc::clone(&provider) };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let client = client.map_err(unusual)?.dangerous().with_custom_certificate_verifier(Arc::new(trusted));
        let mut client = client.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(paired)?;
        client.resumption = Resumption::disabled();
        client.enable_sni = false;

        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| not_a_ca(&error))?;
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let server = server.map_err(unusual)?.with_client_cert_verifier(verifier);
        let mut server = server.with_single_cert(chain, key).map_err(paired)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Credentials { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn certificates(file: File, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let wrong = |problem: String| Wrong {
        file,
        problem,
        remedy: "write it in PEM: -----BEGIN CERTIFICATE----- and what follows, one certificate or several",
    };
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).take(MOST + 1).collect();
    let found = found.map_err(|error| wrong(format!("is not PEM: {error}")))?;
    match found.len() {
        0 => Err(wrong("holds no certificate".to_owned())),
        count if count > MOST => Err(wrong(format!("holds more than {MOST} certificates"))),
        _ => Ok(found),
    }
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, Wrong> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        let is_locked = text.windows(9).any(|word| word == b"ENCRYPTED");
        Wrong {
            file: File::PrivateKey,
            problem: match error {
                _ if is_locked => "is locked by a pass phrase".to_owned(),
                pem::Error::NoItemsFound => "holds no private key".to_owned(),
                error => format!("is not PEM: {error}"),
            },
            remedy: match is_locked {
                true => "unlock it (openssl pkey -in LOCKED -out FILE), and let only Weir's user read the file",
                false => "write it in PEM: -----BEGIN PRIVATE KEY----- and what follows",
            },
        }
    })
}

fn roots(text: &[u8]) -> Result<RootCertStore, Wrong> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(File::Ca, text)? {
        roots.add(certificate).map_err(|error| not_a_ca(&why(&error)))?;
    }
    Ok(roots)
}

fn not_a_ca(why: &dyn fmt::Display) -> Wrong {
    Wrong {
        file: File::Ca,
        problem: format!("cannot be trusted by: {why}"),
        remedy: "name the certificate of the CA that signs the peers' certificates",
    }
}

/// Trusts servers that the CA has signed, whatever their names: a controller is known by its address, and its CA signs nothing but controllers.
#[derive(Debug)]
struct SignedByCa {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SignedByCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
