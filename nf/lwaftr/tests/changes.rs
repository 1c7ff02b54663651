//! Softwires that come, change and go while packets flow: what is sent after a change never reaches whoever had the ports before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::time::Duration;

use common::{ACCESS, INTERNET, Rig, four, framed, udp, usual};
use serde_json::{Value, json};
use weir_stage::Random;

/// Addresses, and customers of each.
const ADDRESSES: usize = 4;
const CUSTOMERS: usize = 16;

/// A softwire of the test: how often it has been given to somebody, and whether somebody has it.
#[derive(Clone, Copy, Default)]
struct Softwire {
    generation: u32,
    is_there: bool,
}

/// A part of an address, by number.
#[derive(Clone, Copy)]
struct Part(usize);

impl Part {
    fn address(self) -> String {
        format!("203.0.113.{}", self.0 / CUSTOMERS)
    }

    fn psid(self) -> u16 {
        (self.0 % CUSTOMERS) as u16
    }

    /// The end of the customer that has it for the so-manieth time.
    fn b4(self, generation: u32) -> String {
        format!("2001:db8:c::{:x}:{:x}:{:x}", self.0, generation >> 16, generation & 0xffff)
    }

    fn key(self) -> Value {
        json!({ "ipv4": self.address(), "psid": self.psid() })
    }

    fn with(self, generation: u32) -> Value {
        json!({ "ipv4": self.address(), "psid": self.psid(), "psid_length": 4, "b4": self.b4(generation) })
    }
}

/// What came out of the relay: none of it may have gone to somebody who had these ports before it was sent, or never. Answers how many there were.
fn look(rig: &Rig) -> usize {
    rig.handles[INTERNET].received();
    let frames = rig.handles[ACCESS].received();
    let tunneled = frames.iter().filter(|frame| frame[20] == 4);
    let look = |frame: &Vec<u8>| {
        let number = |at: usize| u16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
        let [part, high, low] = [48, 50, 52].map(number);
        let generation = u32::from(high) << 16 | u32::from(low);
        // The inner destination and its port, and the generation that its sender knew.
        let meant = usize::from(frame[73]) * CUSTOMERS + usize::from(number(76) >> 12);
        let known = u32::from_be_bytes(frame[82..86].try_into().unwrap());
        assert_eq!(usize::from(part), meant, "another customer got it");
        assert!(generation >= known, "customer {generation} of part {part} got what was sent to {known}");
    };
    tunneled.map(look).count()
}

#[test]
fn nobody_gets_what_was_another_s_while_packets_flow() {
    const ROUNDS: usize = 300;
    let mut config = usual();
    config["softwires"] = json!([]);
    let mut rig = Rig::live(config);
    let (mut parts, mut random) = ([Softwire::default(); ADDRESSES * CUSTOMERS], Random::new(7));
    let mut below = |n: usize| random.below(n as u64) as usize;
    let (mut passed, mut changes, mut sent) = (0, 0, 0_u32);
    for _ in 0..ROUNDS {
        for _ in 0..20 {
            let part = Part(below(parts.len()));
            let one = &mut parts[part.0];
            let done = match (one.is_there, below(3)) {
                (true, 0) => {
                    one.is_there = false;
                    rig.request("softwire del", part.key())
                }
                (is_there, _) => {
                    *one = Softwire { generation: one.generation + 1, is_there: true };
                    rig.request(if is_there { "softwire set" } else { "softwire add" }, part.with(one.generation))
                }
            };
            done.unwrap();
            changes += 1;
            for _ in 0..4 {
                let part = Part(below(parts.len()));
                // Where nobody has the ports now, only the next one may get it.
                let Softwire { generation, is_there } = parts[part.0];
                let known = generation + u32::from(!is_there);
                let mut datagram = udp(53, part.psid() << 12 | below(4096) as u16, 30);
                datagram[8..12].copy_from_slice(&known.to_be_bytes());
                let packet = four("198.51.100.3", &part.address(), 17, 64, &datagram);
                rig.handles[INTERNET].send(framed(INTERNET, &packet));
                sent += 1;
            }
        }
        passed += look(&rig);
    }
    for _ in 0..10_000 {
        if rig.handles[INTERNET].waiting() == 0 && rig.engine.snapshot().iter().all(|worker| worker.quiet) {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    passed += look(&rig);
    assert!(changes == ROUNDS * 20 && passed > sent as usize / 3, "{passed} of {sent} packets came through");
    rig.finish();
}
