//! The bytes of a capture, uncompressed on the way if need be.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How many bytes tell a file's form.
pub(crate) const MAGIC: usize = 4;

/// Compressed bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// Memory that a compressed file may ask for: the window of `zstd --ultra -22`, and of `--long`.
const WINDOW: u64 = 1 << 27;

/// What the bytes come from.
pub(crate) enum Source<R> {
    Plain(Counted<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted<R>>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes, and decides by them.
    pub(crate) fn new(mut inner: R) -> io::Result<Source<R>> {
        let mut head = [0; MAGIC];
        let mut len = 0;
        while let Some(rest) = head.get_mut(len..)
            && !rest.is_empty()
        {
            match inner.read(rest) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let counted = Counted { head, at: 0, len, inner, read: 0 };
        Ok(match head {
            [0x1f, 0x8b, ..] => {
                let input = BufReader::with_capacity(CHUNK, counted);
                Source::Gzip(Box::new(MultiGzDecoder::new(input)))
            }
            // RFC 8878 sections 3.1.1 and 3.1.2: a frame, or one to be skipped, as parallel compressors put in front.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Source::Zstd(Box::new(Zstd::new(counted))),
            _ => Source::Plain(counted),
        })
    }

    /// What it is compressed with.
    pub(crate) fn compression(&self) -> Option<&'static str> {
        match self {
            Source::Plain(_) => None,
            Source::Gzip(_) => Some("gzip"),
            Source::Zstd(_) => Some("zstd"),
        }
    }

    /// Bytes read of what is there, compressed as it is.
    pub(crate) fn position(&self) -> u64 {
        match self {
            Source::Plain(input) => input.read,
            Source::Gzip(input) => input.get_ref().get_ref().read,
            Source::Zstd(input) => input.input.get_ref().read,
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(input) => input.read(to),
            Source::Gzip(input) => input.read(to),
            Source::Zstd(input) => input.read(to),
        }
    }
}

/// A stream whose first bytes were looked at, and that counts.
pub(crate) struct Counted<R> {
    head: [u8; MAGIC],
    at: usize,
    len: usize,
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let got = match self.head.get(self.at..self.len) {
            Some(mut head) if !head.is_empty() => {
                let got = head.read(to)?;
                self.at += got;
                got
            }
            _ => self.inner.read(to)?,
        };
        self.read += got as u64;
        Ok(got)
    }
}

/// zstd: any number of frames, one behind the other, and frames between them that are to be skipped.
pub(crate) struct Zstd<R> {
    input: BufReader<Counted<R>>,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    within: bool,
}

impl<R: Read> Zstd<R> {
    fn new(input: Counted<R>) -> Zstd<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Zstd { input: BufReader::with_capacity(CHUNK, input), decoder, within: false }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.input) {
            Ok(()) => self.within = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let length = u64::from(length);
                if io::copy(&mut (&mut self.input).take(length), &mut io::sink())? < length {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a frame to be skipped"));
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }

    /// Ends a frame all of whose bytes were handed out.
    fn end(&mut self) -> io::Result<()> {
        self.within = false;
        match self.decoder.get_checksum_from_data() {
            Some(sum) if self.decoder.get_calculated_checksum() != Some(sum) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a frame is wrong"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within {
                if !self.begin()? {
                    return Ok(0);
                }
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            match self.decoder.read(to)? {
                0 if !to.is_empty() => self.end()?,
                got => return Ok(got),
            }
        }
    }
}
