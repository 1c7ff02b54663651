//! What the router tells the stations of its links by itself, when it is time: that it is a router (RFC 4861 section 6.2), and which
//! multicast groups it listens to (RFC 3810).

use std::net::Ipv6Addr;

use weir_net::{advertise, listener};
use weir_packet::Held;
use weir_wire::MacAddr;
use weir_wire::mld::{self, MAX_RECORDS};
use weir_wire::nd::{ALL_NODES, RouterAdvertisement, group_mac};

use super::{Call, Exit};
use crate::InterfaceId;

impl Call<'_, '_> {
    /// Tells what is due; answers when something is the next time.
    pub(super) fn announce(&mut self) -> u64 {
        let now = self.out.now();
        for due in self.control.advertiser.timer(now) {
            self.advertise(due);
        }
        for due in self.control.listeners.timer(now) {
            self.report(&due);
        }
        let deadlines = [self.control.advertiser.next_deadline(), self.control.listeners.next_deadline()];
        deadlines.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Tells hosts of the router, from its link-local address: without one it keeps silent (section 4.2).
    fn advertise(&mut self, due: advertise::Due) {
        let to = (group_mac(ALL_NODES), ALL_NODES);
        // Where nothing is configured any more there is still to be said that the router is none.
        let told = self.control.advertisement(due.interface, to, due.is_last);
        if let Some(frame) = told.or_else(|| self.farewell(due, to)) {
            self.tell_link(due.interface, &frame, Exit::RouterAdvertisement);
        }
    }

    /// "the router SHOULD transmit one or more [...] final multicast Router Advertisements [...] with a Router Lifetime field of zero"
    /// (section 6.2.5).
    fn farewell(&self, due: advertise::Due, to: (MacAddr, Ipv6Addr)) -> Option<Vec<u8>> {
        let (link, own) = (self.control.link(due.interface)?, self.link_local_of(due.interface)?);
        due.is_last.then(|| RouterAdvertisement::new(link.mac, own, to, 0).to_frame())
    }

    /// Tells routers of groups.
    fn report(&mut self, due: &listener::Due) {
        let Some(link) = self.control.link(due.interface) else { return };
        // "sent with [...] the unspecified address [...] if the sending interface has not acquired a valid link-local address yet".
        let source = self.link_local_of(due.interface).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let frames: Vec<Vec<u8>> = match due.is_old {
            true => due.records.iter().map(|record| mld::old_report(link.mac, source, *record)).collect(),
            false => due.records.chunks(MAX_RECORDS).map(|records| mld::report(link.mac, source, records)).collect(),
        };
        frames.iter().for_each(|frame| self.tell_link(due.interface, frame, Exit::MldReport));
    }

    /// Sends a frame by an interface. Without a buffer it is not sent: all of this is repeated.
    fn tell_link(&mut self, interface: InterfaceId, frame: &[u8], reason: Exit) {
        let Some(mut packet) = self.fresh(frame.len()) else { return };
        packet.bytes_mut().copy_from_slice(frame);
        let held = Held::fresh(packet, 0, self.out.now());
        self.send_by(held, interface, Some(reason));
    }
}
