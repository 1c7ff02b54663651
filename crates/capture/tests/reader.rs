//! Reading capture files, right and damaged ones.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use common::*;
use pcap_parser::{PcapBlockOwned, PcapError};
use proptest::prelude::*;
use weir_capture::{Damage, LinkType, Reader, Record};

/// A record that outlives its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    nanos: i64,
    timed: bool,
    length: u32,
    link: LinkType,
    interface: u32,
}

/// Reads to the end or the first damage.
fn read(file: &[u8]) -> (Vec<(Owned, Vec<u8>)>, Option<Damage>) {
    let mut got = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(damage) => return (got, Some(damage)),
    };
    let end = loop {
        match reader.next() {
            Ok(Some(record)) => {
                let Record { nanos, timed, length, link, interface, data } = record;
                got.push((Owned { nanos, timed, length, link, interface }, data.to_vec()));
            }
            Ok(None) => break None,
            Err(damage) => break Some(damage),
        }
    };
    // It stays at its end.
    assert_eq!(reader.next(), Ok(None));
    if let Some(damage) = &end {
        assert_eq!(damage.record, got.len() as u64);
    }
    (got, end)
}

fn record(nanos: i64, length: u32) -> Owned {
    Owned { nanos, timed: true, length, link: LinkType::ETHERNET, interface: 0 }
}

#[test]
fn all_four_classic_forms() {
    for order in ORDERS {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let mut file = classic_header(order, magic, 1);
            file.extend(classic_record(order, 3, 999, 60, &[1; 60]));
            file.extend(classic_record(order, u32::MAX, 1, 1500, &[2; 96]));
            file.extend(classic_record(order, 0, 0, 0, &[]));
            let (got, damage) = read(&file);
            assert_eq!(damage, None);
            let expected = [
                (record(3_000_000_000 + 999 * unit, 60), vec![1; 60]),
                (record(i64::from(u32::MAX) * 1_000_000_000 + unit, 1500), vec![2; 96]),
                (record(0, 0), vec![]),
            ];
            assert_eq!(got, expected);
        }
    }
}

#[test]
fn the_modified_form_has_more_before_the_data() {
    for order in ORDERS {
        let mut file = classic_header(order, 0xa1b2_cd34, 1);
        for n in 1..4_u32 {
            // libpcap's pcap_sf_patched_pkthdr: interface, protocol, kind of packet and a byte of padding more.
            let whole = classic_record(order, n, 5, 60, &[n as u8; 40]);
            file.extend(&whole[..16]);
            file.extend([&order.u32(7)[..], &order.u16(0x800), &[0, 0]].concat());
            file.extend(&whole[16..]);
        }
        let expected = (1..4_i64).map(|n| (record(n * 1_000_000_000 + 5000, 60), vec![n as u8; 40])).collect();
        assert_eq!(read(&file), (expected, None));
    }
}

#[test]
fn records_of_any_length_cross_the_buffer() {
    let order = Order::Little;
    let lengths = [0, 1, 4095, 4096, 65536, 262_144, 3, 262_143, 100_000, 262_144, 0, 1];
    let frames: Vec<Vec<u8>> = lengths.iter().map(|&len| (0..len).map(|at| (at * 31 + len) as u8).collect()).collect();
    for file in [classic_file(order, &frames), ng_file(order, &frames)] {
        let (got, damage) = read(&file);
        assert_eq!(damage, None);
        assert!(got.iter().map(|(_, bytes)| bytes).eq(&frames));
    }
}

#[test]
fn frame_check_sequences_are_taken_off() {
    let order = Order::Little;
    // Link type field: bit 26 set, two 16-bit words.
    let mut file = classic_header(order, 0xa1b2_c3d4, 1 | 1 << 26 | 2 << 28);
    file.extend(classic_record(order, 0, 0, 64, &[1; 64]));
    file.extend(classic_record(order, 0, 0, 64, &[1; 62])); // half of it captured
    file.extend(classic_record(order, 0, 0, 64, &[1; 50]));
    let lens: Vec<(usize, u32)> = read(&file).0.iter().map(|(record, bytes)| (bytes.len(), record.length)).collect();
    assert_eq!(lens, [(60, 60), (60, 60), (50, 60)]);

    let mut file = section(order);
    file.extend(interface(order, 1, 0, &option(order, 13, &[4])));
    file.extend(enhanced(order, 0, 0, 64, &[1; 64]));
    assert_eq!(read(&file).0[0].1.len(), 60);
}

#[test]
fn pcapng_in_all_its_forms() {
    for order in ORDERS {
        for other in ORDERS {
            let mut file = section(order);
            file.extend(block(order, 0xbad, b"a custom block of no interest"));
            let options = [option(order, 2, b"eth0"), option(order, 9, &[9]), option(order, 0, &[])].concat();
            file.extend(interface(order, 1, 0, &options));
            let offset = option(order, 14, &order.u64(100));
            file.extend(interface(order, 1, 60, &[option(order, 9, &[0x8a]), offset].concat()));
            file.extend(interface(order, 113, 0, &[]));
            file.extend(enhanced(order, 0, 5_000_000_001, 33, &[1; 33]));
            file.extend(enhanced(order, 1, 1536, 1500, &[2; 60]));
            file.extend(enhanced(order, 2, 7, 20, &[3; 20]));
            // A simple packet is of the first interface.
            file.extend(block(order, 3, &[&order.u32(21)[..], &[4; 21]].concat()));
            let old = [
                &order.u16(1)[..],
                &order.u16(9),
                &order.u32(0),
                &order.u32(2048),
                &order.u32(2),
                &order.u32(2),
                &[5; 2],
            ];
            file.extend(block(order, 2, &old.concat()));
            // Another section, another byte order, its own interfaces.
            file.extend(section(other));
            file.extend(interface(other, 1, 10, &option(other, 14, &other.u64((-1_i64).cast_unsigned()))));
            file.extend(enhanced(other, 0, 3_000_000, 14, &[6; 14]));
            file.extend(block(other, 3, &[&other.u32(21)[..], &[7; 10]].concat()));
            let (got, damage) = read(&file);
            assert_eq!(damage, None);
            let of = |interface, owned| Owned { interface, ..owned };
            // A simple packet has the time of the one before.
            let untimed = |interface, nanos| Owned { timed: false, interface, ..record(nanos, 21) };
            let expected = [
                (record(5_000_000_001, 33), vec![1; 33]),
                (of(1, record(101_500_000_000, 1500)), vec![2; 60]),
                (Owned { link: LinkType::LINUX_SLL, interface: 2, ..record(7000, 20) }, vec![3; 20]),
                (untimed(0, 7000), vec![4; 21]),
                (of(1, record(102_000_000_000, 2)), vec![5; 2]),
                (of(3, record(2_000_000_000, 14)), vec![6; 14]),
                (untimed(3, 2_000_000_000), vec![7; 10]),
            ];
            assert_eq!(got, expected);
        }
    }
}

#[test]
fn files_cut_anywhere_give_what_is_whole_and_name_the_place() {
    let frames = frames(4);
    for order in ORDERS {
        for (file, overhead, head) in [(classic_file(order, &frames), 16, 24), (ng_file(order, &frames), 32, 28 + 20)] {
            // Where each record starts and the last one ends.
            let mut starts = vec![head];
            for frame in &frames {
                let len = if overhead == 32 { frame.len().next_multiple_of(4) } else { frame.len() };
                starts.push(starts.last().unwrap() + overhead + len);
            }
            assert_eq!(starts.last(), Some(&file.len()));
            for cut in 0..=file.len() {
                let (got, damage) = read(&file[..cut]);
                let whole = starts.iter().skip(1).filter(|&&end| end <= cut).count();
                assert_eq!(got.len(), whole, "cut at {cut}");
                assert!(got.iter().zip(&frames).all(|((_, bytes), frame)| bytes == frame));
                let at_edge = starts.contains(&cut) || (overhead == 32 && cut == 28);
                assert_eq!(damage.is_none(), at_edge, "cut at {cut}: {damage:?}");
                if let Some(damage) = damage.filter(|_| cut >= head) {
                    assert_eq!(damage.offset, starts[whole] as u64, "cut at {cut}: {damage}");
                }
            }
        }
    }
}

#[test]
fn damage_is_named() {
    let order = Order::Big;
    let says = |file: &[u8]| read(file).1.unwrap().to_string();
    let mut file = classic_header(order, 0xa1b2_c3d4, 1);
    let mut record = classic_record(order, 0, 0, 60, &[0; 60]);
    record[8..12].copy_from_slice(&order.u32(262_145));
    file.extend(record);
    assert_eq!(
        says(&file),
        "damaged at byte 24, before the first record: a record claims to hold 262145 bytes; 262144 is the most a record can have"
    );
    assert!(says(b"").contains("the file has only 0 bytes"));
    assert!(says(b"GET / HTTP/1.1").contains("it begins with 47 45 54 20"));
    let with = |blocks: &[u8]| [&section(order)[..], blocks].concat();
    assert_eq!(
        says(&with(&enhanced(order, 0, 0, 4, &[0; 4]))),
        "damaged at byte 28, before the first record: a packet is of interface 0, and the section has described 0"
    );
    let ethernet = interface(order, 1, 0, &[]);
    let mut bad = enhanced(order, 0, 0, 4, &[0; 4]);
    *bad.last_mut().unwrap() = 40;
    assert_eq!(
        says(&with(&[ethernet.clone(), bad].concat())),
        "damaged at byte 48, before the first record: a block has length 36 in front and 40 behind"
    );
    let mut bad = enhanced(order, 0, 0, 4, &[0; 4]);
    bad[20..24].copy_from_slice(&order.u32(5000));
    assert!(
        says(&with(&[ethernet.clone(), bad].concat()))
            .contains("a block of type 6 is too short for what it says it holds")
    );
    for length in [0_u32, 11, 13] {
        let bad = [order.u32(6), order.u32(length)].concat();
        assert!(says(&with(&[ethernet.clone(), bad].concat())).contains(&format!("a block has length {length};")));
    }
    let bad = [order.u32(6), order.u32(1 << 20)].concat();
    assert!(says(&with(&[ethernet, bad].concat())).contains("has length 1048576; the most"));
}

/// What the parser from crates.io makes of a file, as an independent twin.
fn twin(file: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = pcap_parser::create_reader(1 << 20, file).unwrap();
    let mut got = Vec::new();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::Legacy(record) => got.push(record.data.to_vec()),
                    PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(record)) => {
                        got.push(record.data[..record.caplen as usize].to_vec());
                    }
                    _ => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return got,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => unreachable!("{error:?}"),
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_another_parser(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
        big in any::<bool>(),
        ng in any::<bool>(),
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let file = if ng { ng_file(order, &frames) } else { classic_file(order, &frames) };
        let (got, damage) = read(&file);
        prop_assert_eq!(damage, None);
        let got: Vec<Vec<u8>> = got.into_iter().map(|(_, bytes)| bytes).collect();
        prop_assert_eq!(&got, &frames);
        prop_assert_eq!(twin(&file), frames);
    }

    #[test]
    fn changed_bytes_never_do_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        big in any::<bool>(),
        ng in any::<bool>(),
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let mut file = if ng { ng_file(order, &frames(6)) } else { classic_file(order, &frames(6)) };
        for (at, to) in changes {
            let at = at.index(file.len());
            file[at] = to;
        }
        // It ends, with records that hold no more than there is and damage inside the file.
        let (got, damage) = read(&file);
        prop_assert!(got.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= file.len());
        prop_assert!(damage.is_none_or(|damage| damage.offset <= file.len() as u64));
    }

    #[test]
    fn anything_at_all_is_read_to_an_end(file in prop::collection::vec(any::<u8>(), 0..400), form in 0..4) {
        let start = match form {
            0 => classic_header(Order::Little, 0xa1b2_c3d4, 1),
            1 => section(Order::Big),
            2 => [section(Order::Little), interface(Order::Little, 1, 0, &[])].concat(),
            _ => vec![],
        };
        let file = [start, file].concat();
        let (got, _) = read(&file);
        prop_assert!(got.len() <= file.len());
    }
}
