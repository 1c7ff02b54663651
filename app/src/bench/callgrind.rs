//! What valgrind's callgrind counted: the instructions of a program, by who called whom.

use std::collections::BTreeMap;

/// Instructions of a run, told apart by what they were for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// All that were counted.
    pub(super) whole: u64,
    /// Those of ports: receiving and transmitting, with all that they call.
    pub(super) ports: u64,
    /// Those of stages, with all that they call, by the name of the type without its parameters.
    pub(super) stages: BTreeMap<String, u64>,
}

/// Which part of the program a function is the door to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Port,
    Stage(&'a str),
}

impl Profile {
    /// Reads a file in callgrind's format (version 1), in which names are written whole: `--compress-strings=no --compress-pos=no`.
    ///
    /// What a call took stands in the line behind `calls=`. Calls from a method of a port or stage are in that one already, as of a port
    /// that is around another one.
    ///
    /// # Errors
    ///
    /// Where the file does not say how many there were in all.
    pub(super) fn read(text: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        let mut whole = None;
        let mut within = false;
        let mut called = None;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("fn=") {
                within = part(name).is_some();
            } else if let Some(name) = line.strip_prefix("cfn=") {
                called = part(name);
            } else if line.starts_with("calls=") {
                let took =
                    lines.next().and_then(|line| line.split_once(' ')?.1.trim().parse::<u64>().ok()).unwrap_or(0);
                match called.filter(|_| !within) {
                    Some(Part::Port) => profile.ports += took,
                    Some(Part::Stage(name)) => *profile.stages.entry(name.to_owned()).or_default() += took,
                    None => {}
                }
            } else if let Some(sum) = line.strip_prefix("summary:") {
                whole = sum.trim().parse().ok();
            }
        }
        profile.whole = whole.ok_or("valgrind did not say how many instructions it counted")?;
        Ok(profile)
    }

    /// Those of a stage, by the name of its type as Rust writes it.
    pub(super) fn of_type(&self, type_name: &str) -> u64 {
        self.stages.get(bare_type(type_name)).copied().unwrap_or(0)
    }
}

/// The part that begins with a function: a method of a trait that the engine calls, as `<TYPE as TRAIT>::METHOD`.
fn part(function: &str) -> Option<Part<'_>> {
    let (type_name, method) = function.strip_prefix('<')?.split_once(" as weir_stage::")?;
    if method.starts_with("port::Rx>::") || method.starts_with("port::Tx>::") {
        return Some(Part::Port);
    }
    method.starts_with("stage::Stage>::").then_some(Part::Stage(bare_type(type_name)))
}

/// The name of a type without its parameters, which symbols do not tell.
pub(super) fn bare_type(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    /// As callgrind writes it: a loop that receives 10 + 2, runs a stage twice, one that calls a stage within, and transmits.
    const FILE: &str = "version: 1\npositions: line\nevents: Ir\nsummary: 1000\n\n\
        fl=worker.rs\nfn=weir_engine::worker::Worker::turn\n1 50\n\
        cfi=mem.rs\ncfn=<weir_port_mem::Replay as weir_stage::port::Rx>::receive\ncalls=3 80\n7 12\n2 20\n\
        cfn=<weir_ip::Forward<T,_> as weir_stage::stage::Stage>::run\ncalls=1 9\n8 300\n\
        cfn=<weir_ip::Forward<T,_> as weir_stage::stage::Stage>::run\ncalls=1 9\n9 30\n\
        cfn=<weir_ip::SlowPath as weir_stage::stage::Stage>::poll\ncalls=1 9\n9 5\n\
        cfn=core::fmt::write\ncalls=1 9\n9 40\n\
        fn=<weir_ip::Forward<T,_> as weir_stage::stage::Stage>::run\n1 1\n\
        cfn=<weir_ip::Slow as weir_stage::stage::Stage>::run\ncalls=1 9\n9 77\n\
        fn=weir_engine::transmit::flush\n\
        cfn=<weir::Chunk as weir_stage::port::Tx>::transmit\ncalls=1 9\n9 100\n";

    #[test]
    fn instructions_are_those_of_the_outermost_part() {
        let profile = Profile::read(FILE).unwrap();
        let stages = [("weir_ip::Forward".to_owned(), 330), ("weir_ip::SlowPath".to_owned(), 5)];
        assert_eq!(profile, Profile { whole: 1000, ports: 112, stages: stages.into() });
        assert_eq!(profile.of_type("weir_ip::Forward<weir_table::Dir<u16>, false>"), 330);
        assert_eq!(profile.of_type("weir_ip::Slow"), 0);
    }

    #[test]
    fn a_file_without_a_sum_is_refused() {
        assert!(Profile::read("version: 1\nfn=a\n1 2\n").is_err());
    }
}
