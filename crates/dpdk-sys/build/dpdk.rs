//! The build with the feature `dpdk`.

use std::error::Error;
use std::path::{Path, PathBuf};

const HEADER: &str = "shim/weir_dpdk.h";
const SOURCE: &str = "shim/weir_dpdk.c";

/// The libraries of DPDK that are called directly. Drivers are plugins that EAL loads by itself.
/// `rte_log` is a library of its own from 24.03 on.
const LIBRARIES: [&str; 6] = ["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_log"];

/// The one plugin that is called directly, too, to attach virtual devices. pkg-config lists no plugins; beside the libraries
/// there is a link to each.
const PLUGIN: &str = "rte_bus_vdev";

/// What of DPDK's functions is bound, and the types that they need.
const FUNCTIONS: &str = "weir_.*\
|rte_eal_(init|hotplug_remove|get_runtime_dir|has_hugepages)\
|rte_dev_remove|rte_openlog_stream|rte_strerror|rte_version\
|rte_thread_(register|unregister)\
|rte_eth_(find_next|stats_get|rx_queue_setup|tx_queue_setup|promiscuous_(enable|disable)|allmulticast_enable|macaddr_get)\
|rte_eth_dev_(get_port_by_name|info_get|configure|start|stop|default_mac_addr_set|set_mtu|get_mtu|adjust_nb_rx_tx_desc|rx_intr_(ctl_q_get_fd|enable|disable))\
|rte_mempool_(avail_count|obj_iter)";

pub(super) fn build() -> Result<(), Box<dyn Error>> {
    for file in ["build/dpdk.rs", HEADER, SOURCE] {
        println!("cargo::rerun-if-changed={file}");
    }
    let include = find()?;
    shim(&include);
    bind(&include)
}

/// Asks pkg-config, and links only what is called. DPDK's own `-march` is left out: one binary
/// serves every x86-64, and EAL itself refuses a processor that its libraries cannot run on.
fn find() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let found =
        pkg_config::Config::new().atleast_version("22.11").cargo_metadata(false).probe("libdpdk").map_err(|error| {
            format!(
                "DPDK is not here: install it (apt-get install dpdk libdpdk-dev libclang-dev), or build \
                 without it (cargo build --no-default-features).\n{error}"
            )
        })?;
    for path in &found.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    let libraries = found.libs.iter().map(String::as_str).filter(|name| LIBRARIES.contains(name));
    for library in libraries.chain([PLUGIN]) {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    println!("cargo::metadata=version={}", found.version);
    Ok(found.include_paths)
}

fn shim(include: &[PathBuf]) {
    let mut build = cc::Build::new();
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        // What DPDK's inline memory copy is written for. DPDK's libraries need SSE4.2, and EAL tests
        // for it before any of this runs.
        build.flag("-mssse3");
    }
    build
        .file(SOURCE)
        .includes(include)
        .flag("-include")
        .flag("rte_config.h")
        .warnings(true)
        // DPDK's headers cast away const.
        .flag_if_supported("-Wno-cast-qual")
        .opt_level(3)
        .compile("weir_dpdk");
}

fn bind(include: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let binding = bindgen::Builder::default()
        .header(HEADER)
        .clang_args(include.iter().map(|path| format!("-I{}", path.display())))
        .clang_args(["-include", "rte_config.h"])
        .allowlist_function(FUNCTIONS)
        .allowlist_var("WEIR_.*")
        // Only ever behind a pointer. DPDK's own layout tricks (packed and aligned at once) cannot be
        // said in Rust; weir-packet declares the buffer's header, checked against `WEIR_MBUF_*`.
        .blocklist_type("FILE|_IO_.*|rte_mbuf|rte_mempool|rte_device")
        .raw_line("pub use libc::FILE;")
        .raw_line("#[repr(C)] #[derive(Debug)] pub struct rte_mbuf([u8; 0]);")
        .raw_line("#[repr(C)] #[derive(Debug)] pub struct rte_mempool([u8; 0]);")
        .raw_line("#[repr(C)] #[derive(Debug)] pub struct rte_device([u8; 0]);")
        .opaque_type("rte_eth_(vmdq|dcb).*|rte_eth_rxseg.*|rte_eth_switch_info")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .generate()?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    binding.write_to_file(Path::new(&out).join("binding.rs"))?;
    Ok(())
}
