//! The threads of workers: there once an engine has started, gone once it has been dropped.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_engine::{Engine, Idle, Settings, ThreadHook};
use weir_mem::Domain;
use weir_packet::HeapPool;

/// Longer than any engine takes that does not wait: what is late by this much was not waited for.
const LATE: Duration = Duration::from_millis(200);

/// What the hook leaves on a worker's thread; counted when it goes.
struct Guest {
    gone: Arc<AtomicUsize>,
    hurry: Arc<Mutex<Receiver<()>>>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        dawdle(&self.hurry);
        self.gone.fetch_add(1, Ordering::SeqCst);
    }
}

/// Takes its time, unless somebody says that he did not wait.
fn dawdle(hurry: &Mutex<Receiver<()>>) {
    let _told_or_late = hurry.lock().unwrap().recv_timeout(LATE);
}

fn start(hook: ThreadHook) -> Engine {
    let pool = HeapPool::new(256, 2048);
    let settings = Settings {
        cores: vec![None],
        idle: Idle::Sleep,
        virtual_clock: false,
        hook: Some(hook),
        sample_every: weir_engine::SAMPLE_EVERY,
    };
    Engine::start(settings, &pool, &Domain::new()).unwrap()
}

fn slow() -> (Sender<()>, Arc<Mutex<Receiver<()>>>) {
    let (tell, told) = channel();
    (tell, Arc::new(Mutex::new(told)))
}

#[test]
fn an_engine_has_started_when_every_hook_has_been_called() {
    let called = Arc::new(AtomicUsize::new(0));
    let (tell, hurry) = slow();
    let theirs = Arc::clone(&called);
    let hook: ThreadHook = Arc::new(move |_: &str| -> Box<dyn Any> {
        dawdle(&hurry);
        theirs.fetch_add(1, Ordering::SeqCst);
        Box::new(())
    });
    let engine = start(hook);
    assert_eq!(called.load(Ordering::SeqCst), 2, "one worker and the control side");
    drop(tell);
    drop(engine);
}

#[test]
fn nothing_is_at_work_once_an_engine_has_been_dropped() {
    let gone = Arc::new(AtomicUsize::new(0));
    let (tell, hurry) = slow();
    let theirs = Arc::clone(&gone);
    let hook: ThreadHook = Arc::new(move |_: &str| -> Box<dyn Any> {
        Box::new(Guest { gone: Arc::clone(&theirs), hurry: Arc::clone(&hurry) })
    });
    drop(start(hook));
    assert_eq!(gone.load(Ordering::SeqCst), 2, "one worker and the control side");
    drop(tell);
}
