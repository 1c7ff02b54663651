//! What the services of its channels see of a switch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use weir_flow_tables::agent::{ClosedBecause, ConnectionId};
use weir_stage::host::Wake;
use weir_stage::{Channel, ChannelSide, Credentials};

use crate::core::{Peer, Shared};

impl ChannelSide for Shared {
    fn connect(&self, channel: &Channel, peer: &str) -> Option<u64> {
        let mut core = self.core();
        let id = core.agent.connect(self.now())?;
        if core.has_targets && matches!(channel, Channel::Listen(_)) {
            core.agent.set_aside(id);
        }
        core.peers.insert(id, Peer { channel: channel.clone(), name: peer.to_owned() });
        core.states.remove(channel);
        Some(id.0)
    }

    fn disconnect(&self, connection: u64) {
        let mut core = self.core();
        core.agent.disconnect(ConnectionId(connection));
        core.peers.remove(&ConnectionId(connection));
    }

    fn receive(&self, connection: u64, bytes: &[u8]) -> usize {
        let taken = self.core().agent.receive(ConnectionId(connection), bytes, self.now());
        // What one asks for, others may be told of.
        self.has_news.store(true, Ordering::Release);
        taken
    }

    fn output(&self, connection: u64, most: usize) -> Vec<u8> {
        let core = self.core();
        let waits = core.agent.output(ConnectionId(connection));
        waits.get(..most).unwrap_or(waits).to_vec()
    }

    fn sent(&self, connection: u64, count: usize) {
        self.core().agent.sent(ConnectionId(connection), count, self.now());
    }

    fn closing(&self, connection: u64) -> Option<&'static str> {
        let why = self.core().agent.closing(ConnectionId(connection))?;
        Some(match why {
            ClosedBecause::Incompatible => "it does not speak OpenFlow 1.3",
            ClosedBecause::BadFrame => "what it sends is not OpenFlow",
            ClosedBecause::Silent => "it was silent, and did not answer an echo request",
            ClosedBecause::TooSlow => "it does not take what it is told",
            ClosedBecause::Gone => "the switch was made anew",
        })
    }

    fn set_state(&self, channel: &Channel, state: Option<String>) {
        let mut core = self.core();
        match state {
            Some(state) => core.states.insert(channel.clone(), state),
            None => core.states.remove(channel),
        };
    }

    fn attend(&self, channel: &Channel, wake: Option<Wake>) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        match wake {
            Some(wake) => drop(wakes.insert(channel.clone(), wake)),
            None => drop(wakes.remove(channel)),
        }
    }

    fn credentials(&self) -> Option<Arc<Credentials>> {
        self.core().credentials.clone()
    }
}
