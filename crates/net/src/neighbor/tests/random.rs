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
    let (port, last) = (1u16..3, 0u8..12);
    prop_oneof![
        4 => (port.clone(), last.clone()).prop_map(|(port, last)| Step::Resolve(port, last)),
        2 => (port.clone(), last.clone()).prop_map(|(port, last)| Step::Used(port, last)),
        1 => (port.clone(), last.clone()).prop_map(|(port, last)| Step::Confirm(port, last)),
        6 => (port.clone(), any::<bool>(), last.clone(), last.clone(), 0u8..4)
            .prop_map(|(port, reply, sender, target, mac)| Step::Arp(port, reply, sender, target, mac)),
        1 => (port.clone(), last.clone(), 2u8..6).prop_map(|(port, last, mac)| Step::Static(port, last, mac)),
        1 => (port.clone(), last.clone()).prop_map(|(port, last)| Step::Remove(port, last)),
        1 => (port, any::<bool>()).prop_map(|(port, up)| Step::Link(port, up)),
        4 => prop_oneof![0..2 * SECOND, 0..400 * SECOND].prop_map(Step::Wait),
    ]
}

/// What somebody who only hears the events believes.
#[derive(Default)]
struct Listener {
    known: BTreeMap<(PortId, Ipv4Addr), MacAddr>,
    asked: BTreeMap<(PortId, Ipv4Addr), u64>,
}

impl Listener {
    fn hear(&mut self, now: u64, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Resolved { port, address, mac } => {
                    assert_eq!(self.known.insert((port, address), mac), None);
                }
                Event::Changed { port, address, mac } => {
                    assert!(self.known.insert((port, address), mac).is_some_and(|before| before != mac));
                }
                Event::Failed { port, address } => drop(self.known.remove(&(port, address))),
                Event::Removed { port, address } => {
                    self.known.remove(&(port, address));
                    self.asked.remove(&(port, address));
                }
                Event::Send { port, to, message: arp, kind } => {
                    assert_eq!(
                        to == MacAddr::BROADCAST,
                        !matches!(kind, MessageKind::Reply | MessageKind::Revalidation)
                    );
                    if matches!(kind, MessageKind::Request) {
                        let before = self.asked.insert((port, arp.target), now);
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
        for port in 1..3 {
            table.set_port(port, MacAddr([2, 0, 0, 0, 0, 1]));
            table.add_own(0, Interface::new(port, "10.0.0.1/29".parse().unwrap()).unwrap(), &mut events);
            table.link_up(0, port);
        }
        let ip = |last| Ipv4Addr::new(10, 0, 0, last);
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        for step in steps {
            match step {
                Step::Resolve(port, last) => {
                    let known = listener.known.get(&(port, ip(last))).copied();
                    let resolution = table.resolve(now, port, ip(last), &mut events);
                    match resolution {
                        Resolution::Known(mac) => prop_assert_eq!(Some(mac), known),
                        Resolution::NoPort => {}
                        _ => prop_assert_eq!(known, None),
                    }
                }
                Step::Used(port, last) => table.used(now, port, ip(last), &mut events),
                Step::Confirm(port, last) => table.confirm(now, port, ip(last)),
                Step::Arp(port, reply, sender, target, last) => {
                    let operation = if reply { Operation::Reply } else { Operation::Request };
                    let arp = arp(operation, ip(sender), mac(last), ip(target), mac(1));
                    table.arp_received(now, port, &arp, &mut events);
                }
                Step::Static(port, last, mac_last) => {
                    table.add_static(now, port, ip(last), mac(mac_last), RouteSource::Cli, &mut events);
                }
                Step::Remove(port, last) => drop(table.remove(port, ip(last), &mut events)),
                Step::Link(port, true) => table.link_up(now, port),
                Step::Link(port, false) => table.link_down(port, &mut events),
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
                table.iter().filter_map(|n| Some(((n.port, n.address), n.mac?))).collect();
            prop_assert_eq!(&known, &listener.known);
            prop_assert!(table.len() <= total);
            for port in 1..3 {
                prop_assert!(table.iter().filter(|neighbor| neighbor.port == port).count() <= per_port);
            }
            for neighbor in table.iter() {
                let has_mac = !matches!(neighbor.state, State::Incomplete | State::Failed);
                prop_assert_eq!(neighbor.mac.is_some(), has_mac, "{:?}", neighbor);
            }
            table.assert_consistent();
        }
    }
}
