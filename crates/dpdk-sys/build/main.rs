//! Finds DPDK by pkg-config, compiles the shim and generates the binding.

#[cfg(feature = "dpdk")]
mod dpdk;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build/main.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build()?;
    Ok(())
}
