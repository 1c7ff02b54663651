//! What files are refused, who is trusted, and that bytes go through whatever the stream takes at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod files;
mod pipe;
mod sessions;

use weir_tls::Credentials;

/// The files of `keys/`.
macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("keys/", $name))
    };
}
pub(crate) use pem;

/// The credentials of somebody whose certificate `ca` has signed, and who trusts that.
pub(crate) fn switch() -> Credentials {
    Credentials::new(pem!("switch.pem"), pem!("switch.key"), pem!("ca.pem")).unwrap()
}

/// Another of the kind.
pub(crate) fn controller() -> Credentials {
    Credentials::new(pem!("controller.pem"), pem!("controller.key"), pem!("ca.pem")).unwrap()
}
