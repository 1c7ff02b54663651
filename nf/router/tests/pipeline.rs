//! All tests of a running router once more, in a pipeline: one worker checks packets, another looks them up and sends them. Nothing
//! else may differ.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

#[path = "account.rs"]
mod account;
#[path = "acl_redirect.rs"]
mod acl_redirect;
#[path = "across.rs"]
mod across;
#[path = "arp.rs"]
mod arp;
mod common;
#[path = "discovery.rs"]
mod discovery;
#[path = "fast_path.rs"]
mod fast_path;
#[path = "fast_path6.rs"]
mod fast_path6;
#[path = "interfaces.rs"]
mod interfaces;
#[path = "reassembly.rs"]
mod reassembly;
#[path = "reassembly6.rs"]
mod reassembly6;
#[path = "redirect.rs"]
mod redirect;
#[path = "redirect6.rs"]
mod redirect6;
#[path = "slow_path.rs"]
mod slow_path;
#[path = "slow_path6.rs"]
mod slow_path6;
#[path = "vrfs.rs"]
mod vrfs;
