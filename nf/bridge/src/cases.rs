//! What `weir bench cpp bridge` measures: frames from stations at random to stations at random, all of which are known. Half of them are behind the
//! port `in` and half behind the port `out`.

use weir_stage::case::{HEADER, Traffic};
use weir_stage::{Case, Instance, PortInfo, Random};
use weir_table::mac::{Entry, Station};

use crate::function::Running;

/// Frames in a round.
const FRAMES: u64 = 1_000_000;

/// Bytes of a frame without its check sequence.
const FRAME: usize = 60;

/// The VLAN of the case with tags.
const VLAN: u16 = 10;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    vec![
        case::<2, 0>("macs-1", "64-byte frames from one station to one other"),
        case::<10_000, 0>("macs-10k", "64-byte frames among 10,000 stations, from one half at random to the other"),
        case::<100_000, 0>("macs-100k", "the same among 100,000 stations"),
        case::<1_000_000, 0>("macs-1m", "the same among 1,000,000 stations"),
        case::<100_000, VLAN>(
            "macs-100k-tagged",
            "100,000 stations in a VLAN, from a port with tags to a port with tags",
        ),
    ]
}

/// `STATIONS` in a VLAN; without tags in VLAN 0.
fn case<const STATIONS: u64, const VLAN: u16>(name: &'static str, help: &'static str) -> Case {
    let (tagging, port) = match VLAN {
        0 => ("none", String::new()),
        vlan => ("802.1q", format!("tagged = \"{vlan}\"")),
    };
    let script = format!(
        "bridge {{ ports = {{ [\"in\"] = {{ {port} }}, out = {{ {port} }} }}, tagging = \"{tagging}\", limits = {{ macs = {} }} }}",
        STATIONS.max(65_536)
    );
    let prepare = |instance: &dyn Instance, _: &[PortInfo], _: &_| traffic(instance, STATIONS, VLAN);
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

/// The address of a station.
fn station(n: u64) -> u64 {
    0x0200_0000_0000 + n
}

/// Frames among so many stations, which are entered as if they had been learned.
fn traffic(instance: &dyn Instance, stations: u64, vlan: u16) -> Result<Traffic, String> {
    let running = instance.downcast_ref::<Running>().ok_or("it is no bridge")?;
    let half = stations / 2;
    for n in 0..stations {
        // Ports have their numbers in the order of their names: `in`, `out`.
        let entry = Entry::learned(u8::from(n >= half), running.shared.period());
        running.shared.enter(Station::new(station(n), vlan), entry);
    }
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let mut random = Random::new(n);
        let (from, to) = (random.below(half), half + random.below(half));
        let tag = if vlan == 0 { Vec::new() } else { [[0x81, 0], vlan.to_be_bytes()].concat() };
        let header = [0x08, 0, 0x45, 0, 0, 42, 0, 0, 0, 0, 64, 17];
        let addresses = [station(to), station(from)].map(|address| (address << 16).to_be_bytes());
        let addresses = addresses.iter().flat_map(|bytes| bytes.iter().take(6).copied());
        bytes.iter_mut().zip(addresses.chain(tag).chain(header)).for_each(|(to, from)| *to = from);
        FRAME
    };
    let check = move |bytes: &[u8]| {
        let address = |at: usize| bytes.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes) >> 16);
        let known = |address: Option<u64>, range: std::ops::Range<u64>| {
            address.is_some_and(|address| range.contains(&address.wrapping_sub(station(0))))
        };
        let is_right = bytes.len() == FRAME && known(address(0), half..stations) && known(address(6), 0..half);
        if is_right { Ok(()) } else { Err(format!("{} bytes came out that are not those that went in", bytes.len())) }
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) })
}
