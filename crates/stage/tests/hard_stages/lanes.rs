//! Lanes that functions claim: one stage writes, another reads, also after a packet was held; the check sees who does what.

use weir_packet::{Batch, Held, Key, LaneId, USER_LANES};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Graph, NodeId, Out, Stage, To, ways};

ways! {
    /// The way out of these stages, and those of [`Sort`].
    enum Way {
        /// On.
        Out => way "out",
    }
}

/// A subscriber's number: what a function keeps in a lane of its own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subscriber(u32);

impl From<u32> for Subscriber {
    fn from(number: u32) -> Subscriber {
        Subscriber(number)
    }
}

impl From<Subscriber> for u32 {
    fn from(subscriber: Subscriber) -> u32 {
        subscriber.0
    }
}

/// Finds the subscriber: the first byte.
struct Find(Key<Subscriber>);

impl Stage for Find {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().writes(&[self.0.into()])
    }

    fn run(&mut self, batch: &mut Batch, _out: &mut Out<'_>) {
        let key = self.0;
        batch.each(|slot, packet, lanes| {
            let number = packet.bytes().first().copied().unwrap_or_default();
            lanes.set(key, slot, Subscriber(u32::from(number)));
        });
    }
}

/// Sends packets out by their subscriber, after holding them for a call.
struct Sort {
    key: Key<Subscriber>,
    ports: u8,
    held: Vec<Held>,
}

impl Stage for Sort {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().indexed("port", self.ports as usize).reads(&[self.key.into()]).polled()
    }

    fn run(&mut self, batch: &mut Batch, _out: &mut Out<'_>) {
        for slot in batch.slots() {
            self.held.extend(batch.hold(slot));
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        for mut held in self.held.drain(..) {
            let Subscriber(number) = held.get(self.key);
            out.send_indexed(held, (number % u32::from(self.ports)) as u8);
        }
        u64::MAX
    }

    fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.held.drain(..).for_each(give);
    }
}

/// A stage that only declares.
struct Declares(Declaration);

impl Stage for Declares {
    fn declare(&self) -> Declaration {
        self.0.clone()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

fn plain() -> Declaration {
    Declaration::of::<Way>()
}

#[test]
fn what_one_stage_writes_another_reads_though_it_was_held() {
    let mut graph = Graph::new();
    let other: Key<u32> = graph.claim("something else").unwrap();
    let key: Key<Subscriber> = graph.claim("subscriber").unwrap();
    let packets: Vec<[u8; 2]> = (0..40).map(|n| [n, 0]).collect();
    let mut find = Harness::new(Find(key));
    let lanes = find.run(0, &packets).lanes;
    let mut sort = Harness::new(Sort { key, ports: 7, held: Vec::new() });
    *sort.lanes() = lanes;
    sort.lanes().set(other, weir_packet::Slot::new(3), 99_u32);
    assert_eq!(sort.run(0, &packets).ways.len(), 0);
    let outcome = sort.poll(1);
    for port in 0..7 {
        let expected: Vec<[u8; 2]> = packets.iter().copied().filter(|packet| packet[0] % 7 == port).collect();
        assert_eq!(outcome.way(&format!("port[{port}]")), expected);
    }
}

#[test]
fn the_same_purpose_is_the_same_lane_and_there_are_so_many() {
    let mut graph = Graph::new();
    let purposes = ["a", "b", "c", "d"];
    let keys: Vec<Key<u32>> = purposes.iter().map(|purpose| graph.claim(purpose).unwrap()).collect();
    assert_eq!(keys.iter().map(|key| key.index()).collect::<Vec<_>>(), (0..USER_LANES).collect::<Vec<_>>());
    assert_eq!(graph.claim::<u32>("b").unwrap().index(), 1);
    let error = graph.claim::<u32>("e").unwrap_err().to_string();
    assert_eq!(error, "no lane is left for 'e'; all 4 are claimed: a, b, c, d");
}

/// Two stages in a row, or a diamond: first, then left and right, then last.
fn diamond(declarations: [Declaration; 4]) -> Result<Vec<NodeId>, weir_stage::GraphError> {
    let mut graph = Graph::new();
    let names = ["first", "left", "right", "last"];
    let [mut first, left, right, last] = declarations;
    first = first.indexed("branch", 1);
    let nodes: Vec<NodeId> = names
        .iter()
        .zip([first, left, right, last])
        .map(|(name, declared)| graph.add(*name, Declares(declared)))
        .collect();
    graph.receive(0, nodes[0]);
    graph.wire(nodes[0], "out", To::Stage(nodes[1]));
    graph.wire(nodes[0], "branch[0]", To::Stage(nodes[2]));
    graph.wire(nodes[1], "out", To::Stage(nodes[3]));
    graph.wire(nodes[2], "out", To::Stage(nodes[3]));
    graph.check()
}

#[test]
fn a_lane_must_be_written_on_every_path_and_once() {
    const CLASS: &[LaneId] = &[LaneId::Class];
    let (write, read, update) = (|| plain().writes(CLASS), || plain().reads(CLASS), || plain().updates(CLASS));
    let wrong = |declarations| diamond(declarations).map_or_else(|error| error.to_string(), |_| String::new());
    assert_eq!(wrong([write(), plain(), plain(), read()]), "");
    assert_eq!(wrong([plain(), write(), write(), read()]), "", "each path has its writer");
    assert_eq!(wrong([write(), update(), plain(), read()]), "");
    let renew = || plain().renews(CLASS);
    assert_eq!(wrong([write(), renew(), plain(), read()]), "", "written again by who says so");
    assert_eq!(wrong([plain(), renew(), renew(), read()]), "", "or for the first time");
    let missing = "last: reads lane class, which nobody upstream writes on every path";
    assert_eq!(wrong([plain(), write(), plain(), read()]), missing);
    assert_eq!(wrong([plain(), plain(), plain(), read()]), missing);
    assert_eq!(wrong([plain(), renew(), plain(), read()]), missing);
    assert_eq!(wrong([plain(), plain(), plain(), update()]), missing);
    assert_eq!(
        wrong([write(), write(), plain(), plain()]),
        "left: writes lane class, which somebody upstream has written"
    );
    assert_eq!(
        wrong([renew(), write(), plain(), plain()]),
        "left: writes lane class, which somebody upstream has written"
    );
    assert_eq!(
        wrong([plain(), write(), plain(), write()]),
        "last: writes lane class, which somebody upstream has written"
    );
    assert_eq!(
        wrong([plain(), read(), plain(), write()]),
        "left: reads lane class, which nobody upstream writes on every path"
    );
}
