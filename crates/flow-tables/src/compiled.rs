//! Machine code that looks into frames for the flow tables.
//!
//! Such code looks into a frame only as far as flows, groups and their actions ask. It begins in the first table. Where a table has few flows, code tries
//! them in their order, and goes on in the table that they lead to. If what is met only changes addresses and TTL and sends, code changes the frame,
//! and answers which flows it met. Else it hands on what of the packet others ask for, and answers where the packet is: at a flow that does more, or
//! at a table with many flows, which is searched as ever, for all packets of a batch at once.
//!
//! Values that flows ask for, and addresses that they set, are data of the code: only another *shape* of the tables takes other
//! code. That is made apart from packets: who drives the switch takes a [`Recipe`], compiles it without the switch, and lets it be
//! [installed](crate::Switch::install). Until then, and for frames that are not as most frames are, everything goes the usual way, which says what is right.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use weir_codegen::{Code, WINDOW};

use crate::counts::{Count, PerWorker, Worker};
use crate::fast::program::End;
use crate::index::Slot;
use crate::needs::Needs;
use crate::table::FlowTable;
use crate::words::Words;

mod sample;
mod shape;
mod template;
mod writer;

pub use sample::SampleFrame;
use shape::{Describing, Shape};
use template::Template;
pub(crate) use template::{Alone, Filled, Templates};

/// With more flows a table is searched: each costs a comparison, and soon all together more than a hash table does.
const MOST_FLOWS: usize = 24;

/// The flows of a table that had more are tried again from so many on, so that a flow more or less does not change it back and forth.
const FEW_AGAIN: usize = 16;

/// So many flows are tried in all tables, on all ways to them. So there are no more answers than twice as many.
const MOST_TRIED: usize = 48;

/// Whether there is machine code, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeState {
    /// There is.
    InUse,
    /// There will be.
    Wanted,
    /// There is none, for this reason.
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

/// What code that is in use has to do with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It tries its flows.
    Tried,
    /// It says what the table is searched for.
    Searched,
    /// Nothing: no flow that code tries leads there.
    Beside,
}

/// What code is to be made of.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What tables are like.
    shape: Option<Arc<Shape>>,
    /// Changes of frames, which use their code from when it is there.
    templates: Vec<Arc<Template>>,
}

/// What came of a [`Recipe`].
#[derive(Debug)]
pub struct Made(Option<MadeOfTables>);

#[derive(Debug)]
struct MadeOfTables {
    shape: Arc<Shape>,
    code: Result<Code, String>,
}

impl Recipe {
    /// Makes the code. That takes milliseconds, and memory.
    pub fn compile(self) -> Made {
        let Recipe { shape, templates } = self;
        templates.iter().for_each(|template| template.compile());
        Made(shape.map(|shape| {
            let program = writer::write(&shape).map_err(|fault| fault.to_string());
            let code = program.and_then(|program| Code::compile(&program).map_err(|failed| failed.to_string()));
            MadeOfTables { shape, code }
        }))
    }
}

/// A flow that a packet met: of this table, in this slot.
pub(crate) type Met = (u8, Slot);

/// So many flows are met by code at most, one after the other.
pub(crate) const MOST_MET: usize = 4;

/// Where an answer of the code leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    met: [Met; MOST_MET],
    count: u8,
    pub(crate) then: Then,
}

/// What comes behind the flows that a packet met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It was changed, and leaves.
    Leave(End),
    /// This flow, the last one, is to be carried out. Those before lead on, and nothing else.
    Go(Met),
    /// This table is searched. All flows lead on, and nothing else.
    Search(u8),
}

impl Target {
    /// Of the usual way: no flow is known, and it begins in the first table.
    pub(crate) const USUAL: Target = Target { met: [(0, 0); MOST_MET], count: 0, then: Then::Search(0) };

    fn new(path: &[Met], then: Then) -> Target {
        let mut target = Target { then, ..Target::USUAL };
        for (place, met) in target.met.iter_mut().zip(path) {
            *place = *met;
            target.count += 1;
        }
        target
    }

    /// The flows that it met.
    #[inline]
    pub(crate) fn met(&self) -> &[Met] {
        self.met.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Those of them that only lead on, and the last one if that does more.
    #[inline]
    pub(crate) fn parts(&self) -> (&[Met], Option<Met>) {
        match (self.then, self.met().split_last()) {
            (Then::Go(last), Some((_, leading))) => (leading, Some(last)),
            _ => (self.met(), None),
        }
    }
}

/// What code found of a frame, as it answers it: from the highest byte on 1, the number of a target, the table that is to be searched, and what kind of frame.
/// So it is never 0, and takes no more room where there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found(NonZeroU32);

/// What stands behind the type of a frame, as far as code looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    None,
    Four,
    Six,
    Mpls,
    Arp,
}

impl Found {
    /// What code never answers: its highest byte is 0.
    pub(crate) const NOTHING: Found = Found(NonZeroU32::MIN);

    /// A target, the table to be searched or [`NO_TABLE`], how many VLAN tags there are, and what stands behind them, if it was looked so far.
    fn new(target: u8, search: u8, tags: u8, ip: Version) -> Found {
        let number = u32::from_be_bytes([1, target, search, tags << 4 | ip as u8]);
        Found(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    /// What code finds of a frame, which was changed if it is to leave then; nothing, and nothing happened, if it is to go the usual way. Words that others
    /// ask for are written, unless it leaves.
    #[inline(always)]
    pub(crate) fn by(
        code: &Code,
        window: &mut [u8; WINDOW],
        length: usize,
        in_port: u32,
        words: &mut Words,
    ) -> Option<Found> {
        Found::of(code.run(window, [length as u64, in_port.into()], words))
    }

    #[inline(always)]
    fn of(answer: u32) -> Option<Found> {
        NonZeroU32::new(answer).map(Found)
    }

    /// What code answers.
    #[inline(always)]
    fn answer(self) -> u32 {
        self.0.get()
    }

    #[inline]
    fn target(self) -> usize {
        usize::from((self.answer() >> 16) as u8)
    }

    /// The table that is to be searched, or [`NO_TABLE`].
    #[inline]
    pub(crate) fn search(self) -> u8 {
        (self.answer() >> 8) as u8
    }

    /// Of which kind a frame is: how many VLAN tags there are, in steps of 16, and the [`Version`] behind them.
    #[inline]
    pub(crate) fn kind(self) -> u64 {
        u64::from(self.answer() as u8)
    }

    /// How many VLAN tags there are.
    #[inline]
    pub(crate) fn tags(self) -> usize {
        usize::from(self.answer() as u8 >> 4)
    }

    /// Which version of IP is behind them, if it was looked so far.
    #[inline]
    pub(crate) fn ip(self) -> Version {
        match self.answer() & 0xf {
            kind if kind == Version::Four as u32 => Version::Four,
            kind if kind == Version::Six as u32 => Version::Six,
            _ => Version::None,
        }
    }
}

/// The number of no table.
pub(crate) const NO_TABLE: u8 = u8::MAX;

/// What code answers if a frame is to go the usual way.
const USUAL: u32 = 0;

/// The machine code of a switch.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// There may be any.
    is_allowed: bool,
    /// What the tables are like; nothing, and why, if there is no code for such tables.
    shape: Result<Arc<Shape>, &'static str>,
    /// The code that was made last, or why it was not; of another shape, perhaps.
    made: Option<MadeOfTables>,
    /// What is found by the answers of the code; empty unless it is for the tables as they are now.
    targets: Vec<Target>,
    /// Whether it leads to tables that are searched.
    searches: bool,
    /// Whether nothing is of account to it but the port that packets come in by, and it changes none.
    is_by_port: bool,
    /// Whether tables have more flows than are tried one after the other.
    has_many: Vec<bool>,
    /// What was needed for each table when it was looked at last.
    needs: Vec<Needs>,
    /// What is needed for groups.
    groups: Needs,
    /// Tables that code tries the flows of, and those that it leads to.
    tried: Vec<u8>,
    searched: Vec<u8>,
    /// How many packets code decided about.
    decided: PerWorker<Decided>,
}

const NO_FLOWS: &str = "it has no flows";
const OFF: &str = "it is switched off";
const NOTHING: &str = "its flows take the interpreter";

impl Default for Compiled {
    fn default() -> Compiled {
        Compiled {
            is_allowed: true,
            shape: Err(NO_FLOWS),
            made: None,
            targets: Vec::new(),
            searches: false,
            is_by_port: false,
            has_many: Vec::new(),
            needs: Vec::new(),
            groups: Needs::default(),
            tried: Vec::new(),
            searched: Vec::new(),
            decided: PerWorker::new(1, &Decided::default()),
        }
    }
}

/// How many packets code decided about for a worker: a line of its own.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Decided(Count);

impl Clone for Compiled {
    /// The same, without code: that is made anew.
    fn clone(&self) -> Compiled {
        Compiled {
            is_allowed: self.is_allowed,
            shape: self.shape.clone(),
            has_many: self.has_many.clone(),
            needs: self.needs.clone(),
            groups: self.groups,
            decided: self.decided.clone(),
            ..Compiled::default()
        }
    }
}

impl Compiled {
    /// Whether there is code for the tables as they are now.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Whether code leads to tables that are searched.
    #[inline]
    pub(crate) fn searches(&self) -> bool {
        self.searches
    }

    /// Whether all whole frames that come in by one port go the same way, as they are.
    #[inline]
    pub(crate) fn is_by_port(&self) -> bool {
        self.is_by_port
    }

    pub(crate) fn state(&self) -> CodeState {
        match (&self.shape, &self.made) {
            (Err(why), _) => CodeState::No(why),
            (Ok(shape), Some(MadeOfTables { shape: made, code: Err(why) })) if made == shape => {
                CodeState::Failed(why.clone())
            }
            _ if self.is_in_use() => CodeState::InUse,
            _ => CodeState::Wanted,
        }
    }

    /// What it has to do with a table.
    pub(crate) fn role(&self, table: u8) -> Role {
        match (self.tried.contains(&table), self.searched.contains(&table)) {
            (true, _) => Role::Tried,
            (false, true) => Role::Searched,
            (false, false) => Role::Beside,
        }
    }

    /// What is to be compiled now, if something is.
    pub(crate) fn recipe(&self, templates: Vec<Arc<Template>>) -> Option<Recipe> {
        let shape = self.shape.as_ref().ok()?;
        let is_made = self.made.as_ref().is_some_and(|made| made.shape == *shape);
        let shape = (!is_made).then(|| Arc::clone(shape));
        (shape.is_some() || !templates.is_empty()).then_some(Recipe { shape, templates })
    }

    /// Takes code in for the tables; what it replaces, to be dropped where there is time.
    pub(crate) fn install(&mut self, made: Made, tables: &[FlowTable]) -> Option<Made> {
        let Made(Some(made)) = made else { return None };
        let old = self.made.replace(made);
        self.see(tables);
        old.map(|old| Made(Some(old)))
    }

    pub(crate) fn allow(&mut self, is_allowed: bool, tables: &[FlowTable]) {
        self.is_allowed = is_allowed;
        self.see(tables);
    }

    /// Sees what groups need, after every change of theirs.
    pub(crate) fn see_groups(&mut self, needs: Needs, tables: &[FlowTable]) {
        if std::mem::replace(&mut self.groups, needs) != needs {
            self.see(tables);
        }
    }

    /// Sees what a table is like, after every change of its flows.
    pub(crate) fn see_table(&mut self, number: u8, tables: &[FlowTable]) {
        let at = usize::from(number);
        let Some(table) = tables.get(at) else { return };
        self.has_many.resize(tables.len(), false);
        self.needs.resize(tables.len(), Needs::default());
        let (Some(has_many), Some(needs)) = (self.has_many.get_mut(at), self.needs.get_mut(at)) else { return };
        let had_many = *has_many;
        *has_many = table.len() > if had_many { FEW_AGAIN } else { MOST_FLOWS };
        let needed = if *has_many { table.needs() } else { Needs::all(table.in_order().map(|(_, flow)| flow.needs())) };
        let same = std::mem::replace(needs, needed) == needed;
        // What is in a table that is searched is of no account to the code.
        if !(had_many && *has_many && same) {
            self.see(tables);
        }
    }

    /// Sees what tables are like: the code that there is gets its data, or is left alone.
    fn see(&mut self, tables: &[FlowTable]) {
        self.targets.clear();
        let needs = Needs::all(self.needs.iter().copied()).and(self.groups);
        let mut all = Describing {
            tables,
            has_many: &self.has_many,
            left: MOST_TRIED,
            data: Vec::new(),
            targets: Vec::new(),
            tried: Vec::new(),
            searched: Vec::new(),
        };
        let root = match tables.first() {
            _ if !self.is_allowed => Err(OFF),
            Some(first) if !first.is_empty() => Ok(all.node(0, &[])),
            _ => Err(NO_FLOWS),
        };
        let Describing { data, targets, tried, searched, .. } = all;
        (self.tried, self.searched) = (tried, searched);
        let shape = match root {
            Ok(root) if !targets.is_empty() => Shape { needs, root },
            Ok(_) => return self.shape = Err(NOTHING),
            Err(why) => return self.shape = Err(why),
        };
        if self.shape.as_ref().ok().is_none_or(|known| **known != shape) {
            self.shape = Ok(Arc::new(shape));
        }
        let Ok(shape) = &self.shape else { return };
        if let Some(MadeOfTables { shape: made, code: Ok(code) }) = &mut self.made
            && made == shape
            && code.data_mut().len() == data.len()
        {
            code.data_mut().copy_from_slice(&data);
            self.searches = targets.iter().any(|target| matches!(target.then, Then::Search(_)));
            self.is_by_port = shape.is_by_port();
            self.targets = targets;
        }
    }

    /// The code that was made last; for the tables as they are now if it is [in use](Compiled::is_in_use).
    #[inline]
    pub(crate) fn code(&self) -> Option<&Code> {
        self.made.as_ref()?.code.as_ref().ok()
    }

    /// Where what was found leads to.
    #[inline]
    pub(crate) fn target(&self, found: Found) -> Option<&Target> {
        self.targets.get(found.target())
    }

    /// Counts packets that code decided about.
    #[inline]
    pub(crate) fn count(&self, worker: Worker, packets: u64) {
        if let Some(Decided(count)) = self.decided.of(worker) {
            count.add(packets);
        }
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        self.decided.add_worker(Decided::default());
    }

    /// Frames of which each has what a flow of the first table asks for, if there is code that tries these.
    pub(crate) fn samples(&self, table: &FlowTable) -> Option<Vec<SampleFrame>> {
        (self.is_in_use() && self.role(0) == Role::Tried).then(|| sample::frames(table))
    }

    /// For how many of these code finds a flow; they are changed, and not counted.
    pub(crate) fn find_all(&self, frames: &mut [SampleFrame]) -> usize {
        self.code().map_or(0, |code| sample::find_all(code, frames))
    }

    /// How many packets code decided about.
    pub(crate) fn decided(&self) -> u64 {
        self.decided.iter().fold(0, |sum, Decided(count)| sum.wrapping_add(count.get()))
    }
}
