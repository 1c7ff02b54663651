//! Entries that come and go at run time: requests for one or many of them, and what is told of them by the piece. Nobody holds for long what
//! packets of the slow path need, too.

use std::ops::DerefMut;
use std::vec::IntoIter;

use serde_json::{Value, json};

use crate::request::{PIECE, RequestError, ShowRows};

/// Who carries out requests for entries.
pub trait Entries {
    /// What takes a change back.
    type Undo;

    /// Carries out one change. Answers what takes it back.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String>;

    /// Takes a change back.
    fn take_back(&mut self, undo: Self::Undo, now: u64);

    /// Tells those who look entries up of what changed or was taken back.
    fn settle(&mut self) {}
}

impl<E: Entries + ?Sized> Entries for &mut E {
    type Undo = E::Undo;

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String> {
        (**self).change(verb, arguments, now)
    }

    fn take_back(&mut self, undo: Self::Undo, now: u64) {
        (**self).take_back(undo, now);
    }

    fn settle(&mut self) {
        (**self).settle();
    }
}

/// Carries out a request, whose arguments are an object, or a list of such for many at once: in the end all of them or none. No more than
/// `piece` of them are carried out at once; then others have their turn at what `lock` locks.
///
/// # Errors
///
/// Why it is refused; of a list, with the entry.
pub fn carry_out<G: DerefMut<Target: Entries>>(
    lock: impl Fn() -> G,
    piece: usize,
    (verb, arguments): (&str, &Value),
    now: u64,
) -> Result<Value, RequestError> {
    let list = arguments.as_array().map_or(std::slice::from_ref(arguments), Vec::as_slice);
    let mut undo = Vec::with_capacity(list.len());
    for piece in list.chunks(piece.max(1)) {
        // Let go at once: what takes back locks anew.
        let done = carry_out_piece(&mut *lock(), verb, piece, now, &mut undo);
        if let Err(problem) = done {
            let entry = undo.len() + 1;
            take_back(&lock, piece.len(), undo, now);
            return Err(match arguments.is_array() {
                true => RequestError::of_entry(entry, problem),
                false => RequestError(problem),
            });
        }
    }
    Ok(json!({ "changed": list.len() }))
}

/// Carries out some changes up to the first that is refused; what takes each back goes to `undo`.
fn carry_out_piece<E: Entries + ?Sized>(
    entries: &mut E,
    verb: &str,
    piece: &[Value],
    now: u64,
    undo: &mut Vec<E::Undo>,
) -> Result<(), String> {
    for arguments in piece {
        undo.push(entries.change(verb, arguments, now)?);
    }
    entries.settle();
    Ok(())
}

/// Takes changes back, in reverse order, so that what was changed twice ends as it began.
fn take_back<E: Entries + ?Sized, G: DerefMut<Target = E>>(
    lock: &impl Fn() -> G,
    piece: usize,
    mut undo: Vec<E::Undo>,
    now: u64,
) {
    loop {
        let mut entries = lock();
        let last = undo.split_off(undo.len().saturating_sub(piece.max(1)));
        last.into_iter().rev().for_each(|undo| entries.take_back(undo, now));
        entries.settle();
        if undo.is_empty() {
            return;
        }
    }
}

/// Rows of things that were found before, by the piece: what is gone in the meantime is left out.
struct Pieces<T, F> {
    items: IntoIter<T>,
    /// The rows of some of them, at most [`PIECE`] rows.
    rows: F,
    /// How many are looked at together.
    at_once: usize,
}

/// Rows of items, made by `rows` of so many of them at once that their rows are one piece: each has at most `most`. It holds whatever it looks
/// at no longer than it takes.
pub fn pieces<T: Send + 'static, R>(
    items: Vec<T>,
    most: usize,
    rows: impl FnMut(&mut dyn Iterator<Item = T>) -> Vec<R> + Send + 'static,
) -> Box<dyn ShowRows<R>> {
    Box::new(Pieces { items: items.into_iter(), rows, at_once: PIECE / most.max(1) })
}

impl<T: Send, R, F: FnMut(&mut dyn Iterator<Item = T>) -> Vec<R> + Send> ShowRows<R> for Pieces<T, F> {
    fn piece(&mut self) -> Vec<R> {
        // Where all of a piece is gone, the next is looked at: an empty one would be the end.
        while !self.items.as_slice().is_empty() {
            let rows = (self.rows)(&mut self.items.by_ref().take(self.at_once));
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    }
}

/// Rows of entries in the order of their keys, by the piece.
struct InOrder<K, F> {
    /// The last entry that was looked at.
    last: Option<K>,
    has_more: bool,
    look: F,
}

/// Rows of entries in the order of their keys. `look` looks at some of those behind a key, at first at the first ones, and answers their rows, at
/// most [`PIECE`], and the last entry that it looked at; none where there are no more.
pub fn in_order<K: Send + 'static, R: 'static>(
    look: impl FnMut(Option<&K>) -> (Vec<R>, Option<K>) + Send + 'static,
) -> Box<dyn ShowRows<R>> {
    Box::new(InOrder { last: None, has_more: true, look })
}

impl<K: Send, R, F: FnMut(Option<&K>) -> (Vec<R>, Option<K>) + Send> ShowRows<R> for InOrder<K, F> {
    fn piece(&mut self) -> Vec<R> {
        // Where a piece has no rows, the next is looked at: an empty one would be the end.
        while self.has_more {
            let (rows, last) = (self.look)(self.last.as_ref());
            self.has_more = last.is_some();
            self.last = last;
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers by name; none above 9. Counts how often they were settled.
    #[derive(Default)]
    struct Numbers {
        all: BTreeMap<String, u64>,
        settled: u64,
    }

    impl Entries for Numbers {
        type Undo = (String, Option<u64>);

        fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Self::Undo, String> {
            let name = arguments["name"].as_str().unwrap_or_default().to_owned();
            match (verb, arguments["number"].as_u64()) {
                ("number set", Some(number)) if number < 10 => {
                    let before = self.all.insert(name.clone(), number);
                    Ok((name, before))
                }
                ("number set", number) => Err(format!("{number:?} is too much")),
                _ => Err(format!("there is no request '{verb}'")),
            }
        }

        fn take_back(&mut self, (name, before): Self::Undo, _now: u64) {
            match before {
                Some(before) => self.all.insert(name, before),
                None => self.all.remove(&name),
            };
        }

        fn settle(&mut self) {
            self.settled += 1;
        }
    }

    #[test]
    fn a_list_is_carried_out_whole_or_not_at_all_and_others_have_their_turn() {
        let numbers = RefCell::new(Numbers::default());
        let locked = Cell::new(0);
        let ask = |arguments: &Value| {
            let lock = || {
                locked.set(locked.get() + 1);
                numbers.borrow_mut()
            };
            carry_out(lock, 2, ("number set", arguments), 0).map_err(|error| error.0)
        };
        let set = |name: &str, number: u64| json!({ "name": name, "number": number });
        assert_eq!(ask(&set("a", 1)), Ok(json!({ "changed": 1 })));
        assert_eq!(ask(&set("a", 10)), Err("Some(10) is too much".to_owned()));
        let five: Vec<Value> = ["a", "b", "c", "a", "d"].iter().zip(2..).map(|(name, n)| set(name, n)).collect();
        locked.set(0);
        assert_eq!(ask(&Value::Array(five.clone())), Ok(json!({ "changed": 5 })));
        assert_eq!((locked.get(), numbers.borrow().all["a"]), (3, 5));
        let before = numbers.borrow().all.clone();
        let wrong: Vec<Value> = five.iter().cloned().chain([set("e", 7), set("f", 10)]).collect();
        assert_eq!(ask(&Value::Array(wrong)), Err("entry 7: Some(10) is too much".to_owned()));
        assert_eq!(numbers.borrow().all, before, "what was changed twice is as it was");
        assert!(numbers.borrow().settled > 4);
    }

    #[test]
    fn entries_are_told_in_order_and_pieces_without_rows_do_not_end_them() {
        let mut rows = in_order(|last: Option<&u32>| {
            let first = last.map_or(0, |last| last + 1);
            let piece: Vec<u32> = (first..20).take(3).collect();
            let last = piece.last().copied();
            (piece.into_iter().filter(|n| n % 7 == 0).collect::<Vec<u32>>(), last)
        });
        let told: Vec<Vec<u32>> = std::iter::from_fn(|| Some(rows.piece()).filter(|rows| !rows.is_empty())).collect();
        assert_eq!(told, [[0], [7], [14]]);
        assert!(rows.piece().is_empty());
    }

    #[test]
    fn what_is_gone_is_left_out_and_does_not_end_the_table() {
        let there = |n: &usize| *n >= 3 * PIECE;
        let mut rows = pieces((0..4 * PIECE).collect(), 2, move |items| {
            items.filter(there).flat_map(|n| [n, n]).collect::<Vec<usize>>()
        });
        let mut told = Vec::new();
        loop {
            let piece = rows.piece();
            assert!(piece.len() <= PIECE);
            if piece.is_empty() {
                break;
            }
            told.extend(piece);
        }
        assert_eq!((told.len(), told[0]), (2 * PIECE, 3 * PIECE));
    }
}
