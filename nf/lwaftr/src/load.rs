//! Softwires from the configuration: a list of tables, or a CSV file, which is read row by row. All that is wrong is told at once, each with its
//! place.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::net::Ipv4Addr;

use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Row};
use weir_stage::{Said, Site, Source};

use crate::config::{LwaftrConfig, SoftwiresConfig};
use crate::registry::{Fields, Settings};
use crate::request::{SOFTWIRES, described, named};
use crate::table::Key;
use crate::words::Psid;
use weir_wire::port_sets::PortSets;

/// Where a softwire is described.
enum Place<'a> {
    Row(&'a Row<'a>),
    /// The n-th of a list, counted from 1.
    Item(&'a Element, usize),
}

impl Place<'_> {
    fn error(&self, field: &'static str, kind: ErrorKind, problem: String) -> ConfigError {
        match self {
            Place::Row(row) => row.error(SOFTWIRES.column(field), kind, problem),
            Place::Item(element, n) => {
                let root = element.path();
                let list = root.field("softwires");
                let item = list.index(*n as i64);
                element.error(kind, &item.field(field), problem)
            }
        }
    }

    /// As others refer to it.
    fn name(&self) -> (bool, u32) {
        match self {
            Place::Row(row) => (true, u32::try_from(row.line()).unwrap_or(u32::MAX)),
            Place::Item(_, n) => (false, u32::try_from(*n).unwrap_or(u32::MAX)),
        }
    }
}

/// Collects the softwires that a configuration wants.
struct Loader<'a> {
    settings: &'a Settings,
    limit: usize,
    found: BTreeMap<Key, (Fields, u32)>,
    /// How the ports of addresses are divided, and who said it first.
    divided: BTreeMap<Ipv4Addr, (PortSets, u32)>,
    errors: Errors,
}

/// The softwires that a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with them.
pub(crate) fn load(
    config: &LwaftrConfig,
    settings: &Settings,
    site: Site<'_>,
) -> Result<BTreeMap<Key, Fields>, Vec<ConfigError>> {
    let limit = config.table_limits.softwires as usize;
    let mut loader =
        Loader { settings, limit, found: BTreeMap::new(), divided: BTreeMap::new(), errors: Errors::new() };
    match &config.softwires {
        SoftwiresConfig::File(file) => loader.read_file(file, site),
        SoftwiresConfig::List(list) => {
            for (n, one) in (1..).zip(list) {
                let key = Key { ipv4: one.ipv4, psid: one.psid };
                let (psid_length, psid_offset) = (one.psid_length, one.psid_offset);
                let fields = Fields { b4: one.b4, aftr: one.aftr, psid_length, psid_offset };
                loader.add(&Place::Item(site.element, n), key, fields);
            }
        }
    }
    let (addresses, most) = (loader.divided.len(), config.table_limits.addresses as usize);
    let (softwires, limit) = (loader.found.len(), loader.limit);
    for (what, count, limit) in [("softwires", softwires, limit), ("addresses", addresses, most)] {
        if count > limit {
            let root = site.element.path();
            let path = root.field("table_limits");
            let problem = format!("{limit} is too few: the configuration has {count}");
            loader.errors.push(site.element.error(ErrorKind::Limit, &path.field(what), problem));
        }
    }
    let found = loader.found.into_iter().map(|(key, (fields, _))| (key, fields)).collect();
    loader.errors.into_result(found)
}

impl Loader<'_> {
    fn read_file(&mut self, file: &FilePath, site: Site<'_>) {
        let mut errors = std::mem::take(&mut self.errors);
        SOFTWIRES.read_file(file, site, &mut errors, |row, errors| {
            let mut source = SOFTWIRES.row(row, errors);
            let (ipv4, psid) = (source.one::<Ipv4Addr>("ipv4"), source.one::<Psid>("psid"));
            let fields = described(&mut source, None);
            let (Some(Said::Some(ipv4)), Some(psid), Some(Some(fields))) = (ipv4, psid, fields) else { return };
            let psid = psid.over(Some(0), |psid| psid.0).unwrap_or(0);
            self.add(&Place::Row(row), Key { ipv4, psid }, fields);
        });
        errors.extend(std::mem::take(&mut self.errors).into_result(()).err().unwrap_or_default());
        self.errors = errors;
    }

    fn add(&mut self, place: &Place<'_>, key: Key, fields: Fields) {
        let (is_row, n) = place.name();
        let other = |n: u32| if is_row { format!("line {n}") } else { format!("number {n}") };
        match self.settings.resolve(key, &fields) {
            Err((field, problem)) => return self.errors.push(place.error(field, ErrorKind::OutOfRange, problem)),
            Ok((sets, _)) => match self.divided.entry(key.ipv4) {
                Slot::Vacant(slot) => _ = slot.insert((sets, n)),
                Slot::Occupied(slot) if slot.get().0 != sets => {
                    let (before, who) = slot.get();
                    let problem = format!(
                        "{sets}, and {} says {before} of {}; all softwires of an address have the same",
                        other(*who),
                        key.ipv4
                    );
                    return self.errors.push(place.error("psid_length", ErrorKind::Conflict, problem));
                }
                Slot::Occupied(_) => {}
            },
        }
        match self.found.entry(key) {
            Slot::Vacant(slot) => _ = slot.insert((fields, n)),
            Slot::Occupied(slot) => {
                let problem = format!("{} is that of {}, too", named(key), other(slot.get().1));
                self.errors.push(place.error("psid", ErrorKind::Conflict, problem));
            }
        }
    }
}
