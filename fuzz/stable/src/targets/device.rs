//! Texts of devices in configurations. None is opened.

use std::path::Path;

use weir_port_dpdk::Device;
use weir_port_mem::MemPort;
use weir_port_pcap::PcapPort;
use weir_stage::{DeviceText, Port, PortError};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "device",
    help: "texts of devices in configurations",
    run,
    tokens: &[
        b"af_xdp:",
        b"af_packet:",
        b"tap:",
        b"memif:",
        b"vhost:",
        b"virtio_user:",
        b"pci:0000:01:00.0",
        b"vdev:",
        b"null",
        b"pcap:",
        b"mem:loop",
        b"mem:replay=",
        b",mac=02:00:00:00:00:01",
        b",mtu=9198",
        b",timing=keep",
        b",rate=1 Mpps",
        b",drop=0.5",
        b",seed=18446744073709551615",
        b"=",
        b",,",
        b"0000:ff:1f.7",
    ],
    text: true,
    inputs: 400_000,
    deep: 12,
};

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    if let Ok(device) = DeviceText::parse(text, 2, &["mac", "mtu", "rate"]) {
        let _ = (device.argument(0), device.argument(1), device.option("rate"));
        let in_range = device.number("mtu", 68, 9198).is_ok_and(|mtu| mtu.is_none_or(|mtu| (68..=9198).contains(&mtu)));
        assert!(in_range || device.option("mtu").is_some(), "{text}: there is no MTU to be wrong");
        if let Ok(Some([first, ..])) = device.mac() {
            assert_eq!(first & 1, 0, "{text}: a group has no port");
        }
    }
    let base = Path::new("/nonexistent");
    let memory = MemPort::new("p", text, base, |_| Err(PortError(String::new())));
    let file = PcapPort::new("p", text, base);
    let known = [memory.map(|port| checked(&port, text)), file.map(|port| checked(&port, text))];
    let driver = Device::parse(text);
    if let Ok(device) = &driver {
        assert_eq!(Device::parse(&device.to_string()).as_ref(), Ok(device), "{text} is written as {device}");
    }
    let errors = known.iter().filter_map(|result| result.as_ref().err().map(ToString::to_string));
    let errors = errors.chain(driver.as_ref().err().map(ToString::to_string));
    errors.for_each(|said| assert!(!said.is_empty(), "refused without a reason"));
    driver.is_ok() || known.iter().any(Result::is_ok)
}

fn checked(port: &impl Port, text: &str) {
    let facts = port.facts();
    assert!(facts.mtu >= 68 && facts.max_rx_queues > 0, "{text}: {facts:?}");
}
