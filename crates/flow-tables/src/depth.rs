//! How far into frames it is looked: no further than flows, groups and settings ask for.

use weir_openflow::Field;

/// How far into a frame it is looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// Only at what is known without it: the port that it came in by, metadata.
    #[default]
    Port,
    /// At its addresses, tags and type.
    Ethernet,
    /// At ARP, MPLS and IP too.
    Network,
    /// At all of it: what IP carries.
    Whole,
}

impl Depth {
    /// Where a field stands.
    pub(crate) const fn of(field: Field) -> Depth {
        match field {
            Field::InPort | Field::InPhyPort | Field::Metadata | Field::TunnelId => Depth::Port,
            Field::EthDst | Field::EthSrc | Field::EthType | Field::VlanVid | Field::VlanPcp => Depth::Ethernet,
            Field::TcpSrc
            | Field::TcpDst
            | Field::UdpSrc
            | Field::UdpDst
            | Field::SctpSrc
            | Field::SctpDst
            | Field::Icmpv4Type
            | Field::Icmpv4Code
            | Field::Icmpv6Type
            | Field::Icmpv6Code
            | Field::Ipv6NdTarget
            | Field::Ipv6NdSll
            | Field::Ipv6NdTll => Depth::Whole,
            _ => Depth::Network,
        }
    }

    /// The deepest of some.
    pub(crate) fn deepest(all: impl Iterator<Item = Depth>) -> Depth {
        all.max().unwrap_or(Depth::Port)
    }
}

/// How many there are that look so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depths {
    /// By depth, from the second on: who looks into no frame need not be counted.
    counts: [usize; 3],
}

impl Depths {
    const COUNTED: [Depth; 3] = [Depth::Ethernet, Depth::Network, Depth::Whole];

    fn count(&mut self, depth: Depth) -> Option<&mut usize> {
        Depths::COUNTED.iter().zip(&mut self.counts).find(|(counted, _)| **counted == depth).map(|(_, count)| count)
    }

    /// One more looks so far.
    pub(crate) fn add(&mut self, depth: Depth) {
        if let Some(count) = self.count(depth) {
            *count += 1;
        }
    }

    /// One less.
    pub(crate) fn take(&mut self, depth: Depth) {
        if let Some(count) = self.count(depth) {
            *count -= 1;
        }
    }

    /// How far the one looks that looks furthest.
    pub(crate) fn deepest(&self) -> Depth {
        let looks = Depths::COUNTED.into_iter().zip(self.counts).filter(|(_, count)| *count > 0);
        Depth::deepest(looks.map(|(depth, _)| depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_counts_until_the_last_is_gone() {
        let mut depths = Depths::default();
        assert_eq!(depths.deepest(), Depth::Port);
        for depth in [Depth::Network, Depth::Port, Depth::Whole, Depth::Whole] {
            depths.add(depth);
        }
        let deepest = [Depth::Whole, Depth::Whole, Depth::Network].map(|depth| {
            depths.take(depth);
            depths.deepest()
        });
        assert_eq!(deepest, [Depth::Whole, Depth::Network, Depth::Port]);
    }
}
