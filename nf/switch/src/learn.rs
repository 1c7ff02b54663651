//! Who is behind which port: for packets that are switched as by a bridge (`NORMAL`, and all of them in fail-standalone mode).

use std::ops::Range;

use weir_table::mac::{Entry, MacTable, PERIODS, Station};
use weir_wire::ethernet::{CVLAN, SVLAN};

/// Periods after which a station is forgotten that sent nothing.
const AGEING_PERIODS: u8 = PERIODS / 2;

/// A period, nanoseconds: a station is remembered for five minutes (IEEE 802.1Q table 8-9).
const PERIOD: u64 = 300_000_000_000 / AGEING_PERIODS as u64;

/// So many buckets of the table are looked through at a time: nothing else may use the switch meanwhile.
const PIECE: usize = 512;

/// The addresses that bridges keep to themselves: IEEE 802.1Q table 8-1.
const RESERVED: u64 = 0x0180_c200_0000;

/// Stations that have sent something.
pub(crate) struct Stations {
    table: MacTable,
    learned: u32,
    most: u32,
    period: u8,
    /// When the period began.
    began: u64,
    /// The bucket that is looked at next for stations that have sent nothing for long; none where all were in this period.
    next: Option<usize>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// By this port.
    By(u32),
    /// By all ports but its own: its destination is a group, or is not known.
    Everywhere,
    /// Nowhere: bridges keep it to themselves (IEEE 802.1Q section 8.6.3).
    Nowhere,
}

/// The address that begins there.
fn address(bytes: &[u8], at: usize) -> u64 {
    let end = at.saturating_add(6);
    bytes.get(at..end).unwrap_or_default().iter().fold(0, |address, byte| address << 8 | u64::from(*byte))
}

/// The VLAN of the outer tag; 0 without one.
fn vlan(bytes: &[u8]) -> u16 {
    let word = |at: usize| match bytes.get(at..) {
        Some([high, low, ..]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    if [CVLAN, SVLAN].contains(&word(12)) { word(14) & 0xfff } else { 0 }
}

const fn is_group(address: u64) -> bool {
    address >> 40 & 1 == 1
}

impl Stations {
    pub(crate) fn new(table: MacTable, most: u32, now: u64) -> Stations {
        Stations { table, learned: 0, most, period: 0, began: now, next: None }
    }

    /// How many are known.
    pub(crate) fn count(&self) -> u32 {
        self.learned
    }

    /// Learns where a frame came from, and says where it goes.
    pub(crate) fn switch(&mut self, bytes: &[u8], in_port: u32) -> Goes {
        let (to, from, vlan) = (address(bytes, 0), address(bytes, 6), vlan(bytes));
        if to & !0xf == RESERVED {
            return Goes::Nowhere;
        }
        // Packets of controllers come from no port.
        if let Some(port) = u8::try_from(in_port).ok().filter(|_| !is_group(from) && from != 0) {
            self.learn(Station::new(from, vlan), port);
        }
        if is_group(to) {
            return Goes::Everywhere;
        }
        let found = self.table.find(self.table.place(Station::new(to, vlan)));
        found.map_or(Goes::Everywhere, |entry| Goes::By(entry.port().into()))
    }

    fn learn(&mut self, station: Station, port: u8) {
        let (place, here) = (self.table.place(station), Entry::learned(port, self.period));
        match self.table.find(place) {
            Some(entry) if entry == here => {}
            Some(entry) => drop(self.table.replace(place, entry, here)),
            None if self.learned < self.most => {
                // Nobody else enters any, so that none makes way. Without room it is flooded to, as if it were not known.
                let entered = self.table.insert(place, here, |_| ()).is_ok();
                self.learned = self.learned.saturating_add(u32::from(entered));
            }
            None => {}
        }
    }

    /// Forgets those that have sent nothing for long, a piece of the table at a time. Answers when it is to be asked again.
    pub(crate) fn age(&mut self, now: u64) -> u64 {
        if now >= self.began.saturating_add(PERIOD) {
            self.period = self.period.wrapping_add(1) % PERIODS;
            self.began = now;
            self.next = Some(0);
        }
        let Some(first) = self.next else { return self.began.saturating_add(PERIOD) };
        let end = first.saturating_add(PIECE).min(self.table.buckets());
        let period = self.period;
        self.keep(first..end, |entry| entry.age(period) <= AGEING_PERIODS);
        self.next = (end < self.table.buckets() && self.learned > 0).then_some(end);
        if self.next.is_some() { now } else { self.began.saturating_add(PERIOD) }
    }

    /// Forgets those behind a port.
    pub(crate) fn forget(&mut self, port: u32) {
        self.keep(0..self.table.buckets(), |entry| u32::from(entry.port()) != port);
    }

    fn keep(&mut self, buckets: Range<usize>, keep: impl Fn(Entry) -> bool) {
        let mut gone = 0_u32;
        self.table.retain(buckets, |_, entry| {
            let stays = keep(entry);
            gone = gone.saturating_add(u32::from(!stays));
            stays
        });
        self.learned = self.learned.saturating_sub(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stations(most: u32) -> Stations {
        Stations::new(MacTable::new(most, 7).unwrap(), most, 0)
    }

    /// A frame with these addresses' last bytes, and a tag if there is one.
    fn frame(to: u8, from: u8, tag: Option<u16>) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
        frame.extend(tag.iter().flat_map(|vlan| [[0x81, 0], vlan.to_be_bytes()].concat()));
        frame.extend([0x88, 0xb5, 0, 0]);
        frame
    }

    #[test]
    fn stations_are_learned_by_vlan_and_forgotten_after_five_minutes() {
        let mut stations = stations(65_536);
        assert_eq!(stations.switch(&frame(2, 1, None), 1), Goes::Everywhere);
        assert_eq!(stations.switch(&frame(1, 2, None), 2), Goes::By(1));
        assert_eq!(stations.switch(&frame(1, 2, Some(10)), 2), Goes::Everywhere, "it is not known in VLAN 10");
        // It moves.
        stations.switch(&frame(9, 1, None), 3);
        assert_eq!(stations.switch(&frame(1, 2, None), 2), Goes::By(3));
        // The second goes on sending, the first does not.
        for _ in 0..=AGEING_PERIODS {
            let now = stations.began + PERIOD;
            // Piece by piece.
            let mut pieces = 1;
            while stations.age(now) <= now {
                pieces += 1;
            }
            assert_eq!(pieces, stations.table.buckets().div_ceil(PIECE));
            stations.switch(&frame(9, 2, None), 2);
        }
        assert_eq!(stations.switch(&frame(1, 2, None), 2), Goes::Everywhere);
        assert_eq!(stations.switch(&frame(2, 9, None), 1), Goes::By(2));
        stations.forget(2);
        assert_eq!((stations.switch(&frame(2, 9, None), 1), stations.count()), (Goes::Everywhere, 1));
    }

    #[test]
    fn groups_go_everywhere_and_nobody_has_a_groups_address() {
        let mut stations = stations(1024);
        let mut group = frame(2, 1, None);
        group[0] = 3;
        assert_eq!(stations.switch(&group, 1), Goes::Everywhere);
        let mut from_group = frame(2, 1, None);
        from_group[6] = 3;
        stations.switch(&from_group, 1);
        let mut from_nobody = frame(2, 0, None);
        from_nobody[6] = 0;
        stations.switch(&from_nobody, 1);
        // Nor is whoever a controller speaks for behind a port.
        stations.switch(&frame(2, 5, None), weir_openflow::port::number::CONTROLLER);
        assert_eq!(stations.count(), 1);
        for last in 0..=0xff {
            let kept = [&[1, 0x80, 0xc2, 0, 0, last][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5]].concat();
            let goes = if last < 16 { Goes::Nowhere } else { Goes::Everywhere };
            assert_eq!(stations.switch(&kept, 1), goes, "{last:02x}");
        }
    }

    #[test]
    fn there_are_no_more_than_there_may_be_and_short_frames_do_no_harm() {
        let mut stations = stations(4);
        (0..100).for_each(|from| _ = stations.switch(&frame(200, from, None), 1));
        assert_eq!(stations.count(), 4);
        for length in 0..16 {
            stations.switch(&frame(1, 2, Some(3))[..length], 1);
        }
    }
}
