//! Looked at before a device is attached, and after it failed: who may have it, who has it.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use weir_host::links;

use crate::eal::{check_pci, has_capability};
use crate::ethdev::{Failure, has_socket};
use crate::netif::Interface;
use crate::patience::{XDP_SOCKET, wait_until};
use crate::{Device, DpdkError, Kind, bpf, claim, sockets, xsk};

/// capabilities(7).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Finds out what would make a device fail, in so far as it can be known without trying.
pub(crate) fn check(device: &Device) -> Result<(), DpdkError> {
    let name = device.to_string();
    // An abstract socket has no file to look at.
    let is_file = |path: &&str| !path.starts_with('@');
    if let Some(path) = device.listens_at().filter(is_file) {
        sockets::clear(&name, Path::new(path))?;
    }
    if let Some(path) = device.connects_to().filter(is_file) {
        sockets::expect_listener(&name, Path::new(path))?;
    }
    match device.kind() {
        Kind::AfXdp | Kind::AfPacket => {
            let interface = find(device)?;
            check_capabilities(device, &[(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_NET_RAW, "CAP_NET_RAW")])?;
            if device.kind() == Kind::AfXdp { check_program(device, &interface) } else { Ok(()) }
        }
        Kind::Tap => check_tap(device),
        Kind::Pci => check_pci(device.name()),
        Kind::Null | Kind::Vdev | Kind::Memif | Kind::Vhost | Kind::VirtioUser => Ok(()),
    }
}

/// The interface that a device takes over.
pub(crate) fn find(device: &Device) -> Result<Interface, DpdkError> {
    let name = device.name();
    Interface::find(name).map_err(|_| DpdkError::NoSuchDevice {
        device: device.to_string(),
        missing: format!("there is no interface {name} in this network namespace"),
        remedy: "ip link lists those there are".into(),
    })
}

/// That nobody else receives from an interface by XDP: the driver removes whatever program is on it when it fails, and so would end
/// that. A program that nobody uses any more is removed.
fn check_program(device: &Device, interface: &Interface) -> Result<(), DpdkError> {
    let Some(program) = claim::program(interface.index()) else { return Ok(()) };
    let (index, queue) = (interface.index(), first_queue(device));
    let (is_ours, is_open) = (claim::is_ours(program), has_socket(index, queue));
    // While another port of this process receives by the program, the one that had the queue may have been closed just now.
    let longest = if is_ours && !is_open { XDP_SOCKET } else { Duration::ZERO };
    let mut is_free = false;
    wait_until(longest, || {
        is_free = !is_open && !xsk::is_taken(index, queue);
        is_free
    });
    if !is_free {
        return Err(busy(device));
    }
    match bpf::name(program).as_deref() {
        _ if is_ours => Ok(()),
        Some(bpf::DEFAULT_PROGRAM) => {
            // Else libxdp finds it, and takes it over.
            let _stays = links::remove_xdp(interface.index());
            Ok(())
        }
        // libxdp adds to what it dispatches.
        Some(bpf::DISPATCHER) | None => Ok(()),
        Some(other) => Err(DpdkError::Busy {
            device: device.to_string(),
            by: format!("another XDP program ({other}) is on it"),
            remedy: format!("remove it (ip link set {} xdp off)", device.name()),
        }),
    }
}

/// The first queue of its interface that an AF_XDP device has.
pub(crate) fn first_queue(device: &Device) -> u32 {
    device.option("start_queue").and_then(|queue| queue.parse().ok()).unwrap_or(0)
}

fn check_capabilities(device: &Device, capabilities: &[(u32, &str)]) -> Result<(), DpdkError> {
    let missing: Vec<&str> =
        capabilities.iter().filter(|(number, _)| !has_capability(*number)).map(|(_, name)| *name).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(no_permission(device, &format!("run weir as root, or with {}", missing.join(" and ")))),
    }
}

fn check_tap(device: &Device) -> Result<(), DpdkError> {
    let node = Path::new("/dev/net/tun");
    match std::fs::File::options().read(true).write(true).open(node) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(DpdkError::NoSuchDevice {
                device: device.to_string(),
                missing: "the kernel has no /dev/net/tun".into(),
                remedy: "load it (modprobe tun)".into(),
            });
        }
        Err(_) => return Err(no_permission(device, "run weir as root, or make /dev/net/tun yours")),
    }
    if Interface::find(device.name()).is_ok() {
        return Err(DpdkError::Busy {
            device: device.to_string(),
            by: format!("an interface {} is there already", device.name()),
            remedy: format!("remove it (ip link del {}), or choose another name", device.name()),
        });
    }
    check_capabilities(device, &[(CAP_NET_ADMIN, "CAP_NET_ADMIN")])
}

fn no_permission(device: &Device, remedy: &str) -> DpdkError {
    DpdkError::NoPermission { what: format!("use {device}"), remedy: remedy.to_owned() }
}

/// The error for people of what DPDK refused, as precise as its log allows.
pub(crate) fn explain(device: &Device, failure: Failure) -> DpdkError {
    let said = |part: &str| failure.log.contains(part);
    if device.kind() == Kind::AfXdp
        && let Some(reason) = after(&failure.log, "Kernel error message: ")
    {
        let what = format!(
            "cannot have an XDP program: the kernel says \"{reason}\": mend that (an MTU above 3498, also of a veth's \
             peer, is too large), or use af_packet:{}",
            device.name()
        );
        return DpdkError::Unsupported { device: device.to_string(), what };
    }
    // EPERM is no sign: many drivers say -1 for whatever went wrong, and libxdp tries what need not be permitted.
    let trying = device.kind() == Kind::AfXdp && (has_capability(CAP_BPF) || has_capability(CAP_SYS_ADMIN));
    if failure.code == libc::EACCES || !trying && (said("Operation not permitted") || said("Permission denied")) {
        return no_permission(device, "run weir as root");
    }
    // The kernel gives the AF_XDP driver no better reason.
    if failure.code == libc::EBUSY || said("resource busy") || said("Failed to create xsk socket") {
        return busy(device);
    }
    // No bus knows a driver of that name.
    if failure.code == libc::EFAULT {
        let driver = device.driver().unwrap_or_default().to_owned();
        return DpdkError::NoDriver { device: device.to_string(), driver };
    }
    // What DPDK says of a card that none of its drivers knows.
    if device.kind() == Kind::Pci && failure.code == libc::ENOTSUP {
        return DpdkError::NoDriver { device: device.to_string(), driver: "for this card".to_owned() };
    }
    failure.refused()
}

/// What follows `mark` on its line.
fn after<'a>(log: &'a str, mark: &str) -> Option<&'a str> {
    log.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest.trim())
}

fn busy(device: &Device) -> DpdkError {
    let name = device.name();
    let (by, remedy) = match device.kind() {
        Kind::AfXdp => (
            "another process has a queue of the interface, or another XDP program is on it".to_owned(),
            format!("stop that process, or remove the program (ip link set {name} xdp off)"),
        ),
        Kind::Tap => {
            (format!("another process has the interface {name}"), "stop it, or choose another name".to_owned())
        }
        _ => ("another process or port has it".to_owned(), "stop it, or choose another device".to_owned()),
    };
    DpdkError::Busy { device: device.to_string(), by, remedy }
}
