//! What the host as a whole looks like.

use rustix::thread::CapabilitySet;

use super::{Finding, Host};

/// Memory that is worth having for a million routes and the buffers of a few ports, bytes.
const ENOUGH_MEMORY: u64 = 2 << 30;

pub(super) fn cpu(host: &Host) -> Finding {
    let name = "processor";
    let text = host.text("/proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    let Some(flags) = field("flags") else { return Finding::unknown(name, "/proc/cpuinfo tells no flags") };
    let has = |flag: &str| flags.split_whitespace().any(|other| other == flag);
    let vectors = ["avx512f", "avx2", "sse4_2"].into_iter().find(|flag| has(flag)).unwrap_or("no vectors");
    let found = format!("{cores} cores, {}, {vectors}", field("model name").unwrap_or_default());
    if has("constant_tsc") && has("nonstop_tsc") {
        Finding::ok(name, found)
    } else {
        let remedy = "the time stamp counter is not said to run evenly: judge times and cycles with care";
        Finding::attention(name, found, remedy)
    }
}

pub(super) fn hypervisor(host: &Host) -> Finding {
    let name = "hypervisor";
    let flags = host.text("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine =
        flags.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    if !virtual_machine {
        return Finding::ok(name, "none: this is a machine of its own");
    }
    let product = host.text("/sys/class/dmi/id/sys_vendor").filter(|vendor| !vendor.is_empty());
    let found = format!("this is a virtual machine{}", product.map_or(String::new(), |who| format!(" of {who}")));
    let remedy = "others share the processor, so figures move by tens of percent: compare within one run only";
    Finding::attention(name, found, remedy)
}

pub(super) fn memory(host: &Host) -> Finding {
    let name = "memory";
    let text = host.text("/proc/meminfo").unwrap_or_default();
    let kib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    let (Some(total), Some(free)) = (kib("MemTotal"), kib("MemAvailable")) else {
        return Finding::unknown(name, "/proc/meminfo does not tell");
    };
    let found = format!("{} MiB, {} MiB of them free", total >> 10, free >> 10);
    if free << 10 >= ENOUGH_MEMORY {
        Finding::ok(name, found)
    } else {
        Finding::attention(name, found, "big tables want 2 GiB: end other programs, or keep to small tables")
    }
}

pub(super) fn huge_pages(host: &Host) -> Finding {
    let name = "huge pages";
    let folder = "/sys/kernel/mm/hugepages";
    let sizes = host.names(folder);
    if sizes.is_empty() {
        return Finding::unknown(name, "this kernel tells of none");
    }
    let figures = sizes.iter().filter_map(|size| {
        let total = host.number(&format!("{folder}/{size}/nr_hugepages"))?;
        let free = host.number(&format!("{folder}/{size}/free_hugepages"))?;
        Some((size.trim_start_matches("hugepages-"), total, free))
    });
    let reserved: Vec<_> = figures.filter(|(_, total, _)| *total > 0).collect();
    let text: Vec<String> =
        reserved.iter().map(|(size, total, free)| format!("{free} of {total} free of {size}")).collect();
    if reserved.iter().any(|(_, _, free)| *free > 0) {
        return Finding::ok(name, text.join(", "));
    }
    let found = if text.is_empty() { "none are reserved".to_owned() } else { text.join(", ") };
    let remedy = "tables and buffers are faster in them, and the kernel makes some only while its memory is in large pieces: \
                  echo 1024 > /proc/sys/vm/nr_hugepages (2 GiB); to keep it, put vm.nr_hugepages=1024 in /etc/sysctl.d/weir.conf";
    Finding::attention(name, found, remedy)
}

pub(super) fn isolated_cores(host: &Host) -> Finding {
    let name = "isolated cores";
    match host.text("/sys/devices/system/cpu/isolated") {
        None => Finding::unknown(name, "this kernel does not tell"),
        Some(list) if !list.is_empty() => Finding::ok(name, format!("{list}: name them in `workers`")),
        Some(_) => {
            let online = host.text("/sys/devices/system/cpu/online").unwrap_or_default();
            let found = format!("none; cores {online} are shared by everything");
            let remedy = "workers lose time to other programs: boot with isolcpus=1-N nohz_full=1-N rcu_nocbs=1-N";
            Finding::attention(name, found, remedy)
        }
    }
}

pub(super) fn governor(host: &Host) -> Finding {
    let name = "core frequency";
    match host.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Finding::ok(name, "not governed by this kernel"),
        Some(governor) if governor == "performance" => Finding::ok(name, "governor performance"),
        Some(governor) => {
            let remedy = "the frequency follows the load: cpupower frequency-set -g performance";
            Finding::attention(name, format!("governor {governor}"), remedy)
        }
    }
}

pub(super) fn numa(host: &Host) -> Finding {
    let name = "NUMA";
    let nodes: Vec<String> = host
        .names("/sys/devices/system/node")
        .into_iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit())))
        .collect();
    if nodes.len() < 2 {
        return Finding::ok(name, "one node");
    }
    let cores = |node: &String| {
        let list = host.text(&format!("/sys/devices/system/node/{node}/cpulist")).unwrap_or_default();
        format!("{node}: {list}")
    };
    let found = nodes.iter().map(cores).collect::<Vec<_>>().join("; ");
    Finding::attention(name, found, "run a port's workers on the node that its card is on; see the cards below")
}

pub(super) fn iommu(host: &Host) -> Finding {
    let name = "IOMMU";
    let groups = host.names("/sys/kernel/iommu_groups").len();
    if groups > 0 {
        return Finding::ok(name, format!("on, {groups} groups"));
    }
    let remedy = "network cards as pci:ADDRESS are handed over by vfio-pci, which wants it: boot with intel_iommu=on \
                  iommu=pt (AMD: amd_iommu=on); AF_XDP, AF_PACKET and TAP do without";
    Finding::attention(name, "off, or there is none", remedy)
}

pub(super) fn xdp(host: &Host) -> Finding {
    let name = "XDP";
    let release = host.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let symbols = host.text("/proc/kallsyms").unwrap_or_default();
    if symbols.lines().any(|line| line.split_whitespace().nth(2).is_some_and(|name| name.starts_with("xsk_"))) {
        return Finding::ok(name, format!("kernel {release} has AF_XDP"));
    }
    if symbols.is_empty() && version >= (4, 18) {
        return Finding::unknown(
            name,
            format!("kernel {release} is new enough; whether AF_XDP is built in it does not tell"),
        );
    }
    let found = format!("kernel {release} shows no AF_XDP");
    Finding::attention(name, found, "use af_packet:IF in place of af_xdp:IF, or another kernel (CONFIG_XDP_SOCKETS)")
}

pub(super) fn permissions() -> Finding {
    let name = "permissions";
    let Ok(have) = rustix::thread::capabilities(None) else { return Finding::unknown(name, "cannot be asked for") };
    let wanted = [
        (CapabilitySet::NET_ADMIN, "NET_ADMIN"),
        (CapabilitySet::NET_RAW, "NET_RAW"),
        (CapabilitySet::BPF, "BPF"),
        (CapabilitySet::IPC_LOCK, "IPC_LOCK"),
    ];
    let missing: Vec<&str> =
        wanted.iter().filter(|(one, _)| !have.effective.contains(*one)).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return Finding::ok(name, "enough for every kind of port");
    }
    let remedy = "ports on interfaces of the kernel want them: run as root; pcap and mem ports do without";
    Finding::attention(name, format!("{} are missing", missing.join(", ")), remedy)
}

/// Whether stages in Lua are compiled while they run: they may be where the watchdog can stop compiled code.
pub(super) fn scripts() -> Finding {
    let name = "scripts";
    if weir_lua::compiled_code_sees_hooks() {
        return Finding::ok(name, "stages in Lua are compiled");
    }
    let remedy = "LuaJIT was built without LUAJIT_ENABLE_CHECKHOOK: build Weir in its own folder, whose .cargo/config.toml asks for it";
    Finding::attention(name, "stages in Lua are interpreted, which takes ten times as long", remedy)
}

pub(super) fn dpdk() -> Finding {
    Finding::ok("DPDK", weir_port_dpdk::eal::Eal::version())
}
