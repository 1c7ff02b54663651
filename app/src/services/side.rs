//! Where services find a function's side of what they do for it.

use std::sync::{Arc, Mutex, PoisonError};

/// The function's side, which is another object after the function was built anew.
pub(super) struct SideSlot<T: ?Sized>(Arc<Mutex<Option<Arc<T>>>>);

impl<T: ?Sized> Clone for SideSlot<T> {
    fn clone(&self) -> Self {
        SideSlot(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Default for SideSlot<T> {
    fn default() -> Self {
        SideSlot(Arc::default())
    }
}

impl<T: ?Sized> SideSlot<T> {
    /// Puts the side of the running function in.
    pub(super) fn set(&self, side: Option<Arc<T>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = side;
    }

    /// The side of the running function.
    pub(super) fn get(&self) -> Result<Arc<T>, String> {
        let side = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        side.ok_or_else(|| "the function has no side for this".to_owned())
    }
}
