//! IPv4 options (RFC 791 section 3.1), one by one.

/// Type of "end of option list", one byte.
pub const END: u8 = 0;
/// Type of "no operation", one byte.
pub const NO_OPERATION: u8 = 1;
/// Type of "record route".
pub const RECORD_ROUTE: u8 = 7;
/// Type of "internet timestamp".
pub const TIMESTAMP: u8 = 68;
/// Type of "loose source and record route".
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// Type of "strict source and record route".
pub const STRICT_SOURCE_ROUTE: u8 = 137;
/// Type of "router alert" (RFC 2113).
pub const ROUTER_ALERT: u8 = 148;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpOption<'p> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// Where it starts, in bytes from the start of the IPv4 header: what a Parameter Problem message points at.
    pub offset: u8,
    /// The whole option: type, and length and data where it has them.
    pub bytes: &'p [u8],
}

impl IpOption<'_> {
    /// Whether the option is copied into every fragment.
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }

    /// Whether the option dictates the route.
    pub const fn is_source_route(&self) -> bool {
        matches!(self.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)
    }
}

/// An option's length byte is missing, below 2, or leads out of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Where the faulty length byte is (or would be), in bytes from the start of the IPv4 header.
    pub pointer: u8,
}

/// Goes over the options of one header; ends at the end of the list, or after the first fault.
#[derive(Clone, Debug)]
pub struct Options<'p> {
    rest: &'p [u8],
    offset: u8,
}

impl<'p> Options<'p> {
    /// The options in `bytes`, which followed the 20 fixed bytes of a header. Only the first 40 can be options.
    pub fn new(bytes: &'p [u8]) -> Self {
        Options { rest: bytes.get(..40).unwrap_or(bytes), offset: 20 }
    }

    fn step(&mut self) -> Result<Option<IpOption<'p>>, BadOption> {
        let bad = BadOption { pointer: self.offset.saturating_add(1) };
        let length = match self.rest {
            [] | [END, ..] => return Ok(None),
            [NO_OPERATION, ..] => 1,
            [_, length, ..] if *length >= 2 => *length,
            _ => return Err(bad),
        };
        let (bytes, rest) = self.rest.split_at_checked(usize::from(length)).ok_or(bad)?;
        let kind = bytes.first().copied().unwrap_or(END);
        let option = IpOption { kind, offset: self.offset, bytes };
        self.rest = rest;
        self.offset = self.offset.saturating_add(length);
        Ok(Some(option))
    }
}

impl<'p> Iterator for Options<'p> {
    type Item = Result<IpOption<'p>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.rest = &[];
        }
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_list_of_rfc_791_is_walked_in_order() {
        let bytes = [NO_OPERATION, RECORD_ROUTE, 7, 4, 10, 0, 0, 1, LOOSE_SOURCE_ROUTE, 3, 4, END, 77, 99, 1, 1];
        let found: Vec<_> =
            Options::new(&bytes).map(Result::unwrap).map(|o| (o.kind, o.offset, o.bytes.len())).collect();
        assert_eq!(found, [(NO_OPERATION, 20, 1), (RECORD_ROUTE, 21, 7), (LOOSE_SOURCE_ROUTE, 28, 3)]);
    }

    #[test]
    fn copied_flags_are_those_of_rfc_791() {
        let copied = |kind| IpOption { kind, offset: 20, bytes: &[] }.is_copied();
        assert!(copied(LOOSE_SOURCE_ROUTE) && copied(STRICT_SOURCE_ROUTE) && copied(ROUTER_ALERT) && copied(130));
        assert!(!copied(RECORD_ROUTE) && !copied(TIMESTAMP) && !copied(NO_OPERATION));
    }

    #[test]
    fn faults_point_at_the_length_byte_and_end_the_list() {
        for (bytes, pointer) in [
            (&[RECORD_ROUTE, 1, 0, 0][..], 21),
            (&[RECORD_ROUTE, 0, 0, 0], 21),
            (&[1, 1, RECORD_ROUTE, 3], 23),
            (&[1, 1, 1, RECORD_ROUTE], 24),
        ] {
            let all: Vec<_> = Options::new(bytes).collect();
            assert_eq!(all.last(), Some(&Err(BadOption { pointer })), "{bytes:?}");
            assert!(all.iter().rev().skip(1).all(Result::is_ok));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_apart_without_gap_or_overlap(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut at = 20;
            for option in Options::new(&bytes).map_while(Result::ok) {
                prop_assert_eq!(usize::from(option.offset), at);
                prop_assert_eq!(option.bytes, &bytes[at - 20..at - 20 + option.bytes.len()]);
                at += option.bytes.len();
            }
            prop_assert!(at <= 60);
        }
    }
}
