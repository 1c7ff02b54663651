//! Compressed files, several files as one, and files that cannot be opened.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use std::io::Write;

use common::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use weir_capture::{Damage, Merged, Reader};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// The packets of a file up to its end or damage.
fn read(file: &[u8]) -> (Vec<Vec<u8>>, Option<Damage>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(damage) => return (Vec::new(), Some(damage)),
    };
    let mut got = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => got.push(record.data.to_vec()),
            Ok(None) => {
                assert_eq!(reader.position(), file.len() as u64, "all of the file is read");
                return (got, None);
            }
            Err(damage) => return (got, Some(damage)),
        }
    }
}

#[test]
fn compressed_files_are_known_by_their_bytes() {
    let frames = frames(3000);
    let plain = classic_file(Order::Little, &frames);
    let (first, second) = plain.split_at(plain.len() / 3);
    // RFC 8878 section 3.1.2: a frame to be skipped.
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    for file in [
        gzip(&plain),
        // RFC 1952 section 2.2: members follow each other.
        [gzip(first), gzip(second)].concat(),
        zstd(&plain),
        [zstd(first), skipped.clone(), zstd(second), skipped.clone()].concat(),
        [skipped, zstd(&plain)].concat(),
        gzip(&ng_file(Order::Big, &frames)),
        zstd(&ng_file(Order::Big, &frames)),
    ] {
        let (got, damage) = read(&file);
        assert_eq!(damage, None);
        assert!(got == frames);
    }
}

#[test]
fn a_compressed_file_that_is_cut_gives_what_there_is() {
    let frames = frames(400);
    let plain = classic_file(Order::Little, &frames);
    for (name, whole) in [("gzip", gzip(&plain)), ("zstd", zstd(&plain))] {
        for cut in (8..whole.len()).step_by(97) {
            let (got, damage) = read(&whole[..cut]);
            assert!(got.len() <= frames.len() && got == frames[..got.len()]);
            let damage = damage.unwrap();
            assert_eq!(damage.record, got.len() as u64);
            assert!(damage.what.starts_with(&format!("what is compressed with {name} is damaged: ")), "{damage}");
        }
    }
}

#[test]
fn a_wrong_checksum_is_damage() {
    let plain = classic_file(Order::Little, &frames(40));
    for mut file in [gzip(&plain), zstd(&plain)] {
        // gzip ends with the sum and the length, zstd with the sum.
        let at = file.len() - if file[0] == 0x1f { 6 } else { 2 };
        file[at] ^= 1;
        let (got, damage) = read(&file);
        assert_eq!(got.len(), 40);
        assert!(damage.unwrap().what.contains("damaged"));
    }
}

#[test]
fn a_little_that_holds_a_lot_costs_no_memory() {
    // Records without bytes and of second 0: a million of them from a few kilobytes.
    let mut plain = classic_header(Order::Little, 0xa1b2_c3d4, 1);
    plain.resize(plain.len() + 16_000_000, 0);
    let (got, damage) = read(&gzip(&plain));
    assert_eq!((got.len(), damage), (1_000_000, None));
}

#[test]
fn a_window_that_would_take_much_memory_is_refused() {
    // RFC 8878 section 3.1.1.1: no flags, so that a window descriptor follows; it is 2 to the power of 10 and its high five bits.
    let frame = |power: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0, (power - 10) << 3][..], &[1, 0, 0]].concat();
    let says = |power| read(&frame(power)).1.unwrap().what;
    assert!(says(27).contains("the file has only 0 bytes"), "{}", says(27));
    for power in [28, 40] {
        assert!(says(power).starts_with("what is compressed with zstd is damaged: "), "{}", says(power));
    }
}

#[test]
fn files_are_merged_by_time() {
    let folder = Folder::new("merged");
    let order = Order::Little;
    let file = |name: &str, times: &[u32]| {
        let mut file = classic_header(order, 0xa1b2_3c4d, 1);
        for &time in times {
            file.extend(classic_record(order, 0, time, 1, &[time as u8]));
        }
        folder.put(name, &file)
    };
    // The second goes back once, and keeps its order; the third is cut within its last record.
    let whole = file("c", &[2, 9, 11]);
    let bytes = std::fs::read(&whole).unwrap();
    folder.put("c", &bytes[..bytes.len() - 1]);
    let paths = [file("a", &[1, 3, 3, 10]), file("b", &[3, 2, 4, 12]), whole, file("d", &[])];
    let mut merged = Merged::open(&paths).unwrap();
    assert_eq!(merged.size(), paths.iter().map(|path| path.metadata().unwrap().len()).sum::<u64>());
    let (mut got, mut damages) = (Vec::new(), Vec::new());
    loop {
        match merged.next() {
            Ok(Some((file, record))) => got.push((file, record.nanos, record.data[0])),
            Ok(None) => break,
            Err(damage) => damages.push((got.len(), damage.to_string())),
        }
    }
    let expected: [(usize, i64, u8); 10] = [
        (0, 1, 1),
        (2, 2, 2),
        (0, 3, 3),
        (0, 3, 3),
        (1, 3, 3),
        (1, 2, 2),
        (1, 4, 4),
        (2, 9, 9),
        (0, 10, 10),
        (1, 12, 12),
    ];
    assert_eq!(got, expected);
    let what = format!(
        "the capture file {} is damaged at byte 58, after record 2: the file ends within the data of a record",
        paths[2].display()
    );
    assert_eq!(damages, [(8, what)]);
    assert_eq!(merged.next(), Ok(None));
    assert_eq!(merged.position(), merged.size());
}

#[test]
fn all_files_that_cannot_be_opened_are_named() {
    let folder = Folder::new("problems");
    let good = folder.put("good", &classic_file(Order::Little, &frames(1)));
    let bad = folder.put("bad", b"GET / HTTP/1.1");
    let problems = Merged::open(&[good, folder.0.join("none"), folder.0.clone(), bad]).err().unwrap();
    let place = folder.0.display();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            format!("cannot read the capture file {place}/none: there is no such file; check the path"),
            format!("cannot read the capture file {place}: it is a directory; name a file in it"),
            format!(
                "cannot read the capture file {place}/bad: it begins with 47 45 54 20, as neither pcap nor pcapng files \
                 do; convert it with editcap or tcpdump -w (at byte 0)"
            ),
        ]
    );
}

proptest! {
    #[test]
    fn the_form_of_compression_does_not_matter(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..60),
        ng in any::<bool>(),
    ) {
        let plain = if ng { ng_file(Order::Little, &frames) } else { classic_file(Order::Big, &frames) };
        for file in [gzip(&plain), zstd(&plain), plain] {
            prop_assert_eq!(read(&file), (frames.clone(), None));
        }
    }

    #[test]
    fn merged_files_are_what_sorting_gives(mut files in prop::collection::vec(prop::collection::vec(0..50_u32, 0..40), 1..6)) {
        let folder = Folder::new("sorted");
        let mut expected = Vec::new();
        for (number, times) in files.iter_mut().enumerate() {
            times.sort_unstable();
            let mut file = classic_header(Order::Big, 0xa1b2_3c4d, 1);
            for time in times.iter() {
                file.extend(classic_record(Order::Big, 0, *time, 1, &[0]));
                expected.push((*time, number));
            }
            folder.put(&number.to_string(), &file);
        }
        // Of equal times, the file named first goes first.
        expected.sort();
        let paths: Vec<_> = (0..files.len()).map(|number| folder.0.join(number.to_string())).collect();
        let mut merged = Merged::open(&paths).unwrap();
        let mut got = Vec::new();
        while let Some((file, record)) = merged.next().unwrap() {
            got.push((record.nanos as u32, file));
        }
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn changed_bytes_of_a_compressed_file_never_do_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        zstd_instead in any::<bool>(),
    ) {
        let plain = classic_file(Order::Little, &frames(30));
        let mut file = if zstd_instead { zstd(&plain) } else { gzip(&plain) };
        for (at, to) in changes {
            let at = at.index(file.len());
            file[at] = to;
        }
        // It ends; gzip and zstd make at most some thousand bytes of one.
        let (got, _) = read(&file);
        prop_assert!(got.len() <= file.len() * 2000);
    }
}
