//! Softwires from the configuration: a list of tables, or a CSV file, which is read row by row. All that is wrong is told at once, each with its
//! place.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::net::Ipv4Addr;

use weir_config::{ConfigError, ErrorKind, Errors};
use weir_stage::{Site, Stands, Wrong};

use crate::config::{LwaftrConfig, SoftwireConfig, SoftwiresConfig};
use crate::registry::{Settings, Wanted};
use crate::request::SOFTWIRES;
use weir_wire::port_sets::PortSets;

/// How the ports of addresses are divided.
#[derive(Default)]
struct Divided {
    /// With who said it first.
    all: HashMap<Ipv4Addr, (PortSets, Stands)>,
    /// The last one: softwires of an address mostly stand together.
    last: Option<(Ipv4Addr, PortSets)>,
}

/// The softwires that a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with them.
pub(crate) fn load(config: &LwaftrConfig, settings: &Settings, site: Site<'_>) -> Result<Wanted, Vec<ConfigError>> {
    let (mut errors, mut divided) = (Errors::new(), Divided::default());
    let (file, list) = match &config.softwires {
        SoftwiresConfig::File(file) => (Some(file), &[][..]),
        SoftwiresConfig::List(list) => (None, list.as_slice()),
    };
    let found = SOFTWIRES.load(site, list, file, &mut errors, |one: &SoftwireConfig, stands| {
        let wrong = settings.resolve(one).and_then(|(sets, _)| divide(&mut divided, one.ipv4, sets, stands));
        wrong.err().into_iter().collect()
    });
    let limits = &config.table_limits;
    for (what, count, limit) in
        [("softwires", found.len(), limits.softwires), ("addresses", divided.all.len(), limits.addresses)]
    {
        if count > limit as usize {
            let path = site.path.field("table_limits");
            let problem = format!("{limit} is too few: the configuration has {count}");
            errors.push(site.element.error(ErrorKind::Limit, &path.field(what), problem));
        }
    }
    errors.into_result(found)
}

/// All softwires of an address divide its ports alike.
fn divide(divided: &mut Divided, ipv4: Ipv4Addr, sets: PortSets, stands: Stands) -> Result<(), Wrong> {
    if divided.last == Some((ipv4, sets)) {
        return Ok(());
    }
    match divided.all.entry(ipv4) {
        Slot::Occupied(slot) if slot.get().0 != sets => {
            let (before, who) = slot.get();
            let problem =
                format!("{sets}, and {who} says {before} of {ipv4}; all softwires of an address have the same");
            return Err(Wrong::field("psid_length", problem));
        }
        slot => _ = slot.or_insert((sets, stands)),
    }
    divided.last = Some((ipv4, sets));
    Ok(())
}
