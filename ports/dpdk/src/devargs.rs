//! What DPDK's hot-plug is told: bus, name and arguments of a device.

use crate::memory::longest_frame;
use crate::{Device, Kind};

/// A device in DPDK's words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Devargs {
    pub(crate) bus: &'static str,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// DPDK's words for a device with so many queue pairs (where the driver wants to know before the device
/// is there) and such an MTU. `number` makes the name unique.
pub(crate) fn devargs(device: &Device, pairs: u16, mtu: u16, number: u32) -> Devargs {
    if device.kind() == Kind::Pci {
        return Devargs { bus: "pci", name: device.name().to_owned(), arguments: String::new() };
    }
    if device.kind() == Kind::Vdev {
        let (name, arguments) = device.name().split_once(',').unwrap_or((device.name(), ""));
        return Devargs { bus: "vdev", name: name.to_owned(), arguments: arguments.to_owned() };
    }
    let name = format!("{}_weir{number}", device.driver().unwrap_or_default());
    let given = device
        .options()
        .iter()
        .filter(|(key, _)| !is_ours(device.kind(), key))
        .map(|(key, value)| format!("{key}={value}"));
    let arguments: Vec<String> = own_arguments(device, pairs, mtu).into_iter().chain(given).collect();
    Devargs { bus: "vdev", name, arguments: arguments.join(",") }
}

/// Whether the driver is told of an option in other words, or not at all.
fn is_ours(kind: Kind, key: &str) -> bool {
    matches!((kind, key), (Kind::Memif, "socket") | (Kind::Null, "blank"))
}

/// The arguments that follow from the device string and the configuration, as opposed to given options.
fn own_arguments(device: &Device, pairs: u16, mtu: u16) -> Vec<String> {
    let name = device.name();
    match device.kind() {
        Kind::AfXdp => vec![format!("iface={name}"), format!("queue_count={pairs}")],
        Kind::Tap => vec![format!("iface={name}")],
        Kind::Memif => memif_arguments(device, mtu),
        Kind::Vhost => vec![format!("iface={name}"), format!("queues={pairs}")],
        Kind::VirtioUser => vec![format!("path={name}"), format!("queues={pairs}")],
        // The first has no driver of DPDK's.
        Kind::AfPacket | Kind::Null | Kind::Vdev | Kind::Pci => Vec::new(),
    }
}

fn memif_arguments(device: &Device, mtu: u16) -> Vec<String> {
    let socket = device.memif_socket();
    let (path, is_abstract) = match socket.strip_prefix('@') {
        Some(name) => (name, "yes"),
        None => (socket, "no"),
    };
    let mut arguments =
        vec![format!("id={}", device.name()), format!("socket={path}"), format!("socket-abstract={is_abstract}")];
    if device.option("bsize").is_none() && longest_frame(mtu) > 2048 {
        arguments.push(format!("bsize={}", longest_frame(mtu).next_multiple_of(256)));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, pairs: u16, mtu: u16) -> (String, String) {
        let devargs = devargs(&Device::parse(text).unwrap(), pairs, mtu, 3);
        (devargs.name, devargs.arguments)
    }

    #[test]
    fn each_device_in_words_of_dpdk() {
        let cases = [
            ("af_xdp:v0,start_queue=1", "net_af_xdp_weir3", "iface=v0,queue_count=2,start_queue=1"),
            ("tap:dtap0", "net_tap_weir3", "iface=dtap0"),
            ("null", "net_null_weir3", ""),
            ("null:no-rx=1", "net_null_weir3", "no-rx=1"),
            ("null:blank=0,size=64", "net_null_weir3", "size=64"),
            ("vdev:net_pcap0,rx_pcap=a,tx_pcap=b", "net_pcap0", "rx_pcap=a,tx_pcap=b"),
            ("vdev:net_ring0", "net_ring0", ""),
            ("memif:7,role=server", "net_memif_weir3", "id=7,socket=/run/memif.sock,socket-abstract=no,role=server"),
            ("memif:7,socket=@x", "net_memif_weir3", "id=7,socket=x,socket-abstract=yes"),
            ("vhost:/v,client=1", "net_vhost_weir3", "iface=/v,queues=2,client=1"),
            ("virtio_user:/v,server=1", "net_virtio_user_weir3", "path=/v,queues=2,server=1"),
            ("pci:0000:3b:00.0", "0000:3b:00.0", ""),
        ];
        for (text, name, arguments) in cases {
            assert_eq!(words(text, 2, 1500), (name.to_owned(), arguments.to_owned()));
        }
    }

    #[test]
    fn a_memif_buffer_follows_the_mtu_unless_it_was_given() {
        assert!(words("memif:1", 1, 9000).1.ends_with("bsize=9216"));
        assert!(words("memif:1,bsize=4096", 1, 9000).1.ends_with(",bsize=4096"));
    }
}
