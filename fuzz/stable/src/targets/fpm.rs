//! What a routing daemon says over TCP: messages of route netlink, as the kernel's are.

use weir_host::fpm::Stream;
use weir_host::kernel::News;
use weir_net::mirror::{Mirror, Teller};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "fpm",
    help: "messages of a routing daemon: routes and next-hop objects, as route netlink has them",
    run,
    tokens: &[
        &[1, 1, 0, 64],
        &[24, 0, 5, 1],
        &[25, 0, 1, 0],
        &[104, 0, 5, 1],
        &[8, 0, 1, 0],
        &[8, 0, 4, 0],
        &[8, 0, 5, 0],
        &[8, 0, 30, 0],
        &[20, 0, 5, 0],
        &[254, 186, 0, 1],
    ],
    text: false,
    inputs: 300_000,
    deep: 30,
};

fn run(input: &[u8]) -> bool {
    let (mut stream, mut mirror, mut told) = (Stream::default(), Mirror::default(), 0);
    let mut hear = |news: News| {
        told += 1;
        match news {
            News::Route { told, gone: true, .. } => mirror.remove(&told),
            News::Route { told, behind, .. } => mirror.add(&told, behind),
            News::NextHop(id, object) => mirror.set_object(Teller::Daemon, id, object),
            _ => {}
        }
    };
    // Cut in two, as a stream may be.
    let (one, other) = input.split_at(input.len() / 2);
    _ = stream.take(one, &mut hear).and_then(|()| stream.take(other, &mut hear));
    let prefixes: Vec<_> = mirror.prefixes().collect();
    assert!(prefixes.len() <= mirror.len(), "a prefix has no route");
    for prefix in prefixes {
        assert_eq!(prefix, prefix.trunc(), "a prefix has host bits");
        _ = mirror.ways(prefix, |_| true);
    }
    mirror.begin(Teller::Daemon);
    mirror.end(Teller::Daemon);
    assert!(mirror.is_empty(), "what was not told again is still there");
    told > 0
}
