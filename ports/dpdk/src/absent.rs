//! The names of this crate in a build without DPDK: nothing of it can come to be, for EAL does not start.

use std::sync::Arc;

use weir_packet::{Burst, Packet, Pool};
use weir_stage::Port;

use crate::{Device, DpdkError, Pages, PortConfig};

/// EAL, which there is none of.
pub mod eal {
    pub use crate::options::{EalOptions, Memory};

    /// EAL, started: never.
    #[derive(Debug)]
    pub enum Eal {}

    /// A thread that DPDK knows: none.
    #[derive(Debug)]
    pub enum Registered {}

    impl Eal {
        /// Says that this build has no DPDK.
        ///
        /// # Errors
        ///
        /// Always [`crate::DpdkError::NotBuilt`].
        pub fn start(_options: &EalOptions) -> Result<Eal, crate::DpdkError> {
            Err(crate::DpdkError::NotBuilt)
        }

        /// Whether buffers are in huge pages.
        pub fn huge_pages(&self) -> bool {
            match *self {}
        }

        /// DPDK's own version.
        pub fn version() -> &'static str {
            "no DPDK"
        }

        /// Makes the calling thread known to DPDK.
        pub fn register_thread(&self) -> Option<Registered> {
            match *self {}
        }
    }
}

/// A handle to DPDK's buffers: never.
#[derive(Debug)]
pub enum DpdkPool {}

impl DpdkPool {
    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// None: there is no EAL to call it with.
    pub fn create(eal: &eal::Eal, _capacity: usize, _data_room: usize) -> Result<DpdkPool, DpdkError> {
        match *eal {}
    }

    /// The pages that its buffers are in.
    pub fn pages(&self) -> Pages {
        match *self {}
    }
}

impl Pool for DpdkPool {
    fn alloc(&mut self) -> Option<Packet> {
        match *self {}
    }

    fn alloc_burst(&mut self, _n: usize, _burst: &mut Burst) -> bool {
        match *self {}
    }

    fn free(&mut self, _packet: Packet) {
        match *self {}
    }

    fn free_burst(&mut self, _burst: &mut Burst) {
        match *self {}
    }

    fn another(&self) -> Box<dyn Pool> {
        match *self {}
    }

    fn capacity(&self) -> usize {
        match *self {}
    }

    fn taken(&self) -> usize {
        match *self {}
    }

    fn at_hand(&self) -> usize {
        match *self {}
    }

    fn data_room(&self) -> usize {
        match *self {}
    }
}

/// Attaches a device.
///
/// # Errors
///
/// None: there is no EAL to call it with.
pub fn attach(
    eal: &Arc<eal::Eal>,
    _device: Device,
    _config: PortConfig,
    _pool: &DpdkPool,
) -> Result<Box<dyn Port>, DpdkError> {
    match **eal {}
}

/// The MTU that a device has when nobody says otherwise.
pub fn usual_mtu(_device: &Device) -> u16 {
    1500
}
