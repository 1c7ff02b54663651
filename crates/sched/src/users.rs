//! The state of all users: what a packet that need not wait touches, what waits, and what few need.

use std::sync::Arc;

use weir_table::indexed::Indexed;

use crate::gates::{Gate, Gates};
use crate::state::{Rest, UserState};

/// The state of all users, by number.
pub(crate) struct Users<const C: usize, const Q: usize> {
    pub(crate) gates: Arc<Gates>,
    pub(crate) states: Indexed<UserState<C, Q>>,
    rests: Indexed<Rest<C>>,
}

/// The state of one user.
pub(crate) struct User<'a, const C: usize, const Q: usize> {
    pub(crate) gate: &'a Gate,
    pub(crate) state: &'a mut UserState<C, Q>,
    pub(crate) rest: &'a mut Rest<C>,
}

impl<const C: usize, const Q: usize> Users<C, Q> {
    pub(crate) fn new(users: u32) -> Users<C, Q> {
        Users {
            gates: Arc::new(Gates::new(users)),
            states: Indexed::new(users as usize, UserState::NEW),
            rests: Indexed::new(users as usize, Rest::NEW),
        }
    }

    /// The state of a user, none of which is looked at here.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, user: u32) -> User<'_, C, Q> {
        User { gate: self.gates.at(user), state: self.states.at_mut(user), rest: self.rests.at_mut(user) }
    }

    /// The buckets of a user's classes.
    #[inline(always)]
    pub(crate) fn rest_mut(&mut self, user: u32) -> &mut Rest<C> {
        self.rests.at_mut(user)
    }
}
