//! VLAN tags: what tells the interfaces of a port apart (IEEE 802.1Q, 802.1ad).

use std::fmt;

use weir_wire::{Ethernet, View, ethernet};

/// Bytes of a tag with what announces it.
pub const TAG_LEN: usize = 4;

/// Bytes from which what stands in front of a network header is told: two MAC addresses, two tags, an EtherType.
pub const FRONT_LEN: usize = Ethernet::LEN + 2 * TAG_LEN;

/// A tag: what announces it and its VLAN. The priority is nobody's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Tag protocol identifier: the EtherType in front of the tag; 0 where there is no tag.
    pub tpid: u16,
    /// VLAN identifier, 12 bits.
    pub vlan: u16,
}

impl Tag {
    const NONE: Tag = Tag { tpid: 0, vlan: 0 };

    /// Whether there is one.
    pub const fn is_some(self) -> bool {
        self.tpid != 0
    }
}

/// The tags of an interface, the outer one first: none, one or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    outer: Tag,
    inner: Tag,
}

impl Tags {
    /// Untagged.
    pub const NONE: Tags = Tags { outer: Tag::NONE, inner: Tag::NONE };

    /// Tags from the outside in; what follows the second is left out.
    pub fn of(tags: impl IntoIterator<Item = Tag>) -> Tags {
        let mut tags = tags.into_iter().filter(|tag| tag.is_some());
        Tags { outer: tags.next().unwrap_or_default(), inner: tags.next().unwrap_or_default() }
    }

    /// The outer tag, or the only one; none where its TPID is 0.
    pub const fn outer(self) -> Tag {
        self.outer
    }

    /// The inner one of two.
    pub const fn inner(self) -> Tag {
        self.inner
    }

    /// How many there are.
    pub const fn count(self) -> usize {
        self.outer.is_some() as usize + self.inner.is_some() as usize
    }

    /// Bytes of an Ethernet header with these tags: 14, 18 or 22.
    pub const fn header_len(self) -> usize {
        Ethernet::LEN + TAG_LEN * self.count()
    }

    /// All of it as a number; 0 is untagged.
    pub const fn key(self) -> u64 {
        let Tags { outer, inner } = self;
        (outer.tpid as u64) << 48 | (outer.vlan as u64) << 32 | (inner.tpid as u64) << 16 | inner.vlan as u64
    }

    /// The tags of a number.
    pub const fn from_key(key: u64) -> Tags {
        Tags {
            outer: Tag { tpid: (key >> 48) as u16, vlan: (key >> 32) as u16 },
            inner: Tag { tpid: (key >> 16) as u16, vlan: key as u16 },
        }
    }

    /// The bytes behind both MAC addresses: the tags, then the EtherType of what they lead to. As many as [`Tags::header_len`] says
    /// beyond 12 are meant.
    pub const fn bytes(self, ethertype: u16) -> [u8; FRONT_LEN - 12] {
        let Tags { outer, inner } = self;
        let words = match (outer.is_some(), inner.is_some()) {
            (false, _) => [ethertype, 0, 0, 0, 0],
            (true, false) => [outer.tpid, outer.vlan, ethertype, 0, 0],
            (true, true) => [outer.tpid, outer.vlan, inner.tpid, inner.vlan, ethertype],
        };
        let [a, b, c, d, e] = words;
        let ([a, b], [c, d], [e, f], [g, h], [i, j]) =
            (a.to_be_bytes(), b.to_be_bytes(), c.to_be_bytes(), d.to_be_bytes(), e.to_be_bytes());
        [a, b, c, d, e, f, g, h, i, j]
    }
}

/// `100`, or `100.7` for two; with the TPID in front where it is not the usual one: `0x9100:100.7`.
impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tags { outer, inner } = *self;
        if !outer.is_some() {
            return f.write_str("untagged");
        }
        let usual = if inner.is_some() { ethernet::SVLAN } else { ethernet::CVLAN };
        write_tag(f, outer, usual)?;
        if inner.is_some() {
            f.write_str(".")?;
            write_tag(f, inner, ethernet::CVLAN)?;
        }
        Ok(())
    }
}

fn write_tag(f: &mut fmt::Formatter<'_>, tag: Tag, usual: u16) -> fmt::Result {
    if tag.tpid != usual {
        write!(f, "{:#06x}:", tag.tpid)?;
    }
    write!(f, "{}", tag.vlan)
}

/// What stands in front of the network header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Its tags, without those that carry a priority only (VLAN 0).
    pub tags: Tags,
    /// Where the network header begins: 14, 18 or 22.
    pub l3: u8,
    /// What it is.
    pub ethertype: u16,
}

impl Front {
    /// Takes the front of a frame apart; `is_tpid` tells the EtherTypes that announce tags. Two tags are looked through; where a third
    /// follows, the EtherType is what announces it. A tag with VLAN 0 carries only a priority: its frame is untagged (IEEE 802.1Q
    /// section 9.6).
    pub fn parse(frame: &[u8; FRONT_LEN], is_tpid: impl Fn(u16) -> bool) -> Front {
        let word = |at: usize| {
            frame.get(at..at + 2).map_or(0, |bytes| bytes.iter().fold(0, |word, byte| word << 8 | u16::from(*byte)))
        };
        let mut front = Front { tags: Tags::NONE, l3: Ethernet::LEN as u8, ethertype: word(12) };
        for at in [14, 18] {
            if !is_tpid(front.ethertype) {
                break;
            }
            let tag = Tag { tpid: front.ethertype, vlan: word(at) & 0xfff };
            if tag.vlan != 0 {
                match front.tags.outer.is_some() {
                    false => front.tags.outer = tag,
                    true => front.tags.inner = tag,
                }
            }
            front.ethertype = word(at + 2);
            front.l3 += TAG_LEN as u8;
        }
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u16 = 0x88a8;
    const C: u16 = 0x8100;

    fn tags(list: &[(u16, u16)]) -> Tags {
        Tags::of(list.iter().map(|&(tpid, vlan)| Tag { tpid, vlan }))
    }

    fn front(words: &[u16]) -> Front {
        let mut frame = [0; FRONT_LEN];
        for (place, word) in frame[12..].chunks_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Front::parse(&frame, |ethertype| matches!(ethertype, S | C))
    }

    #[test]
    fn fronts_are_told_by_their_tags() {
        let told = |front: Front| (front.tags, front.l3, front.ethertype);
        assert_eq!(told(front(&[0x0800])), (Tags::NONE, 14, 0x0800));
        assert_eq!(told(front(&[C, 0xe064, 0x0800])), (tags(&[(C, 100)]), 18, 0x0800));
        assert_eq!(told(front(&[S, 7, C, 9, 0x86dd])), (tags(&[(S, 7), (C, 9)]), 22, 0x86dd));
        assert_eq!(told(front(&[S, 7, C, 9, C])), (tags(&[(S, 7), (C, 9)]), 22, C), "a third tag is none of them");
        // A priority and nothing else.
        assert_eq!(told(front(&[C, 0xa000, 0x0800])), (Tags::NONE, 18, 0x0800));
        assert_eq!(told(front(&[C, 0xa000, C, 5, 0x0800])), (tags(&[(C, 5)]), 22, 0x0800));
        assert_eq!(told(front(&[S, 5, C, 0, 0x0800])), (tags(&[(S, 5)]), 22, 0x0800));
    }

    #[test]
    fn headers_are_parsed_as_they_are_written() {
        for list in [&[][..], &[(C, 1)], &[(S, 4094)], &[(S, 1), (C, 4094)], &[(C, 7), (C, 7)]] {
            let tags = tags(list);
            let mut frame = [0; FRONT_LEN];
            frame[12..].copy_from_slice(&tags.bytes(0x0806));
            let front = Front::parse(&frame, |ethertype| matches!(ethertype, S | C));
            assert_eq!((front.tags, usize::from(front.l3), front.ethertype), (tags, tags.header_len(), 0x0806));
            assert_eq!(Tags::from_key(tags.key()), tags);
            assert_eq!(tags.count(), list.len());
        }
    }

    #[test]
    fn tags_are_written_as_people_write_them() {
        let text = |list: &[(u16, u16)]| tags(list).to_string();
        assert_eq!(text(&[]), "untagged");
        assert_eq!(text(&[(C, 100)]), "100");
        assert_eq!(text(&[(S, 100)]), "0x88a8:100");
        assert_eq!(text(&[(S, 100), (C, 7)]), "100.7");
        assert_eq!(text(&[(0x9100, 100), (S, 7)]), "0x9100:100.0x88a8:7");
    }
}
