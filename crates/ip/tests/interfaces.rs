//! Interfaces against their slow twin: a list that is searched from end to end.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use weir_ip::tags::FRONT_LEN;
use weir_ip::{Entered, Fresh, Front, InterfaceId, Interfaces, NO_INTERFACE, Port, Refused, Tag, Tags};
use weir_mem::Domain;
use weir_wire::MacAddr;

const PORTS: [(u16, u8); 2] = [(3, 0), (7, 1)];

fn mac(index: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, index as u8])
}

fn ports() -> Vec<Port> {
    let port = |(index, _): (u16, u8)| Port {
        name: format!("p{index}"),
        index,
        mac: mac(index),
        mtu: 1500,
        tag_room: 8,
        link: true,
    };
    PORTS.into_iter().map(port).collect()
}

fn interfaces(limit: u16, domain: &Domain) -> Interfaces {
    let mut interfaces = Interfaces::new(limit, 10, domain).unwrap();
    interfaces.set_ports(ports());
    interfaces
}

fn fresh(name: String, port: Option<u8>, tags: Tags) -> Fresh {
    Fresh { name, port, tags, vrf: 0, mtu: None, enabled: true, tunnel: None }
}

fn tags(list: &[(u16, u16)]) -> Tags {
    Tags::of(list.iter().map(|&tag| Tag::from(tag)))
}

/// A frame for a port, behind these words.
fn frame(index: u16, words: &[u16]) -> [u8; FRONT_LEN] {
    let mut frame = [0; FRONT_LEN];
    frame[..6].copy_from_slice(&mac(index).0);
    for (place, word) in frame[12..].chunks_mut(2).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    frame
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Tags),
    Remove(usize),
    Disable(usize),
}

/// Few values, so that they meet.
fn any_tags() -> impl Strategy<Value = Tags> {
    let tag = (prop::sample::select(vec![0x8100u16, 0x88a8, 0x1234]), 1u16..4);
    prop::collection::vec(tag, 0..3).prop_map(|list| tags(&list))
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..2, any_tags()).prop_map(|(port, tags)| Step::Add(port, tags)),
        1 => (0usize..8).prop_map(Step::Remove),
        1 => (0usize..8).prop_map(Step::Disable),
    ]
}

/// An interface as the twin knows it.
#[derive(Clone, Debug)]
struct Known {
    id: InterfaceId,
    port: u8,
    tags: Tags,
    enabled: bool,
}

/// What a frame belongs to by a search of the list.
fn twin(list: &[Known], tpids: &[u16], index: u16, frame: &[u8; FRONT_LEN]) -> Entered {
    let front = Front::parse(frame, |ethertype| tpids.contains(&ethertype));
    let position = PORTS.iter().find(|(other, _)| *other == index).map(|(_, position)| *position);
    let found = list.iter().find(|known| Some(known.port) == position && known.tags == front.tags);
    Entered {
        interface: found.map_or(NO_INTERFACE, |known| known.id),
        l3: front.l3,
        is_ours: found.is_some_and(|known| known.enabled) && frame[..6] == mac(index).0,
    }
}

proptest! {
    #[test]
    fn frames_belong_where_a_search_finds_them(
        steps in prop::collection::vec(any_step(), 1..40),
        frames in prop::collection::vec(
            (prop::sample::select(vec![3u16, 7, 9]), any::<bool>(), prop::collection::vec(
                prop::sample::select(vec![0x8100u16, 0x88a8, 0x1234, 0x0800, 0, 1, 2, 3, 0xe001]), 5)),
            1..60),
    ) {
        let domain = Domain::new();
        let mut interfaces = interfaces(16, &domain);
        let (mut list, mut tpids): (Vec<Known>, Vec<u16>) = (Vec::new(), vec![0x8100, 0x88a8, 0x9100]);
        for (step, n) in steps.into_iter().zip(0..) {
            match step {
                Step::Add(port, tags) => {
                    let same = list.iter().any(|known| known.port == port && known.tags == tags);
                    match interfaces.add(fresh(format!("i{n}"), Some(port), tags)) {
                        Ok(id) => {
                            prop_assert!(!same && list.len() < 16);
                            tpids.extend([tags.outer().tpid, tags.inner().tpid].into_iter().filter(|tpid| *tpid != 0));
                            list.push(Known { id, port, tags, enabled: true });
                        }
                        Err(Refused::Tags(_)) => prop_assert!(same),
                        Err(Refused::Full(_)) => prop_assert_eq!(list.len(), 16),
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                }
                Step::Remove(which) if which < list.len() => {
                    let gone = list.swap_remove(which);
                    prop_assert_eq!(interfaces.remove(gone.id).unwrap().tags(), gone.tags);
                    interfaces.give_back(gone.id);
                }
                Step::Disable(which) if which < list.len() => {
                    list[which].enabled = false;
                    interfaces.set(list[which].id, None, false);
                }
                Step::Remove(_) | Step::Disable(_) => {}
            }
            prop_assert_eq!(interfaces.len(), list.len());
        }
        for (index, ours, words) in frames {
            let frame = frame(if ours { index } else { 99 }, &words);
            let found = twin(&list, &tpids, index, &frame);
            prop_assert_eq!(interfaces.ingress().enter(index, &frame), found, "{:?}", words);
            prop_assert_eq!(interfaces.ingress().port(index).enter(&frame), found, "{:?}", words);
        }
        for known in &list {
            prop_assert_eq!(interfaces.with_tags(known.port, known.tags).map(|found| found.id), Some(known.id));
        }
        let has = |port| list.iter().any(|known| known.port == port && known.tags != Tags::NONE);
        for (index, position) in PORTS {
            prop_assert_eq!(interfaces.ingress().port_has_tags(index), has(position));
            prop_assert_eq!(interfaces.on_port(index).count(), list.iter().filter(|known| known.port == position).count());
        }
        prop_assert_eq!(interfaces.ingress().has_tags(), has(0) || has(1));
    }
}

#[test]
fn a_number_is_used_again_only_after_readers_have_passed() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut interfaces = interfaces(1, &domain);
    let first = interfaces.add(fresh("one".to_owned(), Some(0), tags(&[(0x8100, 5)]))).unwrap();
    let second = || fresh("two".to_owned(), Some(1), tags(&[(0x8100, 5)]));
    assert_eq!(interfaces.add(second()), Err(Refused::Full(1)));
    interfaces.remove(first);
    reader.quiescent();
    assert_eq!(interfaces.add(second()), Err(Refused::Full(1)), "routes may lead there");
    interfaces.give_back(first);
    assert_eq!(interfaces.add(second()), Err(Refused::Busy));
    reader.quiescent();
    assert_eq!(interfaces.add(second()), Ok(first));
    assert_eq!(interfaces.ingress().enter(3, &frame(3, &[0x8100, 5, 0x0800])).interface, NO_INTERFACE);
    assert_eq!(interfaces.ingress().enter(7, &frame(7, &[0x8100, 5, 0x0800])).interface, first);
}

#[test]
fn packets_leave_by_what_is_up_and_open() {
    let domain = Domain::new();
    let mut interfaces = interfaces(8, &domain);
    let id = interfaces.add(fresh("a.5".to_owned(), Some(1), tags(&[(0x88a8, 5), (0x8100, 6)]))).unwrap();
    let egress = || interfaces_egress(&interfaces, id);
    assert_eq!(egress(), (0, 0), "nobody opened it");
    interfaces.open(id);
    assert_eq!(interfaces_egress(&interfaces, id), (1500, 1));
    interfaces.set_link(7, false);
    interfaces.refresh(id);
    assert!(!interfaces.get(id).unwrap().up);
    interfaces.close(id);
    interfaces.open(id);
    assert_eq!(interfaces_egress(&interfaces, id), (0, 1), "its link is down");
    interfaces.set_link(7, true);
    interfaces.set(id, Some(1400), true);
    interfaces.open(id);
    assert_eq!(interfaces_egress(&interfaces, id), (1400, 1));
    interfaces.set(id, Some(9000), true);
    assert_eq!(interfaces.get(id).unwrap().mtu, 1500, "the port carries no more");
    interfaces.remove(id);
    assert_eq!(interfaces_egress(&interfaces, id), (0, 1));
    assert!(interfaces.is_empty() && interfaces.find("a.5").is_none());
}

/// The longest packet, and the way.
fn interfaces_egress(interfaces: &Interfaces, id: InterfaceId) -> (usize, u8) {
    let shape = interfaces.egress()[usize::from(id)].shape();
    (shape.longest(), shape.way())
}

#[test]
fn tags_without_an_interface_are_remembered() {
    let domain = Domain::new();
    let interfaces = interfaces(8, &domain);
    let ingress = interfaces.ingress();
    assert_eq!(ingress.last_unknown(3), None);
    ingress.note_unknown(3, &frame(3, &[0x88a8, 9, 0x8100, 4, 0x0800]));
    assert_eq!(ingress.last_unknown(3), Some(tags(&[(0x88a8, 9), (0x8100, 4)])));
    assert_eq!(ingress.last_unknown(7), None);
}

#[test]
fn tags_take_from_the_mtu_only_where_the_device_has_no_room() {
    let port = Port { tag_room: 4, ..ports()[0].clone() };
    let most = |list| weir_ip::interfaces::most_mtu(&port, tags(list));
    assert_eq!((most(&[]), most(&[(0x8100, 5)]), most(&[(0x88a8, 5), (0x8100, 5)])), (1500, 1500, 1496));
}
