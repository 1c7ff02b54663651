//! What the types promise: windows stay inside the buffer, every buffer comes home exactly once, lanes travel with a packet.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use weir_packet::{BATCH, Batch, Burst, HEADROOM, HeapPool, Held, Key, LaneId, LaneSet, Packet, Pool, Slot, Slots};

fn pool(capacity: usize) -> HeapPool {
    HeapPool::new(capacity, 2048)
}

fn packet(pool: &mut HeapPool, bytes: &[u8]) -> Packet {
    let mut packet = pool.alloc().unwrap();
    assert!(packet.fill(bytes));
    packet
}

#[test]
fn a_pool_hands_out_what_it_has_and_takes_all_of_it_back() {
    let mut pool = pool(1000);
    let packets: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(packets.len(), 1000);
    let ids: std::collections::HashSet<usize> = packets.iter().map(Packet::id).collect();
    assert_eq!(ids.len(), 1000, "a buffer was handed out twice");
    packets.into_iter().for_each(|packet| pool.free(packet));
    assert_eq!(pool.taken() - pool.at_hand(), 0);
}

#[test]
fn a_burst_is_allocated_whole_or_not_at_all() {
    let mut pool = pool(10);
    let mut burst = Burst::new();
    assert!(!pool.alloc_burst(11, &mut burst));
    assert!(burst.is_empty());
    assert!(pool.alloc_burst(10, &mut burst));
    assert_eq!(burst.len(), 10);
    pool.free_burst(&mut burst);
    assert_eq!(pool.taken() - pool.at_hand(), 0);
}

#[test]
fn buffers_move_between_the_handles_of_two_workers() {
    let mut one = pool(600);
    let mut two = one.another();
    for _ in 0..5 {
        let packets: Vec<Packet> = std::iter::from_fn(|| one.alloc()).collect();
        assert!(packets.len() >= 300, "{} of 600", packets.len());
        packets.into_iter().for_each(|packet| two.free(packet));
    }
    assert_eq!(one.taken() - one.at_hand() - two.at_hand(), 0);
}

#[test]
fn windows_reach_past_the_packet_but_never_past_the_buffer() {
    let mut pool = HeapPool::new(1, 256);
    let mut packet = packet(&mut pool, &[7; 256]);
    assert!(!packet.trim_front(1), "a window would leave the buffer");
    packet.window_mut::<128>(127)[127] = 9;
    assert_eq!(packet.bytes()[254], 9);
    pool.free(packet);
}

#[test]
fn growing_shows_zeros_and_not_what_was_there_before() {
    let mut pool = pool(1);
    let mut packet = packet(&mut pool, &[0xaa; 100]);
    assert!(packet.set_len(10));
    assert!(packet.set_len(100));
    assert_eq!(packet.bytes()[..10], [0xaa; 10]);
    assert_eq!(packet.bytes()[10..], [0; 90]);
    assert!(!packet.set_len(2049));
    pool.free(packet);
}

#[test]
fn prepending_ends_with_the_headroom() {
    let mut pool = pool(1);
    let mut packet = packet(&mut pool, &[1; 60]);
    assert!(packet.prepend(HEADROOM));
    assert!(!packet.prepend(1));
    assert_eq!(packet.len(), 60 + HEADROOM);
    assert!(packet.trim_front(HEADROOM));
    assert_eq!(packet.bytes(), [1; 60]);
    pool.free(packet);
}

/// Each combination of some numbers, against what the words say.
#[test]
fn a_head_is_replaced_and_the_body_stays() {
    let mut pool = HeapPool::new(1, 256);
    for (off, cut, head, body) in (0..=20_usize)
        .step_by(4)
        .flat_map(|off| [0_usize, 3, 22, 40, 41].map(|cut| (off, cut)))
        .flat_map(|(off, cut)| [0, 1, 14, 16, 17].map(|head| (off, cut, head)))
        .flat_map(|(off, cut, head)| [0, 1, 18, 40, usize::MAX].map(|body| (off, cut, head, body)))
    {
        let mut packet = packet(&mut pool, &[0; 40]);
        // With `off` bytes of headroom.
        assert!(packet.prepend(packet.headroom()) && packet.set_len(off + 40) && packet.trim_front(off));
        let data: Vec<u8> = (100..140).collect();
        packet.bytes_mut().copy_from_slice(&data);
        let may = cut.checked_add(body).is_some_and(|both| both <= data.len()) && head <= 16 && off + cut >= 16;
        let before = (packet.headroom(), packet.len());
        match packet.replace_head::<16, 128>(cut, head, body) {
            Some((front, behind)) => {
                assert!(may);
                assert_eq!(behind[..body], data[cut..cut + body]);
                behind[127] = 1;
                front.copy_from_slice(b"here is the head");
                assert_eq!((packet.headroom(), packet.len()), (off + cut - head, head + body));
                assert_eq!(packet.header().pkt_len as usize, head + body);
                assert_eq!(packet.bytes()[..head], b"here is the head"[16 - head..]);
                assert_eq!(packet.bytes()[head..], data[cut..cut + body]);
            }
            None => {
                assert!(!may, "{off} {cut} {head} {body}");
                assert_eq!((packet.headroom(), packet.len()), before);
                assert_eq!(packet.bytes(), data);
            }
        }
        pool.free(packet);
    }
}

/// A packet that grew, shrank or moved either way is as it was, but for bytes that it had lost.
#[test]
fn a_renewed_packet_is_what_it_was_before_it_went_round() {
    let mut pool = HeapPool::new(1, 512);
    let front: [u8; 16] = std::array::from_fn(|n| 200 + n as u8);
    for (back, cut, len) in [0, 7, 30]
        .into_iter()
        .flat_map(|back| [0, 5, 13].map(|cut| (back, cut)))
        .flat_map(|(back, cut)| [10, 16, 40, 50].map(|len| (back, cut, len)))
    {
        let mut packet = packet(&mut pool, &[9; 40]);
        // Longer or shorter by its head, and shorter by its end.
        assert!(packet.prepend(back) && packet.trim_front(2 * cut));
        let kept = packet.len() - cut;
        assert!(packet.set_len(kept));
        let end = packet.headroom() + kept - HEADROOM;
        assert!(packet.renew(&front, len));
        assert_eq!((packet.headroom(), packet.len(), packet.header().pkt_len as usize), (HEADROOM, len, len));
        let expected = |at: usize| match at {
            0..16 => front[at],
            _ if at < end => 9,
            _ => 0,
        };
        assert!(packet.bytes().iter().enumerate().all(|(at, byte)| *byte == expected(at)), "{back} {cut} {len}");
        assert!(!packet.renew(&front, 513) && !packet.renew_stale(&front, 513));
        assert_eq!(packet.len(), len);
        // Only what was written is known of one that was renewed stale.
        assert!(packet.trim_front(3) && packet.renew_stale(&front, 300));
        assert_eq!((packet.headroom(), packet.len(), packet.header().pkt_len), (HEADROOM, 300, 300));
        assert_eq!(packet.bytes()[..16], front);
        pool.free(packet);
    }
}

#[test]
fn no_head_is_replaced_where_a_window_would_leave_the_buffer() {
    let mut pool = HeapPool::new(1, 256);
    let mut packet = packet(&mut pool, &[7; 256]);
    assert!(packet.replace_head::<16, 128>(15, 14, 9).is_none());
    assert_eq!(packet.len(), 256);
    let (_, body) = packet.replace_head::<16, 128>(14, 14, 9).unwrap();
    body[127] = 1;
    assert_eq!(packet.bytes(), [7; 23]);
    pool.free(packet);
}

#[test]
fn lanes_are_saved_and_restored_with_a_held_packet() {
    let mut pool = pool(2);
    let mut batch = Batch::new();
    let key = Key::<u32>::new(3).unwrap();
    let slot = batch.push(packet(&mut pool, &[1; 60])).unwrap();
    batch.lanes.port[slot] = 5;
    batch.lanes.time[slot] = 123_456_789_012;
    batch.lanes.l3[slot] = 77;
    batch.lanes.set(key, slot, 0xdead_beef_u32);
    let held: Held = batch.hold(slot).unwrap();
    assert!(batch.is_empty());
    batch.lanes.port[slot] = 0;
    batch.lanes.set(key, slot, 0_u32);

    let mut other = Batch::new();
    let first = other.push(packet(&mut pool, &[2; 60])).unwrap();
    let place = other.restore(held).unwrap();
    assert_ne!(first, place);
    assert_eq!(other.lanes.port[place], 5);
    assert_eq!(other.lanes.time[place], 123_456_789_012);
    assert_eq!(other.lanes.l3[place], 77);
    assert_eq!(other.lanes.get(key, place), 0xdead_beef_u32);
    pool.free_batch(&mut other, u64::MAX);
    assert_eq!(pool.taken() - pool.at_hand(), 0);
}

#[test]
fn a_copy_can_have_the_lanes_of_its_original() {
    let mut pool = pool(4);
    let key = Key::<u32>::new(2).unwrap();
    let mut batch = Batch::new();
    let slot = batch.push(packet(&mut pool, &[1; 60])).unwrap();
    batch.lanes.class[slot] = 9;
    batch.lanes.port[slot] = 3;
    batch.lanes.set(key, slot, 8_u32);
    let mut copy = Held::like(packet(&mut pool, &[1; 60]), &batch.lanes, slot);
    assert_eq!((copy.class(), copy.port(), copy.get(key)), (9, 3, 8_u32));
    pool.free(copy.into_packet());
    pool.free_batch(&mut batch, u64::MAX);
}

#[test]
fn a_burst_keeps_the_order_of_what_was_not_taken() {
    let mut pool = pool(100);
    let mut burst = Burst::new();
    for n in 0..100 {
        burst.push(packet(&mut pool, &[n; 60])).unwrap();
    }
    let mut left = 30;
    let gone = burst.drain(|packet| {
        if left == 0 {
            return Err(packet);
        }
        left -= 1;
        pool.free(packet);
        Ok(())
    });
    assert_eq!(gone, 30);
    let first: Vec<u8> = burst.packets().iter().map(|packet| packet.bytes()[0]).collect();
    assert_eq!(first, (30..100).collect::<Vec<u8>>());
    pool.free_burst(&mut burst);
}

proptest! {
    /// Whatever is pushed, taken, moved between two batches: every packet is in exactly one place, and none is lost.
    #[test]
    fn packets_are_neither_lost_nor_doubled(steps in prop::collection::vec((0_u8..5, any::<u64>()), 1..200)) {
        let before = weir_packet::defects();
        let mut pool = pool(100);
        let (mut a, mut b, mut burst) = (Batch::new(), Batch::new(), Burst::new());
        for (step, mask) in steps {
            match step {
                0 => { if let Some(packet) = pool.alloc() && let Err(packet) = a.push(packet) { pool.free(packet) } }
                1 => { let expected = (a.live() & mask).count_ones().min(b.room() as u32) as usize;
                       prop_assert_eq!(a.move_to(mask, &mut b), expected); }
                2 => { b.move_to_burst(mask, &mut burst); }
                3 => { a.fill_from_burst(&mut burst); }
                _ => pool.free_batch(&mut b, mask),
            }
            prop_assert_eq!(Slots(a.live()).count(), a.len());
            prop_assert_eq!(pool.taken() - pool.at_hand(), a.len() + b.len() + burst.len());
        }
        pool.free_batch(&mut a, u64::MAX);
        pool.free_batch(&mut b, u64::MAX);
        pool.free_burst(&mut burst);
        prop_assert_eq!(pool.taken() - pool.at_hand(), 0);
        prop_assert_eq!(weir_packet::defects(), before);
    }
}

#[test]
fn gaps_stay_so_that_the_order_does() {
    let mut pool = pool(100);
    let (mut first, mut second) = (Batch::new(), Batch::new());
    for n in 0..40 {
        first.push(packet(&mut pool, &[n; 60])).unwrap();
        second.push(packet(&mut pool, &[40 + n; 60])).unwrap();
    }
    pool.free_batch(&mut first, 0xff);
    assert_eq!(first.room(), 24);
    assert_eq!(second.move_to(u64::MAX, &mut first), 24);
    let order: Vec<u8> = first.slots().map(|slot| first.get(slot).unwrap().bytes()[0]).collect();
    assert_eq!(order, (8..64).collect::<Vec<u8>>());
    pool.free_batch(&mut first, u64::MAX);
    pool.free_batch(&mut second, u64::MAX);
}

#[test]
fn slots_are_visited_from_the_lowest_on() {
    let found: Vec<usize> = Slots(1 | 1 << 5 | 1 << 63).map(Slot::index).collect();
    assert_eq!(found, [0, 5, 63]);
    assert_eq!(Slot::new(BATCH + 1).index(), 1);
}

/// What a batch and two bursts hold, as plain numbers: the obvious twin of moving whole slices.
struct Model {
    slots: [Option<u8>; BATCH],
    bursts: [Vec<u8>; 2],
}

impl Model {
    fn fill_batch(&mut self, from: usize) -> u64 {
        let mut filled = 0;
        // Behind the last packet only: the order of the slots is that of the packets.
        let behind = self.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for (n, slot) in self.slots.iter_mut().enumerate().skip(behind) {
            if !self.bursts[from].is_empty() {
                *slot = Some(self.bursts[from].remove(0));
                filled |= 1 << n;
            }
        }
        filled
    }

    fn empty_batch(&mut self, mask: u64, to: usize) -> usize {
        let mut moved = 0;
        for (n, slot) in self.slots.iter_mut().enumerate() {
            if mask & 1 << n != 0 && slot.is_some() && self.bursts[to].len() < Burst::ROOM {
                self.bursts[to].extend(slot.take());
                moved += 1;
            }
        }
        moved
    }

    fn append(&mut self, from: usize, most: usize) -> usize {
        let count = most.min(self.bursts[from].len()).min(Burst::ROOM - self.bursts[1 - from].len());
        let moved: Vec<u8> = self.bursts[from].drain(..count).collect();
        self.bursts[1 - from].extend(moved);
        count
    }
}

fn tags(burst: &Burst) -> Vec<u8> {
    burst.packets().iter().map(|packet| packet.bytes()[0]).collect()
}

proptest! {
    /// Moving between batches and bursts, by whole slices where that can be, keeps each packet, its place and the order.
    #[test]
    fn slices_move_as_single_packets_do(
        steps in prop::collection::vec((0_u8..4, 0_usize..2, prop_oneof![
            any::<u64>(), Just(u64::MAX), (0_u32..64).prop_map(|n| (1_u64 << n) - 1),
        ]), 1..150),
    ) {
        let mut pool = pool(400);
        let mut batch = Batch::new();
        let mut bursts = [Burst::new(), Burst::new()];
        let mut model = Model { slots: [None; BATCH], bursts: [Vec::new(), Vec::new()] };
        for (tag, (step, which, mask)) in (0_u8..).zip(steps) {
            match step {
                0 => for n in 0..mask % 40 {
                    let tag = tag ^ n as u8;
                    if !bursts[which].is_full() {
                        bursts[which].push(packet(&mut pool, &[tag; 60])).unwrap();
                        model.bursts[which].push(tag);
                    }
                },
                1 => prop_assert_eq!(batch.fill_from_burst(&mut bursts[which]), model.fill_batch(which)),
                2 => prop_assert_eq!(batch.move_to_burst(mask, &mut bursts[which]), model.empty_batch(mask, which)),
                _ => {
                    let [a, b] = &mut bursts;
                    let (from, to) = if which == 0 { (a, b) } else { (b, a) };
                    let most = (mask % 150) as usize;
                    prop_assert_eq!(to.append(from, most), model.append(which, most));
                }
            }
            for (n, tag) in model.slots.iter().enumerate() {
                prop_assert_eq!(batch.get(Slot::new(n)).map(|packet| packet.bytes()[0]), *tag);
            }
            prop_assert_eq!([tags(&bursts[0]), tags(&bursts[1])], model.bursts.clone());
        }
        pool.free_batch(&mut batch, u64::MAX);
        bursts.iter_mut().for_each(|burst| pool.free_burst(burst));
        prop_assert_eq!(pool.taken() - pool.at_hand(), 0);
    }
}

/// What is said of packets and stored nowhere takes no room of lanes, and nothing is carried for it.
#[test]
fn what_is_no_lane_is_in_no_set() {
    for fact in [LaneId::Ipv4, LaneId::Ipv6] {
        assert!(LaneSet::of(&[fact]).is_empty() && !LaneSet::ALL.has(fact));
        assert_eq!(LaneSet::of(&[LaneId::L3, fact]), LaneSet::of(&[LaneId::L3]));
    }
}
