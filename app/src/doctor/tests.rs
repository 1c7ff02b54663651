use super::*;

/// A host made of files.
struct Made {
    host: Host,
}

impl Made {
    fn new(name: &str, files: &[(&str, &str)]) -> Made {
        let root = std::env::temp_dir().join(format!("weir-doctor-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Made { host: Host { root, links: Vec::new() } }
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.host.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    fn finding(&self, name: &str) -> Finding {
        let found = examine(&self.host).into_iter().find(|finding| finding.name == name);
        found.unwrap_or_else(|| panic!("nothing about {name}"))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.host.root));
    }
}

#[test]
fn a_host_without_files_is_examined_too() {
    let findings = examine(&Host { root: PathBuf::from("/nonexistent"), links: Vec::new() });
    assert!(findings.len() >= 12);
    assert!(findings.iter().all(|finding| !finding.found.is_empty()));
    assert!(findings.iter().all(|finding| (finding.state == State::Attention) != finding.remedy.is_empty()));
}

#[test]
fn this_host_is_examined() {
    let findings = examine(&Host::here());
    let json = serde_json::to_value(&findings).unwrap();
    assert!(json.as_array().unwrap().iter().all(|finding| finding["state"].is_string()));
    assert!(text(&findings, Style::PLAIN).contains("processor"));
    let scripts = findings.iter().find(|finding| finding.name == "scripts").unwrap();
    assert_eq!(scripts.found, "stages in Lua are compiled", "as Weir's own build has it");
}

#[test]
fn huge_pages_are_counted() {
    let folder = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let (total, free) = (format!("{folder}/nr_hugepages"), format!("{folder}/free_hugepages"));
    let none = Made::new("huge-none", &[(&total, "0\n"), (&free, "0\n")]);
    assert_eq!(none.finding("huge pages").state, State::Attention);
    assert!(none.finding("huge pages").remedy.contains("nr_hugepages"));
    let some = Made::new("huge-some", &[(&total, "512\n"), (&free, "500\n")]);
    assert_eq!(some.finding("huge pages"), Finding::ok("huge pages", "500 of 512 free of 2048kB"));
    let used = Made::new("huge-used", &[(&total, "512\n"), (&free, "0\n")]);
    assert_eq!(used.finding("huge pages").state, State::Attention);
}

#[test]
fn cores_and_frequency() {
    let files = [
        ("sys/devices/system/cpu/isolated", "2-7\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/node/node0/cpulist", "0-3\n"),
        ("sys/devices/system/node/node1/cpulist", "4-7\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nflags\t\t: avx2 constant_tsc nonstop_tsc hypervisor\n"),
        ("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"),
        ("proc/kallsyms", "0 T xsk_bind\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ];
    let made = Made::new("cores", &files);
    assert_eq!(made.finding("isolated cores").state, State::Ok);
    assert!(made.finding("core frequency").remedy.contains("performance"));
    assert_eq!(made.finding("NUMA").found, "node0: 0-3; node1: 4-7");
    assert_eq!(made.finding("processor"), Finding::ok("processor", "1 cores, X, avx2"));
    assert_eq!(made.finding("hypervisor").state, State::Attention);
    assert_eq!(made.finding("memory").found, "1024 MiB, 512 MiB of them free");
    assert_eq!(made.finding("memory").state, State::Attention);
    assert_eq!(made.finding("XDP").state, State::Ok);
}

#[test]
fn cards_are_told_by_their_drivers() {
    let folder = |n: u8| format!("sys/bus/pci/devices/0000:0{n}:00.0");
    let file = |n: u8, name: &str| format!("{}/{name}", folder(n));
    let class = "0x020000\n";
    let files = [
        (file(1, "class"), class),
        (file(1, "vendor"), "0x8086\n"),
        (file(1, "device"), "0x1572\n"),
        (file(1, "numa_node"), "1\n"),
        (file(1, "net/eth0/x"), ""),
        (file(2, "class"), class),
        (file(3, "class"), class),
        (file(4, "class"), "0x030000\n"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let made = Made::new("cards", &files);
    made.link(&file(1, "driver"), "../../../bus/pci/drivers/i40e");
    made.link(&file(2, "driver"), "../../../bus/pci/drivers/vfio-pci");
    let kernel = made.finding("card 0000:01:00.0");
    assert_eq!(kernel.found, "8086:1572, NUMA node 1, the kernel drives it with i40e as eth0");
    assert!(made.finding("card 0000:02:00.0").found.ends_with("ready as pci:0000:02:00.0"));
    assert_eq!(made.finding("card 0000:03:00.0").state, State::Attention);
    assert!(!examine(&made.host).iter().any(|finding| finding.name.contains("04:00")));
}

#[test]
fn virtual_pairs_are_told_by_what_they_do_to_checksums() {
    let mut made = Made::new("veths", &[("proc/x", "")]);
    let link = |name: &str, kind: Option<&str>, leaves_checksums| Link {
        name: name.to_owned(),
        kind: kind.map(str::to_owned),
        leaves_checksums,
    };
    assert_eq!(made.finding("veth").state, State::Ok);
    made.host.links = vec![
        link("lo", None, Some(true)),
        link("d0", Some("dummy"), Some(true)),
        link("veth-a", Some("veth"), Some(true)),
        link("veth-b", Some("veth"), Some(false)),
        link("veth-c", Some("veth"), None),
    ];
    assert_eq!(made.finding("veth veth-a").state, State::Attention);
    assert!(made.finding("veth veth-a").remedy.contains("ethtool -K veth-a tx off"));
    assert_eq!(made.finding("veth veth-b").state, State::Ok, "nothing is left to do");
    assert_eq!(made.finding("veth veth-c").state, State::Unknown);
    assert_eq!(examine(&made.host).iter().filter(|finding| finding.name.starts_with("veth")).count(), 3);
}

#[test]
fn the_text_is_aligned() {
    let findings = [Finding::ok("a", "fine"), Finding::attention("long name", "odd", "mend it")];
    assert_eq!(
        text(&findings, Style::PLAIN),
        "ok         a          fine\nattention  long name  odd\n                      -> mend it\n\n\
         One thing could be better; Weir runs all the same.\n"
    );
}
