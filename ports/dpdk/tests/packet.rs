//! What a port by packet sockets does not do to frames, and what it counts. Each test has a network namespace of its own, which dies
//! with it. Needs root; skipped with a message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::net::UdpSocket;

use common::{
    Folder, Open, can_unshare, folder, frame, in_namespace, ip, number, open, part, spawn, start, try_open, wait,
};
use weir_packet::{Burst, DATA_ROOM, Pool};
use weir_port_dpdk::{DpdkPool, PortConfig};
use weir_stage::Rx;

/// `va` and `vb`, without the kernel's own neighbour discovery.
fn veth() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    ip("link add va type veth peer name vb");
    ip("link set va up");
}

/// Makes the kernel a host at an interface, with a neighbour behind it.
fn host(interface: &str) {
    ip(&format!("address add 10.9.0.1/24 dev {interface}"));
    ip(&format!("neighbor add 10.9.0.2 lladdr 02:00:00:00:00:09 dev {interface}"));
}

/// All frames of IPv4 that come until there are `n`.
fn ipv4(port: &mut Open, n: usize, pool: &mut DpdkPool) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    wait("frames of IPv4", || {
        port.rx.receive(&mut port.batch, pool, 1);
        for slot in port.batch.slots() {
            let packet = port.batch.take(slot).unwrap();
            got.extend(Some(packet.bytes()).filter(|bytes| bytes[12..14] == [8, 0]).map(<[u8]>::to_vec));
            pool.free(packet);
        }
        got.len() >= n
    });
    got
}

fn send(port: &mut Open, bytes: &[u8], pool: &mut DpdkPool) -> u64 {
    let mut packet = pool.alloc().unwrap();
    assert!(packet.fill(bytes));
    let mut burst = Burst::new();
    burst.push(packet).unwrap();
    let sent = port.tx.transmit(&mut burst, pool, 0).packets;
    pool.free_burst(&mut burst);
    sent
}

fn drain(rx: &mut dyn Rx, longest: usize, pool: &mut DpdkPool) -> Vec<u32> {
    let mut batch = weir_packet::Batch::new();
    let mut got = Vec::new();
    while rx.receive(&mut batch, pool, 1).packets > 0 {
        batch.each(|_, packet, _| got.extend(number(packet.bytes(), longest)));
        pool.free_batch(&mut batch, u64::MAX);
    }
    got
}

/// A port that the kernel is a host behind: over a veth, or at the other end of a TAP.
fn beside_a_host(device: &str, name: &str) -> (UdpSocket, Open, DpdkPool) {
    let is_tap = device.starts_with("tap");
    if !is_tap {
        veth();
    }
    let (eal, pool) = start(name, DATA_ROOM);
    let port = open(&eal, device, &pool);
    host(if is_tap { "wt1" } else { "va" });
    (UdpSocket::bind("10.9.0.1:0").unwrap(), port, pool)
}

fn fragments(device: &'static str, name: &str) {
    in_namespace(name, || {
        let (socket, mut port, mut pool) = beside_a_host(device, "fragments");
        wait("the link is up", || port.port.link_up());
        socket.send_to(&[7; 4000], "10.9.0.2:7").unwrap();
        let got = ipv4(&mut port, 3, &mut pool);
        let offsets: Vec<u16> = got.iter().map(|bytes| u16::from_be_bytes([bytes[20], bytes[21]])).collect();
        assert_eq!(offsets, [0x2000, 0x2000 | 185, 370], "as RFC 791 has it for an MTU of 1500");
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 4008 + 3 * 34, "nothing is cut");
    });
}

#[test]
fn fragments_stay_fragments_by_af_packet() {
    fragments("af_packet:vb", "fragments_stay_fragments_by_af_packet");
}

#[test]
fn fragments_stay_fragments_by_af_xdp() {
    fragments("af_xdp:vb", "fragments_stay_fragments_by_af_xdp");
}

#[test]
fn fragments_stay_fragments_by_tap() {
    fragments("tap:wt1", "fragments_stay_fragments_by_tap");
}

/// Sums up a datagram as RFC 768 has it: addresses, protocol, length, then header and data.
fn sum_of_udp(bytes: &[u8], length: usize) -> u32 {
    let pseudo = [&bytes[26..34], &[0, 17], &bytes[38..40]].concat();
    let datagram = &bytes[34..34 + 8 + length];
    let words = pseudo.chunks(2).chain(datagram.chunks(2));
    let mut sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn checksums(device: &'static str, name: &str) {
    in_namespace(name, || {
        let (socket, mut port, mut pool) = beside_a_host(device, "checksums");
        wait("the link is up", || port.port.link_up());
        for length in [0, 1, 2, 47, 1472] {
            socket.send_to(&vec![0xa5; length], "10.9.0.2:7").unwrap();
            let got = ipv4(&mut port, 1, &mut pool);
            assert_eq!(sum_of_udp(&got[0], length), 0xffff, "{length} bytes");
        }
    });
}

#[test]
fn a_hosts_checksums_are_finished_by_af_packet() {
    checksums("af_packet:vb", "a_hosts_checksums_are_finished_by_af_packet");
}

#[test]
fn a_hosts_checksums_are_finished_by_tap() {
    checksums("tap:wt1", "a_hosts_checksums_are_finished_by_tap");
}

/// A host that leaves it to its device to take a stream apart.
#[test]
fn what_a_host_merged_is_no_frame() {
    in_namespace("what_a_host_merged_is_no_frame", || {
        let (socket, mut port, mut pool) = beside_a_host("af_packet:vb", "merged");
        wait("the link is up", || port.port.link_up());
        // UDP_SEGMENT (udp(7)): 10 datagrams of 150 bytes in one, which would fit a slot.
        let done = std::process::Command::new("python3").args(["-c", SEGMENTS]).status().unwrap();
        assert!(done.success());
        socket.send_to(&[1; 10], "10.9.0.2:7").unwrap();
        let got = ipv4(&mut port, 1, &mut pool);
        assert_eq!(got.len(), 1, "only the last one is a frame");
        let lost = port.rx.lost();
        assert_eq!(lost.iter().find(|(name, ..)| *name == "merged").unwrap().2, 1, "{lost:?}");
    });
}

fn segments(device: &'static str, name: &str) {
    in_namespace(name, || {
        let (_socket, mut port, mut pool) = beside_a_host(device, "segments");
        wait("the link is up", || port.port.link_up());
        let done = std::process::Command::new("python3").args(["-c", SEGMENTS]).status().unwrap();
        assert!(done.success());
        let got = ipv4(&mut port, 10, &mut pool);
        assert!(got.iter().all(|bytes| bytes.len() == 42 + 150), "as they would be on a cable");
    });
}

#[test]
fn segments_come_one_by_one_by_af_xdp() {
    segments("af_xdp:vb", "segments_come_one_by_one_by_af_xdp");
}

#[test]
fn segments_come_one_by_one_by_tap() {
    segments("tap:wt1", "segments_come_one_by_one_by_tap");
}

const SEGMENTS: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 150)
s.sendto(bytes(1500), ('10.9.0.2', 7))";

#[test]
fn bursts_are_as_long_as_was_said() {
    in_namespace("bursts_are_as_long_as_was_said", || {
        veth();
        let (eal, mut pool) = start("bursts", DATA_ROOM);
        let config = PortConfig { burst: 3, max_wait: 7_000, ..PortConfig::default() };
        let mut a = try_open(&eal, "af_packet:va", PortConfig::default(), &pool).unwrap();
        let mut b = try_open(&eal, "af_packet:vb", config, &pool).unwrap();
        wait("the link is up", || a.port.link_up() && b.port.link_up());
        (0..20).for_each(|n| assert!(a.send(n, 1500, &mut pool)));
        let mut got = Vec::new();
        wait("all frames", || {
            let traffic = b.rx.receive(&mut b.batch, &mut pool, 1);
            assert!(traffic.packets <= 3 && traffic.packets == b.batch.len() as u64);
            b.batch.each(|_, packet, _| got.extend(number(packet.bytes(), 1500)));
            pool.free_batch(&mut b.batch, u64::MAX);
            got.len() == 20
        });
        assert!(got.into_iter().eq(0..20));
        assert_eq!((a.tx.max_wait(), b.tx.max_wait()), (weir_stage::MAX_WAIT, 7_000));
    });
}

fn tags(from: &'static str, to: &'static str, name: &str) {
    in_namespace(name, || {
        veth();
        let (eal, mut pool) = start("tags", DATA_ROOM);
        let config = PortConfig { in_front: 8, ..PortConfig::default() };
        let mut a = try_open(&eal, from, config.clone(), &pool).unwrap();
        let mut b = try_open(&eal, to, config, &pool).unwrap();
        wait("the link is up", || a.port.link_up() && b.port.link_up());
        let tags: [&[u8]; 4] = [
            &[0x81, 0, 0x60, 7],
            &[0x88, 0xa8, 0x20, 1],
            &[0x88, 0xa8, 0x0f, 0xff, 0x81, 0, 0xe0, 9],
            &[0x91, 0, 0, 3, 0x81, 0, 0, 4],
        ];
        for tag in tags {
            for payload in [46, 1500] {
                let whole = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tag, &[8, 0], &vec![0x5a; payload]].concat();
                assert_eq!(send(&mut a, &whole, &mut pool), 1);
                let mut got = Vec::new();
                wait("the frame", || {
                    // Some drivers send, or give buffers back, when they are asked to receive.
                    a.receive(1514, &mut pool);
                    b.rx.receive(&mut b.batch, &mut pool, 1);
                    b.batch.each(|_, packet, _| got.push(packet.bytes().to_vec()));
                    pool.free_batch(&mut b.batch, u64::MAX);
                    !got.is_empty()
                });
                assert_eq!(got, [whole], "{tag:x?} {payload}");
            }
        }
        assert_eq!(a.port.stats().tx_errors, Some(0));
    });
}

#[test]
fn tags_stay_as_they_are_by_af_packet() {
    tags("af_packet:va", "af_packet:vb", "tags_stay_as_they_are_by_af_packet");
}

#[test]
fn tags_stay_as_they_are_by_af_xdp() {
    tags("af_packet:va", "af_xdp:vb", "tags_stay_as_they_are_by_af_xdp");
}

#[test]
fn tags_stay_as_they_are_by_tap() {
    tags("tap:wt1", "af_packet:wt1", "tags_stay_as_they_are_by_tap");
}

#[test]
fn what_the_kernel_refuses_is_counted() {
    in_namespace("what_the_kernel_refuses_is_counted", || {
        veth();
        let (eal, mut pool) = start("refused", DATA_ROOM);
        let mut a = open(&eal, "af_packet:va", &pool);
        let mut b = open(&eal, "af_packet:vb", &pool);
        wait("the link is up", || a.port.link_up() && b.port.link_up());
        let tagged =
            [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 1, 8, 0][..], &[0; 1500]].concat();
        assert_eq!(send(&mut a, &tagged, &mut pool), 1, "it leaves the burst, so that the next one can go");
        assert_eq!(a.port.stats().tx_errors, Some(1), "two tags are too long for an MTU of 1500");
        assert!(a.send(1, 1514, &mut pool));
        wait("the next one", || b.receive(1514, &mut pool) == [1]);
    });
}

/// Frames that are in the ring when it is full, or when the port is closed, are missed; none comes twice while one port takes over
/// from another.
#[test]
fn what_is_missed_is_counted() {
    in_namespace("what_is_missed_is_counted", || {
        veth();
        let (eal, mut pool) = start("missed", DATA_ROOM);
        let mut a = open(&eal, "af_packet:va", &pool);
        let b = open(&eal, "af_packet:vb", &pool);
        wait("the link is up", || a.port.link_up());
        for n in 0..3000 {
            assert!(a.send(n, 60, &mut pool));
        }
        assert_eq!(b.port.stats().missed, Some(3000 - 2048), "a ring has 2048 slots");
        let mut second = open(&eal, "af_packet:vb", &pool);
        assert!(a.send(1, 60, &mut pool));
        assert_eq!(drain(&mut *second.rx, 60, &mut pool), [0; 0], "the first has the interface");
        drop(b);
        assert_eq!(second.port.stats().missed, Some(3001), "what the first one had not looked at");
        assert!(a.send(7, 60, &mut pool));
        assert_eq!(drain(&mut *second.rx, 60, &mut pool), [7]);
        drop(second);
        for n in 0..10 {
            assert!(a.send(n, 60, &mut pool));
        }
        let mut third = open(&eal, "af_packet:vb", &pool);
        assert_eq!(third.port.stats().missed, Some(3011), "what came while there was no port");
        assert!(a.send(8, 60, &mut pool));
        assert_eq!(drain(&mut *third.rx, 60, &mut pool), [8]);
    });
}

#[test]
fn flows_are_spread_over_queues_once() {
    in_namespace("flows_are_spread_over_queues_once", || {
        veth();
        let (eal, mut pool) = start("spread", DATA_ROOM);
        let mut a = open(&eal, "af_packet:va", &pool);
        let mut b = open(&eal, "af_packet:vb", &pool);
        b.port.close();
        drop((b.rx, b.tx));
        let (mut rx, _tx) = b.port.open(3, 1, &pool).unwrap();
        wait("the link is up", || a.port.link_up());
        for n in 0..300 {
            assert!(a.send(n, 200, &mut pool));
        }
        let mut got: Vec<u32> = rx.iter_mut().flat_map(|rx| drain(&mut **rx, 200, &mut pool)).collect();
        got.sort_unstable();
        assert!(got.into_iter().eq(0..300), "all of them, once");
        assert_eq!(frame(1, 200)[12..14], [0x88, 0xb5]);
    });
}

/// What stands in a row of `ip -d link show`, behind a word.
fn of_link(name: &str, word: &str) -> String {
    let link = std::process::Command::new("ip").args(["-d", "-o", "link", "show", name]).output().unwrap();
    let text = String::from_utf8(link.stdout).unwrap();
    text.split_whitespace().skip_while(|found| *found != word).nth(1).unwrap().to_owned()
}

#[test]
fn an_interface_is_left_as_it_was() {
    in_namespace("an_interface_is_left_as_it_was", || {
        veth();
        ip("link set vb promisc on");
        let (eal, pool) = start("selfish", DATA_ROOM);
        let state = |name| (of_link(name, "mtu"), of_link(name, "promiscuity"));
        let is = |mtu: &str, promiscuity: &str| (mtu.to_owned(), promiscuity.to_owned());
        let config = PortConfig { promiscuous: true, mtu: Some(1400), in_front: 8, ..PortConfig::default() };
        let open = |name: &str| try_open(&eal, name, config.clone(), &pool).unwrap();
        let ports = ["af_xdp:va", "af_packet:vb"].map(open);
        assert_eq!([state("va"), state("vb")], [is("1408", "1"), is("1408", "2")]);
        let again = open("af_packet:vb");
        assert_eq!(again.port.facts().mtu, 1400, "the device's is larger");
        drop(ports);
        assert_eq!([state("va"), state("vb")], [is("1500", "0"), is("1408", "2")], "one port is there still");
        drop(again);
        assert_eq!(state("vb"), is("1500", "1"));
        let usual = try_open(&eal, "af_packet:vb", PortConfig { in_front: 8, ..PortConfig::default() }, &pool).unwrap();
        let device = weir_port_dpdk::Device::parse("af_packet:vb").unwrap();
        assert_eq!((usual.port.facts().mtu, weir_port_dpdk::usual_mtu(&device)), (1500, 1500));
        assert_eq!(of_link("vb", "mtu"), "1508");
        ip("link set vb mtu 1600");
        drop(usual);
        assert_eq!(of_link("vb", "mtu"), "1600", "what somebody else has set since is theirs");
    });
}

/// Whether the kernel merges what an interface receives.
fn merges(name: &str) -> bool {
    let said = std::process::Command::new("ethtool").args(["-k", name]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().contains("generic-receive-offload: on")
}

#[test]
fn merging_is_switched_off_and_on_again() {
    in_namespace("merging_is_switched_off_and_on_again", || {
        veth();
        let (eal, pool) = start("merging", DATA_ROOM);
        for before in [true, false] {
            let word = if before { "on" } else { "off" };
            assert!(std::process::Command::new("ethtool").args(["-K", "vb", "gro", word]).status().unwrap().success());
            let port = open(&eal, "af_packet:vb", &pool);
            assert!(!merges("vb"), "what is merged is no frame of a cable");
            drop(port);
            assert_eq!(merges("vb"), before);
        }
    });
}

#[test]
fn what_a_killed_process_changed_is_put_back() {
    let test = "what_a_killed_process_changed_is_put_back";
    let config = PortConfig { promiscuous: true, mtu: Some(1400), ..PortConfig::default() };
    if part().is_none() {
        return match can_unshare() {
            true => common::finish(spawn(test, "first", &["unshare", "-n"], &Folder::new(test))),
            false => eprintln!("{test}: skipped: needs root (a network namespace)"),
        };
    }
    if part().as_deref() == Some("victim") {
        let (eal, pool) = start("victim", DATA_ROOM);
        let _port = try_open(&eal, "af_packet:vb", config, &pool).unwrap();
        std::fs::write(folder().join("runs"), "").unwrap();
        return wait("death", || false);
    }
    veth();
    // Dropped at the end only: the victim works in it.
    let shared = Folder(folder());
    let mut child = spawn(test, "victim", &[], &shared);
    wait("the victim runs", || folder().join("runs").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((of_link("vb", "mtu"), of_link("vb", "promiscuity")), ("1400".to_owned(), "0".to_owned()));
    let (eal, _pool) = start("next", DATA_ROOM);
    assert_eq!(of_link("vb", "mtu"), "1500");
    drop(eal);
    let names: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left = ["victim.dpdk.lock", "victim.interfaces"];
    assert!(names.iter().all(|name| !left.contains(&name.to_str().unwrap())), "{names:?}");
}
