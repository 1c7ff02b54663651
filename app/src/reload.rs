//! A reload, from the request to its answer.
//!
//! Whoever asks does the long work, so that nobody else waits for it: reads the configuration and compares it with the running one, comes
//! back with it, then builds the functions, and comes back with those. The loop that owns the data plane only begins and finishes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};
use weir_config::{ConfigError, Plan};

use crate::handle::{Running, Then};
use crate::server::{Answer, Job, hand};
use crate::source::Source;
use crate::supervisor::{Aside, Built, Failure, Loaded, Next, Pending};
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

/// A reload whose functions somebody builds.
pub(crate) struct Reloading {
    pending: Pending,
    source: Source,
    /// What is answered when it is done.
    done: Value,
}

impl Reload {
    /// Reads and checks the configuration, which takes as long as its script does.
    fn read(self) -> Candidate {
        let next = if self.dry_run { Next::Nothing } else { Next::Build };
        let loaded = self.source.load(&self.switches, next).map(|new| {
            let plan = new.differs_from(&self.running);
            (Arc::new(new), plan)
        });
        Candidate { reload: self, loaded }
    }

    /// Carries it out with the help of the loop that does `jobs`; `None` when that loop ends.
    pub(crate) fn carry_out(self, jobs: &SyncSender<Job>) -> Option<Answer> {
        let candidate = Box::new(self.read());
        match hand(jobs, |reply| Job::TakeOver(candidate, reply))? {
            Answer::Build(aside) => {
                let built = aside.build();
                let ready = Box::new(Ready { aside, built });
                hand(jobs, |reply| Job::Finish(ready, reply))
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
                Answer::Reload(Reload { source, switches, dry_run, allow_restart, running })
            }
            Err(message) => Answer::Whole(Response::refused(message)),
        }
    }

    /// Begins to let a configuration take over that was read.
    pub(crate) fn take_over(&mut self, candidate: Candidate) -> (Answer, Then) {
        let Reload { source, dry_run, allow_restart, running, .. } = candidate.reload;
        let (new, mut difference) = match candidate.loaded {
            Ok(loaded) => loaded,
            Err(errors) => return (wrong(errors), Then::GoOn),
        };
        if !Arc::ptr_eq(&running, &self.supervisor.loaded()) {
            difference = new.differs_from(&self.supervisor.loaded());
        }
        let plan = self.supervisor.plan(&new, &difference);
        let answer =
            |carried_out: bool| json!({ "plan": plan.text, "needs_restart": plan.needs_restart, "done": carried_out });
        if dry_run {
            return (Answer::Whole(Response::Ok(answer(false))), Then::GoOn);
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
                self.reloading = Some(Reloading { pending, source, done: answer(true) });
                (Answer::Build(aside), Then::GoOn)
            }
            Err(failure) => (refused(failure, &source), Then::GoOn),
        }
    }

    /// Puts in place what was built for a reload.
    pub(crate) fn finish(&mut self, ready: Ready) -> Answer {
        let Ready { aside, built } = ready;
        let Some(Reloading { pending, source, done }) =
            self.reloading.take_if(|now| Arc::ptr_eq(&now.pending.aside, &aside))
        else {
            return Answer::Whole(Response::refused("this reload was given up"));
        };
        match built.and_then(|built| self.supervisor.finish(pending, built)) {
            Ok(()) => {
                self.source = source;
                self.warn();
                Answer::Whole(Response::Ok(done))
            }
            Err(failure) => refused(failure, &source),
        }
    }

    /// Whether functions are being built for a reload: what changes functions has to wait until they are in place. A reload
    /// that nobody builds for any more is given up.
    pub(crate) fn is_reloading(&mut self) -> bool {
        let _given_up = self.reloading.take_if(|now| Arc::strong_count(&now.pending.aside) == 1);
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
