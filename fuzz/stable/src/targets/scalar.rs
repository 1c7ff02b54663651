//! Texts of values: rates, times, sizes, addresses, paths.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use weir_config::{
    FilePath, InterfaceAddress, MacAddress, Malformed, Nanos, PacketRate, Quantity, Rate, Scalar, Size, nearest,
};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "scalar",
    help: "texts of values in configurations",
    run,
    tokens: &[
        b" Mbit/s",
        b" Gbit/s",
        b" kpps",
        b" Mpps",
        b" ms",
        b" us",
        b" ns",
        b" min",
        b" KiB",
        b" MiB",
        b" GB",
        b".5",
        b"18446744073709551615",
        b"99999999999999999999999999999999999999999",
        b"/32",
        b"/33",
        b"::",
        b"ff:",
        b"../",
        b"-1",
        b"+1",
        b"1e9",
        b"\xc2\xb5s",
    ],
    text: true,
    inputs: 400_000,
    deep: 12,
};

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let _ = nearest(text, ["prefix", "via", "workers"]);
    let quantities =
        [quantity::<Rate>(text), quantity::<PacketRate>(text), quantity::<Nanos>(text), quantity::<Size>(text)];
    let scalars = [
        scalar::<Ipv4Addr>(text),
        scalar::<IpAddr>(text),
        scalar::<IpNet>(text),
        scalar::<InterfaceAddress>(text),
        scalar::<MacAddress>(text),
    ];
    let path = FilePath::parse(text);
    if let Ok(path) = &path {
        let inside = path.path().components().all(|part| matches!(part, std::path::Component::Normal(_)));
        assert!(inside && path.path().is_relative(), "{path} leads out of its folder");
    }
    quantities.into_iter().chain(scalars).any(|read| read)
}

/// What was read and is written is read as the same again.
fn quantity<Q: Quantity>(text: &str) -> bool {
    match Q::UNITS.parse(text) {
        Ok(amount) => {
            let written = Q::from_base(amount).to_string();
            assert_eq!(Q::UNITS.parse(&written).ok(), Some(amount), "{text} is written as {written}");
            true
        }
        Err(malformed) => refused(&malformed),
    }
}

fn scalar<S: Scalar + PartialEq>(text: &str) -> bool {
    match S::parse(text) {
        Ok(value) => {
            let written = value.to_string();
            assert!(S::parse(&written).is_ok_and(|again| again == value), "{text} is written as {written}");
            true
        }
        Err(malformed) => refused(&malformed),
    }
}

fn refused(malformed: &Malformed) -> bool {
    assert!(!malformed.problem.is_empty(), "refused without a reason");
    false
}
