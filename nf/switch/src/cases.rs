//! What `weir bench cpp switch` measures: tables as they are known from other switches' measurements, and the [router](paper) of one of them.

mod paper;
pub(crate) mod yardstick;

use std::net::Ipv4Addr;

use weir_flow_tables::Switch;
use weir_flow_tables::agent::FailMode;
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::oxm::VLAN_PRESENT;
use weir_openflow::port::number;
use weir_openflow::{Action, Error, Field, Instruction, Match, Oxm};
use weir_stage::case::{Chosen, FRAME, HEADER, Prepare, Traffic};
use weir_stage::{Case, Instance, Random};
use weir_wire::build::UdpFrame;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, validity};

use crate::function::Running;

/// Frames in a round of the cases with random packets.
const FRAMES: u64 = 1_000_000;

/// Next hops of the router of [`paper`].
const NEXT_HOPS: u32 = 194;

/// The station that everything is sent on to; those of next hops have the numbers behind it.
const NEXT: u64 = 0x0200_0001_0000;

/// A VLAN for cases with tags.
const VLAN: u16 = 10;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut all = plain();
    all.extend(paper::all());
    all
}

fn plain() -> Vec<Case> {
    vec![
        Case {
            knobs: &[FRAME],
            ..case("port-to-port", "UDP packets from port to port, by one flow", |i, _, chosen| {
                port_to_port(i, 2, chosen)
            })
        },
        without_code("port-to-port-usual", "the same without machine code", |i, _, chosen| port_to_port(i, 2, chosen)),
        case("flood", "port-to-port by a flow that floods, to the only other port", |i, _, chosen| {
            port_to_port(i, number::FLOOD, chosen)
        }),
        case("select", "port-to-port by a group that chooses one of four buckets by the packet's hash", |i, _, _| {
            select(i)
        }),
        case("set-field", "one flow sets destination and port of UDP packets, with their checksums", |i, _, _| {
            set_field(i)
        }),
        without_code("set-field-usual", "the same without machine code", |i, _, _| set_field(i)),
        case("push-vlan", "one flow pushes a VLAN tag", |i, _, _| push_vlan(i)),
        without_code("push-vlan-usual", "the same without machine code", |i, _, _| push_vlan(i)),
        case("stations-100", "by two tables of 100 Ethernet addresses, sources and destinations", |i, _, _| {
            stations(i)
        }),
        case("hosts-1k", "a flow for each of 1,000 IPv4 addresses, packets to all at random", |i, _, _| {
            hosts(i, 1_000)
        }),
        case("hosts-1m", "the same with a million", |i, _, _| hosts(i, 1_000_000)),
        case(
            "prefix-1",
            "one prefix: new addresses, one off the TTL; packets of one sender to one address",
            |i, _, _| prefixes(i, &[(10 << 24, 8)], 1),
        ),
        without_code("prefix-1-usual", "the same without machine code", |i, _, _| prefixes(i, &[(10 << 24, 8)], 1)),
        case("prefix-1k", "one prefix, packets to 1,000 addresses", |i, _, _| prefixes(i, &[(10 << 24, 8)], 1_000)),
        case("prefix-100k", "one prefix, packets to 100,000 addresses", |i, _, _| {
            prefixes(i, &[(10 << 24, 8)], 100_000)
        }),
        case("prefixes-100", "100 prefixes, packets to 25,600 addresses", |i, _, _| prefixes(i, &table(100), 25_600)),
        case(
            "prefix-10k",
            "10,000 prefixes of the lengths of a real table, packets to a million addresses",
            |i, _, _| prefixes(i, &table(10_000), FRAMES),
        ),
        case(
            "rules-1k",
            "1,000 rules over addresses, protocol and port, of which each packet matches one at random",
            |i, _, _| rules(i, 1_000),
        ),
        case("rules-10k", "the same with 10,000 rules", |i, _, _| rules(i, 10_000)),
    ]
}

fn case(name: &'static str, help: &'static str, prepare: Prepare) -> Case {
    with(name, help, true, prepare)
}

/// A case that shows what machine code is good for.
fn without_code(name: &'static str, help: &'static str, prepare: Prepare) -> Case {
    with(name, help, false, prepare)
}

fn with(name: &'static str, help: &'static str, compile: bool, prepare: Prepare) -> Case {
    let script =
        format!("switch {{ ports = {{ \"in\", \"out\" }}, compile = {compile}, limits = {{ flows = 1000000 }} }}");
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

/// Fills the tables of a switch that no controller drives.
fn fill(instance: &dyn Instance, fill: impl FnOnce(&mut Switch) -> Result<(), Error>) -> Result<(), String> {
    let running = instance.downcast_ref::<Running>().ok_or("it is no switch")?;
    let mut core = running.shared.core();
    core.set_ports(running.ports(), 0);
    core.agent.set_fail_mode(FailMode::Secure);
    fill(&mut core.agent.switch).map_err(|error| error.to_string())?;
    drop(core);
    // As the control side would.
    running.shared.compile();
    Ok(())
}

fn add(
    switch: &mut Switch,
    table: u8,
    priority: u16,
    fields: Vec<Oxm>,
    instructions: Vec<Instruction>,
) -> Result<(), Error> {
    switch.flow_mod(&FlowMod::add(table, priority, Match::new(fields)?, instructions), 0).map(drop)
}

fn to(port: u32) -> Action {
    Action::Output { port, max_len: 0 }
}

/// What a router does to a packet for the next hop of a number.
fn route(next_hop: u32) -> Vec<Action> {
    let set = |field, station: u64| Action::SetField(Oxm::exact(field, station.into()));
    vec![Action::DecNwTtl, set(Field::EthSrc, NEXT - 1), set(Field::EthDst, NEXT + u64::from(next_hop)), to(2)]
}

/// The fields of packets to a prefix.
fn to_prefix((address, length): (u32, u32)) -> Vec<Oxm> {
    let destination = Oxm::masked(Field::Ipv4Dst, address.into(), mask(length).into());
    vec![Oxm::exact(Field::EthType, 0x0800), destination]
}

fn mask(length: u32) -> u32 {
    !u32::MAX.checked_shr(length).unwrap_or(0)
}

fn port_to_port(instance: &dyn Instance, port: u32, chosen: &Chosen) -> Result<Traffic, String> {
    fill(instance, |switch| {
        let forward = vec![Instruction::ApplyActions(vec![to(port)])];
        add(switch, 0, 1, vec![Oxm::exact(Field::InPort, 1)], forward)
    })?;
    if chosen.frame_len() == LEAST {
        return Ok(Traffic::plain());
    }
    let length = chosen.frame_len();
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| write(UdpFrame::default(), 0, length, bytes);
    let mut sent = [0; HEADER];
    write(UdpFrame::default(), 0, length, &mut sent);
    let check = move |bytes: &[u8]| match bytes.len() == length && bytes.get(12..64) == sent.get(12..64) {
        true => Ok(()),
        false => Err(format!("{} bytes came out that are not those that went in", bytes.len())),
    };
    Ok(Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) })
}

/// Bytes of the shortest frame without its check sequence.
const LEAST: usize = 60;

fn select(instance: &dyn Instance) -> Result<Traffic, String> {
    fill(instance, |switch| {
        let bucket = || Bucket { weight: 1, watch_port: group::ANY, watch_group: group::ANY, actions: vec![to(2)] };
        let buckets = (0..4).map(|_| bucket()).collect();
        switch.group_mod(&GroupMod { command: GroupCommand::Add, kind: GroupKind::Select, group: 1, buckets }, 0)?;
        let by_group = vec![Instruction::WriteActions(vec![Action::Group(1)])];
        add(switch, 0, 1, vec![Oxm::exact(Field::InPort, 1)], by_group)
    })?;
    Ok(Traffic::plain())
}

/// Packets of one kind, which one flow changes, and a check of what comes out.
fn changed(
    instance: &dyn Instance,
    asked: Vec<Oxm>,
    actions: Vec<Action>,
    check: impl Fn(&[u8]) -> Result<(), String> + Send + Sync + 'static,
) -> Result<Traffic, String> {
    fill(instance, |switch| {
        let actions = actions.into_iter().chain([to(2)]).collect();
        add(switch, 0, 1, asked, vec![Instruction::ApplyActions(actions)])
    })?;
    let frame = |_: u64, bytes: &mut [u8; HEADER]| write(UdpFrame::default(), 0, LEAST, bytes);
    Ok(Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) })
}

fn set_field(instance: &dyn Instance) -> Result<Traffic, String> {
    const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
    let asked = vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpProto, 17)];
    let set = |field, value: u32| Action::SetField(Oxm::exact(field, value.into()));
    changed(instance, asked, vec![set(Field::Ipv4Dst, TO.to_bits()), set(Field::UdpDst, 4789)], |bytes| {
        let (_, packet) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
        validity::check_slice(packet).map_err(|defect| format!("a packet came out that is not valid: {defect}"))?;
        let (to, port) = (packet.get(16..20), packet.get(22..24));
        if to == Some(&TO.octets()[..]) && port == Some(&4789_u16.to_be_bytes()[..]) {
            Ok(())
        } else {
            Err(format!("a packet came out for {to:?}, port {port:?}"))
        }
    })
}

fn push_vlan(instance: &dyn Instance) -> Result<Traffic, String> {
    let vid = Action::SetField(Oxm::exact(Field::VlanVid, VLAN_PRESENT | u128::from(VLAN)));
    let asked = vec![Oxm::exact(Field::InPort, 1)];
    changed(instance, asked, vec![Action::PushVlan(0x8100), vid], |bytes| match bytes.get(12..18) {
        Some([0x81, 0x00, 0x00, vid, 0x08, 0x00]) if u16::from(*vid) == VLAN && bytes.len() == 64 => Ok(()),
        other => Err(format!("{} bytes came out with {other:x?} behind their addresses", bytes.len())),
    })
}

/// A table of 100 sources, which leads to one of 100 destinations; packets between any two.
fn stations(instance: &dyn Instance) -> Result<Traffic, String> {
    const STATIONS: u64 = 100;
    fill(instance, |switch| {
        add(switch, 0, 1, vec![Oxm::exact(Field::InPort, 1)], vec![Instruction::GotoTable(1)])?;
        (0..STATIONS).try_for_each(|n| {
            let station = |field| vec![Oxm::exact(field, (NEXT + n).into())];
            add(switch, 1, 1, station(Field::EthSrc), vec![Instruction::GotoTable(2)])?;
            add(switch, 2, 1, station(Field::EthDst), vec![Instruction::ApplyActions(vec![to(2)])])
        })
    })?;
    let frame = |n: u64, bytes: &mut [u8; HEADER]| {
        let mut random = Random::new(n);
        let mut station = || MacAddr::from_bits(NEXT + random.below(STATIONS));
        let length = write(UdpFrame::default(), 0, LEAST, bytes);
        let addresses = [station().0, station().0].concat();
        bytes.iter_mut().zip(addresses).for_each(|(to, from)| *to = from);
        length
    };
    let check = |bytes: &[u8]| match bytes.get(..5) {
        Some(start) if start == NEXT.to_be_bytes().get(2..7).unwrap_or_default() && bytes.len() == 60 => Ok(()),
        other => Err(format!("{} bytes came out for {other:x?}", bytes.len())),
    };
    Ok(Traffic { frame: Box::new(frame), frames: 10_000, check: Box::new(check) })
}

/// So many different prefixes, of lengths in the shares of the Internet's table (1 November 2015: half of them /24, hardly any longer), as sites have
/// them: near each other.
fn table(count: usize) -> Vec<(u32, u32)> {
    const LENGTHS: [u32; 16] = [24, 24, 24, 24, 24, 24, 24, 24, 23, 22, 22, 21, 20, 19, 18, 16];
    let mut random = Random::new(17);
    let mut all = std::collections::BTreeSet::new();
    while all.len() < count {
        let site = 1 + random.below(222) as u32;
        let length = LENGTHS.get(random.position(LENGTHS.len())).copied().unwrap_or(24);
        // No loopback and no private addresses of use to others: it is only looked up.
        all.insert(((site << 24 | random.below(1 << 24) as u32) & mask(length), length));
    }
    all.into_iter().collect()
}

/// A flow for each of so many addresses, and packets to them at random.
fn hosts(instance: &dyn Instance, count: u32) -> Result<Traffic, String> {
    let all: Vec<(u32, u32)> = (0..count).map(|n| (20 << 24 | n, 32)).collect();
    prefixes(instance, &all, FRAMES)
}

/// A flow for each of some prefixes, the longer the first, and packets to so many addresses in them at random.
fn prefixes(instance: &dyn Instance, all: &[(u32, u32)], addresses: u64) -> Result<Traffic, String> {
    fill(instance, |switch| {
        all.iter().try_for_each(|prefix| {
            add(switch, 0, prefix.1 as u16, to_prefix(*prefix), vec![Instruction::ApplyActions(route(0))])
        })
    })?;
    Ok(to_addresses(all.to_vec(), addresses, (0, LEAST)))
}

/// Packets to so many addresses at random in some prefixes, which all come out one hop further; in a VLAN if that is not 0, and so long.
fn to_addresses(all: Vec<(u32, u32)>, addresses: u64, (vlan, length): (u16, usize)) -> Traffic {
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let frame = UdpFrame { destination: address_in(&all, n % addresses), ..UdpFrame::default() };
        write(frame, vlan, length, bytes)
    };
    Traffic { frame: Box::new(frame), frames: addresses.min(FRAMES), check: Box::new(is_routed) }
}

/// The address of a number, at random in some prefixes.
fn address_in(all: &[(u32, u32)], number: u64) -> Ipv4Addr {
    let mut random = Random::new(number);
    let (prefix, length) = all.get(random.position(all.len())).copied().unwrap_or_default();
    Ipv4Addr::from_bits(prefix | random.next() as u32 & !mask(length))
}

/// Writes the start of a frame of so many bytes, and a tag behind its addresses; answers how long it is then.
fn write(frame: UdpFrame, vlan: u16, length: usize, bytes: &mut [u8; HEADER]) -> usize {
    let mut whole = vec![0; length];
    frame.write_around(&mut whole);
    if vlan != 0 {
        let tag = [[0x81, 0x00], vlan.to_be_bytes()].concat();
        whole.splice(12..12, tag);
    }
    bytes.iter_mut().zip(&whole).for_each(|(to, from)| *to = *from);
    whole.len()
}

/// Whether a frame is one hop further.
fn is_routed(bytes: &[u8]) -> Result<(), String> {
    let (ethernet, packet) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    validity::check_slice(packet).map_err(|defect| format!("a packet came out that is not valid: {defect}"))?;
    let ip = Ipv4::view(packet).ok_or("a packet came out without an IPv4 header")?;
    let MacAddr([.., high, low]) = ethernet.destination;
    if ip.ttl != UdpFrame::default().ttl - 1 || u32::from_be_bytes([0, 0, high, low]) >= NEXT_HOPS {
        return Err(format!("a packet came out with a TTL of {} for {}", ip.ttl, ethernet.destination));
    }
    Ok(())
}

/// A rule: sources, destinations, and the destination's port if it asks for one.
struct Rule {
    source: (u32, u32),
    destination: (u32, u32),
    port: Option<u16>,
}

/// So many rules, each with a priority of its own, as access lists have them.
fn rules(instance: &dyn Instance, count: usize) -> Result<Traffic, String> {
    const PORTS: [u16; 8] = [53, 80, 123, 161, 443, 500, 1194, 4500];
    let mut random = Random::new(19);
    let mut prefix = |side: u32, lengths: &[u32]| {
        let length = lengths.get(random.position(lengths.len())).copied().unwrap_or(24);
        let port = PORTS.get(random.position(16)).copied();
        ((side << 24 | random.below(1 << 24) as u32) & mask(length), length, port)
    };
    let all: Vec<Rule> = (0..count)
        .map(|_| {
            let (source, source_length, port) = prefix(20, &[8, 16, 24, 32]);
            let (destination, length, _) = prefix(10, &[16, 24, 28, 32]);
            Rule { source: (source, source_length), destination: (destination, length), port }
        })
        .collect();
    fill(instance, |switch| {
        all.iter().zip((0..=u16::MAX).rev()).try_for_each(|(rule, priority)| {
            let mut fields = to_prefix(rule.destination);
            let (source, length) = rule.source;
            fields.push(Oxm::masked(Field::Ipv4Src, source.into(), mask(length).into()));
            if let Some(port) = rule.port {
                fields.extend([Oxm::exact(Field::IpProto, 17), Oxm::exact(Field::UdpDst, port.into())]);
            }
            add(switch, 0, priority, fields, vec![Instruction::ApplyActions(route(0))])
        })
    })?;
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let mut random = Random::new(n);
        let Some(rule) = all.get(random.position(all.len())) else { return 60 };
        let mut within =
            |(address, length): (u32, u32)| Ipv4Addr::from_bits(address | random.next() as u32 & !mask(length));
        let (source, destination) = (within(rule.source), within(rule.destination));
        write(
            UdpFrame { source, destination, destination_port: rule.port.unwrap_or(9), ..UdpFrame::default() },
            0,
            LEAST,
            bytes,
        )
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(is_routed) })
}
