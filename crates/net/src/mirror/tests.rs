use super::*;
use std::collections::BTreeMap;

fn told(prefix: &str, metric: u32, leads: Leads) -> Told {
    Told { teller: Teller::Kernel, prefix: prefix.parse().unwrap(), metric, leads }
}

fn way(link: u32, gateway: &str) -> Way {
    Way { link, gateway: Some(gateway.parse().unwrap()) }
}

fn by(link: u32) -> Leads {
    Leads::Ways(vec![Way { link, gateway: None }])
}

fn goal(mirror: &Mirror, prefix: &str) -> Option<Goal> {
    mirror.ways(prefix.parse().unwrap(), |_| true)
}

fn on(link: u32) -> Option<Goal> {
    Some(Goal::Ways(vec![Way { link, gateway: None }]))
}

#[test]
fn the_least_metric_wins_and_the_next_takes_over() {
    let mut mirror = Mirror::default();
    mirror.add(&told("10.0.0.0/8", 20, by(2)), false);
    mirror.add(&told("10.0.0.0/8", 10, by(1)), false);
    let daemon = Told { teller: Teller::Daemon, ..told("10.0.0.0/8", 10, by(3)) };
    mirror.add(&daemon, false);
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (3, on(1)), "the kernel's goes before a daemon's");
    mirror.remove(&told("10.0.0.0/8", 10, by(1)));
    assert_eq!(goal(&mirror, "10.0.0.0/8"), on(3));
    mirror.remove(&daemon);
    assert_eq!(goal(&mirror, "10.0.0.0/8"), on(2));
    mirror.remove(&told("10.0.0.0/8", 20, by(2)));
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (0, None));
    mirror.remove(&told("10.0.0.0/8", 20, by(2)));
    assert!(mirror.is_empty() && !mirror.has("10.0.0.0/8".parse().unwrap()));
}

#[test]
fn routes_of_the_same_metric_stand_behind_each_other() {
    let mut mirror = Mirror::default();
    mirror.add(&told("10.0.0.0/8", 0, by(1)), false);
    mirror.add(&told("10.0.0.0/8", 0, by(2)), true);
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (2, on(1)));
    mirror.begin(Teller::Kernel);
    mirror.add_dumped(&told("10.0.0.0/8", 0, by(1)));
    mirror.add_dumped(&told("10.0.0.0/8", 0, by(2)));
    mirror.end(Teller::Kernel);
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (2, on(1)));
    mirror.remove(&told("10.0.0.0/8", 0, by(1)));
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (1, on(2)));
    mirror.add(&told("10.0.0.0/8", 0, by(3)), false);
    assert_eq!((mirror.len(), goal(&mirror, "10.0.0.0/8")), (1, on(3)));
}

#[test]
fn single_ways_come_and_go_in_ipv6() {
    let mut mirror = Mirror::default();
    let (one, two) = (way(1, "fe80::1"), way(2, "fe80::2"));
    mirror.add(&told("2001:db8::/32", 0, Leads::Ways(vec![one, two])), true);
    mirror.remove(&told("2001:db8::/32", 0, Leads::Ways(vec![one])));
    assert_eq!(goal(&mirror, "2001:db8::/32"), Some(Goal::Ways(vec![two])));
    mirror.remove(&told("2001:db8::/32", 0, Leads::Ways(vec![two])));
    assert_eq!(goal(&mirror, "2001:db8::/32"), None);
    assert_eq!(mirror.sets.which(Teller::Kernel, |_| true).count(), 0, "nothing is kept of what is gone");
}

#[test]
fn routes_follow_next_hop_objects_and_groups() {
    let mut mirror = Mirror::default();
    let kernel = Teller::Kernel;
    mirror.set_object(kernel, 1, Some(Object::Way(way(1, "192.0.2.1"))));
    mirror.set_object(kernel, 2, Some(Object::Way(way(2, "192.0.2.2"))));
    mirror.set_object(kernel, 9, Some(Object::Group(vec![1, 2])));
    mirror.add(&told("10.0.0.0/8", 0, Leads::Object(9)), false);
    mirror.add(&told("11.0.0.0/8", 0, Leads::Object(1)), false);
    assert_eq!(goal(&mirror, "10.0.0.0/8"), Some(Goal::Ways(vec![way(1, "192.0.2.1"), way(2, "192.0.2.2")])));
    mirror.take_changed(usize::MAX);
    mirror.set_object(kernel, 2, Some(Object::Way(way(3, "192.0.2.3"))));
    assert_eq!(mirror.take_changed(usize::MAX), ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(goal(&mirror, "10.0.0.0/8"), Some(Goal::Ways(vec![way(1, "192.0.2.1"), way(3, "192.0.2.3")])));
    mirror.set_object(kernel, 1, Some(Object::Blackhole));
    assert_eq!(goal(&mirror, "11.0.0.0/8"), Some(Goal::Discard(Discard::Blackhole)));
    mirror.set_object(kernel, 1, None);
    assert_eq!(goal(&mirror, "11.0.0.0/8"), None);
}

#[test]
fn ways_by_links_that_are_not_there_are_left_out() {
    let mut mirror = Mirror::default();
    mirror.add(&told("10.0.0.0/8", 0, Leads::Ways(vec![way(1, "192.0.2.1"), way(2, "192.0.2.2")])), false);
    let net: IpNet = "10.0.0.0/8".parse().unwrap();
    assert_eq!(mirror.ways(net, |way| way.link == 2), Some(Goal::Ways(vec![way(2, "192.0.2.2")])));
    assert_eq!(mirror.ways(net, |_| false), None);
    mirror.take_changed(usize::MAX);
    mirror.touch_links(&HashSet::from([7]));
    assert!(!mirror.has_changed());
    mirror.touch_links(&HashSet::from([2]));
    assert_eq!(mirror.take_changed(usize::MAX), [net]);
}

#[test]
fn what_a_dump_does_not_tell_goes_at_its_end_and_not_before() {
    let mut mirror = Mirror::default();
    for n in 1..=3 {
        mirror.add(&told(&format!("10.{n}.0.0/16"), 0, by(n)), false);
    }
    mirror.begin(Teller::Kernel);
    mirror.add_dumped(&told("10.1.0.0/16", 0, by(1)));
    // Newer than what the dump says of it behind.
    mirror.add(&told("10.4.0.0/16", 0, by(4)), false);
    mirror.remove(&told("10.3.0.0/16", 0, by(3)));
    mirror.add_dumped(&told("10.3.0.0/16", 0, by(3)));
    mirror.add_dumped(&told("10.4.0.0/16", 0, by(7)));
    assert_eq!(goal(&mirror, "10.2.0.0/16"), on(2), "not told yet is not gone");
    mirror.end(Teller::Kernel);
    let now: Vec<_> = (1..=4).map(|n| goal(&mirror, &format!("10.{n}.0.0/16"))).collect();
    assert_eq!(now, [on(1), None, None, on(4)]);
    assert_eq!(mirror.len(), 2);
}

/// A kernel as it is, and the messages that it would send: what is lost of them a dump makes up for.
#[test]
fn after_a_dump_it_is_the_kernels_table_whatever_was_lost() {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..300 {
        let mut kernel: BTreeMap<(u8, u32), u32> = BTreeMap::new();
        let mut mirror = Mirror::default();
        let step = |kernel: &mut BTreeMap<(u8, u32), u32>,
                    mirror: &mut Mirror,
                    lost: bool,
                    random: &mut dyn FnMut(u64) -> u64| {
            let (net, metric, link) = (random(6) as u8, random(3) as u32, random(4) as u32);
            let prefix = format!("10.{net}.0.0/16");
            if random(3) > 0 {
                kernel.insert((net, metric), link);
                if !lost {
                    mirror.add(&told(&prefix, metric, by(link)), false);
                }
            } else if let Some(link) = kernel.remove(&(net, metric))
                && !lost
            {
                mirror.remove(&told(&prefix, metric, by(link)));
            }
        };
        for _ in 0..40 {
            let lost = random(3) == 0;
            step(&mut kernel, &mut mirror, lost, &mut random);
        }
        mirror.begin(Teller::Kernel);
        // A dump is read route by route while others change; some of it is older than what was told meanwhile.
        let snapshot: Vec<((u8, u32), u32)> = kernel.iter().map(|(key, link)| (*key, *link)).collect();
        for ((net, metric), link) in snapshot {
            for _ in 0..random(3) {
                step(&mut kernel, &mut mirror, false, &mut random);
            }
            mirror.add_dumped(&told(&format!("10.{net}.0.0/16"), metric, by(link)));
        }
        mirror.end(Teller::Kernel);
        assert_eq!(mirror.len(), kernel.len());
        for net in 0..6 {
            let best = kernel.iter().find(|((other, _), _)| *other == net).map(|(_, link)| *link);
            assert_eq!(goal(&mirror, &format!("10.{net}.0.0/16")), best.and_then(on));
        }
    }
}

#[test]
fn a_prefix_waits_once_however_often_it_changes() {
    let mut mirror = Mirror::default();
    let taken = |mirror: &mut Mirror| mirror.take_changed(99).iter().map(ToString::to_string).collect::<Vec<_>>();
    let object = |id| Told { teller: Teller::Daemon, ..told("10.0.0.0/8", 0, Leads::Object(id)) };
    for n in 0..100 {
        mirror.set_object(Teller::Daemon, 7, Some(Object::Way(Way { link: n, gateway: None })));
        mirror.add(&object(7), false);
        mirror.touch_all();
        mirror.touch_prefix("10.0.0.0/8".parse().unwrap());
    }
    assert_eq!((mirror.changes(), taken(&mut mirror)), (1, vec!["10.0.0.0/8".to_owned()]));
    assert_eq!(goal(&mirror, "10.0.0.0/8"), on(99));
    assert!(!mirror.has_changed());
    mirror.set_object(Teller::Daemon, 7, Some(Object::Blackhole));
    assert_eq!(taken(&mut mirror), ["10.0.0.0/8"], "it may wait again");
    // One that goes while it waits is told once, as gone.
    mirror.touch_all();
    mirror.remove(&object(7));
    assert_eq!((taken(&mut mirror), goal(&mirror, "10.0.0.0/8")), (vec!["10.0.0.0/8".to_owned()], None));
    mirror.touch_prefix("10.0.0.0/8".parse().unwrap());
    assert_eq!(taken(&mut mirror).len(), 1, "one that nobody has is asked for too");
}
