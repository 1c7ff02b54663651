//! The texts that name ports in memory.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use std::path::Path;

use common::{drain, frames, open_one, pool, transmit};
use weir_packet::Pool;
use weir_port_mem::MemPort;
use weir_stage::{Port, PortError};

fn load(path: &Path) -> Result<Vec<Vec<u8>>, PortError> {
    if path == Path::new("/base/some.pcap") { Ok(frames(10)) } else { Err(PortError("no such file".to_owned())) }
}

fn port(device: &str) -> Result<MemPort, PortError> {
    MemPort::new("wan", device, Path::new("/base"), load)
}

#[test]
fn replays_what_the_text_says() {
    let mut pool = pool();
    let mut replay = |device: &str| {
        let mut port = port(device).unwrap();
        assert_eq!(port.facts().device, device);
        let (mut rx, _tx) = open_one(&mut port, &*pool.another());
        let got = drain(&mut *rx, &mut pool, 0);
        (got, rx.exhausted(), rx.next_at())
    };
    let twice = [frames(10), frames(10)].concat();
    assert_eq!(replay("mem:replay=some.pcap,times=2"), (twice.clone(), true, None));
    assert_eq!(replay("mem:replay=some.pcap,count=13"), (twice[..13].to_vec(), true, None));
    assert_eq!(replay("mem:replay=some.pcap,rate=1 Mpps"), (twice[..1].to_vec(), false, Some(1000)));
    assert!(port("mem:replay=none.pcap").unwrap().open(1, 1, &pool).is_err());
}

#[test]
fn shares_of_several_queues_add_up() {
    let mut pool = pool();
    let mut port = port("mem:replay=some.pcap,count=1001").unwrap();
    let (rx, _tx) = port.open(3, 1, &pool).unwrap();
    let total: usize = rx.into_iter().map(|mut rx| drain(&mut *rx, &mut pool, 0).len()).sum();
    assert_eq!(total, 1001);
}

#[test]
fn loops_and_nulls() {
    let mut pool = pool();
    let mut loops = port("mem:loop,mac=02:00:00:00:00:05").unwrap();
    assert_eq!((loops.facts().mtu, loops.facts().mac), (1500, [2, 0, 0, 0, 0, 5]));
    let (mut rx, mut tx) = open_one(&mut loops, &pool);
    transmit(&mut *tx, &mut pool, &frames(5), 0);
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(5));
    let mut null = port("mem:null,drop=0").unwrap();
    let (mut rx, mut tx) = open_one(&mut null, &pool);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(5), 0), 5);
    assert!(drain(&mut *rx, &mut pool, 0).is_empty() && rx.exhausted());
}

#[test]
fn faults_strike_by_their_seed() {
    let mut pool = pool();
    let mut got = |device: &str| {
        let (mut rx, _tx) = open_one(&mut port(device).unwrap(), &*pool.another());
        drain(&mut *rx, &mut pool, 0)
    };
    let one = got("mem:replay=some.pcap,count=100,seed=1,drop=0.5");
    assert!((20..80).contains(&one.len()));
    assert_eq!(one, got("mem:replay=some.pcap,count=100,seed=1,drop=0.5"));
    assert_ne!(one, got("mem:replay=some.pcap,count=100,seed=2,drop=0.5"));
}

#[test]
fn wrong_texts_are_refused_with_a_remedy() {
    let error = |device: &str| port(device).err().map(|error| error.0).unwrap_or_default();
    let remedy = "is no port in memory; write mem:null, mem:loop, mem:cable=NAME or mem:replay=FILE";
    for device in ["mem", "mem:", "mem:nul", "mem:replay=", "mem:replay", "mem:cable", "mem:cable="] {
        assert!(error(device).ends_with(remedy), "{}", error(device));
    }
    assert!(error("men:loop").contains("\"men\" is not mem"));
    assert!(error("mem:loop,rate=1 Mpps").contains("\"rate\" is an option of mem:replay=FILE only; leave it out"));
    assert!(error("mem:replay=a,rate=1").contains("\"rate=1\" has no unit"));
    assert!(error("mem:replay=a,rate=1 mpps").contains("did you mean Mpps?"));
    assert!(error("mem:replay=a,rate=0 pps").contains("is no rate at which anything would come"));
    assert!(error("mem:replay=a,count=0").contains("write a whole number from 1"));
    assert!(error("mem:replay=a,count=1,times=1").contains("\"times\" and count both say when to stop"));
    assert!(error("mem:loop,drop=1.1").contains("\"drop=1.1\" is not a probability; write a number from 0 to 1"));
    assert!(error("mem:loop,drop=NaN").contains("is not a probability"));
    assert!(error("mem:loop,delay_time=5").contains("has no unit"));
    assert!(error("mem:loop,drpo=1").contains("did you mean drop?"));
    assert!(error("mem:loop,seed=-1").contains("write a whole number from 0"));
}
