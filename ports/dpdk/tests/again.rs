//! AF_XDP ports are closed without a trace, and opened again. Each test has a network namespace of its own. Needs root; skipped with a
//! message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Open, all_but_the_last, cross, in_namespace, ip, open, start, try_open, wait};
use weir_packet::{DATA_ROOM, Pool};
use weir_port_dpdk::{DpdkPool, PortConfig};
use weir_stage::Port;

fn veth(mtu: u16) {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    ip(&format!("link add va mtu 1500 type veth peer name vb mtu {mtu}"));
}

/// What the process has open: its descriptors, and mappings of sockets.
fn open_things() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("socket:[")).count())
}

/// What `ip` says of an interface.
fn link(name: &str) -> String {
    let done = std::process::Command::new("ip").args(["link", "show", name]).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

fn missing(pool: &DpdkPool) -> usize {
    pool.taken() - pool.at_hand()
}

/// Carries frames both ways.
fn works(packet: &mut Open, xdp: &mut Open, pool: &mut DpdkPool) {
    wait("the link is up", || xdp.port.link_up() && packet.port.link_up());
    cross(packet, xdp, 100, 1514, pool);
    cross(xdp, packet, 100, 1514, pool);
}

#[test]
fn an_af_xdp_port_is_opened_again_and_again() {
    in_namespace("an_af_xdp_port_is_opened_again_and_again", || {
        veth(1500);
        let (eal, mut pool) = start("again", DATA_ROOM);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        drop(open(&eal, "af_xdp:va", &pool));
        let before = open_things();
        for round in 0..20 {
            let mut xdp = open(&eal, "af_xdp:va", &pool);
            works(&mut packet, &mut xdp, &mut pool);
            drop(xdp);
            assert_eq!(missing(&pool), 0, "round {round}");
            assert_eq!(open_things(), before, "round {round}");
            assert!(!link("va").contains("xdp"), "round {round}: {}", link("va"));
        }
    });
}

#[test]
fn the_same_port_is_closed_and_opened() {
    in_namespace("the_same_port_is_closed_and_opened", || {
        veth(1500);
        let (eal, mut pool) = start("same", DATA_ROOM);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        for _ in 0..5 {
            let Open { mut port, rx, tx, batch } = xdp;
            drop((rx, tx));
            port.close();
            let (mut rx, mut tx) = port.open(1, 1, &pool).unwrap();
            xdp = Open { port, rx: rx.pop().unwrap(), tx: tx.pop().unwrap(), batch };
            works(&mut packet, &mut xdp, &mut pool);
        }
    });
}

#[test]
fn a_failed_attempt_leaves_nothing() {
    in_namespace("a_failed_attempt_leaves_nothing", || {
        // The queue is bound before the kernel refuses the program.
        veth(9000);
        let (eal, mut pool) = start("failed", DATA_ROOM);
        let refused = || try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).err().unwrap();
        refused();
        let before = open_things();
        for round in 0..20 {
            let said = refused();
            assert!(said.contains("Peer MTU is too large"), "round {round}: {said}");
            assert_eq!(missing(&pool), 0, "round {round}");
            assert_eq!(open_things(), before, "round {round}");
        }
        ip("link set vb mtu 1500");
        let mut packet = open(&eal, "af_packet:vb", &pool);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        works(&mut packet, &mut xdp, &mut pool);
    });
}

/// The kernel takes any buffer of the pool, to receive into and to send from: here those that lie last.
#[test]
fn the_kernel_swallows_no_buffer() {
    in_namespace("the_kernel_swallows_no_buffer", || {
        veth(1500);
        let (eal, mut pool) = start("swallow", DATA_ROOM);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        let mut first = all_but_the_last(47, &mut pool);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        works(&mut packet, &mut xdp, &mut pool);
        first.iter_mut().for_each(|burst| pool.free_burst(burst));
        assert_eq!(xdp.port.stats().in_rings, Some(missing(&pool) as u64), "what is missing is in the rings");
        drop(xdp);
        assert_eq!(missing(&pool), 0);
    });
}
