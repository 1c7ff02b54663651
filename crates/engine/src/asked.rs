//! Waiting for a worker's answer: as long as the worker itself could be expected to take, whatever else the machine does.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The longest wait of all.
const LONGEST: Duration = Duration::from_secs(30);

/// The thread of a worker, as the kernel knows it.
#[derive(Debug, Default)]
pub(crate) struct ThreadNumber(AtomicI32);

impl ThreadNumber {
    /// Notes the calling thread.
    pub(crate) fn note(&self) {
        self.0.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// How long the thread was ready to run so far and got no core: the second figure of its `schedstat`, in nanoseconds. Nothing
    /// where the kernel does not tell.
    pub(crate) fn starved(&self) -> Duration {
        let file = format!("/proc/self/task/{}/schedstat", self.0.load(Ordering::Relaxed));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Duration::from_nanos(text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0))
    }
}

/// What a worker was asked, to be waited for.
pub(crate) struct Asked<R> {
    answer: Receiver<R>,
    /// How long the worker was without a core so far.
    starved: Box<dyn Fn() -> Duration + Send>,
    /// The same when it was asked.
    before: Duration,
}

impl<R> Asked<R> {
    pub(crate) fn new(answer: Receiver<R>, starved: impl Fn() -> Duration + Send + 'static) -> Asked<R> {
        let before = starved();
        Asked { answer, starved: Box::new(starved), before }
    }

    /// The answer, if it comes within so much time, not counting that in which the worker was without a core.
    pub(crate) fn wait(&self, patience: Duration) -> Option<R> {
        let mut waited = Duration::ZERO;
        loop {
            let starved = (self.starved)().saturating_sub(self.before);
            let rest = (patience + starved).min(LONGEST).saturating_sub(waited);
            if rest.is_zero() && !waited.is_zero() {
                return None;
            }
            match self.answer.recv_timeout(rest) {
                Ok(answer) => return Some(answer),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => waited += rest.max(Duration::from_nanos(1)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::channel;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn who_gets_no_core_is_waited_for() {
        let (to, from) = channel();
        let looks = AtomicU64::new(0);
        // Starved all the time; at the sixth look it has answered.
        let asked = Asked::new(from, move || {
            let look = looks.fetch_add(1, Ordering::Relaxed);
            if look == 5 {
                to.send("here").unwrap();
            }
            MOMENT * u32::try_from(look).unwrap()
        });
        assert_eq!(asked.wait(MOMENT), Some("here"));
    }

    #[test]
    fn who_has_one_and_does_not_answer_is_given_up() {
        let (to, from) = channel::<()>();
        let asked = Asked::new(from, || Duration::from_secs(7));
        assert_eq!(asked.wait(MOMENT), None);
        assert_eq!(asked.wait(Duration::ZERO), None);
        drop(to);
        assert_eq!(asked.wait(Duration::from_secs(3600)), None);
    }

    #[test]
    fn the_kernel_tells_of_a_thread() {
        let number = Arc::new(ThreadNumber::default());
        assert_eq!(number.starved(), Duration::ZERO);
        number.note();
        let file = format!("/proc/self/task/{}/schedstat", number.0.load(Ordering::Relaxed));
        assert_eq!(std::fs::read_to_string(&file).map(|text| text.split_whitespace().count()).unwrap(), 3, "{file}");
    }
}
