//! Checksums that a virtual machine left unfinished (VIRTIO_NET_F_CSUM): what a vhost port receives is finished. The machine is played by testpmd, which
//! is told to leave them to its virtio device.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::process::{Child, Command, Stdio};

use common::{alone, capture, folder, open, start, wait};
use weir_packet::{DATA_ROOM, Pool};

const FRAMES: u16 = 200;

/// The one's complement sum of RFC 1071, over words in network order.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// The sum over the pseudo header and the datagram or segment of an IPv4 packet without options (RFC 768, RFC 793).
fn transport_sum(ip: &[u8]) -> u16 {
    let length = (ip.len() - 20) as u16;
    sum(&[&ip[12..20], &[0, ip[9]], &length.to_be_bytes(), &ip[20..]].concat())
}

/// Frame `number`: UDP or TCP, every checksum right. The data tell the number.
fn frame(number: u16) -> Vec<u8> {
    let is_udp = number.is_multiple_of(2);
    let data: Vec<u8> = (0..40 + number).map(|at| (at * 7 + number) as u8).collect();
    let mut segment = [1000 + number, 9].map(u16::to_be_bytes).concat();
    match is_udp {
        true => segment.extend([8 + data.len() as u16, 0].map(u16::to_be_bytes).concat()),
        // Sequence numbers, 20 bytes of header, ACK, a window.
        false => segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]),
    }
    segment.extend(data);
    let total = (20 + segment.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, if is_udp { 17 } else { 6 }, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..6].copy_from_slice(&number.to_be_bytes());
    let header = !sum(&ip);
    ip[10..12].copy_from_slice(&header.to_be_bytes());
    ip.extend(segment);
    let at = if is_udp { 26 } else { 36 };
    let checksum = !transport_sum(&ip);
    ip[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], ip.as_slice()].concat()
}

/// Starts the machine: it sends what is in a capture file.
fn machine(capture: &str, socket: &str) -> Option<Child> {
    let devices = [format!("net_pcap0,rx_pcap={capture}"), format!("net_virtio_user0,path={socket}")];
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-pci", "--no-telemetry", "--iova-mode=va", "--no-huge", "--no-shconf", "-m", "256"]);
    command.args([format!("--file-prefix=weir-checksums-{}", std::process::id())]);
    command.args(["--lcores", "0@0,1@0"]).args(devices.iter().flat_map(|device| ["--vdev", device]));
    command.args(["--", "-i", "--forward-mode=csum", "--no-flush-rx", "--total-num-mbufs=4096", "--no-lsc-interrupt"]);
    command.env("RUNTIME_DIRECTORY", folder()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let told = b"port stop 1\ncsum set udp hw 1\ncsum set tcp hw 1\nport start 1\nstart\n";
    child.stdin.as_mut().unwrap().write_all(told).unwrap();
    Some(child)
}

#[test]
fn a_vhost_port_finishes_what_a_machine_left_unfinished() {
    alone("a_vhost_port_finishes_what_a_machine_left_unfinished", &[], || {
        let (eal, mut pool) = start("checksums", DATA_ROOM);
        let [input, socket] = ["in.pcap", "guest.sock"].map(|name| folder().join(name).to_str().unwrap().to_owned());
        std::fs::write(&input, capture((0..FRAMES).map(frame))).unwrap();
        let mut port = open(&eal, &format!("vhost:{socket}"), &pool);
        let Some(mut machine) = machine(&input, &socket) else {
            eprintln!("skipped: dpdk-testpmd is not installed (dpdk-dev)");
            return;
        };
        let mut came = Vec::new();
        wait("all frames come", || {
            port.rx.receive(&mut port.batch, &mut pool, 0);
            for slot in port.batch.slots() {
                let packet = port.batch.take(slot).unwrap();
                came.push(packet.bytes().to_vec());
                pool.free(packet);
            }
            came.len() >= usize::from(FRAMES)
        });
        machine.kill().unwrap();
        machine.wait().unwrap();
        for (number, bytes) in (0..).zip(&came) {
            assert_eq!(sum(&bytes[14..34]), 0xffff, "the header of frame {number}");
            assert_eq!(transport_sum(&bytes[14..]), 0xffff, "what is in frame {number}");
            // It writes addresses of its own in front.
            assert_eq!(bytes[12..], frame(number)[12..], "frame {number}");
        }
        assert_eq!(came.len(), usize::from(FRAMES));
    });
}
