//! Long tables, in pieces: nobody waits for more than one of them, least of all the slow path, which needs the same lock.

use std::sync::Arc;

use weir_net::RouteSource;
use weir_stage::{ShowRows, entries};

use crate::state::Control;
use crate::state::routing::Network;
use crate::state::shared::{Shared, each_route, lock};

/// Rows of what was found before, by the piece; an item that is gone in the meantime has none.
pub(crate) fn pieces<T: Send + 'static, R>(
    shared: &Arc<Shared>,
    items: Vec<T>,
    row: impl Fn(&Control, T) -> Option<R> + Send + 'static,
) -> Box<dyn ShowRows<R>> {
    let shared = Arc::clone(shared);
    entries::pieces(items, 1, move |items| {
        let control = lock(&shared);
        items.filter_map(|item| row(&control, item)).collect()
    })
}

/// A row of a source's route; none if it is gone.
pub(crate) type RouteRow<R> = fn(&Control, Network, RouteSource) -> Option<R>;

/// All routes of some sources, by VRF and prefix, each once. What is added while they are told may be missing, what is deleted is left out.
pub(crate) struct AllRoutes<F, R> {
    shared: Arc<Shared>,
    wanted: F,
    row: RouteRow<R>,
    told: Option<Box<dyn ShowRows<R>>>,
}

impl<F: Fn(Network, RouteSource) -> bool, R> AllRoutes<F, R> {
    pub(crate) fn new(shared: &Arc<Shared>, wanted: F, row: RouteRow<R>) -> AllRoutes<F, R> {
        AllRoutes { shared: Arc::clone(shared), wanted, row, told: None }
    }

    /// What identifies the routes, in order.
    fn find(&self) -> Vec<(Network, RouteSource)> {
        let mut found = Vec::new();
        each_route(&self.shared, |_, network, source| {
            if (self.wanted)(network, source) {
                found.push((network, source));
            }
        });
        found.sort_unstable();
        // A route that went and came again may have been met at either place.
        found.dedup();
        found
    }
}

impl<F: Fn(Network, RouteSource) -> bool + Send, R: 'static> ShowRows<R> for AllRoutes<F, R> {
    fn piece(&mut self) -> Vec<R> {
        if self.told.is_none() {
            let row = self.row;
            let told = move |control: &Control, (network, source)| row(control, network, source);
            self.told = Some(pieces(&self.shared, self.find(), told));
        }
        self.told.as_mut().map_or_else(Vec::new, |told| told.piece())
    }
}
