//! Network cards and virtual pairs.

use super::{Finding, Host};

/// Drivers that hand a card to a program.
const HANDED_OVER: &[&str] = &["vfio-pci", "igb_uio", "uio_pci_generic"];

/// The PCI class of network controllers.
const NETWORK_CLASS: &str = "0x02";

/// A finding for each network card on the PCI bus.
pub(super) fn network_cards(host: &Host) -> Vec<Finding> {
    let folder = "/sys/bus/pci/devices";
    let is_card = |address: &String| {
        host.text(&format!("{folder}/{address}/class")).is_some_and(|class| class.starts_with(NETWORK_CLASS))
    };
    let cards: Vec<String> = host.names(folder).into_iter().filter(is_card).collect();
    if cards.is_empty() {
        return vec![Finding::ok("network cards", "none on the PCI bus; AF_XDP, AF_PACKET and TAP work without")];
    }
    cards.iter().map(|address| card(host, &format!("{folder}/{address}"), address)).collect()
}

fn card(host: &Host, folder: &str, address: &str) -> Finding {
    let name = format!("card {address}");
    let text = |file: &str| host.text(&format!("{folder}/{file}")).unwrap_or_default();
    let which = format!("{}:{}", text("vendor").trim_start_matches("0x"), text("device").trim_start_matches("0x"));
    let node = match text("numa_node").parse::<i32>() {
        Ok(node) if node >= 0 => format!(", NUMA node {node}"),
        _ => String::new(),
    };
    // A virtio card's interface is below the device that the card stands for.
    let below = host.names(folder).into_iter().filter(|name| name.starts_with("virtio"));
    let homes = std::iter::once(format!("{folder}/net")).chain(below.map(|name| format!("{folder}/{name}/net")));
    let interfaces = homes.flat_map(|home| host.names(&home)).collect::<Vec<_>>().join(", ");
    match host.link(&format!("{folder}/driver")) {
        None => {
            let remedy =
                format!("no driver has it: for pci:{address}, bind it with dpdk-devbind.py -b vfio-pci {address}");
            Finding::attention(&name, format!("{which}{node}, unbound"), remedy)
        }
        Some(driver) if HANDED_OVER.contains(&driver.as_str()) => {
            Finding::ok(&name, format!("{which}{node}, {driver}: ready as pci:{address}"))
        }
        Some(driver) => {
            let whose = if interfaces.is_empty() { String::new() } else { format!(" as {interfaces}") };
            let found = format!("{which}{node}, the kernel drives it with {driver}{whose}");
            Finding::ok(&name, found)
        }
    }
}

/// Virtual pairs whose packets carry unfinished checksums.
pub(super) fn veths(host: &Host) -> Vec<Finding> {
    let folder = "/sys/class/net";
    // Both ends of a pair know each other by index; no other kind of link of our own namespace has one that differs.
    let is_pair = |interface: &String| {
        let number = |file: &str| host.number(&format!("{folder}/{interface}/{file}"));
        let virtual_device = !host.exists(&format!("{folder}/{interface}/device"));
        let is_ethernet = number("type") == Some(1);
        virtual_device && is_ethernet && number("iflink").is_some_and(|link| Some(link) != number("ifindex"))
    };
    let pairs: Vec<String> = host.names(folder).into_iter().filter(is_pair).collect();
    if pairs.is_empty() {
        return vec![Finding::ok("veth", "no virtual pairs here")];
    }
    let finding = |interface: &String| {
        let remedy = format!(
            "what a Linux peer sends over it has unfinished TCP and UDP checksums; if TCP does not connect: ethtool -K \
             {interface} tx off, at the peer's end. For tagged packets over AF_XDP, which gets no tag that is beside its frame, also \
             txvlan off"
        );
        Finding::attention(&format!("veth {interface}"), "one end of a virtual pair", remedy)
    };
    pairs.iter().map(finding).collect()
}
