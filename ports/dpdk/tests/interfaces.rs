//! Linux interfaces: veth by AF_XDP and AF_PACKET, and TAP. Each test has a network namespace of its own,
//! which dies with it. Needs root; skipped with a message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{BUFFERS, Open, cross, in_namespace, ip, open, start, try_open, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_packet::{DATA_ROOM, MAX_FRAME, Pool, defects};
use weir_port_dpdk::{DpdkPool, PortConfig, usual_mtu};
use weir_stage::{LinkSpeed, Medium};

fn veth(mtu: u16) {
    // Else the kernel's own neighbour discovery is among the frames.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    ip(&format!("link add va mtu {mtu} type veth peer name vb mtu {mtu}"));
}

/// What the kernel counted at an interface: packets received, packets sent.
fn kernel(name: &str) -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:"))).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
    (numbers[1], numbers[9])
}

#[test]
fn af_xdp_and_af_packet_on_veth() {
    in_namespace("af_xdp_and_af_packet_on_veth", || {
        veth(1500);
        let (eal, mut pool) = start("veth", DATA_ROOM);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        wait("the link is up", || xdp.port.link_up() && packet.port.link_up());
        assert!(xdp.tx.alive());
        let facts = xdp.port.facts();
        assert_eq!((facts.mtu, facts.max_rx_queues, facts.max_tx_queues, facts.rss), (1500, 1, 1, false));
        assert_eq!(facts.device, "af_xdp:va");
        assert_ne!(facts.mac, [0; 6]);
        assert_ne!(facts.mac, packet.port.facts().mac);
        assert!(packet.port.facts().rss);
        // What the kernel says of a veth, which supports no mode that it would name.
        let speed = LinkSpeed { now: 10_000, most: 10_000, medium: Some(Medium::Copper), ..LinkSpeed::default() };
        assert_eq!([xdp.port.speed(), packet.port.speed()], [speed; 2]);

        cross(&mut packet, &mut xdp, 3000, 1514, &mut pool);
        cross(&mut xdp, &mut packet, 3000, 1514, &mut pool);
        assert_eq!(kernel("va"), (3000, 3000), "the kernel counted the same");
        assert_eq!(xdp.port.stats().missed, Some(0));
        assert_eq!(xdp.port.stats().no_buffer, None);
        assert_eq!(packet.port.stats().tx_errors, Some(0));
        assert_eq!(defects(), 0);
        let missing = (pool.taken() - pool.at_hand()) as u64;
        assert_eq!(xdp.port.stats().in_rings, Some(missing), "what is missing is in the rings");
        assert_eq!(packet.port.stats().in_rings, Some(0));
        drop((xdp, packet));
        assert_eq!(pool.taken(), pool.at_hand(), "the rings gave everything back");
    });
}

#[test]
fn a_link_goes_down_and_away() {
    in_namespace("a_link_goes_down_and_away", || {
        veth(1500);
        let (eal, mut pool) = start("away", DATA_ROOM);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        wait("up", || xdp.port.link_up());
        ip("link set vb down");
        wait("down", || !xdp.port.link_up());
        assert!(!xdp.tx.alive());
        ip("link set vb up");
        wait("up again", || xdp.port.link_up());
        assert!(xdp.tx.alive());
        cross(&mut packet, &mut xdp, 100, 1514, &mut pool);

        ip("link del va");
        wait("gone", || !xdp.port.link_up() && !packet.port.link_up());
        assert!(!xdp.send(1, 1514, &mut pool), "nothing is swallowed");
        assert!(!packet.send(1, 1514, &mut pool), "nothing is swallowed");
        assert!(xdp.receive(1514, &mut pool).is_empty());
        let _ = (xdp.port.stats(), packet.port.stats());

        veth(1500);
        assert!(!xdp.port.link_up(), "another interface of that name");
        drop((xdp, packet));
        assert_eq!(pool.taken(), pool.at_hand(), "the rings of what is gone gave everything back");
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        cross(&mut packet, &mut xdp, 100, 1514, &mut pool);
    });
}

#[test]
fn jumbo_frames_by_af_packet() {
    in_namespace("jumbo_frames_by_af_packet", || {
        veth(9000);
        let (eal, mut pool) = start("jumbo", MAX_FRAME);
        assert_eq!(usual_mtu(&"af_packet:va".parse_device()), 9000);
        let mut a = open(&eal, "af_packet:va", &pool);
        let mut b = open(&eal, "af_packet:vb", &pool);
        assert_eq!(a.port.facts().mtu, 9000);
        cross(&mut a, &mut b, 500, 9014, &mut pool);
    });
}

#[test]
fn an_mtu_is_set_or_refused() {
    in_namespace("an_mtu_is_set_or_refused", || {
        veth(1500);
        let (eal, pool) = start("mtu", DATA_ROOM);
        let with = |mtu| PortConfig { mtu: Some(mtu), ..PortConfig::default() };
        let small = try_open(&eal, "af_packet:va", with(1280), &pool).unwrap();
        assert_eq!(small.port.facts().mtu, 1280);
        let link = std::process::Command::new("ip").args(["link", "show", "va"]).output().unwrap();
        assert!(String::from_utf8(link.stdout).unwrap().contains("mtu 1280"), "the interface has it, too");
        let refused = |device, mtu| try_open(&eal, device, with(mtu), &pool).err().unwrap();
        let said = refused("af_xdp:vb", 1800);
        assert!(said.contains("has an MTU of 1800, and buffers hold frames of an MTU of 1770"), "{said}");
        let (eal, large) = (&eal, DpdkPool::create(&eal, 1000, 9000).unwrap());
        let said = try_open(eal, "af_xdp:vb", with(1500), &large).err().unwrap();
        assert!(said.contains("needs buffers of at most 3648 bytes"), "{said}");
        assert!(said.contains("an MTU of at most 3370, or use af_packet:vb"), "{said}");
        let said = refused("af_packet:vb", 30);
        assert!(said.contains("30"), "{said}");
    });
}

#[test]
fn the_largest_frames_by_af_xdp() {
    in_namespace("the_largest_frames_by_af_xdp", || {
        veth(3370);
        let (eal, mut pool) = start("largest", 3648);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        cross(&mut packet, &mut xdp, 500, 3384, &mut pool);
        cross(&mut xdp, &mut packet, 500, 3384, &mut pool);
    });
}

#[test]
fn several_queues_by_af_packet() {
    in_namespace("several_queues_by_af_packet", || {
        veth(1500);
        let (eal, mut pool) = start("queues", DATA_ROOM);
        let mut port = open(&eal, "af_packet:va", &pool).port;
        assert_eq!((port.facts().max_rx_queues, port.facts().max_tx_queues), (16, 16));
        port.close();
        let (rx, tx) = port.open(4, 2, &pool).unwrap();
        assert_eq!((rx.len(), tx.len()), (4, 2));
        drop((rx, tx));
        port.close();
        let (rx, tx) = port.open(1, 2, &pool).unwrap();
        assert_eq!((rx.len(), tx.len()), (1, 2));
        drop((rx, tx));
        port.close();
        let said = port.open(17, 1, &pool).err().unwrap().to_string();
        assert!(said.contains("has 1 to 16 receive"), "{said}");
        let mut again = open(&eal, "af_packet:vb", &pool);
        let _peer = open(&eal, "af_packet:va", &pool);
        wait("the link is up", || again.port.link_up());
        assert!(again.send(1, 100, &mut pool));
    });
}

#[test]
fn a_tap_carries_packets() {
    in_namespace("a_tap_carries_packets", || {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let (eal, mut pool) = start("tap", DATA_ROOM);
        let mac = [2, 0, 0, 0, 7, 7];
        let config = PortConfig { mac: Some(mac), mtu: Some(1400), ..PortConfig::default() };
        let mut tap = try_open(&eal, "tap:wt0", config, &pool).unwrap();
        assert_eq!(tap.port.facts().mac, mac);
        assert_eq!(usual_mtu(&"af_packet:wt0".parse_device()), 1400);
        let mut packet = open(&eal, "af_packet:wt0", &pool);
        cross(&mut tap, &mut packet, 1000, 1400, &mut pool);
        cross(&mut packet, &mut tap, 1000, 1400, &mut pool);
        let said = try_open(&eal, "tap:wt0", PortConfig::default(), &pool).err().unwrap();
        assert!(said.contains("tap:wt0 is busy: an interface wt0 is there already"), "{said}");
        drop(packet);
        drop(tap);
        assert!(std::fs::read_to_string("/proc/self/net/dev").unwrap().lines().all(|line| !line.contains("wt0")));
        assert_eq!(pool.taken(), pool.at_hand());
        assert!(pool.capacity() == BUFFERS);
    });
}

/// Whether the descriptor of a receive queue says that there are packets.
fn tells(port: &Open) -> bool {
    let descriptor = port.rx.descriptor().unwrap();
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready == 1)
}

/// A queue tells as long as it has packets, and no longer.
fn check_telling(from: &mut Open, to: &mut Open, pool: &mut DpdkPool) {
    for number in 0..3 {
        wait("all is taken", || to.receive(1514, pool).is_empty() && !tells(to));
        for _ in 0..4 {
            wait("it is sent", || from.send(number, 1514, pool));
        }
        wait("it tells", || tells(to));
        let mut came = 0;
        wait("they come", || {
            // Some drivers send when they are asked to receive.
            from.receive(1514, pool);
            came += to.receive(1514, pool).len();
            came == 4
        });
    }
}

#[test]
fn a_queue_tells_that_it_has_packets() {
    in_namespace("a_queue_tells_that_it_has_packets", || {
        veth(1500);
        let (eal, mut pool) = start("tells", DATA_ROOM);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        wait("the link is up", || xdp.port.link_up() && packet.port.link_up());
        check_telling(&mut xdp, &mut packet, &mut pool);
        check_telling(&mut packet, &mut xdp, &mut pool);
        drop((xdp, packet));
        let mut tap = open(&eal, "tap:wt1", &pool);
        let mut packet = open(&eal, "af_packet:wt1", &pool);
        wait("the link is up", || tap.port.link_up() && packet.port.link_up());
        check_telling(&mut packet, &mut tap, &mut pool);
        assert!(open(&eal, "null", &pool).rx.descriptor().is_none());
    });
}

trait ParseDevice {
    fn parse_device(&self) -> weir_port_dpdk::Device;
}

impl ParseDevice for str {
    fn parse_device(&self) -> weir_port_dpdk::Device {
        weir_port_dpdk::Device::parse(self).unwrap()
    }
}
