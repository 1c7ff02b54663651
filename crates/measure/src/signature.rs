//! What a generated packet carries at the very end of its payload, so that its receiver knows it again: [`Signature`].
//!
//! A 64-byte frame of UDP over IPv4 has room for 18 bytes, and [`Form::Full`] takes just these:
//!
//! ```text
//!     0                   1                   2                   3
//!     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    |              time sent, ns, its lower 40 bits ...             |
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    |               |  sequence number, its lower 40 bits ...       |
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    |                               |            stream             |
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    |         bytes covered         |             check             |
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    |       form: 0x77e1            |
//!    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Where headers leave less room, there are two shorter [forms](Form), which give something up. All numbers are in
//! network order. The form stands last, so that whoever reads needs no header to find it, whatever a device under test
//! put on the packet or took off.
//!
//! **The check** makes the last `bytes covered` bytes of the payload (the signature, and as much ahead of it as its
//! sender said) sum up to zero in one's complement arithmetic (RFC 1071). It detects every change of up to 15 bits in a
//! row, and misses one in 65,536 of other changes, and words of 16 bits that change places. It was chosen for its price: a
//! few additions; and since what it covers sums up to zero, the checksums of UDP, TCP and ICMP above it stay the same
//! whatever number and time a packet carries: a generator computes these once per stream. A stronger check is not
//! needed against bit errors of the wire, which the frame check sequence finds; this one is for what happens between.
//!
//! A packet that carries no signature is taken for one that was corrupted with a probability of 3 in 65,536, and for one
//! of ours with 3 in 4 milliards.

use weir_wire::checksum::{Sum, is_valid};

/// The last 16 bits but for the form's own number. Its last byte is never 0: see [`read`].
const MAGIC: u16 = 0x77e0;

/// Frames this short may have been padded by a device (IEEE 802.3 section 3.2.8), 64 with the frame check sequence.
const PADDED: usize = 64;

/// How much of a signature there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Form {
    /// 18 bytes: everything.
    Full = 1,
    /// 14 bytes: number and time in 32 bits each, and the check covers nothing ahead of the signature.
    Short = 2,
    /// 10 bytes: as [`Form::Short`], without the time.
    Untimed = 3,
}

impl Form {
    /// All forms, the one with most in it first.
    pub const ALL: [Form; 3] = [Form::Full, Form::Short, Form::Untimed];

    /// The best form that fits into `room` bytes of payload; `None` if none does.
    pub fn fitting(room: usize) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.len() <= room)
    }

    /// Bytes that it takes: 18, 14 or 10.
    // Not a container: there is no empty signature.
    #[allow(clippy::len_without_is_empty, reason = "a signature is never empty")]
    pub const fn len(self) -> usize {
        match self {
            Form::Full => 18,
            Form::Short => 14,
            Form::Untimed => 10,
        }
    }

    /// Bits of the sequence number that it carries.
    pub const fn sequence_bits(self) -> u32 {
        match self {
            Form::Full => 40,
            Form::Short | Form::Untimed => 32,
        }
    }

    /// Bits of the time that it carries; 0 if none.
    pub const fn time_bits(self) -> u32 {
        match self {
            Form::Full => 40,
            Form::Short => 32,
            Form::Untimed => 0,
        }
    }

    /// What cannot be told with this form, one phrase each, for people.
    pub const fn gives_up(self) -> &'static [&'static str] {
        match self {
            Form::Full => &[],
            Form::Short => &["latencies of more than 2.1 s", "corruption of the payload ahead of the signature"],
            Form::Untimed => {
                &["latency", "delay variation (PDV and IPDV)", "corruption of the payload ahead of the signature"]
            }
        }
    }

    const fn magic(self) -> u16 {
        MAGIC | self as u16
    }
}

/// Signs the packets of one stream whose payloads are alike ahead of the signature.
#[derive(Clone, Copy, Debug)]
pub struct Signer {
    form: Form,
    /// The fields that are the same in every packet, where they stand in the last word but the form.
    fixed: u64,
    /// What the same fields that are in no word with others, and the payload ahead, add to the sum.
    base: u16,
}

impl Signer {
    /// For packets of `stream` in `form`. `ahead` are the bytes ahead of the signature that the check shall cover (the
    /// whole payload up to there, if it is the same in all packets; empty, if it changes); only [`Form::Full`] covers them,
    /// and at most the last 65,517.
    pub fn new(form: Form, stream: u16, ahead: &[u8]) -> Signer {
        let ahead = match form {
            Form::Full => ahead.get(ahead.len().saturating_sub(usize::from(u16::MAX) - form.len())..).unwrap_or(ahead),
            Form::Short | Form::Untimed => &[],
        };
        let covered = (ahead.len() + form.len()) as u64;
        let fixed = match form {
            Form::Full => u64::from(stream) << 32 | covered << 16,
            Form::Short | Form::Untimed => u64::from(stream),
        };
        let sum = Sum::new().bytes(ahead).fold();
        // Words are counted from the end. Where their number of bytes is odd, every byte stands in the other half.
        let sum = if ahead.len() % 2 == 1 { sum.swap_bytes() } else { sum };
        Signer { form, fixed, base: Sum::new().word(sum).word(form.magic()).fold() }
    }

    /// The form.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Writes the signature of packet `sequence`, sent at `nanos`, to the last bytes of `payload`, and says whether there was
    /// room. Bits that the form has no room for are left out.
    #[inline]
    pub fn write(&self, payload: &mut [u8], sequence: u64, nanos: u64) -> bool {
        match self.form {
            Form::Full => payload.last_chunk_mut().map(|tail| self.write_full(tail, sequence, nanos)),
            Form::Short => payload.last_chunk_mut().map(|tail| self.write_short(tail, sequence, nanos)),
            Form::Untimed => payload.last_chunk_mut().map(|tail| self.write_untimed(tail, sequence)),
        }
        .is_some()
    }

    /// As [`Signer::write`] for [`Form::Full`], without a look at the form. A signer of another form writes nonsense.
    #[inline(always)]
    pub fn write_full(&self, tail: &mut [u8; 18], sequence: u64, nanos: u64) {
        let first = nanos << 24 | (sequence >> 16) & 0xff_ffff;
        let second = sequence << 48 | self.fixed;
        let check = Sum::new().word(self.base).long(first).long(second).checksum();
        let (words, last) = tail.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip([first, second | u64::from(check)]) {
            *to = word.to_be_bytes();
        }
        last.copy_from_slice(&Form::Full.magic().to_be_bytes());
    }

    fn write_short(&self, tail: &mut [u8; 14], sequence: u64, nanos: u64) {
        let first = nanos << 32 | sequence & 0xffff_ffff;
        self.write_small(tail, first);
    }

    fn write_untimed(&self, tail: &mut [u8; 10], sequence: u64) {
        let [_, _, _, _, rest @ ..] = &mut [0; 14];
        self.write_small(rest, sequence & 0xffff_ffff);
        tail.copy_from_slice(rest);
    }

    /// `first` is as much of time and number as there is room for: what of it stands first may be left out.
    fn write_small(&self, tail: &mut [u8], first: u64) {
        let check = Sum::new().word(self.base).long(first).word(self.fixed as u16).checksum();
        let bytes = first.to_be_bytes().into_iter();
        let rest = [self.fixed as u16, check, self.form.magic()].map(u16::to_be_bytes);
        let all = bytes.chain(rest.into_iter().flatten());
        let skip = 14 - tail.len().min(14);
        tail.iter_mut().zip(all.skip(skip)).for_each(|(to, byte)| *to = byte);
    }
}

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// How it was written.
    pub form: Form,
    /// The stream.
    pub stream: u16,
    /// The lower [`Form::sequence_bits`] of its number within the stream; see [`distance`] for the rest.
    pub sequence: u64,
    /// The lower [`Form::time_bits`] of the time it was sent at, ns.
    pub nanos: u64,
    /// Whether the check is right. If not, something of this, or of the payload ahead, is not what was sent.
    pub intact: bool,
}

impl Signature {
    /// Nanoseconds from when it was sent to `now` on the sender's clock, negative if `now` is earlier, as clocks of two
    /// machines may have it; `None` if it carries no time. Right within plus or minus 9 minutes ([`Form::Full`]) or 2.1
    /// seconds ([`Form::Short`]).
    #[inline]
    pub fn age(&self, now: u64) -> Option<i64> {
        let bits = self.form.time_bits();
        (bits != 0).then(|| distance(self.nanos, bits, now).wrapping_neg())
    }
}

/// How far the number whose lower `bits` (1 to 64) are `low` lies behind `near`, if it is the nearest of those: negative before it.
#[inline(always)]
pub const fn distance(low: u64, bits: u32, near: u64) -> i64 {
    let unused = 64 - bits;
    ((low.wrapping_sub(near) << unused) as i64) >> unused
}

/// The signature at the end of `packet` (a frame, or any part of it that ends with the payload); `None` if there is none.
///
/// Devices pad short frames with zeroes. Since a signature does not end in a zero, those behind one are passed over in
/// packets of up to 64 bytes.
#[inline]
pub fn read(packet: &[u8]) -> Option<Signature> {
    if let Some(tail) = packet.last_chunk::<18>()
        && ends_in(tail, Form::Full)
    {
        return Some(read_full(packet, tail));
    }
    read_other(packet)
}

#[inline(always)]
fn ends_in(bytes: &[u8], form: Form) -> bool {
    bytes.last_chunk() == Some(&form.magic().to_be_bytes())
}

#[inline(always)]
fn read_full(packet: &[u8], tail: &[u8; 18]) -> Signature {
    let (words, _) = tail.as_chunks::<8>();
    let [first, second] = [words.first(), words.get(1)].map(|word| word.map_or(0, |word| u64::from_be_bytes(*word)));
    let covered = usize::from((second >> 16) as u16);
    let intact = if covered == tail.len() {
        Sum::new().long(first).long(second).word(Form::Full.magic()).checksum() == 0
    } else {
        covered > tail.len() && packet.len().checked_sub(covered).and_then(|at| packet.get(at..)).is_some_and(is_valid)
    };
    Signature {
        form: Form::Full,
        stream: (second >> 32) as u16,
        sequence: (first & 0xff_ffff) << 16 | second >> 48,
        nanos: first >> 24,
        intact,
    }
}

#[cold]
fn read_other(packet: &[u8]) -> Option<Signature> {
    let whole = if packet.len() <= PADDED { without_padding(packet) } else { packet };
    let form = Form::ALL.into_iter().find(|&form| ends_in(whole, form))?;
    match form {
        Form::Full => whole.last_chunk().map(|tail| read_full(whole, tail)),
        Form::Short => read_small::<14>(whole, form),
        Form::Untimed => read_small::<10>(whole, form),
    }
}

fn without_padding(packet: &[u8]) -> &[u8] {
    let len = packet.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    packet.get(..len).unwrap_or_default()
}

fn read_small<const LEN: usize>(packet: &[u8], form: Form) -> Option<Signature> {
    let tail = packet.last_chunk::<LEN>()?;
    let mut all = [0; 14];
    all.last_chunk_mut::<LEN>()?.copy_from_slice(tail);
    let (time, [s0, s1, s2, s3, stream0, stream1, ..]) = all.split_first_chunk::<4>()? else { return None };
    Some(Signature {
        form,
        stream: u16::from_be_bytes([*stream0, *stream1]),
        sequence: u64::from(u32::from_be_bytes([*s0, *s1, *s2, *s3])),
        nanos: u64::from(u32::from_be_bytes(*time)),
        intact: is_valid(tail),
    })
}
