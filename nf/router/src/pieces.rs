//! Long tables, in pieces: nobody waits for more than one of them, least of all the slow path, which needs the same lock.

use std::sync::Arc;

use ipnet::Ipv4Net;
use weir_net::rib::RouteView;
use weir_net::{Author, DEFAULT_VRF};
use weir_stage::{ShowRows, entries};

use crate::shared::{Shared, each_piece, lock};
use crate::state::Control;

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

/// All routes of some authors, by prefix, each once. What is added while they are told may be missing, what is deleted is left out.
pub(crate) struct AllRoutes<F, R> {
    shared: Arc<Shared>,
    wanted: F,
    row: fn(&Control, &RouteView<'_>) -> R,
    told: Option<Box<dyn ShowRows<R>>>,
}

impl<F: Fn(Author) -> bool, R> AllRoutes<F, R> {
    pub(crate) fn new(shared: &Arc<Shared>, wanted: F, row: fn(&Control, &RouteView<'_>) -> R) -> AllRoutes<F, R> {
        AllRoutes { shared: Arc::clone(shared), wanted, row, told: None }
    }

    /// What identifies the routes, in order.
    fn find(&self) -> Vec<(Ipv4Net, Author)> {
        let mut found = Vec::new();
        each_piece(&self.shared, |control, piece| {
            let routes =
                control.routing.rib().routes_at::<Ipv4Net>(piece).filter(|route| (self.wanted)(route.author()));
            found.extend(routes.map(|route| (route.prefix(), route.author())));
        });
        found.sort_unstable();
        // A route that went and came again may have been met at either place.
        found.dedup();
        found
    }
}

impl<F: Fn(Author) -> bool + Send, R: 'static> ShowRows<R> for AllRoutes<F, R> {
    fn piece(&mut self) -> Vec<R> {
        if self.told.is_none() {
            let row = self.row;
            let told = move |control: &Control, (prefix, author): (Ipv4Net, Author)| {
                let route =
                    control.routing.rib().routes_to(DEFAULT_VRF, prefix).find(|route| route.author() == author)?;
                Some(row(control, &route))
            };
            self.told = Some(pieces(&self.shared, self.find(), told));
        }
        self.told.as_mut().map_or_else(Vec::new, |told| told.piece())
    }
}

/// Three tables, one behind the other.
pub(crate) struct InTurn<R>([Box<dyn ShowRows<R>>; 3]);

impl<R> InTurn<R> {
    pub(crate) fn new(tables: [Box<dyn ShowRows<R>>; 3]) -> InTurn<R> {
        InTurn(tables)
    }
}

impl<R> ShowRows<R> for InTurn<R> {
    fn piece(&mut self) -> Vec<R> {
        self.0.iter_mut().map(|table| table.piece()).find(|piece| !piece.is_empty()).unwrap_or_default()
    }
}
