//! The ports of a gateway by their positions: those towards customers first, then those towards the core.

use weir_ip::INSIDE;
use weir_wire::MacAddr;

use crate::encap::mac_word;

/// Ports on both sides together.
pub(crate) const MAX_PORTS: usize = 64;

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Towards customers.
    Access,
    /// Towards the core.
    Core,
}

/// A port of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BngPort {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Its index in the whole configuration, which the port lane has.
    pub(crate) index: u16,
    pub(crate) mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
    pub(crate) side: Side,
}

/// What workers need of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerPort {
    /// Its MAC address as a little-endian word.
    pub(crate) mac: u64,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
    /// Its position; [`WorkerPort::NOWHERE`] for ports of others.
    pub(crate) position: u8,
    /// Its index in the whole configuration.
    pub(crate) index: u16,
}

impl WorkerPort {
    /// The same where no frame is for it.
    pub(crate) const fn shut(self) -> WorkerPort {
        WorkerPort { mac: WorkerPort::NONE.mac, ..self }
    }

    const NOWHERE: u8 = u8::MAX;
    /// What routes led into the gateway comes by no port, and its frames are for nobody: all of them are the gateway's.
    const INSIDE: WorkerPort = WorkerPort { mac: 0, ..WorkerPort::NONE };
    /// No frame is for it: more than 48 bits are set.
    const NONE: WorkerPort = WorkerPort { mac: u64::MAX, mtu: 0, position: WorkerPort::NOWHERE, index: u16::MAX };
}

/// All ports of a gateway.
#[derive(Debug)]
pub(crate) struct Ports {
    list: Vec<BngPort>,
    /// By position.
    stations: [WorkerPort; MAX_PORTS],
    /// By index in the whole configuration.
    by_index: Vec<WorkerPort>,
    /// The index of the access port, if there is only one.
    only_access: Option<u16>,
    /// How many access ports there are.
    access: u8,
}

impl Ports {
    /// Of ports in the order of their positions, of which there are at most [`MAX_PORTS`].
    pub(crate) fn new(list: Vec<BngPort>) -> Ports {
        let mut stations = [WorkerPort::NONE; MAX_PORTS];
        let mut by_index =
            vec![WorkerPort::NONE; list.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0)];
        for ((position, port), station) in (0..).zip(&list).zip(&mut stations) {
            *station = WorkerPort { mac: mac_word(port.mac), mtu: port.mtu, position, index: port.index };
            by_index.iter_mut().skip(usize::from(port.index)).take(1).for_each(|to| *to = *station);
        }
        let access = list.iter().take_while(|port| port.side == Side::Access).count() as u8;
        let only_access = list.first().filter(|_| access == 1).map(|port| port.index);
        Ports { list, stations, by_index, only_access, access }
    }

    /// The indices of the access ports.
    #[inline(always)]
    pub(crate) fn access(&self) -> impl Iterator<Item = u16> {
        (0..self.access).map(|position| self.egress(position).index)
    }

    /// The index of the access port, if there is only one.
    #[inline(always)]
    pub(crate) fn only_access(&self) -> Option<u16> {
        self.only_access
    }

    /// In the order of their positions.
    pub(crate) fn list(&self) -> &[BngPort] {
        &self.list
    }

    /// The port that a packet came in by, given what its port lane says; one that is nobody's, for [what routes led here](INSIDE).
    #[inline(always)]
    pub(crate) fn ingress(&self, index: u16) -> WorkerPort {
        let other = if index == INSIDE { WorkerPort::INSIDE } else { WorkerPort::NONE };
        self.by_index.get(usize::from(index)).copied().unwrap_or(other)
    }

    /// The port at a position, as workers see it.
    #[inline(always)]
    pub(crate) fn egress(&self, position: u8) -> WorkerPort {
        self.stations[usize::from(position) % MAX_PORTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_by_index_and_position() {
        let port = |name: &str, index, side| BngPort {
            name: name.to_owned(),
            index,
            mac: MacAddr([2, 0, 0, 0, 0, index as u8]),
            mtu: 1500,
            side,
        };
        let ports = Ports::new(vec![port("a", 7, Side::Access), port("b", 2, Side::Core)]);
        assert_eq!(ports.ingress(7).position, 0);
        assert_eq!((ports.ingress(2).position, ports.ingress(2).mac), (1, 0x0200_0000_0002));
        for stranger in [0, 3, 8, u16::MAX - 1] {
            assert_eq!((ports.ingress(stranger).mac, ports.ingress(stranger).position), (u64::MAX, u8::MAX));
        }
        assert_eq!((ports.ingress(INSIDE).mac, ports.ingress(INSIDE).position), (0, u8::MAX));
        assert_eq!(ports.egress(1).mac, ports.ingress(2).mac);
        assert_eq!((ports.list().len(), ports.only_access(), ports.egress(1).index), (2, Some(7), 2));
        let more = vec![port("a", 7, Side::Access), port("b", 2, Side::Access), port("c", 5, Side::Core)];
        let ports = Ports::new(more);
        assert_eq!((ports.only_access(), ports.access().collect::<Vec<_>>()), (None, vec![7, 2]));
    }
}
