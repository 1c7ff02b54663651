//! Captures of traffic through a router that never was: for measuring how fast they are matched.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use weir_wire::checksum::Sum;

/// Two captures, and what there is to find out about them.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What was sent.
    pub sent: PathBuf,
    /// What was received.
    pub received: PathBuf,
    /// Packets sent.
    pub packets: u64,
    /// Packets that were not received.
    pub lost: u64,
}

/// Nanoseconds between frames of 64 bytes at 10 Gbit/s, in thirds.
const APART_THIRDS: u64 = 202;

/// When the first packet is sent, ns since 1970.
const BEGIN: u64 = 1_700_000_000_000_000_000;

/// Hosts that packets are sent to.
const HOSTS: u64 = 4096;

/// A frame of 64 bytes with its check sequence, which captures do not have.
type Frame = [u8; 60];

/// Writes captures of so many packets of 64 bytes, at 10 Gbit/s: UDP over IPv4 to 4,096 hosts, told apart by ports and identification. The
/// router takes 20 us and some, loses one in 1,000, and lets others overtake one in 500.
///
/// # Errors
///
/// The file that cannot be written, and why.
pub fn write_pair(folder: &Path, packets: u64) -> Result<Pair, String> {
    let (sent, received) = (folder.join("sent.pcap"), folder.join("received.pcap"));
    let cannot = |path: &Path| {
        let name = path.display().to_string();
        move |error: io::Error| format!("cannot write {name}: {error}")
    };
    let mut before = begin(&sent).map_err(cannot(&sent))?;
    let mut behind = begin(&received).map_err(cannot(&received))?;
    let mut waiting = BinaryHeap::new();
    let mut lost = 0;
    for number in 0..packets {
        let time = BEGIN + number * APART_THIRDS / 3;
        let random = mixed(number);
        write(&mut before, time, &frame(number, random, false)).map_err(cannot(&sent))?;
        while let Some(&std::cmp::Reverse((due, other))) = waiting.peek()
            && due <= time
        {
            waiting.pop();
            write(&mut behind, due, &frame(other, mixed(other), true)).map_err(cannot(&received))?;
        }
        if random.is_multiple_of(1000) {
            lost += 1;
        } else {
            let overtaken = if random.is_multiple_of(500) { 1_500 } else { 0 };
            // A queue that fills and drains.
            let queue = number % 8192;
            waiting.push(std::cmp::Reverse((time + 20_000 + queue.min(8192 - queue) + overtaken, number)));
        }
    }
    while let Some(std::cmp::Reverse((due, other))) = waiting.pop() {
        write(&mut behind, due, &frame(other, mixed(other), true)).map_err(cannot(&received))?;
    }
    before.flush().map_err(cannot(&sent))?;
    behind.flush().map_err(cannot(&received))?;
    Ok(Pair { sent, received, packets, lost })
}

fn begin(path: &Path) -> io::Result<BufWriter<File>> {
    let mut file = BufWriter::with_capacity(1 << 18, weir_host::files::output(path)?);
    // Nanoseconds, version 2.4, no zone, no accuracy, snap length, Ethernet.
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1u32] {
        file.write_all(&word.to_le_bytes())?;
    }
    Ok(file)
}

fn write(file: &mut impl Write, time: u64, frame: &Frame) -> io::Result<()> {
    let length = frame.len() as u32;
    for word in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, length, length] {
        file.write_all(&word.to_le_bytes())?;
    }
    file.write_all(frame)
}

/// Numbers that look like chance, and are the same every time.
fn mixed(number: u64) -> u64 {
    let odd = 0xbb67_ae85_84ca_a73b_9e37_79b9_7f4a_7c15_u128;
    let product = u128::from(number ^ 0x6a09_e667_f3bc_c909).wrapping_mul(odd);
    (product >> 64) as u64
}

fn frame(number: u64, random: u64, behind: bool) -> Frame {
    let mut frame = [0; 60];
    let mac = if behind { 2 } else { 1 };
    let ports = (number / 65_536 % 60_000) as u32 + 1024;
    let mut ip = [0x45, 0, 0, 46, 0, 0, 0, 0, if behind { 63 } else { 64 }, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 0];
    put(&mut ip, 4, &(number as u16).to_be_bytes());
    put(&mut ip, 18, &((random % HOSTS) as u16).to_be_bytes());
    let sum = Sum::new().bytes(&ip).checksum();
    put(&mut ip, 10, &sum.to_be_bytes());
    put(&mut frame, 0, &[2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 9, mac, 8, 0]);
    put(&mut frame, 14, &ip);
    put(&mut frame, 34, &(ports as u16).to_be_bytes());
    put(&mut frame, 36, &[0, 53, 0, 26]);
    frame
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes.iter_mut().skip(at).zip(part).for_each(|(to, from)| *to = *from);
}
