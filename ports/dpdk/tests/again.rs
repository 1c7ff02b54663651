//! AF_XDP ports are closed without a trace, and opened again. Each test has a network namespace of its own. Needs root; skipped with a
//! message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{
    Folder, Open, can_unshare, cross, finish, folder, in_namespace, ip, open, options, part, spawn, start,
    the_kernel_swallows_no_buffer, try_open, wait,
};
use weir_packet::{Burst, DATA_ROOM, Pool};
use weir_port_dpdk::eal::{Eal, EalOptions};
use weir_port_dpdk::{DpdkPool, PortConfig};

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

/// The program that both receive by goes with the last of them.
#[test]
fn two_ports_on_one_interface_close_one_by_one() {
    in_namespace("two_ports_on_one_interface_close_one_by_one", || {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        ip("link add va numrxqueues 2 numtxqueues 2 type veth peer name vb numrxqueues 1 numtxqueues 1");
        let (eal, mut pool) = start("two", DATA_ROOM);
        let mut packet = open(&eal, "af_packet:vb", &pool);
        // What comes from an end with one queue goes to the first.
        let (hears, other) = ("af_xdp:va", "af_xdp:va,start_queue=1");
        for order in [[hears, other], [other, hears]] {
            let mut ports: Vec<Option<Open>> = order.iter().map(|device| Some(open(&eal, device, &pool))).collect();
            let at = order.iter().position(|device| *device == hears).unwrap();
            works(&mut packet, ports[at].as_mut().unwrap(), &mut pool);
            for _ in 0..2 {
                drop(ports[1 - at].take());
                works(&mut packet, ports[at].as_mut().unwrap(), &mut pool);
                ports[1 - at] = Some(open(&eal, other, &pool));
                works(&mut packet, ports[at].as_mut().unwrap(), &mut pool);
            }
            drop(ports[at].take());
            assert!(link("va").contains("xdp"), "the other has it still");
            ports.clear();
            assert!(!link("va").contains("xdp"), "{}", link("va"));
            assert_eq!(missing(&pool), 0);
        }
    });
}

#[test]
fn no_buffer_is_swallowed() {
    in_namespace("no_buffer_is_swallowed", || {
        let (eal, mut pool) = start("swallow", DATA_ROOM);
        the_kernel_swallows_no_buffer(47, &eal, &mut pool);
    });
}

/// What nobody uses any more is removed; what somebody else put there stays.
#[test]
fn programs_of_others() {
    const OBJECT: &str = "/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_all.o";
    if !std::path::Path::new(OBJECT).exists() {
        eprintln!("programs_of_others: skipped: no {OBJECT} (apt-get install libxdp1)");
        return;
    }
    in_namespace("programs_of_others", || {
        veth(1500);
        let (eal, mut pool) = start("others", DATA_ROOM);
        // It mounts a file system for BPF where it finds none; with that libxdp works otherwise, so it does so out of sight.
        let attach = format!("ip link set va xdp object {OBJECT} section xdp");
        let done = std::process::Command::new("unshare").args(["-m", "sh", "-c", &attach]).status().unwrap();
        assert!(done.success(), "{attach}");
        let said = try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).err().unwrap();
        assert!(said.contains("another XDP program (xdpfilt_"), "{said}");
        assert!(link("va").contains("prog/xdp"), "it stays: {}", link("va"));
        ip("link set va xdp off");
        let mut packet = open(&eal, "af_packet:vb", &pool);
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        works(&mut packet, &mut xdp, &mut pool);
        let said = try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).err().unwrap();
        assert!(said.contains("af_xdp:va is busy"), "{said}");
        works(&mut packet, &mut xdp, &mut pool);
    });
}

/// Whether an interface has a feature.
fn feature(interface: &str, feature: &str) -> bool {
    let done = std::process::Command::new("ethtool").args(["-k", interface]).output().unwrap();
    let all = String::from_utf8(done.stdout).unwrap();
    all.lines().any(|line| line.trim() == format!("{feature}: on"))
}

/// A bridge hands frames on as a Linux host sends tagged ones: with the tag beside the frame, for the interface to put in.
#[test]
fn tags_of_a_linux_host_arrive() {
    in_namespace("tags_of_a_linux_host_arrive", || {
        veth(1500);
        for command in [
            "link add vc type veth peer name vd",
            "link add br0 type bridge",
            "link set vb master br0",
            "link set vc master br0",
            "link set vb up",
            "link set vc up",
            "link set br0 up",
        ] {
            ip(command);
        }
        let (eal, mut pool) = start("tags", DATA_ROOM);
        let mut far = open(&eal, "af_packet:vd", &pool);
        assert!(feature("vb", "tx-vlan-offload"), "as it is when it is new");
        let mut xdp = open(&eal, "af_xdp:va", &pool);
        wait("the link is up", || xdp.port.link_up() && far.port.link_up());
        let tagged: Vec<u8> = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 2], &[0x81, 0, 0x20, 7, 0x88, 0xb5], &[9; 60]].concat();
        let mut received = Vec::new();
        wait("a tagged frame arrives", || {
            let mut packet = pool.alloc().unwrap();
            assert!(packet.fill(&tagged));
            let mut burst = Burst::new();
            burst.push(packet).unwrap();
            far.tx.transmit(&mut burst, &mut pool, 0);
            pool.free_burst(&mut burst);
            xdp.rx.receive(&mut xdp.batch, &mut pool, 0);
            for slot in xdp.batch.slots() {
                let packet = xdp.batch.take(slot).unwrap();
                received.push(packet.bytes().to_vec());
                pool.free(packet);
            }
            !received.is_empty()
        });
        assert!(received.iter().all(|frame| *frame == tagged), "{received:02x?}");
        drop(xdp);
        assert!(feature("vb", "tx-vlan-offload"), "as it was");
    });
}

/// The next start under the same name puts the interfaces in order, whether it wants them or not.
#[test]
fn what_a_killed_process_left_is_removed() {
    let test = "what_a_killed_process_left_is_removed";
    match part().as_deref() {
        None if !can_unshare() => eprintln!("{test}: skipped: needs root (a network namespace)"),
        None => finish(spawn(test, "first", &["unshare", "-n"], &Folder::new(test))),
        Some("first") => {
            veth(1500);
            let victim = Folder(folder().join("victim"));
            std::fs::create_dir_all(&victim.0).unwrap();
            let mut child = spawn(test, "victim", &[], &victim);
            wait("the victim runs", || victim.0.join("runs").exists());
            assert!(link("va").contains("prog/xdp") && !feature("vb", "tx-vlan-offload"));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(link("va").contains("prog/xdp") && !feature("vb", "tx-vlan-offload"), "what is left");
            let _eal = Eal::start(&EalOptions { run_dir: victim.0.clone(), ..options("victim") }).unwrap();
            assert!(!link("va").contains("xdp") && !link("va").contains("PROMISC"), "{}", link("va"));
            assert!(feature("vb", "tx-vlan-offload"));
        }
        Some(_) => {
            let (eal, pool) = start("victim", DATA_ROOM);
            let config = PortConfig { promiscuous: true, ..PortConfig::default() };
            let _xdp = try_open(&eal, "af_xdp:va", config, &pool).unwrap();
            std::fs::write(folder().join("runs"), "").unwrap();
            wait("death", || false);
        }
    }
}
