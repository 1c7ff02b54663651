//! Network cards and virtual pairs.

use super::{Finding, Host, Link};

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

/// Virtual pairs, and whether checksums of what Linux sends by them are finished.
pub(super) fn veths(host: &Host) -> Vec<Finding> {
    let pairs: Vec<&Link> = host.links.iter().filter(|link| link.kind.as_deref() == Some("veth")).collect();
    if pairs.is_empty() {
        return vec![Finding::ok("veth", "no virtual pairs here")];
    }
    pairs.into_iter().map(veth).collect()
}

fn veth(link: &Link) -> Finding {
    let (name, interface) = (format!("veth {}", link.name), &link.name);
    match link.leaves_checksums {
        Some(false) => {
            Finding::ok(&name, "one end of a virtual pair; Linux finishes checksums of what it sends by this end")
        }
        Some(true) => {
            let found =
                "one end of a virtual pair; Linux leaves checksums of TCP and UDP that it sends by this end unfinished";
            let remedy = format!(
                "if Weir has the other end by af_xdp, TCP does not connect through it: ethtool -K {interface} tx off, and \
                 txvlan off tx-vlan-stag-hw-insert off where tagged packets are sent, for af_xdp gets no tag that is beside its \
                 frame; if Weir has this end, look at the other, with weir doctor in its network namespace"
            );
            Finding::attention(&name, found, remedy)
        }
        None => Finding::unknown(
            &name,
            format!("one end of a virtual pair; ethtool -k {interface} says whether tx-checksumming is off"),
        ),
    }
}
