//! Values that are written in the configuration of a bridge.

use std::fmt;

use weir_config::{Malformed, Scalar, scalar};

/// The last VLAN that may be used: IEEE 802.1Q section 9.6 reserves 0 and 4095.
pub(crate) const LAST_VLAN: u16 = 4094;

/// VLANs, as ranges of first and last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vlans(Vec<(u16, u16)>);

impl Vlans {
    /// These, which are in order.
    pub(crate) fn of(vlans: impl Iterator<Item = u16>) -> Vlans {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for vlan in vlans {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(vlan) => *last = vlan,
                _ => ranges.push((vlan, vlan)),
            }
        }
        Vlans(ranges)
    }

    /// The first and the last of each range.
    pub(crate) fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Whether a VLAN is among them.
    pub(crate) fn has(&self, vlan: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&vlan))
    }

    /// All of them, in the order of writing.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl fmt::Display for Vlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// A VLAN that may be used.
pub(crate) fn vlan_of(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|vlan| is_number && (1..=LAST_VLAN).contains(vlan))
}

impl Scalar for Vlans {
    const WHAT: &'static str = "VLANs (numbers from 1 to 4094 and ranges of them, parted by commas)";
    const EXAMPLE: &'static str = "10,20-30";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = (vlan_of(first.trim())?, vlan_of(last.trim())?);
            (range.0 <= range.1).then_some(range)
        };
        let ranges: Option<Vec<(u16, u16)>> = text.split(',').map(range).collect();
        ranges.map(Vlans).ok_or_else(Malformed::not::<Vlans>)
    }
}

scalar!(Vlans);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlans_are_numbers_and_ranges() {
        let vlans = Vlans::parse("10, 20-22,4094").unwrap();
        assert_eq!(vlans.iter().collect::<Vec<u16>>(), [10, 20, 21, 22, 4094]);
        assert_eq!(vlans.to_string(), "10,20-22,4094");
        assert_eq!(Vlans::of(vlans.iter()), vlans);
        for wrong in ["", "0", "4095", "30-20", "10,", "1-2-3", "ten", "-5", "+5", "99999"] {
            assert!(Vlans::parse(wrong).is_err(), "{wrong}");
        }
    }
}
