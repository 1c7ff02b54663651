//! Long tables, in pieces: nobody waits for more than one of them, least of all the slow path, which needs the same lock.

use std::sync::{Arc, Mutex};
use std::vec::IntoIter;

use ipnet::Ipv4Net;
use serde_json::Value;
use weir_net::Author;
use weir_stage::{PIECE, ShowRows};

use crate::control::lock;
use crate::show::route_row;
use crate::state::Control;

/// Makes rows of what was found before, piece by piece.
pub(crate) struct Pieces<T, F> {
    shared: Arc<Mutex<Control>>,
    items: IntoIter<T>,
    /// The row of an item; `None` if it is gone in the meantime.
    row: F,
}

impl<T: Send + 'static, F: Fn(&Control, T) -> Option<Value> + Send + 'static> Pieces<T, F> {
    pub(crate) fn of(shared: &Arc<Mutex<Control>>, items: Vec<T>, row: F) -> Box<dyn ShowRows> {
        Box::new(Pieces { shared: Arc::clone(shared), items: items.into_iter(), row })
    }
}

impl<T: Send, F: Fn(&Control, T) -> Option<Value> + Send> ShowRows for Pieces<T, F> {
    fn piece(&mut self) -> Vec<Value> {
        // Where all of a piece is gone, the next is looked at: an empty one would be the end.
        while !self.items.as_slice().is_empty() {
            let control = lock(&self.shared);
            let rows: Vec<Value> =
                self.items.by_ref().take(PIECE).filter_map(|item| (self.row)(&control, item)).collect();
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    }
}

/// Positions of the RIB that are looked through at once.
const LOOKED_THROUGH: u32 = 1 << 15;

/// All routes of some authors, by prefix. What is added while they are told may be missing, what is deleted is left out.
pub(crate) struct AllRoutes<F> {
    shared: Arc<Mutex<Control>>,
    wanted: F,
    told: Option<Box<dyn ShowRows>>,
}

impl<F: Fn(Author) -> bool> AllRoutes<F> {
    pub(crate) fn new(shared: &Arc<Mutex<Control>>, wanted: F) -> AllRoutes<F> {
        AllRoutes { shared: Arc::clone(shared), wanted, told: None }
    }

    /// What identifies the routes, in order.
    fn find(&self) -> Vec<(Ipv4Net, Author)> {
        let (mut found, mut at) = (Vec::new(), 0);
        loop {
            let control = lock(&self.shared);
            let rib = control.routing.rib();
            let next = rib.positions().min(at + LOOKED_THROUGH);
            let routes = rib.routes_at(at..next).filter(|route| (self.wanted)(route.author()));
            found.extend(routes.map(|route| (route.prefix(), route.author())));
            if next <= at {
                break;
            }
            at = next;
        }
        found.sort_unstable();
        found
    }
}

impl<F: Fn(Author) -> bool + Send> ShowRows for AllRoutes<F> {
    fn piece(&mut self) -> Vec<Value> {
        if self.told.is_none() {
            self.told = Some(Pieces::of(&self.shared, self.find(), row_of));
        }
        self.told.as_mut().map_or_else(Vec::new, |told| told.piece())
    }
}

fn row_of(control: &Control, (prefix, author): (Ipv4Net, Author)) -> Option<Value> {
    let route = control.routing.rib().routes_to(prefix).find(|route| route.author() == author)?;
    Some(route_row(control, &route))
}
