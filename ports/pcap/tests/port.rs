//! The port on files.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../../../crates/capture/tests/common/mod.rs"]
mod common;

use std::path::Path;

use common::{
    Folder, Order, classic_file, classic_header, classic_record, enhanced, frames, interface, ng_file, section,
};
use weir_packet::{Batch, Burst, HeapPool, Pool};
use weir_port_pcap::{Bound, PcapPort, read_frames, read_recording};
use weir_stage::{Port, Rx, Tx};

fn open(port: &mut PcapPort, pool: &dyn Pool) -> (Box<dyn Rx>, Box<dyn Tx>) {
    let (mut rx, mut tx) = port.open(1, 1, pool).unwrap();
    (rx.pop().unwrap(), tx.pop().unwrap())
}

/// Receives what is there at `now`.
fn drain(rx: &mut dyn Rx, pool: &mut dyn Pool, now: u64) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    let mut got = Vec::new();
    while rx.receive(&mut batch, pool, now).packets > 0 {
        batch.each(|_, packet, _| got.push(packet.bytes().to_vec()));
        pool.free_batch(&mut batch, u64::MAX);
    }
    got
}

fn send(tx: &mut dyn Tx, pool: &mut dyn Pool, frames: &[Vec<u8>], now: u64) -> u64 {
    let mut sent = 0;
    for frame in frames {
        let mut burst = Burst::new();
        let mut packet = pool.alloc().unwrap();
        assert!(packet.fill(frame));
        burst.push(packet).unwrap();
        let traffic = tx.transmit(&mut burst, pool, now);
        assert_eq!(traffic.bytes, traffic.packets * frame.len() as u64);
        sent += traffic.packets;
        pool.free_burst(&mut burst);
    }
    sent
}

fn lost(rx: &dyn Rx) -> Vec<(&'static str, u64)> {
    rx.lost().into_iter().filter(|&(.., count)| count > 0).map(|(name, _, count)| (name, count)).collect()
}

#[test]
fn what_is_written_can_be_read_again() {
    let folder = Folder::new("round");
    let mut pool = HeapPool::new(512, 2048);
    let mut port = PcapPort::new("a", "pcap:,out.pcap", &folder.0).unwrap();
    let (rx, mut tx) = open(&mut port, &pool);
    assert!(rx.exhausted());
    let sent = frames(300);
    assert_eq!(send(&mut *tx, &mut pool, &sent[..200], 5_000_000_007), 200);
    tx.flush();
    assert_eq!(read_frames(&folder.0.join("out.pcap")).unwrap(), sent[..200]);
    assert_eq!(send(&mut *tx, &mut pool, &sent[200..], 6_000_000_000), 100);
    drop((rx, tx));
    port.close();
    let file = std::fs::read(folder.0.join("out.pcap")).unwrap();
    let mut reader = weir_capture::Reader::new(&file[..]).unwrap();
    let first = reader.next().unwrap().unwrap();
    assert_eq!((first.nanos, first.length), (5_000_000_007, 14));

    let mut port = PcapPort::new("a", "pcap:out.pcap", &folder.0).unwrap();
    let (mut rx, mut tx) = open(&mut port, &pool);
    assert!(!rx.exhausted());
    assert_eq!(drain(&mut *rx, &mut pool, 9), sent);
    assert!(rx.exhausted() && lost(&*rx).is_empty() && rx.trouble().is_none());
    // Without an output file packets are accepted all the same.
    assert_eq!(send(&mut *tx, &mut pool, &sent, 0), 300);
    drop((rx, tx));
    assert_eq!(pool.taken(), pool.at_hand());
}

#[test]
fn by_the_clock_packets_come_at_their_stamps() {
    let folder = Folder::new("clock");
    let sent = frames(3);
    folder.put("in", &classic_file(Order::Little, &sent));
    let mut pool = HeapPool::new(64, 2048);
    let mut port = PcapPort::new("a", "pcap:in,,timing=clock", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    let first = 7_000_000_000;
    assert_eq!(rx.next_at(), Some(first));
    assert!(drain(&mut *rx, &mut pool, first - 1).is_empty());
    assert_eq!(drain(&mut *rx, &mut pool, first), sent[..1]);
    assert_eq!(rx.next_at(), Some(first + 1_000_000));
    assert_eq!(drain(&mut *rx, &mut pool, first + 2_000_000), sent[1..]);
    assert!(rx.exhausted());
}

#[test]
fn timing_is_kept_from_the_first_call_on() {
    let folder = Folder::new("timing");
    let sent = frames(10);
    for file in [classic_file(Order::Big, &sent), ng_file(Order::Little, &sent)] {
        folder.put("in", &file);
        let mut pool = HeapPool::new(64, 2048);
        let mut port = PcapPort::new("a", "pcap:in,,timing=keep", &folder.0).unwrap();
        let (mut rx, _tx) = open(&mut port, &pool);
        assert_eq!(rx.next_at(), None); // nobody has asked yet
        let start = 123_456_789;
        for n in 0..10 {
            let due = start + n as u64 * 1_000_000;
            if n > 0 {
                assert_eq!(rx.next_at(), Some(due));
                assert!(drain(&mut *rx, &mut pool, due - 1).is_empty());
            }
            assert_eq!(drain(&mut *rx, &mut pool, due), sent[n..=n]);
        }
        assert!(rx.exhausted());
        assert_eq!(rx.next_at(), None);
    }
}

#[test]
fn stamps_that_go_back_are_due_at_once_and_told() {
    let folder = Folder::new("back");
    let mut file = classic_header(Order::Little, 0xa1b2_3c4d, 1);
    for seconds in [9, 3, 3] {
        file.extend(classic_record(Order::Little, seconds, 0, 14, &[0; 14]));
    }
    folder.put("in", &file);
    let mut pool = HeapPool::new(64, 2048);
    let mut port = PcapPort::new("a", "pcap:in,timing=keep", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    assert_eq!(drain(&mut *rx, &mut pool, 5).len(), 3);
    let told = rx.remark().unwrap();
    assert!(told.ends_with("1 stamp runs backwards; such packets are due right behind the one before"), "{told}");
}

#[test]
fn without_buffers_records_wait() {
    let folder = Folder::new("wait");
    folder.put("in", &classic_file(Order::Little, &frames(5)));
    let mut pool = HeapPool::new(2, 2048);
    let mut port = PcapPort::new("a", "pcap:in", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, &mut pool, 0).packets, 2);
    pool.free_batch(&mut batch, u64::MAX);
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(5)[2..]);
}

#[test]
fn what_cannot_be_received_is_lost_by_name() {
    let folder = Folder::new("lost");
    let order = Order::Little;
    let mut file = section(order);
    file.extend(interface(order, 1, 0, &[]));
    file.extend(interface(order, 101, 0, &[]));
    file.extend(enhanced(order, 0, 0, 2049, &[1; 2049]));
    file.extend(enhanced(order, 0, 0, 100, &[2; 60]));
    file.extend(enhanced(order, 1, 0, 60, &[3; 60]));
    file.extend(enhanced(order, 0, 0, 0, &[]));
    file.extend(enhanced(order, 0, 0, 1, &[4]));
    file.extend(enhanced(order, 0, 0, 2048, &[5; 2048]));
    let whole = file.len();
    file.extend(&enhanced(order, 0, 0, 60, &[6; 60])[..50]);
    let path = folder.put("in", &file);
    let mut pool = HeapPool::new(64, 2048);
    let mut port = PcapPort::new("a", "pcap:in", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    assert_eq!(drain(&mut *rx, &mut pool, 0), [vec![4], vec![5; 2048]]);
    assert_eq!(lost(&*rx), [("snapped", 1), ("too-long", 1), ("empty", 1), ("link-type", 1), ("damaged", 1)]);
    assert_eq!(port.stats().rx_errors, Some(5));
    let expected = format!(
        "the capture file {} is damaged at byte {whole}, after record 6: the file ends within a block",
        path.display()
    );
    assert_eq!(rx.trouble(), Some(expected));
    assert!(rx.exhausted());

    let mut port = PcapPort::new("a", "pcap:in,,snapped=keep", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    assert_eq!(drain(&mut *rx, &mut pool, 0), [vec![2; 60], vec![4], vec![5; 2048]]);

    // Jumbo frames pass up to their usual size.
    let mut pool = HeapPool::new(64, 9216);
    folder.put("in", &classic_file(order, &[vec![7; 9216], vec![8; 9217]]));
    let mut port = PcapPort::new("a", "pcap:in", &folder.0).unwrap();
    let (mut rx, _tx) = open(&mut port, &pool);
    assert_eq!(drain(&mut *rx, &mut pool, 0), [vec![7; 9216]]);
    assert_eq!(lost(&*rx), [("too-long", 1)]);
}

#[test]
fn a_full_disk_takes_the_port_down() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let pool = HeapPool::new(64, 2048);
    let error = PcapPort::new("a", "pcap:,/dev/full", Path::new("/")).unwrap().open(1, 1, &pool).err().unwrap();
    assert_eq!(error.0, "cannot write the capture file /dev/full: the disk is full; make room and start again");
}

#[test]
fn a_disk_that_fills_up_takes_the_port_down_and_leaves_whole_records() {
    // The limit on a file's size stands for the disk: it is met at exactly the same place in the code. The program that
    // runs under it is this test again, since the limit is the process's.
    if std::env::var_os("WEIR_PCAP_LIMITED").is_none() {
        let program = std::env::current_exe().unwrap();
        let shell = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact --nocapture \
                     a_disk_that_fills_up_takes_the_port_down_and_leaves_whole_records";
        // By a pipe: the limit would count for a file that the tests' output goes to.
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", shell]).arg(program).env("WEIR_PCAP_LIMITED", "1");
        let output = limited.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let folder = Folder::new("full");
    let mut pool = HeapPool::new(64, 2048);
    let mut port = PcapPort::new("a", "pcap:,out.pcap", &folder.0).unwrap();
    let (rx, mut tx) = open(&mut port, &pool);
    let sent = vec![vec![7; 1000]; 400];
    let accepted = send(&mut *tx, &mut pool, &sent, 0);
    assert!(accepted < 400 && !tx.alive() && tx.room() == 0 && !port.link_up());
    assert!(tx.trouble().unwrap().contains("out.pcap: "), "{:?}", tx.trouble());
    assert_eq!(send(&mut *tx, &mut pool, &sent, 0), 0);
    tx.flush();
    let written = read_frames(&folder.0.join("out.pcap")).unwrap().len() as u64;
    assert_eq!(accepted, written);
    drop((rx, tx));
    assert_eq!(pool.taken(), pool.at_hand());
}

#[test]
fn what_is_read_whole_is_bounded_while_it_is_read() {
    let folder = Folder::new("bound");
    let path = folder.put("in", &classic_file(Order::Little, &frames(100)));
    let read = |frames, bytes| read_recording(&path, Bound { frames, bytes }).map(|read| read.frames.len());
    assert_eq!(read(100, 1 << 20).unwrap(), 100);
    for (frames, bytes, kept) in [(99, 1 << 20, 99), (100, 1000, 8)] {
        let error = read(frames, bytes).unwrap_err().0;
        assert!(error.contains(&format!("it holds more than its {kept} first frames")), "{error}");
        assert!(error.contains("editcap -r FILE PART 1-") && error.contains("device = \"pcap:FILE\""), "{error}");
    }
}

#[test]
fn times_of_a_file_that_is_read_whole_never_run_backwards() {
    let folder = Folder::new("recording");
    let mut file = classic_header(Order::Little, 0xa1b2_3c4d, 1);
    for seconds in [u32::MAX - 86_400, u32::MAX, 5, 6] {
        file.extend(classic_record(Order::Little, seconds, 0, 14, &[0; 14]));
    }
    let recording = read_recording(&folder.put("in", &file), Bound::USUAL).unwrap();
    let day = 86_400_000_000_000;
    let times: Vec<u64> = recording.frames.iter().map(|frame| frame.0).collect();
    assert_eq!(times, [0, day, day, day + 1_000_000_000]);
    assert!(recording.remark.unwrap().starts_with("1 stamp runs backwards; "));
}

#[test]
fn wrong_devices_are_refused_without_touching_files() {
    let folder = Folder::new("wrong");
    let error = |device: &str| PcapPort::new("a", device, &folder.0).err().map(|error| error.0).unwrap_or_default();
    assert_eq!(
        error("pcap:,"),
        "device \"pcap:,\": \"\" names neither a file to read nor one to write; write it as in pcap:in.pcap,out.pcap"
    );
    assert!(error("pcap").contains("names neither a file"));
    assert!(error("pcap:a,a").contains("\"a\" is read and written; write to another file"));
    assert!(
        error("pcap:a,b,timing=fast")
            .contains("\"timing=fast\" is not known; write timing=keep, timing=clock or timing=ignore")
    );
    assert!(error("pcap:a,b,snapped=1").contains("write snapped=keep or snapped=drop"));
    assert!(error("pcap:a,b,timng=keep").contains("did you mean timing?"));
    assert!(error("pcap:a,mtu=9000").contains("write it as a key of the port, mtu = 9000"));
    assert!(error("pcap:a,b,c").contains("has more than the 2 arguments"));
    assert!(error("pcab:a,b").contains("\"pcab\" is not pcap"));
    assert_eq!(error("pcap:a,b,mac=02:00:00:00:00:09,timing=keep,snapped=drop"), "");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn facts_follow_the_device() {
    let facts = |device| PcapPort::new("wan", device, Path::new("/")).unwrap().facts();
    let plain = facts("pcap:in.pcap");
    assert_eq!((plain.mtu, plain.max_rx_queues, plain.max_tx_queues, plain.rss), (1500, 1, 1, false));
    assert_eq!((plain.mac, plain.device.as_str()), (weir_stage::local_mac("wan"), "pcap:in.pcap"));
    let chosen = facts("pcap:in.pcap,mac=02:00:00:00:00:09");
    assert_eq!((chosen.mac, chosen.mtu), ([2, 0, 0, 0, 0, 9], 1500));
}

#[test]
fn files_that_cannot_be_opened_are_refused() {
    let folder = Folder::new("open");
    let pool = HeapPool::new(64, 2048);
    let error = |device: &str| {
        let opened = PcapPort::new("a", device, &folder.0).unwrap().open(1, 1, &pool);
        opened.err().map(|error| error.0.replace(&folder.0.display().to_string(), "DIR")).unwrap_or_default()
    };
    assert_eq!(
        error("pcap:none"),
        "cannot read the capture file DIR/none: there is no such file; check the path, which is relative to the \
         configuration's folder"
    );
    assert_eq!(error("pcap:."), "cannot read the capture file DIR/.: it is a directory; name a file in it");
    assert_eq!(
        error("pcap:,none/out"),
        "cannot write the capture file DIR/none/out: its folder does not exist; create the folder, or write to another"
    );
    let path = folder.put("in", &classic_header(Order::Big, 0xa1b2_c3d4, 113));
    assert!(error("pcap:in").starts_with("cannot read the capture file DIR/in: its link type is 113"));
    std::fs::hard_link(path, folder.0.join("same")).unwrap();
    assert_eq!(error("pcap:in,same"), "pcap:in,same: both paths lead to the same file; write to another");
    let error = PcapPort::new("a", "pcap:in", &folder.0).unwrap().open(2, 1, &pool).err().unwrap();
    assert!(error.0.contains("2 receive and 1 transmit queues were asked for"), "{error}");
}
