//! What is fuzzed.

mod child;
mod decode;
mod device;
mod filter;
mod flows;
mod fpm;
mod net;
mod net6;
mod openflow;
mod pcap;
mod pipeline;
mod request;
mod rows;
mod scalar;
mod script;
mod signature;
mod stage;
mod vxlan;
mod wire;

use crate::mutate::Material;

/// Something that reads bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is that of its corpus too.
    pub name: &'static str,
    /// What it reads, and where the bytes come from.
    pub help: &'static str,
    /// Reads an input, and says whether it got past the first check. Panics where a promise is broken.
    pub run: fn(&[u8]) -> bool,
    /// Words of its language.
    pub tokens: &'static [&'static [u8]],
    /// Whether that language is one of words and numbers.
    pub text: bool,
    /// How many inputs a run makes: some seconds' worth.
    pub inputs: u64,
    /// How many inputs of a hundred get past the first check at least; with fewer the run has shown nothing.
    pub deep: u64,
}

impl Target {
    /// What its inputs are made of.
    pub fn material<'a>(&self, corpus: &'a [Vec<u8>]) -> Material<'a> {
        Material { corpus, tokens: self.tokens, text: self.text }
    }
}

/// All targets.
pub static TARGETS: &[Target] = &[
    wire::TARGET,
    net::TARGET,
    net6::TARGET,
    filter::TARGET,
    flows::TARGET,
    fpm::TARGET,
    pcap::TARGET,
    decode::TARGET,
    child::TARGET,
    script::TARGET,
    stage::TARGET,
    rows::TARGET,
    scalar::TARGET,
    device::TARGET,
    request::TARGET,
    signature::TARGET,
    openflow::TARGET,
    pipeline::TARGET,
    vxlan::TARGET,
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// An input of two parts, of which the first is text: as far as the first zero byte.
fn text_and_rest(input: &[u8]) -> (Option<&str>, &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let text = input.get(..end).and_then(|text| std::str::from_utf8(text).ok());
    (text, input.get(end + 1..).unwrap_or_default())
}
