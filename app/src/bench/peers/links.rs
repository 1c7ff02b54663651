//! DPDK's forwarder and Weir, each in the middle of a link whose other end, in another process and on another core, sends back what it receives.
//!
//! That process has one port for each of the two, and gives each a few frames at the start, fewer than there is room for in any ring. They go
//! round, and whoever is stopped has all of its own waiting when it goes on: none is lost, and both sides have as many.

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use weir_bench::peers::{Measured, configurations, testpmd};
use weir_bench::search::Stop;

use super::contest::{Contest, Side, Tally, WARM_UP, threads, waited};
use super::lab::{Lab, TICK};
use super::ours::Ours;
use super::program::Program;
use super::testpmd::{Forwarder, PROGRAM, words};

/// Frames that go round at each link: bursts of 32. A virtqueue has room for 256, a ring of memif for 1,024.
const BURSTS: u32 = 4;

/// What comes by a port goes back by it.
const LOOP: &str = "--port-topology=loop";

/// Starts both, and what is at the other end. `link` is the kind of the devices, `mode` what testpmd does.
pub(super) fn start(link: &str, mode: &str, lab: &Lab) -> Result<Contest, Stop> {
    // Who is killed leaves its socket behind.
    let folder = lab.fresh_folder("links")?;
    let socket = |name: &str| folder.join(name).display().to_string();
    let (our_socket, their_socket) = (socket("ours"), socket("theirs"));
    let (near, far) = if link == "memif" { (memif("server"), memif("client")) } else { (vhost(), virtio_user()) };

    let own = format!("--lcores=0@{},1@{}", lab.other, lab.core);
    let rest = [&format!("--forward-mode={mode}"), "--burst=64", "--record-core-cycles", "--disable-link-check", LOOP];
    let command = words(lab, "testpmd", &own, &[near(0, &their_socket)], &rest);
    let shown: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut theirs = Forwarder { program: begin(lab, &command, "start")? };

    let device = match link {
        "memif" => format!("\"memif:0,role=server,socket={our_socket}\""),
        _ => format!("\"vhost:{our_socket}\""),
    };
    let variables = [("device", device), ("swap", (mode != "io").to_string())];
    let mut ours = Ours::start(lab, configurations::LINKED, &variables, &[])?;

    let away = format!("--lcores=0@{0},1@{0}", lab.other);
    let vdevs = [far(0, &our_socket), far(1, &their_socket)];
    let command = words(lab, "loop", &away, &vdevs, &["--forward-mode=io", "--burst=32", LOOP]);
    let other = Rc::new(RefCell::new(begin(lab, &command, &format!("start tx_first {BURSTS}"))?));

    lab.until("the first frames' way round", || {
        other.borrow_mut().check()?;
        Ok((ours.tally()?.count.packets > 0 && theirs.packets(lab)? > 0).then_some(()))
    })?;
    theirs.program.rest()?;
    let ours = ours.resting()?;
    Ok(Contest {
        configurations: vec![("Weir", ours.configuration.clone()), (PROGRAM, shown.join(" "))],
        ours: Box::new(Linked { end: ours, other: Rc::clone(&other) }),
        theirs: Box::new(Linked { end: theirs, other }),
    })
}

/// Starts a testpmd and has it forward.
fn begin(lab: &Lab, command: &[OsString], start: &str) -> Result<Program, Stop> {
    let mut program = Program::start(lab, PROGRAM, command, &[])?;
    program.say(start)?;
    program.lines_until(lab, "start", testpmd::is_ready)?;
    Ok(program)
}

/// A device in DPDK's words: of a number, at a socket.
type Device = Box<dyn Fn(u32, &str) -> String>;

fn memif(role: &'static str) -> Device {
    Box::new(move |number, socket| format!("net_memif{number},role={role},id=0,socket={socket},socket-abstract=no"))
}

fn vhost() -> Device {
    Box::new(|number, socket| format!("net_vhost{number},iface={socket}"))
}

fn virtio_user() -> Device {
    Box::new(|number, socket| format!("net_virtio_user{number},path={socket}"))
}

/// A program at one end of a link.
trait End {
    fn program(&mut self) -> &mut Program;
    fn tally(&mut self, lab: &Lab) -> Result<Tally, Stop>;
}

impl End for Ours {
    fn program(&mut self) -> &mut Program {
        Ours::program(self)
    }

    fn tally(&mut self, _lab: &Lab) -> Result<Tally, Stop> {
        Ours::tally(self)
    }
}

impl End for Forwarder {
    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    fn tally(&mut self, lab: &Lab) -> Result<Tally, Stop> {
        Forwarder::tally(self, lab)
    }
}

struct Linked<E> {
    end: E,
    /// The process at the other end.
    other: Rc<RefCell<Program>>,
}

impl<E: End> Side for Linked<E> {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        self.end.program().go_on()?;
        lab.wait(WARM_UP)?;
        let id = self.end.program().id();
        let (threads, before) = (threads(id), self.end.tally(lab)?);
        lab.wait(window)?;
        // On a busy machine one of the two may not have had its turn yet.
        let patience = lab.patience();
        let done = loop {
            let done = self.end.tally(lab)?.since(&before);
            self.other.borrow_mut().check()?;
            if done.count.packets > 0 && done.busy > 0 && done.count.cycles > 0 {
                break done;
            }
            if patience.is_over() {
                return Err(self.end.program().failed(&format!("let no packet through within {}", patience.text())));
            }
            lab.wait(TICK)?;
        };
        let waited = waited(&threads, id);
        self.end.program().rest()?;
        let (packets, elapsed) = (done.count.packets as f64, done.count.cycles.max(1) as f64);
        let (busy, waited) = (done.busy as f64 / elapsed, lab.clock.cycles(waited) as f64 / elapsed);
        Ok(Measured {
            // It waited for its core as often when it had packets in hand as when it had none.
            cycles: busy * elapsed * (1.0 - waited).max(0.01) / packets,
            rate: packets / (elapsed / lab.clock.hz() as f64) / 1e6,
            busy: Some((busy * 100.0).min(100.0)),
            waited: Some((waited * 100.0).min(100.0)),
            held: None,
        })
    }
}
