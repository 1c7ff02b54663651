//! Packets of captures, whatever they hold.

use weir_capture::LinkType;
use weir_capture::decode::{End, Layers};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "decode",
    help: "packets of captures on any kind of link: the first byte chooses, the rest is the packet",
    run,
    tokens: &[
        &[0x81, 0, 0, 7],
        &[0x88, 0xa8, 0, 7],
        &[0x91, 0, 0, 7],
        &[0x88, 0x47, 0, 1, 0, 64],
        &[0, 1, 1, 64],
        &[0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21],
        &[0x65, 0x58],
        &[0x30, 0, 8, 0],
        &[8, 0, 0x45, 0],
        &[0x86, 0xdd, 0x60, 0],
        &[44, 0],
        &[60, 0],
        &[0, 0, 1, 4],
    ],
    text: false,
    inputs: 4_000_000,
    deep: 50,
};

const LINKS: [LinkType; 8] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
];

fn run(input: &[u8]) -> bool {
    let Some((first, data)) = input.split_first() else { return false };
    let link = LINKS.get(usize::from(*first)).copied().unwrap_or(LinkType::ETHERNET);
    let layers = Layers::of(data, link);
    // Headers follow each other, and are within the packet.
    assert!(layers.rest_at() <= data.len(), "{} of {}", layers.rest_at(), data.len());
    let mut end = 0;
    for ip in layers.ips() {
        assert!(ip.at() >= end && ip.end() <= data.len(), "{ip:?}");
        assert_eq!((ip.source().len(), ip.destination().len()), if ip.version() == 4 { (4, 4) } else { (16, 16) });
        assert_eq!(ip.v4().is_some(), ip.v6().is_none());
        assert!(ip.payload().len() <= data.len().saturating_sub(ip.payload_at()), "{ip:?}");
        end = ip.payload_at().min(ip.end());
    }
    for at in layers.tags_at().chain(layers.labels_at()).chain(layers.gres_at()) {
        assert!(at + 4 <= data.len() && at < layers.rest_at(), "{at} of {}", data.len());
    }
    assert_eq!(layers.tags().count(), layers.tags_at().count());
    assert_eq!(layers.labels().count(), layers.labels_at().count());
    assert_eq!(layers.gres().count(), layers.gres_at().count());
    assert_eq!(layers.transport().is_some(), layers.end() == End::Transport);
    assert!(layers.transport().is_none() || layers.five_tuple().is_some());
    // What is cut off the end changes nothing but how far one comes.
    let shorter = Layers::of(data.get(..data.len() / 2).unwrap_or_default(), link);
    assert!(shorter.rest_at() <= layers.rest_at() && shorter.ips().count() <= layers.ips().count());
    layers.outer().is_some()
}
