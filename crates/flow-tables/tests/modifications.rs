//! Groups, meters, ports and tables: what is refused, with which code, and that nothing changes then. OpenFlow 1.3.5
//! sections 6.6, 6.7, 7.3.2, 7.3.3 and 7.3.4.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::{Identity, Switch};
use weir_openflow::error::*;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::meter::{self, Band, BandKind, MeterCommand, MeterMod, flags};
use weir_openflow::multipart::Desc;
use weir_openflow::port::{Port, PortMod, PortReason, config, number, state};
use weir_openflow::table::TableMod;
use weir_openflow::{Action, Error, Reply, Request};

fn switch() -> Switch {
    let mut switch = Switch::new(Identity { tables: 3, max_groups: 4, max_meters: 2, ..Identity::default() });
    switch.set_port(Port { number: 1, mac: [2; 6], supported: 0xff, ..Port::default() }, 0);
    switch
}

fn out(port: u32) -> Action {
    Action::Output { port, max_len: 0 }
}

fn bucket(actions: Vec<Action>) -> Bucket {
    Bucket { weight: 0, watch_port: number::ANY, watch_group: group::ANY, actions }
}

fn group(command: GroupCommand, group: u32, kind: GroupKind, buckets: Vec<Bucket>) -> GroupMod {
    GroupMod { command, kind, group, buckets }
}

fn add_group(number: u32, actions: Vec<Action>) -> GroupMod {
    group(GroupCommand::Add, number, GroupKind::All, vec![bucket(actions)])
}

fn meter(command: MeterCommand, number: u32, flags: u16, bands: Vec<Band>) -> MeterMod {
    MeterMod { command, flags, meter: number, bands }
}

const DROP: Band = Band { rate: 10, burst: 5, kind: BandKind::Drop };

#[track_caller]
fn refused<T: std::fmt::Debug>(
    switch: &mut Switch,
    change: impl Fn(&mut Switch) -> Result<T, Error>,
    error: impl Into<Error>,
) {
    let before = format!("{switch:?}");
    assert_eq!(change(switch).err(), Some(error.into()));
    assert_eq!(format!("{switch:?}"), before, "something changed");
}

#[test]
fn groups_that_cannot_be() {
    let mut switch = switch();
    let no = |switch: &mut Switch, change: GroupMod, error: Error| {
        refused(switch, |switch| switch.group_mod(&change, 0), error);
    };
    switch.group_mod(&add_group(1, vec![out(1)]), 0).unwrap();
    no(&mut switch, add_group(1, vec![]), GroupModFailed::GroupExists.into());
    no(&mut switch, add_group(group::MAX + 1, vec![]), GroupModFailed::InvalidGroup.into());
    let modify = |number, buckets| group(GroupCommand::Modify, number, GroupKind::All, buckets);
    no(&mut switch, modify(2, vec![]), GroupModFailed::UnknownGroup.into());
    // A weight belongs to select groups, one bucket to indirect ones, something to watch to fast failover.
    let weighted = Bucket { weight: 1, ..bucket(vec![]) };
    no(
        &mut switch,
        group(GroupCommand::Add, 2, GroupKind::All, vec![weighted.clone()]),
        GroupModFailed::InvalidGroup.into(),
    );
    for buckets in [vec![], vec![bucket(vec![]); 2]] {
        no(&mut switch, group(GroupCommand::Add, 2, GroupKind::Indirect, buckets), GroupModFailed::InvalidGroup.into());
    }
    let failover = |watch_port, watch_group| {
        let bucket = Bucket { watch_port, watch_group, ..bucket(vec![]) };
        group(GroupCommand::Add, 2, GroupKind::FastFailover, vec![bucket])
    };
    no(&mut switch, failover(number::ANY, group::ANY), GroupModFailed::InvalidGroup.into());
    no(&mut switch, failover(300, group::ANY), GroupModFailed::BadWatch.into());
    no(&mut switch, failover(number::ANY, 77), GroupModFailed::BadWatch.into());
    no(&mut switch, failover(number::ANY, 2), GroupModFailed::BadWatch.into());
    no(&mut switch, add_group(2, vec![out(300)]), BadAction::BadOutPort.into());
    no(&mut switch, add_group(2, vec![Action::Group(77)]), BadAction::BadOutGroup.into());
    no(&mut switch, add_group(2, vec![Action::PushVlan(5)]), BadAction::BadArgument.into());
    let many = group(GroupCommand::Add, 2, GroupKind::All, vec![bucket(vec![]); 1025]);
    no(&mut switch, many, GroupModFailed::OutOfBuckets.into());
    // Loops: to itself, and round.
    no(&mut switch, add_group(2, vec![Action::Group(2)]), GroupModFailed::Loop.into());
    switch.group_mod(&add_group(2, vec![Action::Group(1)]), 0).unwrap();
    switch.group_mod(&add_group(3, vec![Action::Group(2)]), 0).unwrap();
    no(&mut switch, modify(1, vec![bucket(vec![Action::Group(3)])]), GroupModFailed::Loop.into());
    let watching = Bucket { watch_group: 3, ..bucket(vec![]) };
    no(
        &mut switch,
        group(GroupCommand::Modify, 1, GroupKind::FastFailover, vec![watching]),
        GroupModFailed::Loop.into(),
    );
    // Another group leads to it.
    let delete = |number| group(GroupCommand::Delete, number, GroupKind::All, vec![]);
    no(&mut switch, delete(2), GroupModFailed::ChainedGroup.into());
    switch.group_mod(&delete(77), 0).unwrap();
    switch.group_mod(&add_group(4, vec![]), 0).unwrap();
    no(&mut switch, add_group(5, vec![]), GroupModFailed::OutOfGroups.into());
    switch.group_mod(&delete(3), 0).unwrap();
    switch.group_mod(&delete(group::ALL), 0).unwrap();
    assert_eq!(switch.reply(&Request::GroupDesc, 0), Ok(Reply::GroupDesc(vec![])));
}

/// A change keeps what the group counted, and begins its buckets anew (section 6.6).
#[test]
fn a_changed_group_goes_on_counting() {
    let mut switch = switch();
    switch.set_port(Port { number: 2, ..Port::default() }, 0);
    switch.group_mod(&add_group(1, vec![out(2)]), 0).unwrap();
    let packet = weir_flow_tables::Packet::new(1, vec![0; 60]);
    switch.packet_out(packet, &[Action::Group(1)], 0).unwrap();
    let change = group(GroupCommand::Modify, 1, GroupKind::Indirect, vec![bucket(vec![out(1)])]);
    switch.group_mod(&change, 0).unwrap();
    let Reply::Group(stats) = switch.reply(&Request::Group(1), 1_000_000_000).unwrap() else { panic!() };
    assert_eq!((stats[0].counted.packets, stats[0].buckets[0].packets, stats[0].duration.seconds), (1, 0, 1));
    let Reply::GroupDesc(descs) = switch.reply(&Request::GroupDesc, 0).unwrap() else { panic!() };
    assert_eq!((descs[0].kind, &descs[0].buckets), (GroupKind::Indirect, &change.buckets));
}

#[test]
fn meters_that_cannot_be() {
    let mut switch = switch();
    let no = |switch: &mut Switch, change: MeterMod, error: MeterModFailed| {
        refused(switch, |switch| switch.meter_mod(&change, 0), error);
    };
    let add = |number, flags, band| meter(MeterCommand::Add, number, flags, vec![band]);
    switch.meter_mod(&add(1, flags::KBPS, DROP), 0).unwrap();
    no(&mut switch, add(1, flags::KBPS, DROP), MeterModFailed::MeterExists);
    for number in [0, meter::MAX + 1, meter::CONTROLLER, meter::SLOWPATH, meter::ALL] {
        no(&mut switch, add(number, flags::KBPS, DROP), MeterModFailed::InvalidMeter);
    }
    no(&mut switch, meter(MeterCommand::Modify, 2, flags::KBPS, vec![]), MeterModFailed::UnknownMeter);
    no(&mut switch, add(2, flags::KBPS | flags::PKTPS, DROP), MeterModFailed::BadFlags);
    no(&mut switch, add(2, flags::KBPS, Band { rate: 0, ..DROP }), MeterModFailed::BadRate);
    no(&mut switch, add(2, flags::KBPS | flags::BURST, Band { burst: 0, ..DROP }), MeterModFailed::BadBurst);
    no(&mut switch, add(2, 0, Band { kind: BandKind::Experimenter(1, vec![]), ..DROP }), MeterModFailed::BadBand);
    for level in [0, 3, 255] {
        let band = Band { kind: BandKind::DscpRemark(level), ..DROP };
        no(&mut switch, add(2, 0, band), MeterModFailed::BadBandValue);
    }
    no(&mut switch, meter(MeterCommand::Add, 2, 0, vec![DROP; 17]), MeterModFailed::OutOfBands);
    switch.meter_mod(&add(2, 0, DROP), 0).unwrap();
    no(&mut switch, add(3, 0, DROP), MeterModFailed::OutOfMeters);
    assert_eq!(switch.reply(&Request::Meter(3), 0), Err(MeterModFailed::UnknownMeter.into()));
    // As they were sent; to delete what is not there is no error.
    let Reply::MeterConfig(configs) = switch.reply(&Request::MeterConfig(1), 0).unwrap() else { panic!() };
    assert_eq!((configs[0].flags, &configs[0].bands[..]), (flags::KBPS, &[DROP][..]));
    switch.meter_mod(&meter(MeterCommand::Delete, 9, 0, vec![]), 0).unwrap();
    switch.meter_mod(&meter(MeterCommand::Delete, meter::ALL, 0, vec![]), 0).unwrap();
    assert_eq!(switch.reply(&Request::MeterConfig(meter::ALL), 0), Ok(Reply::MeterConfig(vec![])));
}

#[test]
fn ports() {
    let mut switch = switch();
    let change = PortMod { port: 1, mac: [2; 6], config: config::PORT_DOWN, mask: config::PORT_DOWN, advertise: 0 };
    let no = |switch: &mut Switch, change: PortMod, error: PortModFailed| {
        refused(switch, |switch| switch.port_mod(&change), error);
    };
    no(&mut switch, PortMod { port: 2, ..change.clone() }, PortModFailed::BadPort);
    no(&mut switch, PortMod { mac: [3; 6], ..change.clone() }, PortModFailed::BadHwAddr);
    no(&mut switch, PortMod { mask: 2, ..change.clone() }, PortModFailed::BadConfig);
    no(&mut switch, PortMod { advertise: 0x100, ..change.clone() }, PortModFailed::BadAdvertise);
    let status = switch.port_mod(&change).unwrap().unwrap();
    assert_eq!((status.reason, status.port.config, status.port.state), (PortReason::Modify, config::PORT_DOWN, 0));
    // Nothing new, no news; and what the controller wants stays when the port is described anew.
    assert_eq!(switch.port_mod(&change), Ok(None));
    let described = Port { number: 1, mac: [2; 6], supported: 0xff, name: "one".to_owned(), ..Port::default() };
    let status = switch.set_port(described.clone(), 0).unwrap();
    assert_eq!((status.reason, status.port.config), (PortReason::Modify, config::PORT_DOWN));
    let up = PortMod { config: 0, ..change };
    assert_eq!(switch.port_mod(&up).unwrap().unwrap().port.state, state::LIVE);
    let status = switch.set_port(Port { state: state::LINK_DOWN, ..described }, 0).unwrap();
    assert_eq!(status.port.state, state::LINK_DOWN);
    // Numbers have a range.
    assert_eq!(switch.set_port(Port { number: 256, ..Port::default() }, 0), None);
    assert_eq!(switch.set_port(Port::default(), 0), None);
    assert_eq!(switch.set_port(Port { number: 255, ..Port::default() }, 0).unwrap().reason, PortReason::Add);
    assert_eq!(switch.reply(&Request::PortStats(9), 0), Err(BadRequest::BadPort.into()));
    let Reply::PortStats(stats) = switch.reply(&Request::PortStats(number::ANY), 0).unwrap() else { panic!() };
    assert_eq!(stats.len(), 2);
}

#[test]
fn tables_and_queues() {
    let mut switch = switch();
    switch.table_mod(TableMod { table: 255, config: 3 }).unwrap();
    refused(&mut switch, |switch| switch.table_mod(TableMod { table: 3, config: 0 }), TableModFailed::BadTable);
    refused(&mut switch, |switch| switch.table_mod(TableMod { table: 0, config: 4 }), TableModFailed::BadConfig);
    let Reply::TableFeatures(features) = switch.reply(&Request::TableFeatures(vec![]), 0).unwrap() else { panic!() };
    assert_eq!((features.len(), features[2].config), (3, 3));
    // Whoever asks for what is there gets it; for anything else, nothing.
    assert!(switch.reply(&Request::TableFeatures(features.clone()), 0).is_ok());
    let other = Request::TableFeatures(features[..2].to_vec());
    assert_eq!(switch.reply(&other, 0), Err(TableFeaturesFailed::Eperm.into()));
    let queues = |port, queue| Request::Queue { port, queue };
    assert_eq!(switch.reply(&queues(1, u32::MAX), 0), Ok(Reply::Queue(vec![])));
    assert_eq!(switch.reply(&queues(9, u32::MAX), 0), Err(QueueOpFailed::BadPort.into()));
    assert_eq!(switch.reply(&queues(1, 0), 0), Err(QueueOpFailed::BadQueue.into()));
    let experimenter = Request::Experimenter(1, 2, vec![]);
    assert_eq!(switch.reply(&experimenter, 0), Err(BadRequest::BadExperimenter.into()));
    let Reply::Desc(Desc { manufacturer, .. }) = switch.reply(&Request::Desc, 0).unwrap() else { panic!() };
    assert_eq!(manufacturer, "Weir");
}
