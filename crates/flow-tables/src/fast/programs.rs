//! The programs of all flows of a switch: each once, and by its number.

use std::collections::HashSet;
use std::sync::Arc;

use weir_openflow::Instruction;

use super::program::Program;
use crate::compiled::Templates;

/// The programs of flows. Flows that do the same have the same one: it is in the cache then, however many flows there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    all: HashSet<Arc<Program>>,
    /// The same by their numbers.
    numbered: Vec<Option<Arc<Program>>>,
    /// Numbers that no program has.
    free: Vec<ProgramNumber>,
    pub(crate) templates: Templates,
    /// With so many, those that no flow has any more are let go.
    tidy_at: usize,
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
            None => self.numbered.push(Some(Arc::clone(&program))),
        }
        Some(program)
    }

    /// Lets those go that no flow has.
    fn tidy(&mut self) {
        let Programs { all, numbered, free, .. } = self;
        // Two are kept here.
        all.retain(|program| Arc::strong_count(program) > 2);
        for (number, place) in numbered.iter_mut().enumerate() {
            if place.as_ref().is_some_and(|program| Arc::strong_count(program) == 1) {
                *place = None;
                free.push(number);
            }
        }
        self.tidy_at = (2 * self.all.len()).max(LEAST_TIDY);
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
