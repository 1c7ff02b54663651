//! The two ends of a link between processes.

use std::time::Instant;

use weir_packet::{Burst, DATA_ROOM, Pool};
use weir_port_dpdk::DpdkPool;

use super::{Folder, Open, PATIENCE, finish, folder, frame, open, part, spawn, start, wait};

/// Tells the other end to stop.
const STOP: u32 = u32::MAX;
const FRAMES: u32 = 2000;
/// A file that is there when the end that listens is open.
const OPEN: &str = "open";

/// Runs the two ends of a link, each in a process of its own: first the one that listens.
pub fn link(test: &str, echo: &str, ask: &str) {
    match part().as_deref() {
        Some("echo") => echo_all(echo),
        Some(_) => ask_all(ask),
        None => {
            let folder = Folder::new(test);
            let first = spawn(test, "echo", &[], &folder);
            wait("the socket is there", || folder.0.join("peer.sock").exists());
            let second = spawn(test, "ask", &[], &folder);
            finish(second);
            finish(first);
        }
    }
}

fn device(template: &str) -> String {
    template.replace("SOCK", folder().join("peer.sock").to_str().unwrap())
}

/// Sends back what it receives, as it came, until it is told to stop.
fn echo_all(template: &str) {
    let (eal, mut pool) = start("echo", DATA_ROOM);
    let mut port = open(&eal, &device(template), &pool);
    std::fs::write(folder().join(OPEN), []).unwrap();
    // A virtio_user that listens says that its link is up before anybody is there.
    assert!(template.starts_with("virtio_user") || !port.tx.alive(), "nobody is there yet");
    wait("the peer is there", || port.port.link_up());
    assert!(port.tx.alive());
    let mut back = Burst::new();
    let (mut received, mut returned) = (0, 0);
    wait("told to stop", || {
        let mut stop = false;
        // As long as there is anything, and a little longer.
        let mut idle = 0;
        while idle < 2000 && !stop {
            let got = port.rx.receive(&mut port.batch, &mut pool, 0);
            let told = |slot| port.batch.get(slot).unwrap().bytes().get(14..18) == Some(&STOP.to_be_bytes());
            let stops = port.batch.slots().filter(|slot| told(*slot)).count() as u64;
            stop |= stops > 0;
            received += got.packets - stops;
            port.batch.move_to_burst(u64::MAX, &mut back);
            while !back.is_empty() && !stop {
                returned += port.tx.transmit(&mut back, &mut pool, 0).packets;
            }
            idle = if got.packets == 0 { idle + 1 } else { 0 };
        }
        stop
    });
    pool.free_burst(&mut back);
    // Where a frame was lost: on the way here, or on the way back.
    let all = u64::from(FRAMES);
    assert_eq!((received, returned), (all, all), "lost at receive: {:?}; {:?}", port.rx.lost(), port.port.stats());
    drop(port);
    assert_eq!(pool.taken(), pool.at_hand(), "everything is back");
}

fn ask_all(template: &str) {
    let (eal, mut pool) = start("ask", DATA_ROOM);
    let mut port = open(&eal, &device(template), &pool);
    wait("the peer is there", || port.port.link_up());
    // A virtio_user that listens greets its peer when it is attached, and once more when it is opened: frames of the time between would lie in rings that
    // nobody reads.
    wait("the peer is open", || folder().join(OPEN).exists());
    wait("its link is up still", || port.port.link_up());
    let all = round_trips(&mut port, &mut pool);
    for _ in 0..3 {
        send(&mut port, STOP, &mut pool);
    }
    all.unwrap();
    wait("the peer is gone", || !port.port.link_up());
    drop(port);
    // Without copies the memif driver keeps the buffers that wait in its ring when the peer leaves.
    if !template.contains("zero-copy") {
        assert_eq!(pool.taken(), pool.at_hand(), "everything is back");
    }
}

/// Sends all frames and waits for them to come back. Tells what did not.
fn round_trips(port: &mut Open, pool: &mut DpdkPool) -> Result<(), String> {
    let (mut sent, mut back) = (0, Vec::new());
    let end = Instant::now() + PATIENCE;
    while (back.len() as u32) < FRAMES && Instant::now() < end {
        while sent < FRAMES && sent - (back.len() as u32) < 64 && send(port, sent, pool) {
            sent += 1;
        }
        back.extend(port.receive(1500, pool));
        std::thread::yield_now();
    }
    if back.iter().copied().eq(0..FRAMES) {
        return Ok(());
    }
    let missing: Vec<u32> = (0..sent).filter(|number| !back.contains(number)).take(9).collect();
    let (lost, stats) = (port.rx.lost(), port.port.stats());
    Err(format!(
        "{sent} sent, {} came back, not all of them once and in order; missing {missing:?}; lost at receive: {lost:?}; {stats:?}",
        back.len()
    ))
}

fn send(port: &mut Open, number: u32, pool: &mut DpdkPool) -> bool {
    let mut packet = pool.alloc().unwrap();
    assert!(packet.fill(&frame(number, 1500)));
    let mut burst = Burst::new();
    burst.push(packet).unwrap();
    let sent = port.tx.transmit(&mut burst, pool, 0).packets == 1;
    pool.free_burst(&mut burst);
    sent
}
