//! Tables of values: each packet takes a row, in which the columns of its fields lie side by side.

use std::io::BufRead;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, Errors, Place, Row, Rows};
use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_packet::BATCH;

use crate::config::{PortSetsConfig, RowOrder};
use crate::layers::{self, Part};
use crate::ports::{self, PortSet};
use crate::random::Random;
use crate::values::{Cell, Kind, Mac, Number, Port, V4, V6};

/// Rows of a table at most.
const MOST_ROWS: usize = 10_000_000;

/// Words in a cache line.
const LINE: usize = 8;

/// Rows that are drawn ahead of those of the packets that are being written, and these.
const AHEAD: usize = 2 * BATCH;

/// What a field takes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The word at this position.
    Word(usize),
    /// A random port of the set that the word at this position is.
    Port(usize),
}

/// Rows of equal length, one after the other.
#[derive(Debug)]
struct Table {
    words: HugeSlice<u64>,
    /// Words from one row to the next: a power of two, so that a row of no more than a cache line lies in one.
    stride: usize,
    rows: usize,
}

/// A table, and what of it the fields of a template take, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    table: Arc<Table>,
    taken: Vec<Option<Taken>>,
}

/// What is read of a file.
#[derive(Default)]
struct Plan {
    needed: Vec<String>,
    optional: Vec<String>,
    columns: Vec<Column>,
    /// Words of a row.
    width: usize,
    taken: Vec<Option<Taken>>,
}

/// What is read into the words from `word` on.
struct Column {
    word: usize,
    from: From,
}

#[derive(Clone, Copy)]
enum From {
    /// A value of so many bits, in one column.
    Value { column: usize, bits: u32 },
    /// A port or a range of them, in one column.
    Ports { column: usize },
    /// A PSID in this column, its length and offset in the first two optional ones.
    PortSet { psid: usize },
}

impl Plan {
    fn of(places: &[layers::Place]) -> Plan {
        let (mut plan, mut set) = (Plan::default(), None);
        for place in places {
            let taken = match (&place.values.cell, place.part) {
                (None, _) => None,
                // The column of the upper half, right before it, has both.
                (Some(_), Part::Lower) => Some(Taken::Word(plan.width - 1)),
                (Some(Cell::PortSet), _) => Some(Taken::Port(*set.get_or_insert_with(|| plan.port_set()))),
                (Some(Cell::Column(name)), _) => Some(plan.column(name.as_ref().unwrap_or(&place.name), place)),
            };
            plan.taken.push(taken);
        }
        plan
    }

    /// Adds a column; answers what the field takes of it.
    fn column(&mut self, name: &str, place: &layers::Place) -> Taken {
        let column = self.needed.len();
        self.needed.push(name.to_owned());
        let word = self.width;
        self.width += if place.part == Part::Upper { 2 } else { 1 };
        if place.is_port {
            self.columns.push(Column { word, from: From::Ports { column } });
            return Taken::Port(word);
        }
        self.columns.push(Column { word, from: From::Value { column, bits: place.field_bits() } });
        Taken::Word(word)
    }

    /// Adds the columns of port sets; answers the word that a set is in.
    fn port_set(&mut self) -> usize {
        let psid = self.needed.len();
        self.needed.push("psid".to_owned());
        self.optional.extend(["psid_length", "psid_offset"].map(str::to_owned));
        self.columns.push(Column { word: self.width, from: From::PortSet { psid } });
        self.width += 1;
        self.width - 1
    }

    /// Of columns of ports in which no row has a range, fields take the port itself, which is the sooner done.
    fn settle(&mut self, words: &mut [u64], stride: usize) {
        for column in self.columns.iter().filter(|column| matches!(column.from, From::Ports { .. })) {
            if !words.iter().skip(column.word).step_by(stride).all(|set| ports::only(*set).is_some()) {
                continue;
            }
            let settled = self.taken.iter_mut().flatten().filter(|taken| **taken == Taken::Port(column.word));
            settled.for_each(|taken| *taken = Taken::Word(column.word));
            for word in words.iter_mut().skip(column.word).step_by(stride) {
                *word = ports::only(*word).unwrap_or(0);
            }
        }
    }
}

/// Reads the columns that fields take.
///
/// # Errors
///
/// Everything that is wrong with the file.
pub(crate) fn read(
    file: &str,
    input: impl BufRead,
    places: &[layers::Place],
    usual: &PortSetsConfig,
) -> Result<Columns, Vec<ConfigError>> {
    let mut plan = Plan::of(places);
    let mut rows = Rows::among_others(file, input, &plan.needed, &plan.optional)?;
    let stride = plan.width.next_power_of_two();
    let (mut errors, mut words, mut count) = (Errors::new(), Vec::<u64>::new(), 0);
    while let Some(row) = rows.next(&mut errors) {
        if count == MOST_ROWS {
            errors.push(row.error(0, ErrorKind::OutOfRange, format!("is behind more than {MOST_ROWS} rows")));
            break;
        }
        count += 1;
        let start = words.len();
        words.resize(start + stride, 0);
        let to = words.get_mut(start..).unwrap_or_default();
        for column in &plan.columns {
            let value = column.from.read(&row, (plan.needed.len(), usual), &mut errors);
            let both = [(value >> 64) as u64, value as u64];
            let own = if column.from.is_wide() { &both[..] } else { &both[1..] };
            to.iter_mut().skip(column.word).zip(own).for_each(|(to, word)| *to = *word);
        }
    }
    errors.into_result(())?;
    plan.settle(&mut words, stride);
    let wrong = |kind, problem: String| vec![ConfigError::new(kind, &Place::line(file, 1), file, problem)];
    if count == 0 {
        return Err(wrong(ErrorKind::Missing, "has no rows".to_owned()));
    }
    let slice = HugeSlice::new(words.len());
    let mut slice = slice.map_err(|error| wrong(ErrorKind::File, format!("does not fit into memory: {error}")))?;
    slice.copy_from_slice(&words);
    let table = Table { words: slice, stride, rows: count };
    Ok(Columns { table: Arc::new(table), taken: plan.taken })
}

impl From {
    fn is_wide(self) -> bool {
        matches!(self, From::Value { bits: 65.., .. })
    }

    /// The value in a row; 0 where it is wrong, which is told. `optional`: the first optional column; `usual`: what goes for empty ones.
    fn read(self, row: &Row<'_>, (optional, usual): (usize, &PortSetsConfig), errors: &mut Errors) -> u128 {
        match self {
            From::Value { column, bits } => {
                let text = row.text(column);
                let value = value_of(&text).filter(|&value| bits >= 128 || value >> bits == 0);
                value.unwrap_or_else(|| wrong(row, column, format!("{text:?} is no value of {bits} bits"), errors))
            }
            From::Ports { column } => {
                let text = row.text(column);
                let set = ports_of(&text).map(|set| set.pack().into());
                set.unwrap_or_else(|| wrong(row, column, format!("{text:?} is no port, and no range of ports"), errors))
            }
            From::PortSet { psid } => {
                let number = |column, usual: u8, errors: &mut Errors| match row.text(column).trim() {
                    "" => usual,
                    text => text.parse().unwrap_or_else(|_| {
                        wrong(row, column, format!("{text:?} is no number of bits"), errors);
                        usual
                    }),
                };
                let length = number(optional, usual.psid_length, errors);
                let offset = number(optional + 1, usual.psid_offset, errors);
                let text = row.text(psid);
                let set = text.trim().parse().ok().and_then(|psid| PortSet::of_psid(psid, length, offset));
                set.map(|set| set.pack().into()).unwrap_or_else(|| {
                    let problem = format!("{text:?} is no PSID of {length} bits behind {offset} others");
                    wrong(row, psid, problem, errors)
                })
            }
        }
    }
}

/// Tells what is wrong.
fn wrong(row: &Row<'_>, column: usize, problem: String, errors: &mut Errors) -> u128 {
    errors.push(row.error(column, ErrorKind::Malformed, problem));
    0
}

/// A value in a table: an address of any kind, or a number.
fn value_of(text: &str) -> Option<u128> {
    let text = text.trim();
    let value = Number::<32>::parse(text).or_else(|| V4::parse(text)).or_else(|| Mac::parse(text));
    value.or_else(|| V6::parse(text))
}

/// A port, or a range of them.
fn ports_of(text: &str) -> Option<PortSet> {
    let port = |text: &str| Port::parse(text.trim()).and_then(|port| u16::try_from(port).ok());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PortSet::range(port(first)?, port(last)?)
}

/// Which rows the next packets take. They are drawn before they are needed, so that they have come from memory by then.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    table: Arc<Table>,
    order: Order,
    /// Where rows begin: from `at` on, round and round, those of the packets that are written next.
    ahead: [u32; AHEAD],
    at: usize,
}

#[derive(Clone, Debug)]
enum Order {
    Turn { next: usize },
    Random(Random),
}

impl Cursor {
    /// The rows of a table in this order.
    pub(crate) fn new(columns: &Columns, order: RowOrder, random: Random) -> Cursor {
        let order = match order {
            RowOrder::Turn => Order::Turn { next: 0 },
            RowOrder::Random => Order::Random(random),
        };
        let mut cursor = Cursor { table: Arc::clone(&columns.table), order, ahead: [0; AHEAD], at: AHEAD - BATCH };
        cursor.pass(BATCH);
        cursor
    }

    fn draw(&mut self) -> usize {
        let rows = self.table.rows;
        match &mut self.order {
            Order::Turn { next } => {
                let row = *next;
                *next = if row + 1 >= rows { 0 } else { row + 1 };
                row
            }
            Order::Random(random) => random.below(rows as u128) as usize,
        }
    }

    /// Goes on behind the rows of so many packets, at most a batch.
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) {
        for n in 0..count.min(BATCH) {
            let start = self.draw() * self.table.stride;
            (0..self.table.stride).step_by(LINE).for_each(|line| prefetch_slice(&self.table.words, start + line));
            if let Some(ahead) = self.ahead.get_mut((self.at + BATCH + n) % AHEAD) {
                *ahead = start as u32;
            }
        }
        self.at = (self.at + count) % AHEAD;
    }

    /// A word of the rows of the next packets.
    #[inline]
    pub(crate) fn fill(&self, word: usize, values: &mut [u64]) {
        for (n, value) in values.iter_mut().enumerate() {
            let start = self.ahead.get((self.at + n) % AHEAD).map_or(0, |start| *start as usize);
            *value = self.table.words.get(start + word).copied().unwrap_or(0);
        }
    }
}

impl Columns {
    /// What the `n`-th field takes of a row, if it takes anything.
    pub(crate) fn taken(&self, n: usize) -> Option<Taken> {
        self.taken.get(n).copied().flatten()
    }
}
