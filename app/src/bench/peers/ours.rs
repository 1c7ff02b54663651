//! Weir itself as a program of its own, as users run it.

use std::ffi::OsString;

use weir_bench::search::Stop;
use weir_protocol::Request;

use super::contest::{Count, Restless, Tally};
use super::lab::Lab;
use super::program::{Program, words};
use crate::client::Client;
use crate::stats::{CycleStats, Stats};

/// A running Weir.
pub(super) struct Ours {
    program: Program,
    client: Client,
    /// The text of its configuration.
    pub(super) configuration: String,
}

impl Ours {
    /// Runs a configuration, with Lua's `variables` before it: (name, value as Lua writes it). `before` are words that stand before
    /// the command.
    pub(super) fn start(
        lab: &Lab,
        script: &str,
        variables: &[(&str, String)],
        before: &[OsString],
    ) -> Result<Ours, Stop> {
        let mut text = format!("local core = {}\n", lab.core);
        for (name, value) in variables {
            text.push_str(&format!("local {name} = {value}\n"));
        }
        text.push('\n');
        text.push_str(script);
        let file = lab.file("ours.lua", text.as_bytes())?;
        let socket = lab.folder.join("ours.sock");
        let mut command = before.to_vec();
        command.push(lab.weir.clone().into());
        command.push("run".into());
        command.push(file.into());
        command.extend(words(["--name"]));
        command.push(format!("peers-{}", std::process::id()).into());
        command.extend([OsString::from("--socket"), socket.clone().into()]);
        let mut program = Program::start(lab, "Weir", &command, &[])?;
        program.lines_until(lab, "start", |line| line == "ready")?;
        let client = Client::connect(&socket).map_err(|error| program.failed(&error.to_string()))?;
        Ok(Ours { program, client, configuration: text })
    }

    /// The same at rest.
    pub(super) fn resting(mut self) -> Result<Ours, Stop> {
        self.program.rest()?;
        Ok(self)
    }

    /// Its numbers, which must add up.
    pub(super) fn stats(&mut self) -> Result<Stats, Stop> {
        self.program.check()?;
        let stats: Result<Stats, _> = self.client.read(Request::Stats);
        let stats = stats.map_err(|error| self.program.failed(&format!("does not tell its numbers: {error}")))?;
        match stats.account.unaccounted {
            0 => Ok(stats),
            missing => Err(self.program.failed(&format!("has {missing} packets unaccounted for: this is a bug"))),
        }
    }

    /// Its program.
    pub(super) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// What its workers have done so far, and the TSC cycles in which they had something to do.
    pub(super) fn tally(&mut self) -> Result<Tally, Stop> {
        let stats = self.stats()?;
        let of = |cycles: &CycleStats| cycles.receive + cycles.graph + cycles.transmit + cycles.housekeeping;
        let (mut count, mut busy) = (Count { packets: 0, cycles: 0 }, 0);
        for worker in stats.workers.iter().filter(|worker| worker.core.is_some()) {
            count.packets += worker.account.transmitted;
            count.cycles = worker.elapsed;
            busy += of(&worker.cycles);
        }
        Ok(Tally { count, busy })
    }

    /// TSC cycles in which its workers had something to do.
    pub(super) fn busy(&mut self) -> Result<u64, Stop> {
        Ok(self.tally()?.busy)
    }

    /// Ends it as a user would.
    pub(super) fn end(self) {
        self.program.end();
    }
}

impl Restless for Ours {
    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    fn count(&mut self, _lab: &Lab) -> Result<Count, Stop> {
        Ok(self.tally()?.count)
    }
}
