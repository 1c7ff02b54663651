//! Where packets enter and leave.

use std::fmt;
use std::os::fd::BorrowedFd;

use weir_packet::{Batch, Burst, Packet, Pool};

/// Packets and bytes that went through a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes, without preamble, frame check sequence and gap.
    pub bytes: u64,
}

impl Traffic {
    /// Hands up to `most` packets from the front of `burst` to `sink`, in order; the rest stays. Returns what went.
    pub fn drain(burst: &mut Burst, most: usize, mut sink: impl FnMut(Packet)) -> Traffic {
        let mut traffic = Traffic::default();
        let mut left = most;
        burst.drain(|packet| {
            if left == 0 {
                return Err(packet);
            }
            left -= 1;
            traffic.packets += 1;
            traffic.bytes += packet.len() as u64;
            sink(packet);
            Ok(())
        });
        traffic
    }
}

/// What is known about a port once it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// The device as the configuration names it.
    pub device: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The largest IP packet it carries, bytes.
    pub mtu: u16,
    /// Receive queues it can have at most.
    pub max_rx_queues: u16,
    /// Transmit queues it can have at most.
    pub max_tx_queues: u16,
    /// Whether it spreads flows over its receive queues by a hash (RSS).
    pub rss: bool,
    /// What the device does in hardware, for people: `rss`.
    pub offloads: Vec<String>,
}

impl PortFacts {
    /// Whether it is an end of a joint, and no device.
    pub fn is_joint(&self) -> bool {
        self.device.split_once(':').is_some_and(|(word, _)| word == JOINT)
    }
}

/// The word that devices of joints begin with.
pub const JOINT: &str = "joint";

/// The port's own figures; `None` where a device cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Packets the device lost because its receive ring was full.
    pub missed: Option<u64>,
    /// Packets lost because no buffer was free at receive.
    pub no_buffer: Option<u64>,
    /// Frames received with errors.
    pub rx_errors: Option<u64>,
    /// Frames that could not be sent.
    pub tx_errors: Option<u64>,
    /// Buffers that the device's rings hold now.
    pub in_rings: Option<u64>,
}

/// How fast a link is, as far as its device knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpeed {
    /// Its speed now, Mbit/s; 0 where nobody knows, or there is no link.
    pub now: u32,
    /// The most that the device can do, Mbit/s; 0 where nobody knows.
    pub most: u32,
    /// Whether one end alone may send at a time.
    pub half_duplex: bool,
    /// Whether the ends found the speed out between them.
    pub negotiated: bool,
    /// What it goes through, where that is known.
    pub medium: Option<Medium>,
}

/// What a link goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Twisted pairs, or a cable that is attached to its plugs.
    Copper,
    /// Glass fiber.
    Fiber,
}

/// Why a port cannot be had: a sentence that says what, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError(pub String);

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PortError {}

/// The queues of an open port, each with one owner.
pub type Queues = (Vec<Box<dyn Rx>>, Vec<Box<dyn Tx>>);

/// A port, as the control side sees it.
pub trait Port: Send {
    /// What is known about it.
    fn facts(&self) -> PortFacts;

    /// Opens it with so many queues of either kind, and buffers from `pool`. Called once.
    ///
    /// # Errors
    ///
    /// The device does not have so many queues, is busy, is gone, or does not start; nothing is open then.
    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError>;

    /// The device's own figures.
    fn stats(&self) -> DeviceStats;

    /// Whether the link is up.
    fn link_up(&mut self) -> bool;

    /// How fast the link is. Where there is no device, or one that makes a figure up (memory, files, wires to another process), nothing is known.
    fn speed(&mut self) -> LinkSpeed {
        LinkSpeed::default()
    }

    /// Whether it receives frames to whatever Ethernet address; if not, those to its own and to groups only. `None` where nothing picks frames
    /// by their addresses: memory, files, wires to another process.
    fn promiscuous(&self) -> Option<bool> {
        None
    }

    /// Changes that, also while packets flow; what has nothing to pick frames by has nothing to change.
    ///
    /// # Errors
    ///
    /// The device refuses; it is as it was.
    fn set_promiscuous(&mut self, _promiscuous: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// What is wrong with the open port that opening it again mends, as a sentence for people. Asked about once a second.
    fn ails(&mut self) -> Option<String> {
        None
    }

    /// Stops and releases the device, once its queues have come back.
    fn close(&mut self);
}

/// A receive queue.
pub trait Rx: Send {
    /// Adds packets to `batch`, behind those that are in it, as many as there are and fit. Does not wait. The engine writes the
    /// lanes that belong to receive.
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic;

    /// A descriptor that is readable as long as there is anything to receive, or since something came after [`Rx::listen`] was called last: a
    /// worker with nothing to do waits for it. `None` where there is no such thing; then the worker looks every now and then.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called with `true` before each look that a worker may follow by waiting for the descriptor, and with `false` when it does not wait any
    /// more. What has to be told to be told so.
    fn listen(&mut self, _on: bool) {}

    /// Whether nothing will come by itself any more: a file that was read to its end, a cable inside the process that nothing is
    /// in.
    fn exhausted(&self) -> bool {
        false
    }

    /// When the next packet is due, where that is known (files replayed with their timing): for the virtual clock.
    fn next_at(&self) -> Option<u64> {
        None
    }

    /// What was lost at receive for a reason of the software's own: (reason, help, packets so far). Never in the account,
    /// which starts when a packet is received.
    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }

    /// What went wrong for good, as a sentence for people: a file that is damaged, and where.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What is odd and was coped with, as a sentence for people: stamps that run backwards.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// How long packets wait at most for more that go by the same call, where nobody says otherwise, nanoseconds.
pub const MAX_WAIT: u64 = 100_000;

/// A transmit queue.
pub trait Tx: Send {
    /// Sends packets from the front of `burst`, as many as the device takes now. The rest stays. Returns what was accepted.
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic;

    /// Packets that the device takes now for certain.
    fn room(&mut self) -> usize {
        Burst::ROOM
    }

    /// Whether the port is there at all; when it is not, packets are dropped as `link-down`.
    fn alive(&mut self) -> bool {
        true
    }

    /// How long packets wait at most for more that go by the same call, nanoseconds.
    fn max_wait(&self) -> u64 {
        MAX_WAIT
    }

    /// Makes what was accepted visible outside (files).
    fn flush(&mut self) {}

    /// What went wrong for good, as a sentence for people: a file that cannot be written any more, and why.
    fn trouble(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::HeapPool;

    use super::*;

    #[test]
    fn a_burst_is_drained_from_the_front() {
        let mut pool = HeapPool::new(64, 256);
        for (most, went) in [(0, 0), (3, 3), (5, 5), (usize::MAX, 5)] {
            let mut burst = Burst::new();
            for length in 1..=5 {
                let mut packet = pool.alloc().unwrap();
                assert!(packet.fill(&vec![0; length]));
                burst.push(packet).unwrap();
            }
            let mut lengths = Vec::new();
            let traffic = Traffic::drain(&mut burst, most, |packet| {
                lengths.push(packet.len());
                pool.free(packet);
            });
            assert!(lengths.iter().copied().eq(1..=went), "{lengths:?}");
            assert_eq!(traffic, Traffic { packets: went as u64, bytes: lengths.iter().sum::<usize>() as u64 });
            assert!(burst.packets().iter().map(Packet::len).eq(went + 1..=5), "the rest stays, in order");
            pool.free_burst(&mut burst);
        }
    }
}
