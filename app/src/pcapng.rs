//! Writing captures in the format pcapng (draft-ietf-opsawg-pcapng): a section header, a description of each interface when
//! its first packet comes, the packets with nanosecond stamps and directions, and statistics at the end.

use std::io::{self, Write};

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Tells readers the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// Codes of options. The same code means different things in different blocks.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// When, nanoseconds since 1970 (UTC).
    pub(crate) time: u64,
    /// Whether it went out or came in, where that is known.
    pub(crate) outbound: Option<bool>,
    /// Its first bytes.
    pub(crate) bytes: &'a [u8],
    /// Its length on the wire.
    pub(crate) length: u32,
}

/// Writes a capture.
pub(crate) struct Writer<W: Write> {
    out: W,
    snap: u32,
    /// Names of the interfaces and when their last packets came.
    interfaces: Vec<(String, u64)>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of at most `snap` bytes of each packet.
    pub(crate) fn new(out: W, snap: u32, program: &str) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, snap, interfaces: Vec::new() };
        let mut body = Vec::new();
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        // The length of the section is not known.
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, APPLICATION, program.as_bytes());
        option(&mut body, END, &[]);
        writer.block(SECTION_HEADER, &body)?;
        Ok(writer)
    }

    /// Writes a packet of the interface of a name.
    pub(crate) fn packet(&mut self, interface: &str, record: &Record<'_>) -> io::Result<()> {
        let id = self.interface(interface, record.time)?;
        let captured = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(record.bytes.len() + 48);
        body.extend(id.to_le_bytes());
        body.extend(stamp(record.time));
        body.extend(captured.to_le_bytes());
        body.extend(record.length.max(captured).to_le_bytes());
        padded(&mut body, record.bytes);
        if let Some(outbound) = record.outbound {
            // Bits 0 and 1: 01 is inbound, 10 outbound.
            let flags: u32 = if outbound { 2 } else { 1 };
            option(&mut body, FLAGS, &flags.to_le_bytes());
            option(&mut body, END, &[]);
        }
        self.block(PACKET, &body)
    }

    /// Ends the capture: writes how many packets there were and how many could not be copied, and flushes.
    pub(crate) fn finish(mut self, packets: u64, missed: u64) -> io::Result<W> {
        // Not told apart by interface, so the figures stand at the first.
        if let Some((_, time)) = self.interfaces.first() {
            let mut body = Vec::new();
            body.extend(0_u32.to_le_bytes());
            body.extend(stamp(*time));
            option(&mut body, COMMENT, b"packets that met the filter; dropped ones were not copied in time");
            option(&mut body, RECEIVED, &packets.to_le_bytes());
            option(&mut body, DROPPED, &missed.to_le_bytes());
            option(&mut body, END, &[]);
            self.block(STATISTICS, &body)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Makes what was written visible.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The number of an interface, which is described if it is new.
    fn interface(&mut self, name: &str, time: u64) -> io::Result<u32> {
        let known = self.interfaces.iter_mut().position(|(other, _)| other == name);
        let at = match known {
            Some(at) => at,
            None => {
                let mut body = Vec::new();
                body.extend(ETHERNET.to_le_bytes());
                body.extend(0_u16.to_le_bytes());
                body.extend(self.snap.to_le_bytes());
                option(&mut body, NAME, name.as_bytes());
                // Ten to the power of minus nine: nanoseconds.
                option(&mut body, RESOLUTION, &[9]);
                option(&mut body, END, &[]);
                self.block(INTERFACE, &body)?;
                self.interfaces.push((name.to_owned(), time));
                self.interfaces.len() - 1
            }
        };
        if let Some((_, last)) = self.interfaces.get_mut(at) {
            *last = time.max(*last);
        }
        u32::try_from(at).map_err(|_| io::Error::other("too many interfaces"))
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len() + 12).map_err(|_| io::Error::other("a block of 4 GiB"))?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&length.to_le_bytes())
    }
}

/// A time as two words, the upper one first.
fn stamp(time: u64) -> impl Iterator<Item = u8> {
    let (high, low) = ((time >> 32) as u32, time as u32);
    high.to_le_bytes().into_iter().chain(low.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

/// Everything ends on a multiple of four bytes.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// The blocks of a file, by their types and bodies; the structure is checked.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let (kind, length) = (word(file), word(&file[4..]) as usize);
            assert!(length.is_multiple_of(4) && length >= 12);
            assert_eq!(word(&file[length - 4..]) as usize, length);
            found.push((kind, file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        found
    }

    fn example() -> Vec<u8> {
        let frame = weir_wire::build::UdpFrame::default().to_vec(&[0; 19]);
        let mut writer = Writer::new(Vec::new(), 65_535, "weir test").unwrap();
        let at = |nanos: u64| 1_795_297_563_000_000_000 + nanos;
        let length = frame.len() as u32;
        let record = |nanos, outbound| Record { time: at(nanos), outbound, bytes: &frame, length };
        writer.packet("wan", &record(123_456_789, Some(false))).unwrap();
        writer.packet("lan", &record(123_456_999, Some(true))).unwrap();
        let cut = Record { bytes: &frame[..20], ..record(200_000_000, None) };
        writer.packet("toy.ttl.expired", &cut).unwrap();
        writer.finish(5, 2).unwrap()
    }

    #[test]
    fn blocks_come_in_order() {
        let kinds: Vec<u32> = blocks(&example()).into_iter().map(|(kind, _)| kind).collect();
        let wanted = [SECTION_HEADER, INTERFACE, PACKET, INTERFACE, PACKET, INTERFACE, PACKET, STATISTICS];
        assert_eq!(kinds, wanted);
    }

    proptest! {
        #[test]
        fn any_packet_makes_whole_blocks(bytes in proptest::collection::vec(any::<u8>(), 0..300), length: u32, time: u64) {
            let mut writer = Writer::new(Vec::new(), 300, "x").unwrap();
            writer.packet("p", &Record { time, outbound: None, bytes: &bytes, length }).unwrap();
            let blocks = blocks(&writer.finish(1, 0).unwrap());
            let (_, body) = &blocks[2];
            prop_assert_eq!(&body[20..20 + bytes.len()], &bytes[..]);
            let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
            prop_assert_eq!(u64::from(word(4)) << 32 | u64::from(word(8)), time);
            prop_assert_eq!(word(12) as usize, bytes.len());
            prop_assert!(word(16) >= word(12));
        }
    }

    /// Wireshark's own reader must agree.
    #[test]
    fn tshark_reads_it() {
        if Command::new("tshark").arg("--version").output().is_err() {
            eprintln!("skipped: tshark is not installed");
            return;
        }
        let path = std::env::temp_dir().join(format!("weir-pcapng-{}.pcapng", std::process::id()));
        std::fs::write(&path, example()).unwrap();
        let fields =
            ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name", "frame.packet_flags_direction"];
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=,"]);
        tshark.args(fields.iter().flat_map(|field| ["-e", field]));
        let output = tshark.output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let column = |n: usize| lines.iter().map(|line| line[n]).collect::<Vec<_>>();
        assert_eq!(column(1), ["61", "61", "61"]);
        assert_eq!(column(2), ["61", "61", "20"]);
        assert_eq!(column(3), ["wan", "lan", "toy.ttl.expired"]);
        assert!(lines[0][0].contains("123456789"), "{text}");
        assert_ne!(lines[0][4], lines[1][4], "{text}");
    }
}
