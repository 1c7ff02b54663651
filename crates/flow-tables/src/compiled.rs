//! The first table as machine code, while it has few flows that do what most flows do.
//!
//! Such code looks into a frame only as far as the flows ask, tries them in their order, changes the frame as the flow that it meets says, and answers
//! which one that is. Values that flows ask for, and addresses that they set, are data of the code: only another *shape* of the table takes other
//! code. That is made apart from packets: who drives the switch takes a [`Recipe`], compiles it without the switch, and lets it be
//! [installed](crate::Switch::install). Until then, and for frames that are not as most frames are, everything goes the usual way, which says what is right.

use std::fmt;
use std::sync::Arc;

use weir_codegen::{Code, WINDOW};

use crate::fast::program::End;
use crate::index::Slot;
use crate::table::FlowTable;

mod sample;
mod shape;
mod writer;

pub use sample::SampleFrame;
use shape::{Described, Shape};

/// With more flows a table has no code: each costs a comparison, and soon all together more than a hash table does.
const MOST_FLOWS: usize = 24;

/// A table that had more flows has code again from so many on, so that a flow more or less does not change it back and forth.
const FEW_AGAIN: usize = 16;

/// Whether the first table is machine code, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeState {
    /// It is.
    InUse,
    /// It will be.
    Wanted,
    /// It is not, for this reason.
    No(&'static str),
    /// It could not be made, for this reason.
    Failed(String),
}

impl fmt::Display for CodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeState::InUse => f.write_str("in use"),
            CodeState::Wanted => f.write_str("being made"),
            CodeState::No(why) => write!(f, "no: {why}"),
            CodeState::Failed(why) => write!(f, "no: it could not be made: {why}"),
        }
    }
}

/// What code is to be made of.
#[derive(Clone, Debug)]
pub struct Recipe(Arc<Shape>);

/// What came of a [`Recipe`].
#[derive(Debug)]
pub struct Made {
    shape: Arc<Shape>,
    code: Result<Code, String>,
}

impl Recipe {
    /// Makes the code. That takes milliseconds, and memory.
    pub fn compile(self) -> Made {
        let Recipe(shape) = self;
        let program = writer::write(&shape).map_err(|fault| fault.to_string());
        let code = program.and_then(|program| Code::compile(&program).map_err(|failed| failed.to_string()));
        Made { shape, code }
    }
}

/// The machine code of a table.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// It may have any.
    is_allowed: bool,
    /// What the table is like; nothing, and why, if there is no code for such tables.
    shape: Result<Arc<Shape>, &'static str>,
    /// The code that was made last, or why it was not; of another shape, perhaps.
    made: Option<Made>,
    /// What is found by the answers of the code; empty unless it is for the table as it is now.
    targets: Vec<Target>,
    /// How many packets code decided about.
    decided: u64,
}

/// What code answers if a frame is to go the usual way: the number of no flow.
const USUAL: u32 = u32::MAX;

/// A flow, and where it leads to.
pub(crate) type Target = (Slot, End);

const TOO_MANY: &str = "it has too many flows";
const OFF: &str = "it is switched off";

impl Default for Compiled {
    fn default() -> Compiled {
        Compiled { is_allowed: true, shape: Err("it has no flows"), made: None, targets: Vec::new(), decided: 0 }
    }
}

impl Clone for Compiled {
    /// The same, without code: that is made anew.
    fn clone(&self) -> Compiled {
        Compiled { is_allowed: self.is_allowed, shape: self.shape.clone(), ..Compiled::default() }
    }
}

impl Compiled {
    /// Whether there is code for the table as it is now.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        !self.targets.is_empty()
    }

    pub(crate) fn state(&self) -> CodeState {
        match (&self.shape, &self.made) {
            (Err(why), _) => CodeState::No(why),
            (Ok(shape), Some(Made { shape: made, code: Err(why) })) if made == shape => CodeState::Failed(why.clone()),
            _ if self.is_in_use() => CodeState::InUse,
            _ => CodeState::Wanted,
        }
    }

    /// What is to be compiled now, if something is.
    pub(crate) fn recipe(&self) -> Option<Recipe> {
        let shape = self.shape.as_ref().ok()?;
        let is_made = self.made.as_ref().is_some_and(|made| made.shape == *shape);
        (!is_made).then(|| Recipe(Arc::clone(shape)))
    }

    /// Takes code in for the table; what it replaces, to be dropped where there is time.
    pub(crate) fn install(&mut self, made: Made, table: &FlowTable) -> Option<Made> {
        let old = self.made.replace(made);
        self.see(table);
        old
    }

    pub(crate) fn allow(&mut self, is_allowed: bool, table: &FlowTable) {
        self.is_allowed = is_allowed;
        self.see(table);
    }

    /// Sees what a table is like, after every change of its flows: the code that there is gets its data, or is left alone.
    pub(crate) fn see(&mut self, table: &FlowTable) {
        let most = if self.shape == Err(TOO_MANY) { FEW_AGAIN } else { MOST_FLOWS };
        self.targets.clear();
        let described = if self.is_allowed { shape::describe(table, most) } else { Err(OFF) };
        let Described { shape, data, targets } = match described {
            Ok(described) => described,
            Err(why) => {
                self.shape = Err(why);
                return;
            }
        };
        if self.shape.as_ref().ok().is_none_or(|known| **known != shape) {
            self.shape = Ok(Arc::new(shape));
        }
        let Ok(shape) = &self.shape else { return };
        if let Some(Made { shape: made, code: Ok(code) }) = &mut self.made
            && made == shape
            && code.data_mut().len() == data.len()
        {
            code.data_mut().copy_from_slice(&data);
            self.targets = targets;
        }
    }

    /// The flow that a frame meets, which has changed it, and where that leads to; nothing, and nothing happened, if that takes the usual way.
    #[inline]
    pub(crate) fn decide(&mut self, window: &mut [u8; WINDOW], length: usize, in_port: u32) -> Option<Target> {
        let code = self.made.as_ref()?.code.as_ref().ok()?;
        let answer = code.run(window, [length as u64, in_port.into()]);
        let target = self.targets.get(answer as usize).copied()?;
        self.decided = self.decided.wrapping_add(1);
        Some(target)
    }

    /// Frames of which each has what a flow asks for, if there is code for them.
    pub(crate) fn samples(&self, table: &FlowTable) -> Option<Vec<SampleFrame>> {
        self.is_in_use().then(|| sample::frames(table))
    }

    /// For how many of these code finds a flow; they are changed, and not counted.
    pub(crate) fn find_all(&self, frames: &mut [SampleFrame]) -> usize {
        let code = self.made.as_ref().and_then(|made| made.code.as_ref().ok());
        code.map_or(0, |code| sample::find_all(code, frames))
    }

    /// How many packets code decided about.
    pub(crate) fn decided(&self) -> u64 {
        self.decided
    }
}
