//! Static routes as a configuration has them: in the script, in a CSV file, or both.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Folder, OneOrMany, Path, Row};
use weir_net::group::MAX_MEMBERS;
use weir_stage::Site;

use crate::request::ROUTES;

/// A route of the configuration.
#[derive(Debug)]
pub(crate) struct StaticRoute {
    pub(crate) prefix: Ipv4Net,
    pub(crate) via: Gateways,
    /// The line of the CSV file that it stands in; 0 for those of the script.
    line: u32,
}

/// One gateway, as nearly all routes have, or several.
#[derive(Debug)]
pub(crate) enum Gateways {
    One(Ipv4Addr),
    Many(Box<[Ipv4Addr]>),
}

impl Gateways {
    fn of(list: &[Ipv4Addr]) -> Gateways {
        match list {
            [one] => Gateways::One(*one),
            many => Gateways::Many(many.into()),
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Ipv4Addr> {
        match self {
            Gateways::One(one) => std::slice::from_ref(one).iter(),
            Gateways::Many(many) => many.iter(),
        }
    }
}

/// The key of routes in the script.
pub(crate) const SCRIPT: &str = "routes";

/// The key of the file.
const CSV: &str = "routes_csv";

/// Where routes come from.
pub(crate) struct Sources<'a> {
    pub(crate) element: &'a Element,
    /// The table that the keys of routes belong to.
    pub(crate) path: Path<'a>,
    pub(crate) script: &'a BTreeMap<Ipv4Net, OneOrMany<Ipv4Addr>>,
    pub(crate) csv: Option<&'a FilePath>,
    /// The configuration's folder, below which the file lies.
    pub(crate) folder: Option<&'a Folder>,
}

/// Says of a gateway what is wrong with it, if anything is.
pub(crate) type CheckGateway<'a> = dyn Fn(Ipv4Addr) -> Result<(), String> + 'a;

impl Sources<'_> {
    /// Reads all routes, sorted by prefix. What is wrong goes to `errors`: with `remedy`, if it is wrong gateways.
    pub(crate) fn read(&self, check: &CheckGateway<'_>, remedy: &str, errors: &mut Errors) -> Vec<StaticRoute> {
        let mut routes = Vec::new();
        for (prefix, via) in self.script {
            for problem in wrong_gateways(via, check) {
                let text = prefix.to_string();
                let error = self.element.error(ErrorKind::Conflict, &self.path.field(SCRIPT).entry(&text), problem);
                errors.push(error.remedy(remedy));
            }
            routes.push(StaticRoute { prefix: *prefix, via: Gateways::of(via), line: 0 });
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
        check: &CheckGateway<'_>,
        remedy: &str,
        routes: &mut Vec<StaticRoute>,
        errors: &mut Errors,
    ) {
        let site = Site { element: self.element, path: self.path, folder: self.folder };
        let mut right = HashSet::new();
        ROUTES.read_file(file, site, errors, |row, errors| {
            let prefix = row.read::<Ipv4Net>(ROUTES.column("prefix"), errors);
            let via = row.read_list::<Ipv4Addr>(ROUTES.column("via"), ';', errors);
            let Some((prefix, via)) = prefix.zip(via) else { return };
            check_row(row, &via, check, remedy, &mut right, errors);
            let line = u32::try_from(row.line()).unwrap_or(u32::MAX);
            routes.push(StaticRoute { prefix, via: Gateways::of(&via), line });
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

/// Checks the gateways of one line. Most lines have the gateway of a line before, one of those that are `right`, which needs no second
/// look.
fn check_row(
    row: &Row<'_>,
    via: &[Ipv4Addr],
    check: &CheckGateway<'_>,
    remedy: &str,
    right: &mut HashSet<Ipv4Addr>,
    errors: &mut Errors,
) {
    if let [one] = via
        && right.contains(one)
    {
        return;
    }
    let wrong = wrong_gateways(via, check);
    if wrong.is_empty() {
        right.extend(via);
    }
    for problem in wrong {
        errors.push(row.error(ROUTES.column("via"), ErrorKind::Conflict, problem).remedy(remedy));
    }
}

/// What is wrong with the gateways of a route.
fn wrong_gateways(via: &[Ipv4Addr], check: &CheckGateway<'_>) -> Vec<String> {
    if via.is_empty() {
        return vec!["has no next hop".to_owned()];
    }
    if via.len() > MAX_MEMBERS {
        return vec![format!("has {} next hops; a route has at most {MAX_MEMBERS}", via.len())];
    }
    via.iter().filter_map(|gateway| check(*gateway).err()).collect()
}

/// Different sets of several next hops among routes.
pub(crate) fn different_sets(routes: &[StaticRoute]) -> usize {
    let several = routes.iter().filter(|route| route.via.iter().nth(1).is_some());
    let sets = several.map(|route| route.via.iter().copied().collect::<BTreeSet<Ipv4Addr>>());
    sets.filter(|set| set.len() > 1).collect::<BTreeSet<_>>().len()
}

/// /24 networks in which prefixes longer than /24 lie.
pub(crate) fn long_prefix_networks(routes: &[StaticRoute]) -> usize {
    let longer = routes.iter().filter(|route| route.prefix.prefix_len() > 24);
    longer.map(|route| route.prefix.addr().to_bits() >> 8).collect::<HashSet<u32>>().len()
}
