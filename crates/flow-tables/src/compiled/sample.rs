//! Frames for the flows of a table, by which it is measured how long its code takes.

use weir_codegen::{Code, RESULTS, WINDOW};
use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

use crate::fields::Fields;
use crate::table::FlowTable;

/// A frame as code sees it, and where it came in.
#[derive(Clone, Debug)]
pub struct SampleFrame {
    window: [u8; WINDOW],
    length: usize,
    in_port: u32,
}

/// For each flow a frame that has what it asks for, as far as one of the usual shape can.
pub(super) fn frames(table: &FlowTable) -> Vec<SampleFrame> {
    table.in_order().map(|(_, flow)| SampleFrame::of(&flow.key.sample())).collect()
}

/// How many of them code finds a flow for.
pub(super) fn find_all(code: &Code, frames: &mut [SampleFrame]) -> usize {
    let mut results = [0; RESULTS];
    let found = frames.iter_mut().filter_map(|SampleFrame { window, length, in_port }| {
        let answer = code.run(window, [*length as u64, u64::from(*in_port)], &mut results);
        (answer != super::USUAL).then_some(())
    });
    found.count()
}

impl SampleFrame {
    fn of(fields: &Fields) -> SampleFrame {
        let value = |field: Field| fields.get(field).unwrap_or_default();
        let word = |field: Field| value(field) as u32;
        let address = |field: Field| value(field).to_be_bytes().into_iter().skip(10);
        let mut frame: Vec<u8> = address(Field::EthDst).chain(address(Field::EthSrc)).collect();
        let vid = value(Field::VlanVid);
        if vid & VLAN_PRESENT != 0 {
            let tag = (value(Field::VlanPcp) << 13 | vid & 0xfff) as u16;
            frame.extend([[0x81, 0x00], tag.to_be_bytes()].concat());
        }
        let kind = fields.get(Field::EthType).unwrap_or(0x0800) as u16;
        frame.extend(kind.to_be_bytes());
        let protocol = fields.get(Field::IpProto).unwrap_or(17) as u8;
        let class = (value(Field::IpDscp) << 2 | value(Field::IpEcn)) as u8;
        match kind {
            0x0800 => {
                frame.extend([0x45, class, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0]);
                frame.extend([word(Field::Ipv4Src).to_be_bytes(), word(Field::Ipv4Dst).to_be_bytes()].concat());
            }
            0x86dd => {
                let first = 6 << 28 | u32::from(class) << 20 | word(Field::Ipv6Flabel);
                frame.extend([first.to_be_bytes(), [0, 20, protocol, 64]].concat());
                frame.extend([value(Field::Ipv6Src).to_be_bytes(), value(Field::Ipv6Dst).to_be_bytes()].concat());
            }
            0x0806 => {
                frame.extend([0, 1, 8, 0, 6, 4]);
                frame.extend((value(Field::ArpOp) as u16).to_be_bytes());
                for (hardware, protocol) in [(Field::ArpSha, Field::ArpSpa), (Field::ArpTha, Field::ArpTpa)] {
                    frame.extend(address(hardware).chain(word(protocol).to_be_bytes()));
                }
            }
            _ => {
                let entry = value(Field::MplsLabel) << 12 | value(Field::MplsTc) << 9 | value(Field::MplsBos) << 8;
                frame.extend((entry as u32).to_be_bytes());
            }
        }
        // Of which there is one pair.
        let ports = [[Field::TcpSrc, Field::UdpSrc, Field::SctpSrc], [Field::TcpDst, Field::UdpDst, Field::SctpDst]];
        for fields in ports {
            frame.extend((fields.map(value).into_iter().fold(0, |one, other| one | other) as u16).to_be_bytes());
        }
        let mut window = [0; WINDOW];
        window.iter_mut().zip(&frame).for_each(|(place, byte)| *place = *byte);
        SampleFrame { window, length: frame.len().max(60), in_port: word(Field::InPort) }
    }
}
