//! Ports that functions share, against a list that is searched from end to end.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use proptest::prelude::*;
use weir_ip::{Demultiplex, Fresh, Interfaces, Port, Tag, Tags, infos_of, tags_of};
use weir_mem::Domain;
use weir_stage::InterfaceSet;
use weir_stage::harness::Harness;
use weir_wire::MacAddr;

/// The index of the port by which a harness's packets come in.
const PORT: u16 = 0;

/// A function with a port of this index.
fn function(domain: &Domain) -> Interfaces {
    let mut interfaces = Interfaces::new(64, 4, domain).unwrap();
    let port = |index: u16| Port {
        name: format!("p{index}"),
        index,
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        tag_room: 8,
        link: true,
    };
    // On different positions of different functions: what counts is the index.
    interfaces.set_ports(vec![port(3), port(PORT)]);
    interfaces
}

fn add(interfaces: &mut Interfaces, tags: Tags) -> u16 {
    let name = format!("{tags}");
    interfaces.add(Fresh { name, port: Some(1), tags, vrf: 0, mtu: None, enabled: true, tunnel: None }).unwrap()
}

fn tags(list: &[(u16, u16)]) -> Tags {
    Tags::of(list.iter().map(|&tag| Tag::from(tag)))
}

/// A frame with these tags, whose last byte is a number.
fn frame(list: &[(u16, u16)], number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    for (tpid, vlan) in list {
        frame.extend(tpid.to_be_bytes());
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    frame.resize(60, 0);
    frame.push(number);
    frame
}

type List = Vec<(u16, u16)>;

fn any_tags() -> impl Strategy<Value = List> {
    prop::collection::vec((prop::sample::select(vec![0x8100u16, 0x88a8]), 1u16..5), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_packet_goes_to_the_function_that_has_the_interface(
        owned in prop::collection::btree_map(any_tags(), 0usize..3, 0..12),
        frames in prop::collection::vec(any_tags(), 1..64),
    ) {
        let domain = Domain::new();
        let mut functions: Vec<Interfaces> = (0..3).map(|_| function(&domain)).collect();
        for (list, owner) in &owned {
            add(&mut functions[*owner], tags(list));
        }
        let sets: Vec<Arc<dyn InterfaceSet>> =
            functions.iter().map(|interfaces| Arc::clone(interfaces.ingress()) as Arc<dyn InterfaceSet>).collect();
        for (list, owner) in &owned {
            for (number, set) in sets.iter().enumerate() {
                prop_assert_eq!(set.has(PORT, &infos_of(tags(list))), number == *owner);
                prop_assert!(!set.has(3, &infos_of(tags(list))), "another port");
            }
        }
        let frames: Vec<Vec<u8>> = (0..).zip(&frames).map(|(number, list)| frame(list, number)).collect();
        let outcome = Harness::new(Demultiplex::new(sets)).run(0, &frames);
        for number in 0..3 {
            let way = if number == 0 { "first".to_owned() } else { format!("function[{number}]") };
            let theirs: Vec<Vec<u8>> = frames.iter().filter(|frame| {
                let front = weir_ip::Front::parse(frame.first_chunk().unwrap(), |kind| matches!(kind, 0x8100 | 0x88a8));
                let owner = owned.iter().find(|(list, _)| tags(list) == front.tags).map_or(0, |(_, owner)| *owner);
                owner == number
            }).cloned().collect();
            prop_assert_eq!(outcome.way(&way), &theirs[..], "{}", way);
        }
    }
}

#[test]
fn an_interface_that_moves_takes_its_packets_along() {
    let domain = Domain::new();
    let (mut one, mut other) = (function(&domain), function(&domain));
    let sets = [&one, &other].map(|it| Arc::clone(it.ingress()) as Arc<dyn InterfaceSet>);
    let mut harness = Harness::new(Demultiplex::new(sets.to_vec()));
    let packet = frame(&[(0x8100, 7)], 0);
    let mut goes_to = |way: &str| assert_eq!(harness.run(0, std::slice::from_ref(&packet)).way(way).len(), 1, "{way}");
    goes_to("first");
    let id = add(&mut other, tags(&[(0x8100, 7)]));
    goes_to("function[1]");
    // One that is down keeps its packets, which are dropped by name there.
    other.set(id, None, false);
    goes_to("function[1]");
    other.remove(id);
    goes_to("first");
    add(&mut one, tags_of(&infos_of(tags(&[(0x8100, 7)]))));
    goes_to("first");
}
