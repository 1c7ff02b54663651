//! The twin cuts a frame into segments byte by byte, as segmentation does: what went together must come out as it came in.

use super::*;
use crate::checksum::naive;
use proptest::prelude::*;

/// A segment as a sender writes it.
#[derive(Clone, Debug)]
struct Sent {
    interface: u16,
    is_six: bool,
    /// Of the flow.
    port: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    tos: u8,
    ttl: u8,
    identification: u16,
    dont_fragment: bool,
    data: Vec<u8>,
}

impl Sent {
    fn new(sequence: u32, data: usize) -> Sent {
        Sent {
            interface: 1,
            is_six: false,
            port: 7,
            sequence,
            acknowledgement: 9,
            flags: ACK,
            window: 512,
            options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            tos: 0,
            ttl: 64,
            identification: (sequence / 100) as u16,
            dont_fragment: false,
            data: (0..data).map(|n| (sequence as usize + n) as u8).collect(),
        }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let length = (20 + self.options.len() + self.data.len()) as u16;
        if self.is_six {
            frame.extend([0x86, 0xdd, 0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([6, self.ttl]);
            frame.extend([0xfd; 32]);
        } else {
            frame.extend([8, 0, 0x45, self.tos]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend(self.identification.to_be_bytes());
            frame.extend([if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = naive(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let transport = frame.len();
        frame.extend(self.port.to_be_bytes());
        frame.extend([0, 80]);
        frame.extend(self.sequence.to_be_bytes());
        frame.extend(self.acknowledgement.to_be_bytes());
        frame.extend([(5 + self.options.len() as u8 / 4) << 4, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(&self.options);
        frame.extend(&self.data);
        let sum = naive(&[pseudo(&frame, transport), frame[transport..].to_vec()].concat());
        frame[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

/// The pseudo header of a frame, in bytes: addresses, zeroes, the protocol, and the length of what follows the IP header.
fn pseudo(frame: &[u8], transport: usize) -> Vec<u8> {
    let addresses = if frame[12] == 8 { &frame[26..34] } else { &frame[22..54] };
    [addresses, &((frame.len() - transport) as u32).to_be_bytes(), &[0, 0, 0, 6]].concat()
}

/// What segmentation makes of a frame: the n-th segment has the n-th piece of the data, the sequence number and the identification that are so much
/// larger, and the last alone has the push.
fn cut(headers: &[u8], data: &[u8], how: Cut) -> Vec<Vec<u8>> {
    let (transport, size) = (usize::from(how.transport), usize::from(how.size));
    assert_eq!((headers.len(), how.is_six), (usize::from(how.headers), headers[12] == 0x86));
    let whole = [headers, data].concat();
    let partial = &headers[transport + 16..transport + 18];
    assert_eq!(
        partial,
        (!naive(&pseudo(&whole, transport))).to_be_bytes(),
        "the kernel goes on from the pseudo header's sum"
    );
    let length = if how.is_six { [headers[18], headers[19]] } else { [headers[16], headers[17]] };
    let behind = if how.is_six { 54 } else { 14 };
    assert_eq!(usize::from(u16::from_be_bytes(length)), whole.len() - behind);
    assert!(how.is_six || naive(&headers[14..34]) == 0, "the checksum of the whole's IPv4 header");
    let pieces = data.chunks(size).count();
    let segment = |(n, piece): (usize, &[u8])| {
        let mut frame = [headers, piece].concat();
        let length = (frame.len() - behind) as u16;
        if how.is_six {
            frame[18..20].copy_from_slice(&length.to_be_bytes());
        } else {
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            let id = u16::from_be_bytes([frame[18], frame[19]]).wrapping_add(n as u16);
            frame[18..20].copy_from_slice(&id.to_be_bytes());
            frame[24..26].fill(0);
            let sum = naive(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let tcp = &mut frame[transport..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add((n * size) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if n + 1 < pieces {
            tcp[13] &= !PSH;
        }
        tcp[16..18].fill(0);
        let sum = naive(&[pseudo(&frame, transport), frame[transport..].to_vec()].concat());
        frame[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    data.chunks(size).enumerate().map(segment).collect()
}

/// What comes of a frame that a kernel sends.
fn finished(frame: Vec<u8>, how: Cut) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    let left = Left { start: how.transport, offset: 16, size: how.size };
    finish(frame, left, &mut |segment| segments.push(segment));
    segments
}

/// A frame without the identification of what may not be fragmented, which nobody looks at.
fn seen(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12] == 8 && frame[20] & 0x40 != 0 {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

/// Sorts frames, and holds every train against the twin. The places of each.
fn sorted(frames: &[(u16, Vec<u8>)]) -> Vec<Vec<usize>> {
    let trains = trains(frames);
    for train in &trains {
        let came: Vec<&Vec<u8>> = train.places.iter().map(|place| &frames[*place].1).collect();
        let Some((headers, how)) = train.joined(frames) else {
            assert_eq!(came.len(), 1);
            continue;
        };
        assert!(train.places.iter().all(|place| frames[*place].0 == frames[train.places[0]].0), "one interface");
        let data = came.iter().flat_map(|frame| &frame[headers.len()..]).copied().collect::<Vec<u8>>();
        let back = cut(&headers, &data, how);
        assert!(back.len() == came.len() && back.len() <= MOST);
        assert_eq!(finished([&headers[..], &data].concat(), how), back, "what cuts is as the twin");
        for (back, came) in back.into_iter().zip(came) {
            assert_eq!(seen(back), seen(came.clone()));
        }
    }
    trains.into_iter().map(|train| train.places).collect()
}

fn of(sent: &[Sent]) -> Vec<(u16, Vec<u8>)> {
    sent.iter().map(|one| (one.interface, one.frame())).collect()
}

fn in_order(count: usize, change: impl Fn(&mut Sent)) -> Vec<Sent> {
    let one = |n: usize| {
        let mut sent = Sent::new(n as u32 * 100, 100);
        change(&mut sent);
        sent
    };
    (0..count).map(one).collect()
}

#[test]
fn segments_in_order_go_as_one() {
    for (is_six, dont_fragment) in [(false, false), (false, true), (true, false)] {
        let sent = in_order(5, |one| (one.is_six, one.dont_fragment) = (is_six, dont_fragment));
        assert_eq!(sorted(&of(&sent)), [[0, 1, 2, 3, 4]]);
    }
    let longest = in_order(150, |_| {});
    assert_eq!(sorted(&of(&longest)).iter().map(Vec::len).collect::<Vec<_>>(), [MOST, MOST, 150 - 2 * MOST]);
    let large: Vec<Sent> =
        (0..16).map(|n| Sent { identification: n, ..Sent::new(u32::from(n) * 8948, 8948) }).collect();
    assert_eq!(
        sorted(&of(&large)).iter().map(Vec::len).collect::<Vec<_>>(),
        [7, 7, 2],
        "a packet has at most 65,535 bytes"
    );
}

/// The sequence number and the identification count on beyond their last value.
#[test]
fn numbers_wrap() {
    let first = Sent { identification: 0xffff, ..Sent::new(u32::MAX - 49, 100) };
    let second = Sent { identification: 0, ..Sent::new(50, 100) };
    assert_eq!(sorted(&of(&[first, second])), [[0, 1]]);
}

/// Each of these keeps the second of three segments, or what follows it, from going with the others.
#[test]
fn what_segmentation_would_not_make_goes_alone() {
    type Change = (&'static str, fn(&mut Sent), &'static [&'static [usize]]);
    let apart: &[&[usize]] = &[&[0], &[1], &[2]];
    let last: &[&[usize]] = &[&[0, 1], &[2]];
    let changes: [Change; 20] = [
        ("nothing", |_| {}, &[&[0, 1, 2]]),
        ("a gap", |one| one.sequence += 1, apart),
        ("sent again", |one| one.sequence -= 100, apart),
        ("pushed", |one| one.flags |= PSH, last),
        ("shorter", |one| one.data.truncate(99), last),
        ("longer", |one| one.data.push(0), &[&[0], &[1], &[2]]),
        ("no data", |one| one.data.clear(), apart),
        ("the end", |one| one.flags |= crate::tcp::FIN, apart),
        ("a beginning", |one| one.flags |= crate::tcp::SYN, apart),
        ("a reset", |one| one.flags |= crate::tcp::RST, apart),
        ("urgent", |one| one.flags |= crate::tcp::URG, apart),
        ("ECN's echo", |one| one.flags |= 0x40, apart),
        ("ECN's answer", |one| one.flags |= 0x80, apart),
        ("no acknowledgement", |one| one.flags = 0, apart),
        ("another acknowledgement", |one| one.acknowledgement += 1, apart),
        ("another window", |one| one.window += 1, apart),
        ("another time stamp", |one| one.options[11] += 1, apart),
        ("congestion experienced", |one| one.tos = 3, apart),
        ("another TTL", |one| one.ttl = 63, apart),
        ("other options", |one| one.options.clear(), apart),
    ];
    for is_six in [false, true] {
        for (what, change, expected) in changes {
            let mut sent = in_order(3, |one| one.is_six = is_six);
            change(&mut sent[1]);
            assert_eq!(sorted(&of(&sent)), expected, "{what}, {is_six}");
        }
    }
    for (what, change) in [
        ("another identification", (|one| one.identification += 1) as fn(&mut Sent)),
        ("not to be fragmented", |one| one.dont_fragment = true),
    ] {
        let mut sent = in_order(3, |_| {});
        change(&mut sent[1]);
        assert_eq!(sorted(&of(&sent)), apart, "{what}");
    }
    let mut any = in_order(3, |one| one.dont_fragment = true);
    any[1].identification = 77;
    assert_eq!(sorted(&of(&any)), [[0, 1, 2]], "the identification of what may not be fragmented says nothing");
}

/// Bytes of the second of three frames that keep it from going with others: as they are in IPv4 and IPv6.
#[test]
fn frames_that_are_not_as_they_should_be_go_alone() {
    type Break = (&'static str, bool, fn(&mut Vec<u8>));
    let breaks: [Break; 15] = [
        ("data, which the checksum finds", false, |frame| frame[80] ^= 1),
        ("data, which the checksum finds", true, |frame| frame[100] ^= 1),
        ("checksum", false, |frame| frame[50] ^= 1),
        ("checksum", true, |frame| frame[70] ^= 1),
        ("header checksum", false, |frame| frame[24] ^= 1),
        ("padding", false, |frame| frame.push(0)),
        ("padding", true, |frame| frame.push(0)),
        ("cut off", false, |frame| frame.truncate(120)),
        ("more fragments", false, |frame| frame[20] |= 0x20),
        ("IHL", false, |frame| frame[14] = 0x46),
        ("version", true, |frame| frame[14] = 0x50),
        ("header length of TCP below 20", false, |frame| frame[46] = 0x40),
        ("header length of TCP beyond the end", false, |frame| frame[46] = 0xf0),
        ("another protocol", false, |frame| frame[23] = 17),
        ("another station", true, |frame| frame[11] ^= 1),
    ];
    for (what, is_six, change) in breaks {
        let mut frames = of(&in_order(3, |one| one.is_six = is_six));
        change(&mut frames[1].1);
        assert_eq!(sorted(&frames), [[0], [1], [2]], "{what}, {is_six}");
    }
    let mut frames = of(&in_order(3, |_| {}));
    frames[0].1[80] ^= 1;
    assert_eq!(sorted(&frames), [vec![0], vec![1, 2]], "the first, which is looked at last");
}

#[test]
fn flows_go_past_each_other_and_nothing_past_what_is_no_tcp() {
    let of_flow = |port| in_order(2, |one| one.port = port);
    let other_side = in_order(2, |one| one.interface = 2);
    let (one, other) = (of_flow(7), of_flow(8));
    let mixed = [&one[0], &other[0], &other_side[0], &one[1], &other_side[1], &other[1]].map(Clone::clone);
    assert_eq!(sorted(&of(&mixed)), [[0, 3], [1, 5], [2, 4]]);
    let mut frames = of(&of_flow(7));
    frames.insert(1, (1, vec![0xff; 60]));
    assert_eq!(sorted(&frames), [[0], [1], [2]]);
    // More flows than are kept in mind: those that came last go on.
    let firsts = (0..=OPEN as u16).map(|port| of_flow(port)[0].clone());
    let seconds = [of_flow(OPEN as u16)[1].clone(), of_flow(0)[1].clone()];
    let trains = sorted(&of(&firsts.chain(seconds).collect::<Vec<_>>()));
    assert_eq!((trains.len(), &trains[OPEN], &trains[OPEN + 1]), (OPEN + 2, &vec![OPEN, OPEN + 1], &vec![OPEN + 2]));
}

/// A sender that now and then does something else.
fn senders() -> impl Strategy<Value = Vec<Sent>> {
    let step = (0u16..3, 0u8..24, any::<u8>());
    (any::<[(bool, bool); 3]>(), any::<[u32; 3]>(), proptest::collection::vec(step, 0..200)).prop_map(
        |(families, mut next, steps)| {
            let mut ids = [0xfff0_u16; 3];
            let write = |(flow, kind, by): (u16, u8, u8)| {
                let n = usize::from(flow);
                let (is_six, dont_fragment) = families[n];
                let size = if kind == 0 { usize::from(by) % 60 } else { 60 };
                let mut one =
                    Sent { port: flow, is_six, dont_fragment, identification: ids[n], ..Sent::new(next[n], size) };
                match kind {
                    1 => one.flags = by,
                    2 => one.sequence = one.sequence.wrapping_add(by.into()),
                    3 => one.window ^= u16::from(by),
                    4 => one.tos = by,
                    5 => one.identification = one.identification.wrapping_add(by.into()),
                    6 => one.options = vec![1; usize::from(by % 11) * 4],
                    7 => one.flags |= PSH,
                    8 => one.interface = 2,
                    _ => {}
                }
                next[n] = one.sequence.wrapping_add(one.data.len() as u32);
                ids[n] = one.identification.wrapping_add(1);
                one
            };
            steps.into_iter().map(write).collect()
        },
    )
}

/// The end and the push are the last segment's, the answer to ECN is the first one's (RFC 3168 section 6.1.2); tags and options stay.
#[test]
fn a_kernels_frame_is_cut_whatever_its_headers_are() {
    let flags = ACK | PSH | crate::tcp::FIN | 0x80;
    for is_six in [false, true] {
        let frame = Sent { is_six, flags, ..Sent::new(5, 250) }.frame();
        let transport = if is_six { 54 } else { 34 };
        for tags in 0..=3 {
            let mut tagged = frame[..12].to_vec();
            tagged.extend([0x81, 0, 0, 7].repeat(tags));
            tagged.extend(&frame[12..]);
            let at = transport + 4 * tags;
            let sum = !naive(&pseudo(&frame, transport));
            tagged[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
            let how = Cut { is_six, transport: at as u16, headers: 0, size: 100 };
            let segments = finished(tagged.clone(), how);
            if tags > 2 {
                assert!(segments.is_empty(), "what it is nobody knows");
                continue;
            }
            assert_eq!(segments.iter().map(|one| one[at + 13]).collect::<Vec<_>>(), [ACK | 0x80, ACK, flags & !0x80]);
            for (n, segment) in segments.iter().enumerate() {
                assert_eq!(segment[..12 + 4 * tags], tagged[..12 + 4 * tags]);
                let plain = [&segment[..12], &segment[12 + 4 * tags..]].concat();
                assert!(Segment::of(&plain).is_some_and(|segment| segment.has_valid_checksums()), "{n}");
                let data = 250_usize.saturating_sub(n * 100).min(100);
                assert_eq!(plain[plain.len() - data..], frame[frame.len() - 250 + n * 100..][..data]);
            }
        }
    }
}

/// Of other frames the kernel leaves the checksum alone: of UDP, 0 would say that there is none.
#[test]
fn checksums_are_completed() {
    let mut datagram = crate::build::UdpFrame::default().to_vec(&[1, 2, 3]);
    let right = datagram.clone();
    let pseudo = [&right[26..34], &[0, 17, 0, 11]].concat();
    datagram[40..42].copy_from_slice(&(!naive(&pseudo)).to_be_bytes());
    let left = Left { start: 34, offset: 6, size: 0 };
    let mut seen = Vec::new();
    finish(datagram.clone(), left, &mut |frame| seen.push(frame));
    assert_eq!(seen, [right]);
    // Data that let the sum be all ones.
    let mut zero = crate::build::UdpFrame::default().to_vec(&[1, 2, 3, 0]);
    zero[44..46].copy_from_slice(&[0, 0]);
    zero[40..42].fill(0);
    let pseudo = [&zero[26..34], &[0, 17, 0, 12]].concat();
    let sum = naive(&[&pseudo[..], &zero[34..]].concat());
    zero[44..46].copy_from_slice(&sum.to_be_bytes());
    zero[40..42].copy_from_slice(&(!naive(&pseudo)).to_be_bytes());
    let mut seen = Vec::new();
    finish(zero, left, &mut |frame| seen.push(frame));
    assert_eq!(seen[0][40..42], [0xff, 0xff]);
}

proptest! {
    /// Whatever is said of a frame, none is made that is longer than it, and none without end.
    #[test]
    fn any_frame_is_finished(mut frame in proptest::collection::vec(any::<u8>(), 0..200), start in 0u16..210, offset in 0u16..60, size in 0u16..99, kind in 0..3) {
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice([&[8, 0], &[0x86, 0xdd], &[0x81, 0]][kind as usize]);
        }
        let (length, mut count) = (frame.len(), 0);
        finish(frame, Left { start, offset, size }, &mut |segment| {
            count += 1;
            assert!(segment.len() <= length);
        });
        prop_assert!(count <= length.max(1));
    }

    #[test]
    fn nothing_is_lost_changed_or_out_of_order(sent in senders(), bad in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..), 0..4)) {
        let mut frames = of(&sent);
        for (frame, byte, change) in bad.iter().filter(|_| !sent.is_empty()) {
            let frame = &mut frame.get_mut(&mut frames).1;
            let byte = byte.index(frame.len());
            frame[byte] ^= change;
        }
        let trains = sorted(&frames);
        let mut all = trains.concat();
        // What does not go with others stays where it is among its flow: by ports, which no change of bytes above makes another's.
        for flow in 0..3 {
            let of_flow: Vec<usize> = all.iter().copied().filter(|place| bad.is_empty() && (sent[*place].port, sent[*place].interface) == (flow, 1)).collect();
            prop_assert!(of_flow.is_sorted());
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..frames.len()).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_looked_at(frames in proptest::collection::vec((0u16..2, proptest::collection::vec(any::<u8>(), 0..90)), 0..20)) {
        sorted(&frames);
    }
}
