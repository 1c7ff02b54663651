//! Static routes as a configuration has them: in the script, in a CSV file, or both.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Folder, OneOrMany, Path, Row, Scalar};
use weir_net::group::MAX_MEMBERS;
use weir_stage::Site;

use crate::request::ROUTES;
use crate::state::routing::Network;
use crate::state::via::Via;

/// A route of the configuration.
#[derive(Debug)]
pub(crate) struct StaticRoute {
    pub(crate) prefix: IpNet,
    pub(crate) via: Vias,
    /// The line of the CSV file that it stands in; 0 for those of the script.
    line: u32,
}

/// One gateway, as nearly all routes have, or something else.
#[derive(Debug)]
pub(crate) enum Vias {
    One(IpAddr),
    Many(Box<[Via]>),
}

impl Vias {
    fn of(list: Vec<Via>) -> Vias {
        match list.as_slice() {
            [Via::Gateway(one)] => Vias::One(*one),
            _ => Vias::Many(list.into()),
        }
    }

    /// Looks at each.
    pub(crate) fn each(&self, mut look: impl FnMut(&Via)) {
        match self {
            Vias::One(one) => look(&Via::Gateway(*one)),
            Vias::Many(many) => many.iter().for_each(look),
        }
    }

    /// Whether there are several.
    fn are_several(&self) -> bool {
        matches!(self, Vias::Many(many) if many.len() > 1)
    }

    /// Whether one of them names an interface.
    pub(crate) fn names_interfaces(&self) -> bool {
        matches!(self, Vias::Many(many) if many.iter().any(|via| via.interface().is_some()))
    }
}

/// Whether there is a route to a network among those, which are sorted by prefix and stand by VRF.
pub(crate) fn is_among(routes: &[Vec<StaticRoute>], (vrf, net): Network) -> bool {
    let routes = routes.get(usize::from(vrf)).map_or(&[][..], Vec::as_slice);
    routes.binary_search_by_key(&net, |route| route.prefix).is_ok()
}

/// The key of routes in the script.
pub(crate) const SCRIPT: &str = "routes";

/// The key of the file.
const CSV: &str = "routes_csv";

/// Where routes come from.
pub(crate) struct Sources<'a, P, V> {
    pub(crate) element: &'a Element,
    /// The table that the keys of routes belong to.
    pub(crate) path: Path<'a>,
    pub(crate) script: &'a BTreeMap<P, OneOrMany<V>>,
    pub(crate) csv: Option<&'a FilePath>,
    /// The configuration's folder, below which the file lies.
    pub(crate) folder: Option<&'a Folder>,
}

/// Says of a next hop of a route to a prefix what is wrong with it, if anything is.
pub(crate) type CheckVia<'a> = dyn Fn(IpNet, &Via) -> Result<(), String> + 'a;

impl<P: Scalar + Copy + Into<IpNet>, V: Scalar + Clone + Into<Via>> Sources<'_, P, V> {
    /// Reads all routes, sorted by prefix. What is wrong goes to `errors`: with `remedy`, if it is wrong gateways.
    pub(crate) fn read(&self, check: &CheckVia<'_>, remedy: &str, errors: &mut Errors) -> Vec<StaticRoute> {
        let mut routes = Vec::new();
        for (prefix, via) in self.script {
            let (prefix, via): (IpNet, Vec<Via>) = ((*prefix).into(), via.iter().cloned().map(Into::into).collect());
            for problem in wrong_vias(prefix, &via, check) {
                let text = prefix.to_string();
                let error = self.element.error(ErrorKind::Conflict, &self.path.field(SCRIPT).entry(&text), problem);
                errors.push(error.remedy(remedy));
            }
            routes.push(StaticRoute { prefix, via: Vias::of(via), line: 0 });
        }
        if let Some(file) = self.csv {
            self.read_csv(file, check, remedy, &mut routes, errors);
        }
        // The script's first among equals, so that a duplicate is told of the file's line.
        routes.sort_unstable_by_key(|route| (route.prefix, route.line));
        self.check_duplicates(&routes, errors);
        routes
    }

    /// Reads routes line by line; a wrong line does not keep the next ones from being looked at.
    fn read_csv(
        &self,
        file: &FilePath,
        check: &CheckVia<'_>,
        remedy: &str,
        routes: &mut Vec<StaticRoute>,
        errors: &mut Errors,
    ) {
        let site = Site { element: self.element, path: self.path, folder: self.folder };
        let mut right = HashSet::new();
        ROUTES.read_file(file, site, errors, |row, errors| {
            let prefix = row.read::<P>(ROUTES.column("prefix"), errors);
            let via = row.read_list::<V>(ROUTES.column("via"), ';', errors);
            let Some((prefix, via)) = prefix.zip(via) else { return };
            let (prefix, via): (IpNet, Vec<Via>) = (prefix.into(), via.into_iter().map(Into::into).collect());
            check_row(row, (prefix, &via), check, remedy, &mut right, errors);
            let line = u32::try_from(row.line()).unwrap_or(u32::MAX);
            routes.push(StaticRoute { prefix, via: Vias::of(via), line });
        });
    }

    fn check_duplicates(&self, routes: &[StaticRoute], errors: &mut Errors) {
        for (one, other) in routes.iter().zip(routes.iter().skip(1)) {
            if one.prefix == other.prefix {
                let first = if one.line == 0 { "in the script".to_owned() } else { format!("in line {}", one.line) };
                let problem = format!("line {} has a route to {}, and so is one {first}", other.line, other.prefix);
                let error = self.error(ErrorKind::Duplicate, problem);
                errors.push(error.remedy("put all addresses of a prefix into one line, parted by ;"));
            }
        }
    }

    fn error(&self, kind: ErrorKind, problem: String) -> ConfigError {
        self.element.error(kind, &self.path.field(CSV), problem)
    }
}

/// Checks the next hops of one line. Most lines have the gateway of a line before, one of those that are `right` for the family, which needs
/// no second look.
fn check_row(
    row: &Row<'_>,
    (prefix, via): (IpNet, &[Via]),
    check: &CheckVia<'_>,
    remedy: &str,
    right: &mut HashSet<(bool, IpAddr)>,
    errors: &mut Errors,
) {
    let is_ipv6 = matches!(prefix, IpNet::V6(_));
    let one = if let [Via::Gateway(one)] = via { Some((is_ipv6, *one)) } else { None };
    if one.is_some_and(|one| right.contains(&one)) {
        return;
    }
    let wrong = wrong_vias(prefix, via, check);
    if wrong.is_empty() {
        right.extend(one);
    }
    for problem in wrong {
        errors.push(row.error(ROUTES.column("via"), ErrorKind::Conflict, problem).remedy(remedy));
    }
}

/// What is wrong with the next hops of a route.
fn wrong_vias(prefix: IpNet, via: &[Via], check: &CheckVia<'_>) -> Vec<String> {
    if via.is_empty() {
        return vec!["has no next hop".to_owned()];
    }
    if via.len() > MAX_MEMBERS {
        return vec![format!("has {} next hops; a route has at most {MAX_MEMBERS}", via.len())];
    }
    via.iter().filter_map(|via| check(prefix, via).err()).collect()
}

/// Different sets of several next hops among routes.
pub(crate) fn different_sets<'r>(routes: impl IntoIterator<Item = &'r StaticRoute>) -> usize {
    let several = routes.into_iter().filter(|route| route.via.are_several());
    let sets = several.map(|route| {
        let mut set = BTreeSet::new();
        route.via.each(|via| {
            set.insert(via.clone());
        });
        set
    });
    sets.filter(|set| set.len() > 1).collect::<BTreeSet<_>>().len()
}

/// Different next hops among routes.
pub(crate) fn different_vias<'r>(routes: impl IntoIterator<Item = &'r StaticRoute>) -> usize {
    let mut all = HashSet::new();
    for route in routes {
        route.via.each(|via| {
            if !all.contains(via) {
                all.insert(via.clone());
            }
        });
    }
    all.len()
}

/// /24 networks in which prefixes of IPv4 longer than /24 lie.
pub(crate) fn long_prefix_networks<'r>(routes: impl IntoIterator<Item = &'r StaticRoute>) -> usize {
    let longer = routes.into_iter().filter_map(|route| match route.prefix {
        IpNet::V4(net) if net.prefix_len() > 24 => Some(net.addr().to_bits() >> 8),
        _ => None,
    });
    longer.collect::<HashSet<u32>>().len()
}
