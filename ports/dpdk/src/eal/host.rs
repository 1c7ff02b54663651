//! What the host has, looked at before EAL is asked: EAL's own answers are poor, and some end the
//! process.

use std::fs::OpenOptions;
use std::path::Path;

use crate::DpdkError;
use crate::options::{EalOptions, Memory};

/// Where PCI devices are listed.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// Kernel drivers that hand a card over to a process.
const HAND_OVER: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Those of them without an IOMMU: such a card reads and writes what has a physical address that DPDK knows.
const WITHOUT_IOMMU: [&str; 2] = ["uio_pci_generic", "igb_uio"];
/// Kernel drivers that share their card with DPDK.
const SHARED: [&str; 4] = ["mlx5_core", "mlx4_core", "mana", "hv_netvsc"];

/// The cores that the calling thread may run on, ascending.
pub(crate) fn usable_cores() -> Vec<u32> {
    // SAFETY: all zeros is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as is said.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if rc != 0 {
        return vec![0];
    }
    // SAFETY: the core is below the size of the set.
    let isset = |core: &u32| unsafe { libc::CPU_ISSET(*core as usize, &set) };
    (0..libc::CPU_SETSIZE.unsigned_abs()).filter(isset).collect()
}

pub(crate) fn check_cores(wanted: &[u32], usable: &[u32]) -> Result<(), DpdkError> {
    match wanted.iter().find(|core| !usable.contains(core)) {
        Some(core) => Err(DpdkError::WrongCore { core: *core, usable: usable.to_vec() }),
        None => Ok(()),
    }
}

/// Decides for huge pages (true) or ordinary memory, by what is free.
pub(crate) fn choose_memory(options: &EalOptions) -> Result<bool, DpdkError> {
    let huge_needed = u64::from(options.megabytes.huge);
    let needed = u64::from(options.megabytes.ordinary);
    let huge = free_huge_pages(Path::new("/sys/kernel/mm/hugepages"));
    let short = |needed, free, kind| Err(DpdkError::TooLittleMemory { needed, free, kind });
    match options.memory {
        Memory::Auto | Memory::Huge if huge >= huge_needed && huge > 0 => return Ok(true),
        Memory::Huge => return short(huge_needed, huge, "huge pages"),
        Memory::Auto | Memory::Ordinary => {}
    }
    match available_memory(Path::new("/proc/meminfo")) {
        Some(free) if free < needed => short(needed, free, "memory"),
        _ => Ok(false),
    }
}

/// Free huge pages of the size that EAL uses by default, in MB.
fn free_huge_pages(root: &Path) -> u64 {
    let sizes = std::fs::read_dir(root).into_iter().flatten().flatten();
    sizes
        .filter_map(|size| {
            let name = size.file_name().into_string().ok()?;
            let kilobytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let pages: u64 = std::fs::read_to_string(size.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
            Some(pages.saturating_mul(kilobytes) >> 10)
        })
        .sum()
}

/// What the kernel thinks it can still give, in MB.
fn available_memory(meminfo: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes >> 10)
}

/// A card that is not there, or that the kernel keeps, is found out here.
pub(crate) fn check_pci(address: &str) -> Result<(), DpdkError> {
    check_pci_in(Path::new(PCI_DEVICES), address)
}

/// Before EAL starts: it opens the cards that it is told, and from then on their groups are busy with this process.
pub(crate) fn check_closed_pci(address: &str) -> Result<(), DpdkError> {
    check_pci(address)?;
    check_translated_in(Path::new(PCI_DEVICES), address)?;
    check_group(address, &Path::new(PCI_DEVICES).join(address))
}

fn check_pci_in(devices: &Path, address: &str) -> Result<(), DpdkError> {
    let device = devices.join(address);
    if !device.exists() {
        return Err(DpdkError::NoSuchDevice {
            device: format!("pci:{address}"),
            missing: "there is no such card".into(),
            remedy: "lspci -D lists those there are".into(),
        });
    }
    let driver = link_name(&device.join("driver"));
    match driver.as_deref() {
        Some(driver) if SHARED.contains(&driver) || HAND_OVER.contains(&driver) => Ok(()),
        _ => Err(DpdkError::KernelDriver { address: address.to_owned(), driver }),
    }
}

/// The last part of what a link leads to.
fn link_name(link: &Path) -> Option<String> {
    Some(std::fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
}

/// Whether a card is bound to vfio-pci.
pub(crate) fn is_at_vfio(address: &str) -> bool {
    link_name(&Path::new(PCI_DEVICES).join(address).join("driver")).as_deref() == Some("vfio-pci")
}

/// Whether the card is one at vfio-pci that no IOMMU stands in front of.
fn is_without_iommu(device: &Path) -> bool {
    // The name that the kernel gives to its group.
    std::fs::read_to_string(device.join("iommu_group/name")).is_ok_and(|name| name.trim() == "vfio-noiommu")
}

/// A virtio card that has the legacy interface, too (virtio 1.1, section 4.1.2: identifiers from 0x1000 to 0x103f), is not behind its machine's
/// IOMMU. DPDK would wait for its answers for ever.
fn check_translated_in(devices: &Path, address: &str) -> Result<(), DpdkError> {
    let device = devices.join(address);
    let number = |file: &str| {
        let text = std::fs::read_to_string(device.join(file)).ok()?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let legacy = number("vendor") == Some(0x1af4) && number("device").is_some_and(|id| (0x1000..=0x103f).contains(&id));
    let translated = link_name(&device.join("driver")).as_deref() == Some("vfio-pci") && !is_without_iommu(&device);
    if !legacy || !translated {
        return Ok(());
    }
    let what = "is a virtio card that reads and writes past the IOMMU which vfio-pci counts on: have the virtual machine given one that \
                does not (qemu: disable-legacy=on,iommu_platform=on), or bind it to uio_pci_generic and reserve huge pages";
    Err(DpdkError::Unsupported { device: format!("pci:{address}"), what: what.to_owned() })
}

/// Cards without an IOMMU in front of them cannot have buffers in ordinary memory, of which so many megabytes are needed.
pub(crate) fn check_reach(addresses: &[String], needed: u32) -> Result<(), DpdkError> {
    addresses.iter().try_for_each(|address| check_reach_in(Path::new(PCI_DEVICES), address, needed))
}

fn check_reach_in(devices: &Path, address: &str, needed: u32) -> Result<(), DpdkError> {
    let device = devices.join(address);
    let driver = link_name(&device.join("driver")).unwrap_or_default();
    if !is_without_iommu(&device) && !WITHOUT_IOMMU.contains(&driver.as_str()) {
        return Ok(());
    }
    let what = format!(
        "is bound to {driver} without an IOMMU, and can have buffers in huge pages only: reserve {needed} MB of them \
         (sysctl vm.nr_hugepages=N, 2 MB each), or switch the IOMMU on and bind it to vfio-pci"
    );
    Err(DpdkError::Unsupported { device: format!("pci:{address}"), what })
}

/// A card at vfio-pci is opened by its IOMMU group.
fn check_group(address: &str, device: &Path) -> Result<(), DpdkError> {
    let Some(group) = link_name(&device.join("iommu_group")) else {
        return Ok(());
    };
    let node = Path::new("/dev/vfio").join(group);
    match OpenOptions::new().read(true).write(true).open(&node) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(DpdkError::NoPermission {
            what: format!("open {} for pci:{address}", node.display()),
            remedy: format!("run weir as root, or give yourself the file (chown $USER {})", node.display()),
        }),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(DpdkError::Busy {
            device: format!("pci:{address}"),
            by: "another process has its IOMMU group".into(),
            remedy: "stop that process (fuser -v /dev/vfio/*)".into(),
        }),
        _ => Ok(()),
    }
}

/// Whether this process has a capability in force (capabilities(7)).
pub(crate) fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set & (1 << number) != 0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of its own, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("weir-dpdk-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_core_outside_the_set_is_named() {
        assert_eq!(check_cores(&[0, 1], &[0, 1, 2]), Ok(()));
        assert_eq!(check_cores(&[1, 7], &[0, 1]), Err(DpdkError::WrongCore { core: 7, usable: vec![0, 1] }));
        assert!(!usable_cores().is_empty());
    }

    #[test]
    fn huge_pages_of_all_sizes_are_added() {
        let folder = Folder::new("huge");
        assert_eq!(free_huge_pages(&folder.0), 0);
        for (size, pages) in [("2048kB", "10\n"), ("1048576kB", "2\n")] {
            let of_size = folder.0.join(format!("hugepages-{size}"));
            std::fs::create_dir(&of_size).unwrap();
            std::fs::write(of_size.join("free_hugepages"), pages).unwrap();
        }
        assert_eq!(free_huge_pages(&folder.0), 20 + 2048);
    }

    #[test]
    fn the_available_memory_is_read_in_megabytes() {
        let folder = Folder::new("meminfo");
        let path = folder.0.join("meminfo");
        std::fs::write(&path, "MemTotal: 9 kB\nMemAvailable:    2097152 kB\n").unwrap();
        assert_eq!(available_memory(&path), Some(2048));
        assert_eq!(available_memory(&folder.0.join("none")), None);
    }

    #[test]
    fn a_card_is_missing_kept_by_the_kernel_or_ready() {
        let folder = Folder::new("pci");
        let card = folder.0.join("0000:3b:00.0");
        let check = || check_pci_in(&folder.0, "0000:3b:00.0");
        assert!(matches!(check(), Err(DpdkError::NoSuchDevice { .. })));
        std::fs::create_dir(&card).unwrap();
        assert!(matches!(check(), Err(DpdkError::KernelDriver { driver: None, .. })));
        let driver = card.join("driver");
        std::os::unix::fs::symlink("/sys/bus/pci/drivers/ixgbe", &driver).unwrap();
        assert!(matches!(check(), Err(DpdkError::KernelDriver { driver: Some(d), .. }) if d == "ixgbe"));
        for ready in ["vfio-pci", "mlx5_core"] {
            std::fs::remove_file(&driver).unwrap();
            std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{ready}"), &driver).unwrap();
            assert_eq!(check(), Ok(()), "{ready}");
        }
    }

    #[test]
    fn without_an_iommu_a_card_needs_huge_pages() {
        let folder = Folder::new("reach");
        let card = folder.0.join("0000:3b:00.0");
        std::fs::create_dir_all(card.join("iommu_group")).unwrap();
        for (driver, group, fits) in [
            ("vfio-pci", "", true),
            ("mlx5_core", "", true),
            ("vfio-pci", "vfio-noiommu\n", false),
            ("uio_pci_generic", "", false),
            ("igb_uio", "", false),
        ] {
            let _ = std::fs::remove_file(card.join("driver"));
            std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{driver}"), card.join("driver")).unwrap();
            std::fs::write(card.join("iommu_group/name"), group).unwrap();
            let said = check_reach_in(&folder.0, "0000:3b:00.0", 96).map_err(|error| error.to_string());
            match said {
                Ok(()) => assert!(fits, "{driver}"),
                Err(said) => {
                    assert!(
                        !fits && said.contains(driver) && said.contains("96 MB") && said.contains("nr_hugepages"),
                        "{said}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_virtio_card_that_goes_past_the_iommu_is_refused() {
        let folder = Folder::new("translated");
        let card = folder.0.join("0000:00:04.0");
        std::fs::create_dir_all(card.join("iommu_group")).unwrap();
        for (vendor, device, driver, group, fits) in [
            ("0x1af4", "0x1000", "vfio-pci", "", false),
            ("0x1af4", "0x1000", "vfio-pci", "vfio-noiommu\n", true),
            ("0x1af4", "0x1000", "uio_pci_generic", "", true),
            ("0x1af4", "0x1041", "vfio-pci", "", true),
            ("0x8086", "0x100e", "vfio-pci", "", true),
        ] {
            let _ = std::fs::remove_file(card.join("driver"));
            std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{driver}"), card.join("driver")).unwrap();
            for (file, text) in [("vendor", vendor), ("device", device), ("iommu_group/name", group)] {
                std::fs::write(card.join(file), format!("{text}\n")).unwrap();
            }
            let said = check_translated_in(&folder.0, "0000:00:04.0").map_err(|error| error.to_string());
            assert_eq!(said.is_ok(), fits, "{vendor} {device} {driver} {group}: {said:?}");
            assert!(
                said.err().is_none_or(|said| said.contains("iommu_platform=on") && said.contains("uio_pci_generic"))
            );
        }
    }
}
