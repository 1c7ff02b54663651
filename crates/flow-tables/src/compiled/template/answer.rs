//! What the program of a template answers, and hands on beside.

use weir_codegen::RESULTS;

/// What a program answers that left a frame alone.
pub(super) const LEFT_ALONE: u32 = 0;
/// And what one does that changed it, where nothing else is to be done.
pub(super) const CHANGED: u32 = 1;

/// How far left in an answer stands how many tags came off.
const POPPED: u32 = 8;

/// In an answer: ports of SCTP were set, whose CRC is to be changed as they were. Beside it stand two words.
const SETS_SCTP: u32 = 1 << 16;

/// The word that says where the header of IP begins, in the window...
pub(super) const IP_AT: usize = 0;
/// ...with this bit if it is of version 6.
pub(super) const IS_V6: u64 = 1 << 16;
/// The word that the ports were.
pub(super) const PORTS: usize = 1;

const _: () = assert!(IP_AT < RESULTS && PORTS < RESULTS, "they are words of a program");

/// What is to be done with a frame that code changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// So many tags came off: the frame begins so much later.
    pub(super) popped: usize,
    pub(super) sets_sctp: bool,
}

impl Answer {
    /// The number that code answers.
    pub(super) const fn number(self) -> u32 {
        CHANGED | (self.popped as u32) << POPPED | if self.sets_sctp { SETS_SCTP } else { 0 }
    }

    /// What code answered; nothing if it left the frame alone.
    pub(super) fn of(number: u32) -> Option<Answer> {
        let popped = usize::from((number >> POPPED) as u8);
        (number != LEFT_ALONE).then_some(Answer { popped, sets_sctp: number & SETS_SCTP != 0 })
    }
}

/// Where SCTP is whose ports were set, and what they were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sctp {
    /// Where its header of IP begins, in the window.
    pub(super) ip_at: usize,
    pub(super) is_v6: bool,
    pub(super) ports: [u8; 4],
}

impl Sctp {
    /// What code handed on.
    pub(super) fn of(words: &[u32; RESULTS]) -> Sctp {
        let (place, ports) = (words[IP_AT], words[PORTS]);
        Sctp { ip_at: usize::from(place as u16), is_v6: u64::from(place) & IS_V6 != 0, ports: ports.to_be_bytes() }
    }
}
