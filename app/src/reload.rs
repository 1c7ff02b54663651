//! A reload, from the request to its answer.
//!
//! Whoever asks does the long work, so that nobody else waits for it: reads the configuration and compares it with the running one, comes
//! back with it, then builds the functions, comes back with those, then lets the functions that go on change, and comes back once more. The
//! loop that owns the data plane only begins, puts in place, and finishes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};
use weir_config::{ConfigError, Plan};

use crate::handle::{Running, Then};
use crate::log;
use crate::server::{Answer, Job, hand};
use crate::source::Source;
use crate::supervisor::{Aside, Built, Changes, Failure, Loaded, Next, Pending, Sides};
use weir_protocol::{Response, Script};

/// What somebody asked for with a reload.
pub(crate) struct Reload {
    source: Source,
    /// The switches that were given for what a configuration may do.
    switches: Vec<&'static str>,
    /// Only say what would change.
    dry_run: bool,
    /// Start anew if need be.
    allow_restart: bool,
    /// The configuration that runs.
    running: Arc<Loaded>,
    /// What is to run.
    what: What,
}

/// What a reload has run.
#[derive(PartialEq)]
enum What {
    /// What the script says now, with the routed sides of interfaces that were added at run time.
    Script(Sides),
    /// What runs, with routed sides that it has not.
    Joined(Sides),
}

/// A configuration that was read and is to take over.
pub(crate) struct Candidate {
    reload: Reload,
    loaded: Result<(Arc<Loaded>, Plan), Vec<ConfigError>>,
}

/// Functions that were built for a reload.
pub(crate) struct Ready {
    aside: Arc<Aside>,
    built: Result<Built, Failure>,
}

/// Changes that are left of a reload when the rest is in place.
pub(crate) struct Left {
    changes: Changes,
    ticket: Arc<()>,
}

/// A reload that somebody is busy with.
pub(crate) struct Reloading {
    step: Step,
    source: Source,
    /// What is answered when it is done.
    done: Value,
}

/// What somebody is busy with; each has what tells whether they still are.
enum Step {
    /// Functions are being built.
    Building(Pending),
    /// All is in place, and functions change.
    Changing(Arc<()>),
}

impl Reloading {
    /// Whether nobody is busy with it any more.
    fn is_given_up(&self) -> bool {
        let holders = match &self.step {
            Step::Building(pending) => Arc::strong_count(&pending.aside),
            Step::Changing(ticket) => Arc::strong_count(ticket),
        };
        holders == 1
    }
}

impl Reload {
    /// Reads and checks the configuration, which takes as long as its script does.
    fn read(self) -> Candidate {
        let next = if self.dry_run { Next::Nothing } else { Next::Build };
        let loaded = match &self.what {
            What::Script(sides) => self.source.load(&self.switches, next, sides),
            What::Joined(sides) => self.running.with_sides(sides, &self.switches),
        };
        let loaded = loaded.map(|new| {
            let plan = new.differs_from(&self.running);
            (Arc::new(new), plan)
        });
        Candidate { reload: self, loaded }
    }

    /// Carries it out with the help of the loop that does `jobs`; `None` when that loop ends.
    pub(crate) fn carry_out(self, jobs: &SyncSender<Job>) -> Option<Answer> {
        let candidate = Box::new(self.read());
        match hand(jobs, |reply| Job::TakeOver(candidate, reply))? {
            // What was read is no longer what is to run.
            Answer::Reload(again) => again.carry_out(jobs),
            Answer::Build(aside) => {
                let built = aside.build();
                let ready = Box::new(Ready { aside, built });
                match hand(jobs, |reply| Job::PutInPlace(ready, reply))? {
                    Answer::Change(Left { changes, ticket }) => {
                        changes.carry_out();
                        hand(jobs, |reply| Job::Finish(ticket, reply))
                    }
                    answer => Some(answer),
                }
            }
            answer => Some(answer),
        }
    }
}

impl Running {
    /// A reload: who asked for it reads the configuration, and comes back with it.
    pub(crate) fn reload(&self, script: Option<Script>, dry_run: bool, allow_restart: bool) -> Answer {
        match script.map(Source::of_client).transpose() {
            Ok(source) => {
                let source = source.unwrap_or_else(|| self.source.clone());
                let (switches, running) = (self.switches.clone(), self.supervisor.loaded());
                let what = What::Script(self.supervisor.sides_added());
                Answer::Reload(Reload { source, switches, dry_run, allow_restart, running, what })
            }
            Err(message) => Answer::Whole(Response::refused(message)),
        }
    }

    /// A reload that gives what runs more routed sides.
    pub(crate) fn join(&self, sides: Sides) -> Reload {
        let (source, switches, running) = (self.source.clone(), self.switches.clone(), self.supervisor.loaded());
        Reload { source, switches, dry_run: false, allow_restart: false, running, what: What::Joined(sides) }
    }

    /// Whether a configuration that was read is what is to run still: nothing else has been put in place meanwhile that it was made of, nor have
    /// interfaces come or gone that it depends on.
    fn is_up_to_date(&self, reload: &Reload) -> bool {
        match &reload.what {
            What::Script(sides) => *sides == self.supervisor.sides_added(),
            What::Joined(_) => Arc::ptr_eq(&reload.running, &self.supervisor.loaded()),
        }
    }

    /// Begins to let a configuration take over that was read.
    pub(crate) fn adopt(&mut self, mut candidate: Candidate) -> (Answer, Then) {
        if !self.is_up_to_date(&candidate.reload) {
            candidate.reload.running = self.supervisor.loaded();
            if let What::Script(sides) = &mut candidate.reload.what {
                *sides = self.supervisor.sides_added();
            }
            return (Answer::Reload(candidate.reload), Then::GoOn);
        }
        let Reload { source, dry_run, allow_restart, running, what, .. } = candidate.reload;
        let (new, mut difference) = match candidate.loaded {
            Ok(loaded) => loaded,
            Err(errors) => return (wrong(errors), Then::GoOn),
        };
        if !Arc::ptr_eq(&running, &self.supervisor.loaded()) {
            difference = new.differs_from(&self.supervisor.loaded());
        }
        let plan = self.supervisor.plan(&new, &difference);
        let answer =
            |done: bool| json!({ "plan": plan.text, "needs_restart": plan.needs_restart, "done": done, "lacks": [] });
        if dry_run {
            return (Answer::Whole(Response::Ok(answer(false))), Then::GoOn);
        }
        if let (true, What::Joined(sides)) = (plan.needs_restart, &what) {
            let names = Vec::from_iter(sides.keys().map(String::as_str)).join(", ");
            let message = format!(
                "the joint of {names} takes a restart of the whole process; declare an interface on it in the configuration, and start Weir anew:\n{}",
                plan.text
            );
            return (Answer::Whole(Response::refused(message)), Then::GoOn);
        }
        if plan.needs_restart {
            return match self.restart(&source, allow_restart) {
                Ok(()) => (Answer::Whole(Response::Ok(answer(true))), Then::Restart),
                Err(refusal) => (Answer::Whole(Response::refused(refusal)), Then::GoOn),
            };
        }
        match self.supervisor.begin(new, difference) {
            Ok(pending) => {
                let aside = Arc::clone(&pending.aside);
                if let What::Joined(sides) = &what {
                    sides.keys().for_each(|side| {
                        log::info("reload", "a routed side is made for its first interface", &[("side", side)])
                    });
                }
                self.reloading = Some(Reloading { step: Step::Building(pending), source, done: answer(true) });
                (Answer::Build(aside), Then::GoOn)
            }
            Err(failure) => (refused(failure, &source), Then::GoOn),
        }
    }

    /// Puts in place what was built for a reload, and leaves changes of functions that go on to whoever asked.
    pub(crate) fn put_in_place(&mut self, ready: Ready) -> Answer {
        let Ready { aside, built } = ready;
        let is_it =
            |now: &mut Reloading| matches!(&now.step, Step::Building(pending) if Arc::ptr_eq(&pending.aside, &aside));
        let Some(Reloading { step: Step::Building(pending), source, done }) = self.reloading.take_if(is_it) else {
            return given_up();
        };
        match built.and_then(|built| self.supervisor.finish(pending, built)) {
            Ok(changes) => {
                let ticket = Arc::new(());
                self.source = source.clone();
                self.reloading = Some(Reloading { step: Step::Changing(Arc::clone(&ticket)), source, done });
                Answer::Change(Left { changes, ticket })
            }
            Err(failure) => refused(failure, &source),
        }
    }

    /// Ends a reload whose changes are done.
    pub(crate) fn finish(&mut self, ticket: &Arc<()>) -> Answer {
        let is_it = |now: &mut Reloading| matches!(&now.step, Step::Changing(own) if Arc::ptr_eq(own, ticket));
        let Some(Reloading { done, .. }) = self.reloading.take_if(is_it) else { return given_up() };
        // The changes may have been made from what links were when the reload began.
        self.supervisor.tell_of_ports();
        self.serve_needs();
        self.warn();
        Answer::Whole(Response::Ok(self.with_lacks(done)))
    }

    /// The answer to a reload that is done, with what there is no room for, of which the log is told, too.
    fn with_lacks(&self, mut done: Value) -> Value {
        let lacks = self.supervisor.lacks();
        for lack in &lacks {
            log::warn("reload", "what the configuration wants is not all in force", &[("lack", lack)]);
        }
        if let Some(answer) = done.as_object_mut() {
            answer.insert("lacks".to_owned(), lacks.into());
        }
        done
    }

    /// Whether functions are being built for a reload, or changed by it: what else changes functions has to wait until that is done. A reload
    /// that nobody is busy with any more is given up.
    pub(crate) fn is_reloading(&mut self) -> bool {
        let _given_up = self.reloading.take_if(|now| now.is_given_up());
        self.reloading.is_some()
    }

    /// Whether Weir may start anew for a configuration.
    fn restart(&self, source: &Source, allowed: bool) -> Result<(), &'static str> {
        if !allowed {
            return Err(
                "these changes take a restart of the whole process, which loses what is on its way and all that was \
                        learned; say --allow-restart, or leave them out (--dry-run shows them)",
            );
        }
        if !is_same_file(&source.path, &self.own) {
            return Err(
                "a restart starts with the file that Weir was started with, and this is another; change that file, then \
                        reload it",
            );
        }
        Ok(())
    }
}

/// Whether two paths lead to one file: a client names it by way of its own folder.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identity(one).is_some_and(|file| identity(other) == Some(file))
}

fn given_up() -> Answer {
    Answer::Whole(Response::refused("this reload was given up"))
}

fn refused(failure: Failure, source: &Source) -> Answer {
    match failure {
        Failure::Config(errors) => wrong(errors.into_iter().map(|error| source.rename(error)).collect()),
        Failure::Start(sentences) => {
            Answer::Whole(Response::refused(format!("nothing has changed: {}", sentences.join("\n"))))
        }
        closed @ Failure::Closed { .. } => {
            Answer::Whole(Response::refused(format!("the configuration was not replaced: {closed}")))
        }
    }
}

fn wrong(errors: Vec<ConfigError>) -> Answer {
    Answer::Whole(Response::Error { message: "the configuration is wrong; nothing has changed".to_owned(), errors })
}
