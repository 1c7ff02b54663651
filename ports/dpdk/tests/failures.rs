//! What goes wrong at the start is one sentence that says what to do.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::Arc;

use common::{
    Folder, alone, can_unshare, cross, finish, folder, in_namespace, ip, open, options, part, spawn, start, try_open,
    wait,
};
use weir_packet::{DATA_ROOM, MAX_FRAME};
use weir_port_dpdk::eal::{Eal, EalOptions, Memory};
use weir_port_dpdk::{DpdkError, DpdkPool, Megabytes, PortConfig};

/// More than any machine has.
const TOO_MANY: Megabytes = Megabytes { huge: u32::MAX, ordinary: u32::MAX };

/// The sentence of an EAL that does not start.
fn refused(options: EalOptions) -> String {
    Eal::start(&options).unwrap_err().to_string()
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "\"{said}\" should say \"{part}\"");
    }
    assert!(!said.contains('\n'), "one sentence: {said}");
}

#[test]
fn eal_that_cannot_start() {
    alone("eal_that_cannot_start", &[], || {
        let usual = || options("bad");
        says(&refused(EalOptions { cores: vec![4000], ..usual() }), &["core 4000", "choose of "]);
        let said = refused(EalOptions { pci: vec!["ffff:ff:1f.7".into()], ..usual() });
        says(&said, &["pci:ffff:ff:1f.7", "no such card", "lspci -D"]);
        let said = refused(EalOptions { megabytes: TOO_MANY, memory: Memory::Ordinary, ..usual() });
        says(&said, &["need 4294967295 MB of memory", "free some"]);
        let said = refused(EalOptions { megabytes: TOO_MANY, memory: Memory::Huge, ..usual() });
        says(&said, &["of huge pages", "vm.nr_hugepages"]);
        let said = refused(EalOptions { log: "/proc/none/eal.log".into(), ..usual() });
        says(&said, &["/proc/none/eal.log cannot be written", "choose another"]);
        let said = refused(EalOptions { run_dir: "/proc/none".into(), ..usual() });
        says(&said, &["no permission to write /proc/none", "XDG_RUNTIME_DIR"]);
        // None of these has touched EAL: it still starts.
        let (eal, _pool) = start("bad", DATA_ROOM);
        let again = Eal::start(&options("another")).unwrap_err();
        assert_eq!(again, DpdkError::Twice);
        let more = DpdkPool::create(&eal, 10_000_000, MAX_FRAME).err().unwrap();
        says(&more.to_string(), &["MB"]);
    });
}

#[test]
fn a_name_is_taken() {
    match part().as_deref() {
        Some("first") => {
            let (_eal, _pool) = start("same", DATA_ROOM);
            std::fs::write(folder().join("runs"), "").unwrap();
            wait("the second has seen it", || folder().join("seen").exists());
        }
        Some(_) => {
            let said = refused(options("same"));
            says(&said, &["another weir named same runs (process ", "--name"]);
            std::fs::write(folder().join("seen"), "").unwrap();
        }
        None => {
            let folder = Folder::new("a_name_is_taken");
            let first = spawn("a_name_is_taken", "first", &[], &folder);
            wait("the first runs", || folder.0.join("runs").exists());
            finish(spawn("a_name_is_taken", "second", &[], &folder));
            finish(first);
        }
    }
}

#[test]
fn devices_that_cannot_be_had() {
    alone("devices_that_cannot_be_had", &[], || {
        let (eal, pool) = start("devices", DATA_ROOM);
        let refused = |device: &str| try_open(&eal, device, PortConfig::default(), &pool).err().unwrap();
        says(&refused("af_xdp:none"), &["af_xdp:none", "no interface none", "ip link"]);
        says(&refused("af_packet:none"), &["no interface none", "ip link"]);
        says(&refused("pci:ffff:ff:1f.7"), &["no such card"]);
        // Two ports on one device. It is free again once its port has gone.
        let kept = open(&eal, "vdev:net_null7", &pool);
        says(&refused("vdev:net_null7,size=64"), &["vdev:net_null7,size=64 is busy", "choose another device"]);
        drop(kept);
        drop(open(&eal, "vdev:net_null7", &pool));
        says(&refused("vdev:net_nonsense0"), &["DPDK has no driver net_nonsense", "apt-get install"]);
        says(&refused("vdev:net_pcap0,rx_pcap=/none.pcap"), &["net_pcap0", "/none.pcap", "devices.log"]);
        says(&refused("virtio_user:/none.sock"), &["nobody listens at /none.sock", "server=1"]);
        says(&refused("memif:1,socket=/none.sock"), &["nobody listens at /none.sock", "role=server"]);
        says(&refused("vhost:/none/v.sock"), &["the folder /none is missing", "mkdir -p /none"]);
        let path = folder().join("busy.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let vhost = format!("vhost:{}", path.display());
        says(&refused(&vhost), &["is busy: another process listens there", "choose another path"]);
        let zero_copy = format!("memif:1,zero-copy=yes,socket={}", path.display());
        if !eal.huge_pages() {
            says(&refused(&zero_copy), &["multi-file segments"]);
        }
    });
}

#[test]
fn a_dead_owners_socket_is_no_obstacle() {
    alone("a_dead_owners_socket_is_no_obstacle", &[], || {
        let path = folder().join("dead.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (eal, pool) = start("dead", DATA_ROOM);
        let device = format!("vhost:{}", path.display());
        assert!(try_open(&eal, &device, PortConfig::default(), &pool).is_ok());
    });
}

#[test]
fn a_killed_owner_is_no_obstacle() {
    let test = "a_killed_owner_is_no_obstacle";
    if part().is_none() {
        return match can_unshare() {
            true => finish(spawn(test, "first", &["unshare", "-n"], &Folder::new(test))),
            false => eprintln!("{test}: skipped: needs root (a network namespace)"),
        };
    }
    let first = part().as_deref() == Some("first");
    if first {
        ip("link add va type veth peer name vb");
        let victim = Folder(folder().join("victim"));
        std::fs::create_dir_all(&victim.0).unwrap();
        let mut child = spawn(test, "victim", &[], &victim);
        wait("the victim runs", || victim.0.join("runs").exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (eal, mut pool) = start(if first { "first" } else { "victim" }, DATA_ROOM);
    let mut xdp = open(&eal, "af_xdp:va", &pool);
    let mut packet = open(&eal, "af_packet:vb", &pool);
    cross(&mut packet, &mut xdp, 200, 1514, &mut pool);
    if !first {
        std::fs::write(folder().join("runs"), "").unwrap();
        wait("death", || false);
    }
}

#[test]
fn an_interface_is_busy() {
    if part().is_none() {
        if !can_unshare() {
            eprintln!("an_interface_is_busy: skipped: needs root (a network namespace)");
            return;
        }
        let folder = Folder::new("an_interface_is_busy");
        // Both processes are in the namespace that `unshare` made for the first of them.
        return finish(spawn("an_interface_is_busy", "first", &["unshare", "-n"], &folder));
    }
    let first = part().as_deref() == Some("first");
    if first {
        ip("link add va type veth peer name vb");
    }
    let (eal, pool) = start(if first { "first" } else { "second" }, DATA_ROOM);
    if first {
        let _xdp = try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).unwrap();
        let borrowed = Folder(folder().join("second"));
        std::fs::create_dir_all(&borrowed.0).unwrap();
        finish(spawn("an_interface_is_busy", "second", &[], &borrowed));
        let done = Command::new("ip").args(["link", "show", "va"]).output().unwrap();
        let link = String::from_utf8(done.stdout).unwrap();
        assert!(link.contains("prog/xdp"), "the first has its program still: {link}");
    } else {
        let said = try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).err().unwrap();
        says(&said, &["af_xdp:va is busy", "ip link set va xdp off"]);
    }
}

#[test]
fn a_peers_mtu_is_too_large_for_xdp() {
    in_namespace("a_peers_mtu_is_too_large_for_xdp", || {
        ip("link add va type veth peer name vb mtu 9000");
        let (eal, pool) = start("peer", DATA_ROOM);
        let said = try_open(&eal, "af_xdp:va", PortConfig::default(), &pool).err().unwrap();
        says(&said, &["Peer MTU is too large", "use af_packet:va"]);
        assert!(try_open(&eal, "af_packet:va", PortConfig::default(), &pool).is_ok());
    });
}

/// A user that is nobody in particular.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn without_root() {
    if part().is_none() {
        let become_nobody =
            Command::new(NOBODY[0]).args(&NOBODY[1..]).arg(std::env::current_exe().unwrap()).arg("--list").output();
        if !become_nobody.is_ok_and(|done| done.status.success()) {
            eprintln!("without_root: skipped: needs root (to become nobody)");
            return;
        }
        let folder = Folder::new("without_root");
        std::os::unix::fs::chown(&folder.0, Some(65_534), Some(65_534)).unwrap();
        return finish(spawn("without_root", "nobody", &NOBODY, &folder));
    }
    let (eal, pool): (Arc<Eal>, DpdkPool) = start("nobody", DATA_ROOM);
    let refused = |device: &str| try_open(&eal, device, PortConfig::default(), &pool).err().unwrap();
    says(&refused("af_xdp:lo"), &["no permission to use af_xdp:lo", "CAP_NET_ADMIN and CAP_NET_RAW"]);
    says(&refused("af_packet:lo"), &["no permission to use af_packet:lo", "CAP_NET_ADMIN and CAP_NET_RAW"]);
    says(&refused("tap:wt9"), &["tap:wt9", "root"]);
    assert!(try_open(&eal, "null", PortConfig::default(), &pool).is_ok());
    let vhost = format!("vhost:{}/v.sock", folder().display());
    assert!(try_open(&eal, &vhost, PortConfig::default(), &pool).is_ok());
}
