//! Fields of headers, in the byte order of their file or section.

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// Fields of a header, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) order: Order,
}

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*array)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let array = self.array()?;
        Some(if self.order == Order::Big { u16::from_be_bytes(array) } else { u16::from_le_bytes(array) })
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(self.order.u32(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let array = self.array()?;
        Some(if self.order == Order::Big { u64::from_be_bytes(array) } else { u64::from_le_bytes(array) })
    }
}
