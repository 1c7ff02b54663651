//! The state of all users: what a packet that need not wait touches, what waits, and what few need.

use std::sync::Arc;

use weir_table::indexed::Indexed;

use crate::gates::{Gate, Gates, Tally};
use crate::rate::Fine;
use crate::sharing::Share;
use crate::state::{Rest, UserState};

/// The state of all users, by number.
pub(crate) struct Users<const C: usize, const Q: usize> {
    pub(crate) gates: Arc<Gates>,
    pub(crate) states: Indexed<UserState<C, Q>>,
    rests: Indexed<Rest<C>>,
    /// None where no profile shares: then all have the spare one, which is never looked at.
    pub(crate) shares: Indexed<Share>,
    /// None where no class of any profile is guaranteed anything, in the same way.
    pub(crate) floors: Indexed<Floors<C>>,
}

/// When the buckets are full of what the classes of a user are guaranteed.
pub(crate) type Floors<const C: usize> = [Fine; C];

/// The state of one user.
pub(crate) struct User<'a, const C: usize, const Q: usize> {
    pub(crate) gate: &'a Gate,
    pub(crate) tally: &'a Tally,
    pub(crate) state: &'a mut UserState<C, Q>,
    pub(crate) rest: &'a mut Rest<C>,
    pub(crate) share: &'a mut Share,
    pub(crate) floors: &'a mut Floors<C>,
}

impl<const C: usize, const Q: usize> Users<C, Q> {
    pub(crate) fn new(users: u32, subports: u32) -> Users<C, Q> {
        Users {
            gates: Arc::new(Gates::new(users, subports)),
            states: Indexed::new(users as usize, UserState::NEW),
            rests: Indexed::new(users as usize, Rest::NEW),
            shares: Indexed::new(0, Share::default()),
            floors: Indexed::new(0, [0; C]),
        }
    }

    /// The state of a user, none of which is looked at here.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, user: u32) -> User<'_, C, Q> {
        let Users { gates, states, rests, shares, floors } = self;
        User {
            gate: gates.at(user),
            tally: gates.tally(user),
            state: states.at_mut(user),
            rest: rests.at_mut(user),
            share: shares.at_mut(user),
            floors: floors.at_mut(user),
        }
    }

    /// Classes are about to be guaranteed something.
    pub(crate) fn make_floors(&mut self) {
        self.floors = Indexed::new(self.states.len(), [0; C]);
    }

    /// Users are about to share.
    pub(crate) fn make_shares(&mut self) {
        self.shares = Indexed::new(self.states.len(), Share::default());
    }
}
