//! Matches, actions and instructions as people read them: nearly as `ovs-ofctl` writes them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::action::Action;
use crate::field::Field;
use crate::instruction::Instruction;
use crate::oxm::{Match, Oxm};
use crate::port::number;

/// A value of a field, or a mask.
fn value(f: &mut fmt::Formatter<'_>, field: Field, value: u128) -> fmt::Result {
    match field {
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
            write!(f, "{}", Ipv4Addr::from_bits(value as u32))
        }
        Field::EthType | Field::VlanVid | Field::Ipv6Exthdr => write!(f, "{value:#06x}"),
        _ if field.bits() == 128 => write!(f, "{}", Ipv6Addr::from_bits(value)),
        _ if field.bits() == 48 => {
            let [.., a, b, c, d, e, g] = value.to_be_bytes();
            write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
        }
        Field::Metadata | Field::TunnelId | Field::Ipv6Flabel => write!(f, "{value:#x}"),
        _ => write!(f, "{value}"),
    }
}

/// The length of the prefix of an IP address that a mask leaves, if it is that of one.
fn prefix(field: Field, mask: u128) -> Option<u32> {
    let is_address =
        field.bits() == 128 || matches!(field, Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa);
    let length = mask.count_ones();
    let of_length = field.ones() & !field.ones().checked_shr(length).unwrap_or(0);
    (is_address && mask == of_length).then_some(length)
}

impl fmt::Display for Oxm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.field.name())?;
        value(f, self.field, self.value)?;
        match self.mask.map(|mask| (mask, prefix(self.field, mask))) {
            None => Ok(()),
            Some((_, Some(length))) => write!(f, "/{length}"),
            Some((mask, None)) => {
                f.write_str("/")?;
                value(f, self.field, mask)
            }
        }
    }
}

/// Writes things with commas between them.
fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, all: &[T]) -> fmt::Result {
    for (at, one) in all.iter().enumerate() {
        write!(f, "{}{one}", if at == 0 { "" } else { "," })?;
    }
    Ok(())
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.fields())
    }
}

/// A port, by its number or by the meaning of that.
fn port(port: u32) -> String {
    let name = match port {
        number::IN_PORT => "IN_PORT",
        number::TABLE => "TABLE",
        number::NORMAL => "NORMAL",
        number::FLOOD => "FLOOD",
        number::ALL => "ALL",
        number::CONTROLLER => "CONTROLLER",
        number::LOCAL => "LOCAL",
        number::ANY => "ANY",
        other => return format!("output:{other}"),
    };
    name.to_owned()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Output { port: to, max_len } if *to == number::CONTROLLER => write!(f, "CONTROLLER:{max_len}"),
            Action::Output { port: to, .. } => f.write_str(&port(*to)),
            Action::CopyTtlOut => f.write_str("copy_ttl_out"),
            Action::CopyTtlIn => f.write_str("copy_ttl_in"),
            Action::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl:{ttl}"),
            Action::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Action::PushVlan(kind) => write!(f, "push_vlan:{kind:#06x}"),
            Action::PopVlan => f.write_str("pop_vlan"),
            Action::PushMpls(kind) => write!(f, "push_mpls:{kind:#06x}"),
            Action::PopMpls(kind) => write!(f, "pop_mpls:{kind:#06x}"),
            Action::SetQueue(queue) => write!(f, "set_queue:{queue}"),
            Action::Group(group) => write!(f, "group:{group}"),
            Action::SetNwTtl(ttl) => write!(f, "set_nw_ttl:{ttl}"),
            Action::DecNwTtl => f.write_str("dec_ttl"),
            Action::SetField(oxm) => {
                f.write_str("set_field:")?;
                value(f, oxm.field, oxm.value)?;
                write!(f, "->{}", oxm.field.name())
            }
            Action::PushPbb(kind) => write!(f, "push_pbb:{kind:#06x}"),
            Action::PopPbb => f.write_str("pop_pbb"),
            Action::Experimenter { experimenter, .. } => write!(f, "experimenter:{experimenter:#x}"),
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions = |f: &mut fmt::Formatter<'_>, name, actions: &[Action]| {
            write!(f, "{name}(")?;
            list(f, actions)?;
            f.write_str(")")
        };
        match self {
            Instruction::GotoTable(table) => write!(f, "goto_table:{table}"),
            Instruction::WriteMetadata { metadata, mask } => write!(f, "write_metadata:{metadata:#x}/{mask:#x}"),
            Instruction::WriteActions(all) => actions(f, "write_actions", all),
            Instruction::ApplyActions(all) => actions(f, "apply_actions", all),
            Instruction::ClearActions => f.write_str("clear_actions"),
            Instruction::Meter(meter) => write!(f, "meter:{meter}"),
            Instruction::Experimenter { experimenter, .. } => write!(f, "experimenter:{experimenter:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_written_as_people_read_them() {
        let fields = [
            Oxm::exact(Field::InPort, 3),
            Oxm::masked(Field::EthDst, 0x0100_0000_0000, 0x0100_0000_0000),
            Oxm::exact(Field::EthType, 0x0800),
            Oxm::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000),
            Oxm::masked(Field::Ipv4Dst, 0x0a00_0001, 0xff00_00ff),
        ];
        let text = "in_port=3,eth_dst=01:00:00:00:00:00/01:00:00:00:00:00,eth_type=0x0800,ipv4_src=10.0.0.0/8,\
                    ipv4_dst=10.0.0.1/255.0.0.255";
        assert_eq!(Match::new(fields.to_vec()).unwrap().to_string(), text);
        let six = Oxm::masked(Field::Ipv6Src, 0x2001_0db8 << 96, u128::MAX << 96);
        assert_eq!(six.to_string(), "ipv6_src=2001:db8::/32");
        assert_eq!(Oxm::masked(Field::Ipv6Src, 0, u128::MAX).to_string(), "ipv6_src=::/128");
        assert_eq!(Oxm::masked(Field::VlanVid, 0x1000, 0x1000).to_string(), "vlan_vid=0x1000/0x1000");
    }

    #[test]
    fn instructions_are_written_as_people_read_them() {
        let out = |port| Action::Output { port, max_len: 65_535 };
        let set = Action::SetField(Oxm::exact(Field::EthSrc, 0x0200_0000_0009));
        let all = [
            (
                Instruction::ApplyActions(vec![set, Action::DecNwTtl, out(2)]),
                "apply_actions(set_field:02:00:00:00:00:09->eth_src,dec_ttl,output:2)",
            ),
            (
                Instruction::WriteActions(vec![out(number::CONTROLLER), out(number::FLOOD)]),
                "write_actions(CONTROLLER:65535,FLOOD)",
            ),
            (Instruction::WriteMetadata { metadata: 5, mask: 0xff }, "write_metadata:0x5/0xff"),
            (Instruction::GotoTable(4), "goto_table:4"),
        ];
        for (instruction, text) in all {
            assert_eq!(instruction.to_string(), text);
        }
    }
}
