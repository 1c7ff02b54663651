//! Where routes lead: gateways of the core, each with the head that packets to it get.
//!
//! The prefix table answers the number of a gateway. The first two numbers are no gateways but fates. All gateways are published
//! as one value: they are few and change seldom (a MAC address was found), and workers see each of them whole.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::Ipv6Net;
use weir_mem::Domain;
use weir_mem::qsbr::{Published, Reader};
use weir_simd::Kernel;
use weir_table::lpm4::{self, Dir24, Lookup4, Lpm4, Prefix4, Table};
use weir_table::lpm6::{self, Lookup6, Lpm6, Prefix6};
use weir_wire::MacAddr;
use weir_wire::mpls::Label;

use crate::encap::{Outer, Rewrite, TUNNEL};

/// The number of what no route covers.
const NO_ROUTE: u32 = 0;
/// The number of the gateway's own addresses.
const LOCAL: u32 = 1;
/// The number of the first gateway.
const FIRST: u32 = 2;

/// What workers look prefixes up in.
pub(crate) type Prefixes = <Dir24 as Lpm4>::Reader;

/// What to do with packets that a route leads somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wrap and send.
    Forward,
    /// There is no route.
    NoRoute,
    /// For the gateway itself.
    Local,
    /// The MAC address of the next router is not known.
    Unresolved,
}

/// Where packets go: what workers read, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Hop {
    pub(crate) rewrite: Rewrite,
    pub(crate) action: Action,
    /// Position of the port.
    pub(crate) port: u8,
    /// Bytes of the longest packet of a customer that fits; 0 if nothing is forwarded.
    pub(crate) longest: u16,
}

const _: () = assert!(size_of::<Hop>() == 64);

/// All hops, by number.
#[derive(Clone, Debug)]
pub(crate) struct Hops(Vec<Hop>);

impl Hops {
    /// The hop of a number that the prefix table answered.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&Hop> {
        self.0.get(number as usize)
    }
}

/// A gateway of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gateway {
    pub(crate) name: String,
    /// Position of its port, and that port's MAC address.
    pub(crate) port: u8,
    pub(crate) source: MacAddr,
    /// The next router on the way to it.
    pub(crate) via: Ipv4Addr,
    /// The next router's MAC address, where it is fixed.
    pub(crate) mac: Option<MacAddr>,
    /// Labels, the outermost first.
    pub(crate) labels: Vec<Label>,
    /// The tunnel; `None` with plain IP.
    pub(crate) outer: Option<Outer>,
    /// Bytes of labels and IP packet together that fit.
    pub(crate) mtu: u16,
}

impl Gateway {
    /// As workers see it, with the next router's MAC address.
    fn hop(&self, mac: Option<MacAddr>) -> Hop {
        let to = mac.unwrap_or(MacAddr::ZERO);
        let (rewrite, overhead) = match self.outer {
            Some(outer) => (Rewrite::tunnel(to, self.source, &self.labels, outer), TUNNEL + 4 * self.labels.len()),
            None => (Rewrite::plain(to, self.source), 0),
        };
        let longest = self.mtu.saturating_sub(overhead as u16);
        match mac {
            Some(_) => Hop { rewrite, action: Action::Forward, port: self.port, longest },
            None => Hop { rewrite, action: Action::Unresolved, port: self.port, longest: 0 },
        }
    }
}

/// Why there is no table.
pub(crate) type Error = lpm4::Error;

/// Routes and gateways: what the control side has. Only it writes.
pub(crate) struct Fib {
    gateways: Vec<Gateway>,
    /// By gateway, the MAC address that was found for it.
    found: Vec<Option<MacAddr>>,
    table: Box<Dir24>,
    table6: lpm6::Compiled,
    hops: Arc<Published<Hops>>,
    domain: Domain,
}

impl Fib {
    /// With gateways, no routes yet, and room for so many.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(gateways: Vec<Gateway>, routes: u32, kernel: Kernel, domain: &Domain) -> Result<Fib, Error> {
        let config = lpm4::Config {
            miss: NO_ROUTE,
            // Own addresses come on top.
            max_routes: routes as usize + 4096,
            max_groups: 16_384,
            kernel,
        };
        let table = Box::new(Table::new(&config, domain)?);
        let found: Vec<Option<MacAddr>> = gateways.iter().map(|gateway| gateway.mac).collect();
        let hops = Arc::new(Published::new(domain, Box::new(hops(&gateways, &found))));
        let table6 = routes6(&[], &[], domain)?;
        Ok(Fib { gateways, found, table, table6, hops, domain: domain.clone() })
    }

    /// Routes a prefix to a gateway, by its position in the list.
    ///
    /// # Errors
    ///
    /// The table is full.
    pub(crate) fn add_route(&mut self, prefix: Prefix4, gateway: u32) -> Result<(), lpm4::Refused> {
        self.table.insert(prefix, FIRST + gateway).map(drop)
    }

    /// Marks an address as the gateway's own.
    ///
    /// # Errors
    ///
    /// The table is full.
    pub(crate) fn add_local(&mut self, address: Ipv4Addr) -> Result<(), lpm4::Refused> {
        match Prefix4::new(address.to_bits(), 32) {
            Some(prefix) => self.table.insert(prefix, LOCAL).map(drop),
            None => Ok(()),
        }
    }

    /// Sets all IPv6 routes, to gateways by their positions in the list, and the gateway's own addresses. Before anybody has a
    /// [view](Fib::view).
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn set_routes6(&mut self, routes: &[(Ipv6Net, u32)], own: &[Ipv6Addr]) -> Result<(), Error> {
        self.table6 = routes6(routes, own, &self.domain)?;
        Ok(())
    }

    /// The gateways, in the order of their numbers.
    pub(crate) fn gateways(&self) -> &[Gateway] {
        &self.gateways
    }

    /// The next router's MAC address was found, or lost. Fixed ones stay.
    pub(crate) fn set_mac(&mut self, gateway: usize, mac: Option<MacAddr>) {
        let is_fixed = self.gateways.get(gateway).is_none_or(|gateway| gateway.mac.is_some());
        if let Some(found) = self.found.get_mut(gateway).filter(|found| !is_fixed && **found != mac) {
            *found = mac;
            self.hops.publish(Box::new(hops(&self.gateways, &self.found)));
            self.domain.collect();
        }
    }

    /// Which gateway a packet to this address goes to, by its position in the list; `None` for no route and own addresses.
    pub(crate) fn gateway_of(&self, destination: Ipv4Addr) -> Option<usize> {
        let number = self.table.reader().lookup(destination.to_bits());
        number.checked_sub(FIRST).map(|number| number as usize)
    }

    /// As [`gateway_of`](Fib::gateway_of), of IPv6.
    pub(crate) fn gateway_of6(&self, destination: Ipv6Addr) -> Option<usize> {
        let number = self.table6.reader().lookup(destination.to_bits());
        number.checked_sub(FIRST).map(|number| number as usize)
    }

    /// As [`hop_to`](Fib::hop_to), of IPv6.
    pub(crate) fn hop_to6(&self, destination: Ipv6Addr) -> Option<Hop> {
        let number = self.gateway_of6(destination)?;
        Some(self.gateways.get(number)?.hop(self.found.get(number).copied().flatten()))
    }

    /// How a packet to this address goes; `None` for no route and own addresses.
    pub(crate) fn hop_to(&self, destination: Ipv4Addr) -> Option<Hop> {
        let number = self.gateway_of(destination)?;
        Some(self.gateways.get(number)?.hop(self.found.get(number).copied().flatten()))
    }

    /// Bytes of the longest packet of a customer to this address.
    pub(crate) fn longest_to(&self, destination: Ipv4Addr) -> Option<u16> {
        let gateway = self.gateways.get(self.gateway_of(destination)?)?;
        Some(gateway.hop(Some(MacAddr::ZERO)).longest)
    }

    /// What workers look up in.
    pub(crate) fn view(&self) -> FibView {
        let (prefixes, prefixes6) = (Arc::clone(self.table.reader()), Arc::clone(self.table6.reader()));
        FibView { prefixes, prefixes6, hops: Arc::clone(&self.hops) }
    }
}

fn hops(gateways: &[Gateway], found: &[Option<MacAddr>]) -> Hops {
    let fate = |action| Hop { rewrite: Rewrite::plain(MacAddr::ZERO, MacAddr::ZERO), action, port: 0, longest: 0 };
    let fates = [fate(Action::NoRoute), fate(Action::Local)];
    Hops(fates.into_iter().chain(gateways.iter().zip(found).map(|(gateway, mac)| gateway.hop(*mac))).collect())
}

/// A table with just these routes and own addresses.
fn routes6(routes: &[(Ipv6Net, u32)], own: &[Ipv6Addr], domain: &Domain) -> Result<lpm6::Compiled, Error> {
    let max_routes = routes.len() + own.len();
    let config = lpm6::Config::for_any(NO_ROUTE, max_routes);
    let mut table = lpm6::Compiled::new(&config, domain).map_err(|error| match error {
        lpm6::Error::Memory(error) => Error::Memory(error),
        lpm6::Error::MissTooLarge(miss) => Error::MissTooLarge(miss),
    })?;
    let routes =
        routes.iter().map(|(net, gateway)| (Prefix6::new(net.addr().to_bits(), net.prefix_len()), FIRST + gateway));
    let own = own.iter().map(|address| (Prefix6::new(address.to_bits(), 128), LOCAL));
    for (prefix, value) in routes.chain(own) {
        // There is room for each of them.
        prefix.map(|prefix| table.insert(prefix, value));
    }
    Ok(table)
}

/// Routes and gateways, as workers see them.
#[derive(Clone)]
pub(crate) struct FibView {
    pub(crate) prefixes: Arc<Prefixes>,
    pub(crate) prefixes6: Arc<lpm6::Trie>,
    hops: Arc<Published<Hops>>,
}

impl FibView {
    /// Whether an IPv6 address is the gateway's own.
    pub(crate) fn is_local6(&self, address: u128) -> bool {
        self.prefixes6.lookup(address) == LOCAL
    }

    /// All hops, as they are now.
    #[inline(always)]
    pub(crate) fn hops<'r>(&'r self, reader: &'r Reader) -> &'r Hops {
        self.hops.load(reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(mac: Option<MacAddr>) -> Gateway {
        let outer = Outer { source: 1, destination: 2, ttl: 64, dscp: None, dont_fragment: true };
        Gateway {
            name: "west".to_owned(),
            port: 1,
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            via: Ipv4Addr::new(198, 51, 100, 2),
            mac,
            labels: vec![Label::new(17, 0, false, 64)],
            outer: Some(outer),
            mtu: 1500,
        }
    }

    #[test]
    fn routes_lead_to_gateways_and_fates() {
        let domain = Domain::new();
        let reader = domain.reader().unwrap();
        let fixed = MacAddr([2, 0, 0, 0, 0, 9]);
        let mut fib = Fib::new(vec![gateway(None), gateway(Some(fixed))], 16, Kernel::detect(), &domain).unwrap();
        fib.add_route(Prefix4::new(0x0a00_0000, 8).unwrap(), 0).unwrap();
        fib.add_route(Prefix4::new(0x0a01_0000, 16).unwrap(), 1).unwrap();
        fib.add_local(Ipv4Addr::new(10, 1, 0, 1)).unwrap();
        let view = fib.view();
        let action = |address: [u8; 4]| {
            let number = view.prefixes.lookup(u32::from_be_bytes(address));
            let hop = view.hops(&reader).get(number).unwrap();
            (hop.action, hop.longest)
        };
        assert_eq!(action([11, 0, 0, 1]), (Action::NoRoute, 0));
        assert_eq!(action([10, 1, 0, 1]), (Action::Local, 0));
        assert_eq!(action([10, 1, 0, 2]), (Action::Forward, 1500 - 32));
        assert_eq!(action([10, 2, 0, 2]), (Action::Unresolved, 0));
        assert_eq!(fib.gateway_of(Ipv4Addr::new(10, 1, 0, 2)), Some(1));
        assert_eq!(fib.gateway_of(Ipv4Addr::new(10, 1, 0, 1)), None);
        assert_eq!(fib.longest_to(Ipv4Addr::new(10, 1, 0, 2)), Some(1468));
        let found = MacAddr([2, 0, 0, 0, 0, 7]);
        fib.set_mac(0, Some(found));
        fib.set_mac(1, None);
        assert_eq!(action([10, 2, 0, 2]).0, Action::Forward);
        assert_eq!(action([10, 1, 0, 2]).0, Action::Forward);
        fib.set_mac(0, None);
        assert_eq!(action([10, 2, 0, 2]).0, Action::Unresolved);
    }
}
