//! What comes back to a generator: packets with signatures, whole and broken, in any order.

use weir_measure::signature::{Form, Signer, read};
use weir_measure::{Receiver, Rules};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "signature",
    help: "packets as a generator's receiver gets them: a length of one byte before each",
    run,
    tokens: &[
        &[0x77, 0xe1],
        &[0x77, 0xe2],
        &[0x77, 0xe3],
        &[0, 18],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
        &[18],
        &[14],
        &[10],
    ],
    text: false,
    inputs: 300_000,
    deep: 40,
};

/// Streams that the receiver expects.
const STREAMS: usize = 2;

fn run(input: &[u8]) -> bool {
    let rules = Rules { first: 3, window: 64, wait: Some(1_000_000), ..Rules::default() };
    let mut receiver = Receiver::with_rules(vec![rules; STREAMS]);
    let (mut packets, mut signed, mut rest) = (0u64, 0u64, input);
    while let Some((&length, more)) = rest.split_first() {
        let (packet, more) = more.split_at(usize::from(length).min(more.len()));
        rest = more;
        packets += 1;
        signed += u64::from(one(&mut receiver, packet, packets));
    }
    let counted: u64 = receiver
        .streams()
        .iter()
        .map(|stream| {
            let counts = stream.counts();
            counts.received + counts.duplicated + counts.late + counts.corrupt + counts.stale
        })
        .sum();
    assert_eq!(counted + receiver.unknown + receiver.unsigned, packets, "a packet was not counted once");
    for report in receiver.report(&[Some(packets), None]) {
        assert_eq!(report.received + report.lost, report.sent, "a packet that was sent is neither here nor lost");
        assert!(report.order.is_none_or(|order| order.reordered <= report.received));
    }
    signed > 0
}

/// Takes a packet; what it carries, written again, is what it carries.
fn one(receiver: &mut Receiver, packet: &[u8], now: u64) -> bool {
    let Some(signature) = receiver.receive(packet, now) else { return false };
    let mut again = vec![0xff; signature.form.len()];
    assert!(Signer::new(signature.form, signature.stream, &[]).write(&mut again, signature.sequence, signature.nanos));
    let own = read(&again);
    assert!(own.is_some_and(|own| own.intact), "what was just written is not intact");
    assert_eq!(
        own.map(|own| (own.form, own.stream, own.sequence, own.nanos)),
        Some((signature.form, signature.stream, signature.sequence, signature.nanos))
    );
    assert!(signature.form != Form::Full || packet.len() >= 18);
    true
}
