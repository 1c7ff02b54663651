//! Floods from one link, and who is there all the same.

use super::*;

/// A scan of a /64, at 65,536 addresses a second: those who have not answered are bounded, and nobody else makes room.
#[test]
fn a_scan_of_a_network_disturbs_nobody_who_is_there() {
    let limits = Limits::for_ipv6();
    let mut lab = Lab6::with(Timing::for_ipv6(), limits);
    let host = |n: u64| Ipv6Addr::from_bits(ME6.to_bits() + 0x10_0000 + u128::from(n));
    // Half of the neighbours were found before; they grow stale, and stay.
    for n in 0..100 {
        lab.table.resolve(lab.now, 1, host(n), &mut lab.events);
        let flags = Flags { router: false, solicited: true, over: true };
        let body = Body::Advertisement { target: host(n), link: Some(HOST), flags };
        lab.hear(HOST, Message { source: host(n), destination: ME6, body });
    }
    lab.wait(40 * SECOND);
    let mut removed = 0;
    for n in 0..4 * 65_536_u64 {
        lab.table.resolve(lab.now, 1, host(1_000_000 + n), &mut lab.events);
        if n % 64 == 0 {
            lab.now += SECOND / 1024;
            lab.table.timer(lab.now, &mut lab.events);
        }
        // One that is there answers within a millisecond.
        if n % 1000 == 0 {
            let (address, mac) = (host(500_000 + n), OTHER);
            assert_eq!(lab.table.resolve(lab.now, 1, address, &mut lab.events), Resolution::Pending);
            let flags = Flags { router: false, solicited: true, over: true };
            let body = Body::Advertisement { target: address, link: Some(mac), flags };
            lab.table.nd_received(
                lab.now,
                1,
                mac,
                &Message { source: address, destination: ME6, body },
                &mut lab.events,
            );
            assert_eq!(lab.table.resolve(lab.now, 1, address, &mut lab.events), Resolution::Known(mac));
        }
        removed += lab.events.drain(..).filter(|event| matches!(event, Event::Removed { .. })).count();
        assert!(lab.table.len() <= limits.per_port);
    }
    assert!(removed > 4 * 65_536 - 2 * limits.incomplete);
    for n in 0..100 {
        assert_eq!(lab.table.get(1, host(n)).map(|neighbor| neighbor.mac), Some(Some(HOST)), "{n}");
    }
    lab.table.assert_consistent();
}

/// One station speaks under 65,536 names a second: those who have answered once stay, be they used or not.
#[test]
fn a_flood_of_sources_disturbs_nobody_who_answered() {
    let limits = Limits { per_port: 1_000, ..Limits::for_ipv6() };
    let mut lab = Lab6::with(Timing::for_ipv6(), limits);
    let host = |n: u64| Ipv6Addr::from_bits(ME6.to_bits() + 0x10_0000 + u128::from(n));
    for n in 0..100 {
        lab.table.resolve(lab.now, 1, host(n), &mut lab.events);
        let flags = Flags { router: false, solicited: true, over: true };
        let body = Body::Advertisement { target: host(n), link: Some(HOST), flags };
        lab.hear(HOST, Message { source: host(n), destination: ME6, body });
    }
    lab.wait(40 * SECOND);
    for n in 0..2 * 65_536 {
        lab.table.nd_received(lab.now, 1, OTHER, &asked(host(1_000_000 + n), ME6, Some(OTHER)), &mut lab.events);
        lab.events.clear();
        lab.now += SECOND / 65_536;
    }
    assert_eq!(lab.table.len(), 1_000);
    for n in 0..100 {
        assert_eq!(lab.table.resolve(lab.now, 1, host(n), &mut lab.events), Resolution::Known(HOST), "{n}");
    }
    lab.table.assert_consistent();
}
