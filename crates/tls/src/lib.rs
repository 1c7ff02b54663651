//! TLS for connections on which both ends prove who they are: by a certificate that a CA has signed which the other end trusts.
//!
//! - [`Credentials`]: what one end proves itself by, and whom it trusts; from files in PEM, with everything that is wrong told.
//! - [`Session`]: the TLS of one connection, over a stream that never waits. It holds a bounded number of bytes whatever the peer does.
//!
//! Versions 1.2 and 1.3, by `rustls`, whose arithmetic is that of `ring`. Nothing is resumed: each connection is proved anew.

#![forbid(unsafe_code)]

mod credentials;
mod session;
mod why;

pub use credentials::{Credentials, File, Wrong};
pub use session::Session;
