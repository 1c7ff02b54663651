//! The changes of a template with their values, as they are carried out.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_codegen::{Code, RESULTS};

use super::answer::{Answer, CHANGED, Sctp};
use super::{Found, Template, words_of};
use crate::compiled::shape::in_memory;
use crate::fast::frame::{Frame, TAG};
use crate::fast::program::Op;
use crate::sctp;
use crate::tags::LEAST;

/// The changes of a template with their values.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    pub(super) template: Arc<Template>,
    pub(super) values: Values,
}

/// The words that changes set, a few of them where they are: those of two addresses, and one more.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Few([u32; 5]),
    Many(Box<[u32]>),
}

impl Values {
    pub(super) fn of(ops: &[Op]) -> Values {
        let all: Vec<u32> = ops.iter().flat_map(|op| values(*op)).collect();
        let mut few = [0; 5];
        match few.get_mut(..all.len()) {
            Some(places) => {
                places.copy_from_slice(&all);
                Values::Few(few)
            }
            None => Values::Many(all.into()),
        }
    }

    /// The words. Behind a few of them stand zeroes.
    #[inline(always)]
    fn words(&self) -> &[u32] {
        match self {
            Values::Few(words) => words,
            Values::Many(words) => words,
        }
    }
}

/// The code of a template, which is there, and beside which nothing is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone<'t> {
    template: &'t Template,
    code: &'t Code,
}

impl Filled {
    /// Changes a frame of which code found this; if not, nothing has happened: there is no code, or the frame is not like most. Code may write words beside
    /// that nobody needs of a frame that is changed.
    #[inline(always)]
    pub(crate) fn change(&self, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let Some(code) = self.code() else { return false };
        if !self.template.is_alone() {
            return self.change_more(code, frame, found, results);
        }
        self.change_by(Alone { template: &self.template, code }, frame, found, results)
    }

    /// The same, if something is to be done beside the code.
    #[inline]
    pub(crate) fn change_beside(&self, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        !self.template.is_alone() && self.code().is_some_and(|code| self.change_more(code, frame, found, results))
    }

    /// The same by code that is at hand, mostly that by which the packet before was changed; not if that is other code.
    #[inline(always)]
    pub(crate) fn change_by(
        &self,
        Alone { template, code }: Alone<'_>,
        frame: &mut impl Frame,
        found: Found,
        results: &mut [u32; RESULTS],
    ) -> bool {
        if !ptr::eq(template, &*self.template) {
            return false;
        }
        let length = frame.bytes().len();
        let Some(window) = frame.window() else { return false };
        let inputs = [length as u64, found.kind()];
        // Apart, so that the length of the few, of which nearly all changes are, is known when it is compared.
        let answer = match &self.values {
            Values::Few(words) => code.run_with(window, inputs, words, results),
            Values::Many(words) => code.run_with(window, inputs, words, results),
        };
        answer == Some(CHANGED)
    }

    /// The code, if it is there. If not, it is known from now on that it is wanted.
    #[inline]
    fn code(&self) -> Option<&Code> {
        let Template { is_wanted, code, .. } = &*self.template;
        let Some(Ok(code)) = code.get() else {
            // All workers read the line: it is written once.
            if !is_wanted.load(Ordering::Relaxed) {
                is_wanted.store(true, Ordering::Relaxed);
            }
            return None;
        };
        Some(code)
    }

    /// The code, if it is there, and nothing is to be done beside it.
    pub(crate) fn alone(&self) -> Option<Alone<'_>> {
        let template = &*self.template;
        Some(Alone { template, code: self.code().filter(|_| template.is_alone())? })
    }

    /// The same where something is to be done beside the code: tags come and go, and the frame begins elsewhere then, or ports of SCTP are set, whose CRC is of
    /// more than code sees.
    #[inline(never)]
    fn change_more(&self, code: &Code, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let Template { pushed, popped, .. } = &*self.template;
        let (length, front) = (frame.bytes().len(), *pushed * TAG);
        if *pushed + *popped > 0 && !frame.has_room(front, *popped * TAG) {
            return false;
        }
        if front > 0 {
            frame.prepend(front);
        }
        let inputs = [length as u64, found.kind()];
        let answer = frame.window().and_then(|window| code.run_with(window, inputs, self.values.words(), results));
        let Some(Answer { popped, sets_sctp }) = answer.and_then(Answer::of) else {
            if front > 0 {
                frame.trim_front(front);
            }
            return false;
        };
        let gone = popped * TAG;
        if popped > 0 {
            frame.trim_front(gone);
            // Each tag that comes off fills up what was long enough before.
            if (LEAST..LEAST + gone).contains(&length) {
                frame.lengthen(LEAST + front);
            }
        }
        if sets_sctp {
            change_crc(frame.bytes_mut(), gone, Sctp::of(results));
        }
        true
    }
}

/// Changes the CRC of SCTP as its ports were changed, in a frame that begins so many bytes behind the beginning of what code saw. A first fragment, and what is
/// shorter than its header, has none.
fn change_crc(bytes: &mut [u8], gone: usize, Sctp { ip_at, is_v6, ports }: Sctp) {
    let place = ip_at.checked_sub(gone).and_then(|at| sctp::place_behind(bytes, at, is_v6));
    if let Some(place) = place {
        sctp::update(bytes, &place, ports);
    }
}

/// The words that an operation sets: as they stand in memory what is whole words of the frame, the others as numbers.
fn values(op: Op) -> Vec<u32> {
    let address = |address: [u8; 6]| in_memory(address).to_vec();
    match op {
        Op::EthDst(to) => address(to),
        Op::EthSrc(from) => address(from),
        Op::SetTtl(to) | Op::SetMplsTtl(to) => vec![to.into()],
        Op::Set(field, value) => {
            let value = value & field.ones();
            let words = (0..words_of(field) as u32).rev();
            words.map(|word| whole((value >> (32 * word)) as u32, field.bits() - 32 * word)).collect()
        }
        _ => Vec::new(),
    }
}

/// A word of which so many bits, and those of words behind it, belong to a field: turned round if it is whole words of the frame.
fn whole(word: u32, bits: u32) -> u32 {
    match bits {
        16 => u32::from((word as u16).swap_bytes()),
        32.. if bits.is_multiple_of(16) => word.swap_bytes(),
        _ => word,
    }
}
