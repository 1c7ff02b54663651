//! What it is needed to know of packets, so that flows can be found and carried out.

use weir_openflow::Field;

use crate::depth::Depth;

/// Fields that are asked for, and how far into frames it has to be looked for all that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// A bit for each field, by its number.
    fields: u64,
    pub(crate) depth: Depth,
    /// The hash by which groups choose: fields that a packet does not have are zeroes in it.
    pub(crate) hash: bool,
}

/// Fields that the hash is of.
const HASHED: [Field; 23] = [
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanVid,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::Icmpv4Type,
    Field::Icmpv4Code,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Flabel,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::MplsLabel,
];

impl Needs {
    /// How far it is looked, and nothing else.
    pub(crate) const fn of_depth(depth: Depth) -> Needs {
        Needs { fields: 0, depth, hash: false }
    }

    /// A field.
    pub(crate) const fn of(field: Field) -> Needs {
        Needs { fields: 1 << field.number(), depth: Depth::of(field), hash: false }
    }

    /// The hash by which groups choose.
    pub(crate) fn of_hash() -> Needs {
        let fields = Needs::all(HASHED.into_iter().map(Needs::of));
        Needs { depth: Depth::Whole, hash: true, ..fields }
    }

    /// Both.
    pub(crate) fn and(self, other: Needs) -> Needs {
        Needs { fields: self.fields | other.fields, depth: self.depth.max(other.depth), hash: self.hash || other.hash }
    }

    /// All of them.
    pub(crate) fn all(all: impl Iterator<Item = Needs>) -> Needs {
        all.fold(Needs::default(), Needs::and)
    }

    /// Whether a field is asked for.
    pub(crate) const fn has(&self, field: Field) -> bool {
        self.fields & 1 << field.number() != 0
    }

    /// The fields that are asked for.
    pub(crate) fn fields(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |field| self.has(*field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Fields, select_hash};

    /// The hash is of just these fields.
    #[test]
    fn what_is_hashed_is_needed() {
        let (needs, none) = (Needs::of_hash(), select_hash(&Fields::default()));
        for field in Field::ALL {
            let mut fields = Fields::default();
            fields.set(*field, field.ones());
            // Where a field stands there may stand another one, which packets do not have together.
            let is_hashed = select_hash(&fields) != none;
            assert!(needs.has(*field) || !is_hashed, "{}", field.name());
        }
        assert_eq!(needs.depth, Depth::Whole);
    }
}
