//! Each test that starts EAL is a process of its own: the test binary runs itself again.
#![allow(dead_code, unreachable_pub, reason = "no test uses everything")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the test waits for devices")]

pub mod peers;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_packet::{Batch, Burst, Pool};
use weir_port_dpdk::eal::{Eal, EalOptions, Memory};
use weir_port_dpdk::{Device, DpdkError, DpdkPool, PortConfig, memory_needed};
use weir_stage::{Port, Rx, Tx};

const INSIDE: &str = "WEIR_DPDK_TEST_INSIDE";
/// Whatever must happen at last may take so long: a machine may be busy with other things. One end of a link is no less patient than the
/// other, or it gives up while that one works.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// No process of a test lives longer.
const LONGEST: Duration = Duration::from_secs(180);

/// The part that this process plays; `None` in the process that the test runner started.
pub fn part() -> Option<String> {
    std::env::var(INSIDE).ok()
}

/// A folder of the test's own, gone when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-dpdk-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts this test again, to play a part. `wrap` is a program that runs it: `unshare -n`. What a test runner says of it goes nowhere: it would stand
/// among the lines of the one that runs all, also within them. Why it failed is on standard error.
pub fn spawn(test: &str, part: &str, wrap: &[&str], folder: &Folder) -> Child {
    let mut words: Vec<String> = wrap.iter().map(|word| (*word).to_owned()).collect();
    words.push(std::env::current_exe().unwrap().to_str().unwrap().to_owned());
    words.extend([test, "--exact", "--nocapture"].map(str::to_owned));
    let (program, arguments) = words.split_first().unwrap();
    Command::new(program)
        .args(arguments)
        .env(INSIDE, part)
        .env("WEIR_DPDK_TEST_FOLDER", &folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a part to end well, and ends it when it takes too long.
pub fn finish(mut child: Child) {
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("took longer than {LONGEST:?}");
}

/// Runs `body` in a process of its own.
pub fn alone(test: &str, wrap: &[&str], body: impl FnOnce()) {
    match part() {
        Some(_) => body(),
        None => {
            let folder = Folder::new(test);
            finish(spawn(test, "alone", wrap, &folder));
        }
    }
}

/// Runs `body` in a process and a network namespace of its own; skipped with a message without root.
pub fn in_namespace(test: &str, body: impl FnOnce()) {
    if part().is_none() && !can_unshare() {
        eprintln!("{test}: skipped: needs root (a network namespace)");
        return;
    }
    alone(test, &["unshare", "-n"], body);
}

pub fn can_unshare() -> bool {
    Command::new("unshare").args(["-n", "ip", "link"]).output().is_ok_and(|done| done.status.success())
}

pub fn folder() -> PathBuf {
    std::env::var_os("WEIR_DPDK_TEST_FOLDER").unwrap().into()
}

pub fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(done.success(), "ip {arguments}");
}

pub fn options(name: &str) -> EalOptions {
    EalOptions {
        name: name.to_owned(),
        memory: Memory::Auto,
        megabytes: memory_needed(BUFFERS, weir_packet::MAX_FRAME),
        pci: Vec::new(),
        cores: vec![],
        log: folder().join(format!("{name}.log")),
        run_dir: folder(),
    }
}

pub const BUFFERS: usize = 12_000;

/// EAL with a pool of usual buffers.
pub fn start(name: &str, data_room: usize) -> (Arc<Eal>, DpdkPool) {
    let eal = Arc::new(Eal::start(&options(name)).unwrap());
    let pool = DpdkPool::create(&eal, BUFFERS, data_room).unwrap();
    (eal, pool)
}

/// Takes all buffers of a new pool but so many bursts of those that lie last, which are handed out last first.
pub fn all_but_the_last(bursts: usize, pool: &mut DpdkPool) -> Vec<Burst> {
    let mut taken = Vec::new();
    // A new pool hands out its buffers in the order of their addresses.
    for n in [BUFFERS % 64].into_iter().chain(std::iter::repeat_n(64, BUFFERS / 64)) {
        let mut burst = Burst::new();
        assert!(pool.alloc_burst(n, &mut burst));
        taken.push(burst);
    }
    for _ in 0..bursts {
        pool.free_burst(&mut taken.pop().unwrap());
    }
    taken
}

/// A port with one queue each way, and the queues.
pub struct Open {
    pub port: Box<dyn Port>,
    pub rx: Box<dyn Rx>,
    pub tx: Box<dyn Tx>,
    pub batch: Box<Batch>,
}

pub fn try_open(eal: &Arc<Eal>, device: &str, config: PortConfig, pool: &DpdkPool) -> Result<Open, String> {
    let device = Device::parse(device).unwrap();
    let mut port = weir_port_dpdk::attach(eal, device, config, pool).map_err(|error: DpdkError| error.to_string())?;
    let (mut rx, mut tx) = port.open(1, 1, pool).map_err(|error| error.to_string())?;
    let (rx, tx) = (rx.pop().unwrap(), tx.pop().unwrap());
    Ok(Open { port, rx, tx, batch: Batch::new() })
}

pub fn open(eal: &Arc<Eal>, device: &str, pool: &DpdkPool) -> Open {
    try_open(eal, device, PortConfig::default(), pool).unwrap()
}

/// The kernel takes any buffer of a pool by AF_XDP, to receive into and to send from: here those that lie last, so many bursts of them.
pub fn the_kernel_swallows_no_buffer(bursts: usize, eal: &Arc<Eal>, pool: &mut DpdkPool) {
    let missing = |pool: &DpdkPool| pool.taken() - pool.at_hand();
    ip("link add va type veth peer name vb");
    let mut packet = open(eal, "af_packet:vb", pool);
    let mut first = all_but_the_last(bursts, pool);
    let mut xdp = open(eal, "af_xdp:va", pool);
    // So many that each buffer of the fill ring has its turn.
    cross(&mut packet, &mut xdp, 3000, 1514, pool);
    cross(&mut xdp, &mut packet, 3000, 1514, pool);
    first.iter_mut().for_each(|burst| pool.free_burst(burst));
    assert_eq!(xdp.port.stats().in_rings, Some(missing(pool) as u64), "what is missing is in the rings");
    assert_eq!(xdp.port.ails(), None);
    drop(xdp);
    assert_eq!(missing(pool), 0);
}

/// Frame `number` of a test: recognisable, of a length of its own, never a Linux host's.
pub fn frame(number: u32, longest: usize) -> Vec<u8> {
    let length = 60 + number as usize * 97 % (longest - 59);
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    // An EtherType for experiments (IEEE 802).
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    for (place, at) in frame.iter_mut().skip(18).zip(0_u32..) {
        *place = (number.wrapping_mul(31).wrapping_add(at) >> 1) as u8;
    }
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The number of a frame of [`frame`]'s, checked byte by byte; `None` for any other frame.
pub fn number(bytes: &[u8], longest: usize) -> Option<u32> {
    if bytes.get(12..14)? != [0x88, 0xb5] {
        return None;
    }
    let number = u32::from_be_bytes(bytes.get(14..18)?.try_into().unwrap());
    assert_eq!(bytes, frame(number, longest), "frame {number}");
    Some(number)
}

impl Open {
    /// Sends frame `number`; whether it went.
    pub fn send(&mut self, number: u32, longest: usize, pool: &mut DpdkPool) -> bool {
        let mut packet = pool.alloc().unwrap();
        assert!(packet.fill(&frame(number, longest)));
        let mut burst = Burst::new();
        burst.push(packet).unwrap();
        let length = burst.packets()[0].len() as u64;
        let sent = self.tx.transmit(&mut burst, pool, 0);
        assert_eq!(sent.bytes, sent.packets * length);
        pool.free_burst(&mut burst);
        sent.packets == 1
    }

    /// Receives what is there: the numbers of the test's frames, in order.
    pub fn receive(&mut self, longest: usize, pool: &mut DpdkPool) -> Vec<u32> {
        let got = self.rx.receive(&mut self.batch, pool, 77);
        assert_eq!(got.packets as usize, self.batch.len());
        assert_eq!(got.bytes, self.batch.bytes_in(u64::MAX));
        let mut numbers = Vec::new();
        for slot in self.batch.slots() {
            let packet = self.batch.take(slot).unwrap();
            numbers.extend(number(packet.bytes(), longest));
            pool.free(packet);
        }
        numbers
    }
}

/// Sends `n` frames into one port and expects all of them, in order, out of another, once their links are up. Each is asked itself: a port
/// sends while it was up when it was last asked, and one end of a cable is up before the other.
pub fn cross(from: &mut Open, to: &mut Open, n: u32, longest: usize, pool: &mut DpdkPool) {
    wait("both links are up", || from.port.link_up() && to.port.link_up());
    let (mut sent, mut arrived) = (0, Vec::new());
    let end = Instant::now() + PATIENCE;
    while (arrived.len() as u32) < n {
        assert!(Instant::now() < end, "{sent} sent, {} arrived", arrived.len());
        // A few on the way at a time: no ring overflows.
        if sent < n && sent - (arrived.len() as u32) < 64 && from.send(sent, longest, pool) {
            sent += 1;
        }
        arrived.extend(to.receive(longest, pool));
        // Some drivers send, or give buffers back, when they are asked to receive.
        from.receive(longest, pool);
    }
    assert!(arrived.iter().copied().eq(0..n), "all of them, once, in order");
}

/// Asks until it is so.
pub fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A capture file (draft-ietf-opsawg-pcap), in the byte order of this host.
pub fn capture(frames: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        file.extend(word.to_ne_bytes());
    }
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [0, 0, length, length] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(frame);
    }
    file
}
