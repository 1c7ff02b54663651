//! The programs of all flows of a switch: each once, and by its number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_openflow::Instruction;

use super::direct::Direct;
use super::program::{Act, End, Program};
use crate::compiled::Templates;
use crate::groups::Groups;

/// The programs of flows. Flows that do the same have the same one: it is in the cache then, however many flows there are.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    all: HashSet<Arc<Program>>,
    /// The same by their numbers.
    numbered: Vec<Option<Arc<Program>>>,
    /// What they come to, if that is no more than changes and one port: first nothing, for flows without a program.
    directs: Vec<Option<Direct>>,
    /// The numbers of those that lead to a group, by the group.
    by_group: HashMap<u32, Vec<ProgramNumber>>,
    /// Those that came since it was seen last what programs come to.
    fresh: Vec<ProgramNumber>,
    /// Numbers that no program has.
    free: Vec<ProgramNumber>,
    pub(crate) templates: Templates,
    /// With so many, those that no flow has any more are let go.
    tidy_at: usize,
}

impl Clone for Programs {
    /// The same; what they come to is seen again, as groups of others count for themselves.
    fn clone(&self) -> Programs {
        let Programs { all, numbered, by_group, free, templates, tidy_at, .. } = self;
        Programs {
            all: all.clone(),
            numbered: numbered.clone(),
            directs: vec![None; numbered.len() + 1],
            by_group: by_group.clone(),
            fresh: (0..numbered.len()).collect(),
            free: free.clone(),
            templates: templates.clone(),
            tidy_at: *tidy_at,
        }
    }
}

impl Programs {
    /// What these instructions do; nothing if that takes the interpreter.
    pub(crate) fn of(&mut self, instructions: &[Instruction]) -> Option<Arc<Program>> {
        let mut program = Program::of(instructions)?;
        if let Some(known) = self.all.get(&program) {
            return Some(Arc::clone(known));
        }
        if self.all.len() >= self.tidy_at {
            self.tidy();
        }
        program.prepare(&mut self.templates);
        let number = self.free.pop().unwrap_or(self.numbered.len());
        program.set_number(number);
        let program = Arc::new(program);
        self.all.insert(Arc::clone(&program));
        match self.numbered.get_mut(number) {
            Some(place) => *place = Some(Arc::clone(&program)),
            None => {
                self.numbered.push(Some(Arc::clone(&program)));
                self.directs.resize(self.numbered.len() + 1, None);
            }
        }
        if let Some(Act { end: End::Group(group), .. }) = program.plain {
            self.by_group.entry(group).or_default().push(number);
        }
        self.fresh.push(number);
        Some(program)
    }

    /// Sees what programs that are new come to with these groups: after every change of flows.
    pub(crate) fn settle(&mut self, groups: &Groups) {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.into_iter().for_each(|number| self.see(number, groups));
    }

    /// Sees what the programs come to that lead to a group: after every change of it.
    pub(crate) fn see_group(&mut self, group: u32, groups: &Groups) {
        let led = self.by_group.get(&group).cloned().unwrap_or_default();
        led.into_iter().for_each(|number| self.see(number, groups));
    }

    /// Sees what the programs come to that lead to groups.
    pub(crate) fn see_groups(&mut self, groups: &Groups) {
        let led: Vec<ProgramNumber> = self.by_group.values().flatten().copied().collect();
        led.into_iter().for_each(|number| self.see(number, groups));
    }

    fn see(&mut self, number: ProgramNumber, groups: &Groups) {
        let direct = self.get(number).and_then(|program| Direct::of(program, groups));
        if let Some(place) = self.directs.get_mut(number + 1) {
            *place = direct;
        }
    }

    /// Lets those go that no flow has.
    fn tidy(&mut self) {
        let Programs { all, numbered, directs, by_group, free, .. } = self;
        // Two are kept here.
        all.retain(|program| Arc::strong_count(program) > 2);
        for ((number, place), direct) in numbered.iter_mut().enumerate().zip(directs.iter_mut().skip(1)) {
            if place.as_ref().is_some_and(|program| Arc::strong_count(program) == 1) {
                (*place, *direct) = (None, None);
                free.push(number);
            }
        }
        by_group.retain(|_, led| {
            led.retain(|number| numbered.get(*number).is_some_and(Option::is_some));
            !led.is_empty()
        });
        self.tidy_at = (2 * self.all.len()).max(LEAST_TIDY);
    }

    /// What programs come to, where that is no more than changes and one port: by their numbers, behind nothing for none.
    #[inline(always)]
    pub(crate) fn directs(&self) -> &[Option<Direct>] {
        &self.directs
    }

    /// The program of a number.
    #[inline(always)]
    pub(crate) fn get(&self, number: ProgramNumber) -> Option<&Program> {
        self.numbered.get(number)?.as_deref()
    }
}

/// The number of a program, as long as a flow has it.
pub(crate) type ProgramNumber = usize;

/// Fewer programs are not looked through.
const LEAST_TIDY: usize = 256;

#[cfg(test)]
mod tests {
    use weir_openflow::Action;

    use super::*;
    use crate::fast::program::End;

    fn sends(port: u32) -> Vec<Instruction> {
        vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 0 }])]
    }

    #[test]
    fn a_number_is_that_of_one_program_as_long_as_a_flow_has_it() {
        let (mut programs, mut kept) = (Programs::default(), Vec::new());
        // Of every ten programs one is kept, and the others are let go some time.
        for port in 1..=10 * LEAST_TIDY as u32 {
            let program = programs.of(&sends(port)).unwrap();
            assert!(Arc::ptr_eq(&program, &programs.of(&sends(port)).unwrap()));
            if port % 10 == 0 {
                kept.push((port, program));
            }
        }
        for (port, program) in &kept {
            let found = programs.get(program.number()).unwrap();
            assert!(std::ptr::eq(found, &**program) && found.plain.as_ref().unwrap().end == End::Port(*port));
        }
        // Their numbers are given to others: there are no more than were kept at the same time.
        assert!(programs.numbered.len() < 4 * LEAST_TIDY, "{} numbers", programs.numbered.len());
        assert_eq!(programs.get(programs.numbered.len()), None);
    }
}
