//! How fast an interface's link is, as ethtool(8) shows it: `struct ethtool_link_settings` of `linux/ethtool.h`.

use weir_stage::{LinkSpeed, Medium};

use super::Interface;

const GLINKSETTINGS: u32 = 0x4c;
/// `SPEED_UNKNOWN`, `DUPLEX_HALF`, `PORT_TP`, `PORT_FIBRE`, `PORT_DA`, `AUTONEG_ENABLE`.
const UNKNOWN: u32 = u32::MAX;
const HALF: u8 = 0;
const TWISTED_PAIR: u8 = 0;
const FIBRE: u8 = 3;
const DIRECT_ATTACH: u8 = 5;
const NEGOTIATED: u8 = 1;
/// The kernel says how many words of 32 bits a mask of link modes has in 7 bits.
const MOST_WORDS: usize = 127;

/// The masks that stand behind it are of what is supported, advertised, and advertised by the other end.
#[repr(C)]
struct Settings {
    command: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    address: u8,
    negotiation: u8,
    mdio: u8,
    crossed: [u8; 2],
    words: i8,
    others: [u8; 4],
    reserved: [u32; 7],
    masks: [u32; 3 * MOST_WORDS],
}

impl Settings {
    fn new(words: i8) -> Settings {
        Settings {
            command: GLINKSETTINGS,
            speed: 0,
            duplex: 0,
            port: 0,
            address: 0,
            negotiation: 0,
            mdio: 0,
            crossed: [0; 2],
            words,
            others: [0; 4],
            reserved: [0; 7],
            masks: [0; 3 * MOST_WORDS],
        }
    }

    /// What it says. A driver that knows no speed of a link that is down says that it is unknown, or 0.
    fn speed(&self) -> LinkSpeed {
        let now = if self.speed == UNKNOWN { 0 } else { self.speed };
        let supported = self.masks.get(..usize::try_from(self.words).unwrap_or(0)).unwrap_or_default();
        LinkSpeed {
            now,
            most: most_speed(supported).max(now),
            half_duplex: now > 0 && self.duplex == HALF,
            negotiated: self.negotiation == NEGOTIATED,
            medium: match self.port {
                TWISTED_PAIR | DIRECT_ATTACH => Some(Medium::Copper),
                FIBRE => Some(Medium::Fiber),
                _ => None,
            },
        }
    }
}

/// The fastest of link modes, Mbit/s, by their numbers (`ETHTOOL_LINK_MODE_*_BIT`); 0 if there is none.
fn most_speed(modes: &[u32]) -> u32 {
    let is_there = |mode: usize| modes.get(mode / 32).is_some_and(|word| word >> (mode % 32) & 1 == 1);
    (0..modes.len() * 32).filter(|mode| is_there(*mode)).map(mode_speed).max().unwrap_or(0)
}

/// Of a link mode that is no speed, and of those that came later, 0.
const fn mode_speed(mode: usize) -> u32 {
    match mode {
        0 | 1 | 92 => 10,
        2 | 3 | 67 | 90 | 91 => 100,
        4 | 5 | 17 | 41 | 68 => 1_000,
        15 | 47 => 2_500,
        48 => 5_000,
        12 | 18..=20 | 42..=46 => 10_000,
        21 | 22 => 20_000,
        31..=33 => 25_000,
        23..=26 => 40_000,
        34 | 35 | 40 | 52..=56 => 50_000,
        27..=30 => 56_000,
        36..=39 | 57..=61 | 75..=79 => 100_000,
        62..=66 | 80..=84 => 200_000,
        69..=73 | 85..=89 => 400_000,
        _ => 0,
    }
}

impl Interface {
    /// How fast its link is; nothing is known where the driver cannot tell.
    pub(crate) fn speed(&self) -> LinkSpeed {
        // The kernel says first how many words its masks have, as a negative number.
        let mut asked = Settings::new(0);
        // SAFETY: room for the masks, none of which are written.
        let words = match unsafe { self.ethtool_with(&raw mut asked) } {
            Ok(()) if asked.words < 0 => asked.words.saturating_neg(),
            _ => return LinkSpeed::default(),
        };
        let mut settings = Settings::new(words);
        // SAFETY: room for three masks of any number of words that fits its field.
        match unsafe { self.ethtool_with(&raw mut settings) } {
            Ok(()) => settings.speed(),
            Err(_) => LinkSpeed::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let mut said = Settings::new(4);
        (said.speed, said.duplex, said.port, said.negotiation) = (1_000, 1, FIBRE, NEGOTIATED);
        // 1000baseX, 10000baseSR and 100000baseCR, and bits that are no speeds: FEC, and the masks behind.
        said.masks[1] = 1 << (41 - 32) | 1 << (43 - 32) | 1 << (49 - 32);
        said.masks[4] = u32::MAX;
        let fiber =
            LinkSpeed { now: 1_000, most: 10_000, half_duplex: false, negotiated: true, medium: Some(Medium::Fiber) };
        assert_eq!(said.speed(), fiber);
        said.masks[2] = 1 << (78 - 64);
        assert_eq!(said.speed().most, 100_000);
        (said.speed, said.duplex, said.port, said.negotiation) = (UNKNOWN, 0xff, 0xef, 0);
        let down = LinkSpeed { most: 100_000, ..LinkSpeed::default() };
        assert_eq!(said.speed(), down);
        // As a veth says it, which has no modes.
        let mut veth = Settings::new(4);
        (veth.speed, veth.duplex) = (10_000, 1);
        let copper = LinkSpeed { now: 10_000, most: 10_000, medium: Some(Medium::Copper), ..LinkSpeed::default() };
        assert_eq!(veth.speed(), copper);
        (veth.speed, veth.duplex) = (10, HALF);
        assert!(veth.speed().half_duplex);
    }

    /// Loopback has no such settings.
    #[test]
    fn who_cannot_tell_says_nothing() {
        assert_eq!(Interface::find("lo").unwrap().speed(), LinkSpeed::default());
    }

    /// The layout of the kernel's structure: 48 bytes in front of the masks.
    #[test]
    fn masks_stand_where_the_kernel_writes_them() {
        assert_eq!((std::mem::offset_of!(Settings, words), std::mem::offset_of!(Settings, masks)), (15, 48));
    }
}
