//! Random treatment: what the events tell is what the table holds.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Resolve(u16, u8),
    Used(u16, u8),
    Confirm(u16, u8),
    Arp(u16, bool, u8, u8, u8),
    Static(u16, u8, u8),
    Remove(u16, u8),
    Link(u16, bool),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    let (interface, last) = (1u16..3, 0u8..12);
    prop_oneof![
        4 => (interface.clone(), last.clone()).prop_map(|(interface, last)| Step::Resolve(interface, last)),
        2 => (interface.clone(), last.clone()).prop_map(|(interface, last)| Step::Used(interface, last)),
        1 => (interface.clone(), last.clone()).prop_map(|(interface, last)| Step::Confirm(interface, last)),
        6 => (interface.clone(), any::<bool>(), last.clone(), last.clone(), 0u8..4)
            .prop_map(|(interface, reply, sender, target, mac)| Step::Arp(interface, reply, sender, target, mac)),
        1 => (interface.clone(), last.clone(), 2u8..6).prop_map(|(interface, last, mac)| Step::Static(interface, last, mac)),
        1 => (interface.clone(), last.clone()).prop_map(|(interface, last)| Step::Remove(interface, last)),
        1 => (interface, any::<bool>()).prop_map(|(interface, up)| Step::Link(interface, up)),
        4 => prop_oneof![0..2 * SECOND, 0..400 * SECOND].prop_map(Step::Wait),
    ]
}

/// What somebody who only hears the events believes.
#[derive(Default)]
struct Listener {
    known: BTreeMap<(InterfaceId, Ipv4Addr), MacAddr>,
    asked: BTreeMap<(InterfaceId, Ipv4Addr), u64>,
}

impl Listener {
    fn hear(&mut self, now: u64, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Resolved { interface, address, mac } => {
                    assert_eq!(self.known.insert((interface, address), mac), None);
                }
                Event::Changed { interface, address, mac } => {
                    assert!(self.known.insert((interface, address), mac).is_some_and(|before| before != mac));
                }
                Event::Failed { interface, address } => drop(self.known.remove(&(interface, address))),
                Event::Removed { interface, address } => {
                    self.known.remove(&(interface, address));
                    self.asked.remove(&(interface, address));
                }
                Event::Send { interface, to, message: arp, kind } => {
                    assert_eq!(
                        to == MacAddr::BROADCAST,
                        !matches!(kind, MessageKind::Reply | MessageKind::Revalidation)
                    );
                    if matches!(kind, MessageKind::Request) {
                        let before = self.asked.insert((interface, arp.target), now);
                        assert!(before.is_none_or(|before| now - before >= SECOND), "at most 1 broadcast per second");
                    }
                }
                Event::OwnAddress { .. } => panic!("{event:?}"),
                Event::DuplicateAddress { address, .. } => assert_eq!(address.octets()[3], 1),
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_events_tell_the_whole_truth_and_limits_hold(
        steps in proptest::collection::vec(steps(), 1..120), per_port in 1usize..8, total in 1usize..10,
    ) {
        let mut table = Neighbors::new(Timing::default(), Limits { per_port, total, ..Limits::default() });
        let (mut events, mut listener, mut now) = (Vec::new(), Listener::default(), 0);
        for interface in 1..3 {
            table.set_port(interface, MacAddr([2, 0, 0, 0, 0, 1]));
            table.add_own(0, InterfaceAddress::new(interface, "10.0.0.1/29".parse().unwrap()).unwrap(), &mut events);
            table.link_up(0, interface);
        }
        let ip = |last| Ipv4Addr::new(10, 0, 0, last);
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        for step in steps {
            match step {
                Step::Resolve(interface, last) => {
                    let known = listener.known.get(&(interface, ip(last))).copied();
                    let resolution = table.resolve(now, interface, ip(last), &mut events);
                    match resolution {
                        Resolution::Known(mac) => prop_assert_eq!(Some(mac), known),
                        Resolution::NoPort => {}
                        _ => prop_assert_eq!(known, None),
                    }
                }
                Step::Used(interface, last) => table.used(now, interface, ip(last), &mut events),
                Step::Confirm(interface, last) => table.confirm(now, interface, ip(last)),
                Step::Arp(interface, reply, sender, target, last) => {
                    let operation = if reply { Operation::Reply } else { Operation::Request };
                    let arp = arp(operation, ip(sender), mac(last), ip(target), mac(1));
                    table.arp_received(now, interface, &arp, &mut events);
                }
                Step::Static(interface, last, mac_last) => {
                    table.add_static(now, interface, ip(last), mac(mac_last), RouteSource::Cli, &mut events);
                }
                Step::Remove(interface, last) => drop(table.remove(interface, ip(last), &mut events)),
                Step::Link(interface, true) => table.link_up(now, interface),
                Step::Link(interface, false) => table.link_down(interface, &mut events),
                Step::Wait(time) => {
                    let end = now + time;
                    while let Some(at) = table.next_deadline().filter(|&at| at <= end) {
                        now = now.max(at);
                        table.timer(now, &mut events);
                        listener.hear(now, &mut events);
                    }
                    now = end;
                }
            }
            listener.hear(now, &mut events);
            let known: BTreeMap<_, _> =
                table.iter().filter_map(|n| Some(((n.interface, n.address), n.mac?))).collect();
            prop_assert_eq!(&known, &listener.known);
            prop_assert!(table.len() <= total);
            for interface in 1..3 {
                prop_assert!(table.iter().filter(|neighbor| neighbor.interface == interface).count() <= per_port);
            }
            for neighbor in table.iter() {
                let has_mac = !matches!(neighbor.state, State::Incomplete | State::Failed);
                prop_assert_eq!(neighbor.mac.is_some(), has_mac, "{:?}", neighbor);
            }
            table.assert_consistent();
        }
    }
}
