//! Reading and writing numbers in network order, with every length checked.

use crate::Error;

/// Bytes that are read from the front. What is asked beyond their end is answered with the error that the reader was made
/// with, so that a short action and a short match each get the error of the specification.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    short: Error,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], short: impl Into<Error>) -> Self {
        Reader { rest: bytes, short: short.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(self.short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(self.short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn mac(&mut self) -> Result<[u8; 6], Error> {
        self.array()
    }

    /// Padding is not looked at: the specification asks receivers to ignore it.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.take(count).map(drop)
    }

    /// The next `count` bytes as a reader of its own.
    pub(crate) fn part(&mut self, count: usize, short: impl Into<Error>) -> Result<Reader<'a>, Error> {
        Ok(Reader::new(self.take(count)?, short))
    }

    /// A structure that begins with its kind and its length (both 16 bits): the kind, and what follows the length.
    /// The length counts the four bytes too, and is a multiple of `unit`.
    pub(crate) fn structure(&mut self, unit: usize) -> Result<(u16, Reader<'a>), Error> {
        let mut ahead = *self;
        let kind = ahead.u16()?;
        let length = usize::from(ahead.u16()?);
        if length < 4 || !length.is_multiple_of(unit) {
            return Err(self.short);
        }
        let mut whole = Reader::new(self.take(length)?, self.short);
        whole.skip(4)?;
        Ok((kind, whole))
    }

    /// A structure that begins with its length of 16 bits: what follows the length.
    pub(crate) fn sized(&mut self) -> Result<Reader<'a>, Error> {
        let length = usize::from({ *self }.u16()?);
        let mut whole = Reader::new(self.take(length)?, self.short);
        whole.skip(2)?;
        Ok(whole)
    }

    /// Text of `count` bytes, of which the last is zero at the latest. In what is not UTF-8, each byte that is not ASCII
    /// becomes a question mark.
    pub(crate) fn text(&mut self, count: usize) -> Result<String, Error> {
        let bytes = self.take(count)?;
        let bytes = bytes.get(..count.saturating_sub(1)).unwrap_or_default();
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect(),
        })
    }

    /// Everything that is left, one `item` after the other.
    pub(crate) fn all<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        while !self.is_empty() {
            let before = self.left();
            items.push(item(self)?);
            // An item of no bytes would be read for ever.
            if self.left() == before {
                return Err(self.short);
            }
        }
        Ok(items)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// Bytes that grow at the end.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn pad(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, 0);
    }

    /// Pads until what began at `start` is a multiple of eight bytes long.
    pub(crate) fn align(&mut self, start: usize) {
        self.pad((self.0.len() - start).next_multiple_of(8) - (self.0.len() - start));
    }

    /// Text in a field of `size` bytes, cut so that a zero byte ends it.
    pub(crate) fn text(&mut self, text: &str, size: usize) {
        let mut end = text.len().min(size.saturating_sub(1));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end]);
        self.pad(size - end);
    }

    pub(crate) fn here(&self) -> usize {
        self.0.len()
    }

    /// Writes how long what began at `start` has become into the 16 bits at `start + offset`. A length that needs more
    /// bits makes the whole message too long, which is noticed at its end.
    pub(crate) fn length(&mut self, start: usize, offset: usize) {
        let length = (self.0.len() - start) as u16;
        if let Some(field) = self.0.get_mut(start + offset..start + offset + 2) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// A structure that begins with `kind` and its length; padded to eight bytes, which the length counts.
    pub(crate) fn structure(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.here();
        self.u16(kind);
        self.u16(0);
        body(self);
        self.align(start);
        self.length(start, 2);
    }

    /// A structure that begins with its length.
    pub(crate) fn sized(&mut self, body: impl FnOnce(&mut Self)) {
        let start = self.here();
        self.u16(0);
        body(self);
        self.length(start, 0);
    }
}
