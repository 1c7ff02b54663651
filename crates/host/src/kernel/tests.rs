use super::*;
use weir_net::mirror::{Leads, Teller, Way};
use weir_net::rib::Discard;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The body of a route's message: family, prefix length, table, protocol, type, and attributes.
fn route(family: u8, length: u8, (table, protocol, kind): (u8, u8, u8), attributes: &[Vec<u8>]) -> Vec<u8> {
    [vec![family, length, 0, 0, table, protocol, 0, kind, 0, 0, 0, 0], attributes.concat()].concat()
}

fn told(body: &[u8]) -> Option<(u32, Told)> {
    match decode(24, 0, body).unwrap() {
        Some(News::Route { table, told, gone: false, behind: false }) => Some((table, told)),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn hop(link: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let attributes = attributes.concat();
    let mut bytes = ((attributes.len() + 8) as u16).to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(link.to_ne_bytes());
    bytes.extend(attributes);
    bytes
}

#[test]
fn routes_are_read_as_the_kernel_writes_them() {
    let gateway = attribute(5, &[192, 0, 2, 9]);
    let destination = attribute(1, &[10, 0, 0, 0]);
    let one = route(
        2,
        8,
        (254, 12, 1),
        &[destination.clone(), attribute(4, &3_u32.to_ne_bytes()), gateway.clone(), attribute(6, &7_u32.to_ne_bytes())],
    );
    let way = Way { link: 3, gateway: Some([192, 0, 2, 9].into()) };
    let expected = Told {
        teller: Teller::Kernel,
        prefix: "10.0.0.0/8".parse().unwrap(),
        metric: 7,
        leads: Leads::Ways(vec![way]),
    };
    assert_eq!(told(&one), Some((254, expected)));
    // By an IPv6 router (RFC 8950), in a table of a large number, as the default route.
    let via = [&10_u16.to_ne_bytes()[..], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let two = route(
        2,
        0,
        (252, 12, 1),
        &[attribute(15, &1000_u32.to_ne_bytes()), attribute(4, &3_u32.to_ne_bytes()), attribute(18, &via)],
    );
    let (table, two) = told(&two).unwrap();
    assert_eq!((table, two.prefix.to_string().as_str()), (1000, "0.0.0.0/0"));
    assert_eq!(two.leads, Leads::Ways(vec![Way { link: 3, gateway: Some("fe80::1".parse().unwrap()) }]));
    // Several ways.
    let hops = [hop(5, std::slice::from_ref(&gateway)), hop(4, &[])].concat();
    let (_, many) = told(&route(2, 8, (254, 12, 1), &[destination.clone(), attribute(9, &hops)])).unwrap();
    assert_eq!(many.leads, Leads::Ways(vec![Way { link: 4, gateway: None }, Way { link: 5, gateway: way.gateway }]));
    // An object, and what leads nowhere.
    let (_, object) =
        told(&route(2, 8, (254, 12, 1), &[destination.clone(), attribute(30, &9_u32.to_ne_bytes())])).unwrap();
    assert_eq!(object.leads, Leads::Object(9));
    for (kind, discard) in [(6, Discard::Blackhole), (7, Discard::Unreachable), (8, Discard::Prohibit)] {
        let (_, route) = told(&route(2, 8, (254, 12, kind), std::slice::from_ref(&destination))).unwrap();
        assert_eq!(route.leads, Leads::Discard(discard));
    }
    // Those that the kernel made of addresses, local ones, and encapsulations are nobody's here.
    for (protocol, kind) in [(2, 1), (12, 2), (12, 3)] {
        assert_eq!(
            told(&route(2, 8, (254, protocol, kind), &[destination.clone(), attribute(4, &3_u32.to_ne_bytes())])),
            None
        );
    }
}

#[test]
fn objects_and_neighbours_and_addresses_are_read() {
    let body = |fixed: &[u8], attributes: &[Vec<u8>]| [fixed.to_vec(), attributes.concat()].concat();
    let id = attribute(1, &9_u32.to_ne_bytes());
    let object = body(
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[id.clone(), attribute(5, &3_u32.to_ne_bytes()), attribute(6, &[192, 0, 2, 1])],
    );
    let way = Way { link: 3, gateway: Some([192, 0, 2, 1].into()) };
    assert_eq!(decode(104, 0, &object).unwrap(), Some(News::NextHop(9, Some(Object::Way(way)))));
    let members = [1_u32, 0, 2, 0].map(u32::to_ne_bytes).concat();
    let group = body(&[0; 8], &[id.clone(), attribute(2, &members)]);
    assert_eq!(decode(104, 0, &group).unwrap(), Some(News::NextHop(9, Some(Object::Group(vec![1, 2])))));
    assert_eq!(decode(105, 0, &group).unwrap(), Some(News::NextHop(9, None)));
    let neighbor = |state: u16| {
        let fixed = [&[2, 0, 0, 0][..], &7_u32.to_ne_bytes(), &state.to_ne_bytes(), &[0, 1]].concat();
        body(&fixed, &[attribute(1, &[192, 0, 2, 9]), attribute(2, &[2, 0, 0, 0, 0, 9])])
    };
    let by_hand = |mac| Some(News::Neighbor { link: 7, address: [192, 0, 2, 9].into(), mac });
    assert_eq!(decode(28, 0, &neighbor(0x80)).unwrap(), by_hand(Some([2, 0, 0, 0, 0, 9])));
    assert_eq!(
        decode(28, 0, &neighbor(0x02)).unwrap(),
        by_hand(None),
        "what Linux learned by itself it learned of Weir"
    );
    let address = body(&[&[2, 24, 0, 0][..], &7_u32.to_ne_bytes()].concat(), &[attribute(2, &[192, 0, 2, 1])]);
    assert_eq!(
        decode(20, 0, &address).unwrap(),
        Some(News::Address { link: 7, net: "192.0.2.1/24".parse().unwrap(), gone: false })
    );
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut seed = 1_u32;
    for length in 0..4000 {
        let body: Vec<u8> = (0..length % 200)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8 % 40
            })
            .collect();
        for kind in [16, 20, 24, 25, 28, 104] {
            let _ = decode(kind, 0, &body);
            let _ = decode_daemon(kind, 0, &body);
        }
    }
}

#[test]
fn the_kernel_answers_every_question() {
    let mut kernel = Kernel::answers().unwrap();
    for question in Question::ALL {
        kernel.ask(question).unwrap();
        let mut links = 0;
        let mut turns = 0;
        while !matches!(
            kernel.read(|news| links += usize::from(matches!(news, News::Link { .. }))).unwrap(),
            Read::Done { .. }
        ) {
            turns += 1;
            assert!(turns < 100_000, "{question:?} has no end");
        }
        assert!(links > 0 || question != Question::Links);
    }
    assert_eq!(kernel.strange(), 0);
}
