//! The access router of the UNIFY project (deliverable D5.4, 2015, section 2.2): a table that leads on, one of 410,000 prefixes, and a group for each next
//! hop; with three kinds of traffic as there.
//!
//! The sizes and flows of its realistic traffic were not published. Those here are ours: sizes as mobile networks have them, small, medium and
//! large, and destinations of which few get most packets.

use weir_openflow::flow::FlowMod;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::oxm::VLAN_PRESENT;
use weir_openflow::{Action, Error, Field, Instruction, Match, Oxm};
use weir_stage::case::{FRAME, HEADER, Knob, Prepare, Traffic};
use weir_stage::{Case, Instance, Random};
use weir_wire::build::UdpFrame;

use crate::function::Running;

use super::yardstick::{Router, Work};
use super::{
    FRAMES, NEXT_HOPS, VLAN, address_in, case, fill, is_routed, route, table, to_addresses, to_prefix, without_code,
    write,
};

const FLOWS: Knob = Knob {
    name: "flows",
    help: "addresses that packets go to, in turns of random order",
    usual: FRAMES,
    least: 1,
    most: FRAMES,
};

/// All cases.
pub(super) fn all() -> Vec<Case> {
    const WORST: Prepare = |instance, _, chosen| {
        let all = fill_router(instance, 0)?;
        Ok(to_addresses(all, chosen.number(FLOWS.name), (0, chosen.frame_len())))
    };
    vec![
        Case {
            knobs: &[FLOWS, FRAME],
            ..case(
                "paper-router",
                "two tables, 410,000 prefixes of the lengths of a real table, 194 groups, packets to a million addresses",
                WORST,
            )
        },
        Case { knobs: &[FLOWS, FRAME], ..without_code("paper-router-usual", "the same without machine code", WORST) },
        case("paper-router-vlan", "the same, by VLAN and destination; the tag is taken off", |instance, _, chosen| {
            let all = fill_router(instance, VLAN)?;
            Ok(to_addresses(all, FRAMES, (VLAN, chosen.frame_len())))
        }),
        Case {
            knobs: &[FRAME],
            ..case("paper-single", "paper-router with packets to one address", |instance, _, chosen| {
                let all = fill_router(instance, 0)?;
                Ok(to_addresses(all, 1, (0, chosen.frame_len())))
            })
        },
        Case {
            knobs: &[FLOWS, FRAME],
            ..case(
                "paper-router-yardstick",
                "paper-router by a plain interpreter, which machine code is held against",
                |instance, _, chosen| {
                    let all = set_yardstick(instance, Work::Whole)?;
                    Ok(to_addresses(all, chosen.number(FLOWS.name), (0, chosen.frame_len())))
                },
            )
        },
        Case {
            knobs: &[FLOWS, FRAME],
            ..case(
                "paper-router-looked-up",
                "the yardstick without its hash, instructions, actions and counters: the rest is what these cost",
                |instance, _, chosen| {
                    let all = set_yardstick(instance, Work::LookUps)?;
                    let routed = to_addresses(all, chosen.number(FLOWS.name), (0, chosen.frame_len()));
                    Ok(Traffic { check: Box::new(|_| Ok(())), ..routed })
                },
            )
        },
        case(
            "paper-realistic",
            "paper-router with packets of three sizes to 100,000 addresses, of which few get most of them",
            |instance, _, _| realistic(instance),
        ),
    ]
}

fn realistic(instance: &dyn Instance) -> Result<Traffic, String> {
    const ADDRESSES: f64 = 100_000.0;
    /// Bytes without check sequence: of ten packets, five are small and four large.
    const LENGTHS: [usize; 10] = [60, 60, 60, 60, 60, 590, 1514, 1514, 1514, 1514];
    let all = fill_router(instance, 0)?;
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let mut random = Random::new(n);
        // The address of a rank gets packets in inverse proportion to it (Zipf).
        let drawn = random.below(1 << 32) as f64 / f64::from(u32::MAX);
        let rank = ADDRESSES.powf(drawn) as u64;
        let length = LENGTHS.get(random.position(LENGTHS.len())).copied().unwrap_or(LENGTHS[0]);
        write(UdpFrame { destination: address_in(&all, rank), ..UdpFrame::default() }, 0, length, bytes)
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(is_routed) })
}

/// What makes a switch the router of some prefixes, by VLAN too if that is not 0.
pub(super) fn router(all: &[(u32, u32)], vlan: u16) -> Result<(Vec<GroupMod>, Vec<FlowMod>), Error> {
    let group = |next_hop| {
        let mut actions = route(next_hop);
        if vlan != 0 {
            actions.push(Action::PopVlan);
        }
        let bucket = Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions };
        GroupMod { command: GroupCommand::Add, kind: GroupKind::Indirect, group: next_hop, buckets: vec![bucket] }
    };
    let ip = Match::new(vec![Oxm::exact(Field::EthType, 0x0800)])?;
    let routes = all.iter().zip(0..).map(|(prefix, n)| {
        let mut fields = to_prefix(*prefix);
        if vlan != 0 {
            fields.insert(0, Oxm::exact(Field::VlanVid, VLAN_PRESENT | u128::from(vlan)));
        }
        let group = vec![Instruction::WriteActions(vec![Action::Group(n % NEXT_HOPS)])];
        Ok(FlowMod::add(1, prefix.1 as u16, Match::new(fields)?, group))
    });
    let first = Ok(FlowMod::add(0, 1, ip, vec![Instruction::GotoTable(1)]));
    let flows: Result<Vec<FlowMod>, Error> = std::iter::once(first).chain(routes).collect();
    Ok(((0..NEXT_HOPS).map(group).collect(), flows?))
}

/// Fills the router's tables, by VLAN too if that is not 0; answers the prefixes.
fn fill_router(instance: &dyn Instance, vlan: u16) -> Result<Vec<(u32, u32)>, String> {
    let all = table(410_000);
    fill(instance, |switch| {
        let (groups, flows) = router(&all, vlan)?;
        groups.iter().try_for_each(|group| switch.group_mod(group, 0).map(drop))?;
        flows.iter().try_for_each(|flow| switch.flow_mod(flow, 0).map(drop))
    })?;
    Ok(all)
}

/// Lets the yardstick take the place of the tables; answers the prefixes.
fn set_yardstick(instance: &dyn Instance, work: Work) -> Result<Vec<(u32, u32)>, String> {
    let all = table(410_000);
    let (groups, flows) = router(&all, 0).map_err(|error| error.to_string())?;
    let running = instance.downcast_ref::<Running>().ok_or("it is no switch")?;
    running.set_yardstick(Router::new(work, &groups, &flows)?);
    Ok(all)
}
