//! Which packets leave a device where something was captured: a table of routes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use weir_config::{Errors, Rows};

/// Whether packets to an address leave by a port at which something was captured, by longest prefix.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    four: Family,
    six: Family,
}

/// Prefixes of one family, by their lengths.
#[derive(Clone, Debug, Default)]
struct Family(BTreeMap<u8, HashMap<u128, bool>>);

impl Routes {
    /// Reads a table from a CSV file with the columns `prefix` and `port`, and takes the ports of `captured` for those where packets were
    /// captured.
    ///
    /// # Errors
    ///
    /// All that is wrong in it, and ports that are in no route, a sentence each.
    pub fn read(path: &Path, captured: &[String]) -> Result<Routes, Vec<String>> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| vec![format!("cannot read the routes {name}: {error}")])?;
        let told = |errors: Vec<weir_config::ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut errors = Errors::new();
        let mut rows = Rows::new(name.clone(), BufReader::new(file), &["prefix", "port"], &[]).map_err(told)?;
        let (mut routes, mut ports) = (Routes::default(), std::collections::BTreeSet::new());
        while let Some(row) = rows.next(&mut errors) {
            let port = row.text(1).trim().to_owned();
            if let Some(prefix) = row.read::<IpNet>(0, &mut errors) {
                routes.add(prefix, captured.contains(&port));
            }
            ports.insert(port);
        }
        errors.into_result(()).map_err(told)?;
        let unknown = captured.iter().filter(|port| !ports.contains(*port));
        let unknown: Vec<String> = unknown
            .map(|port| {
                let known: Vec<&str> = ports.iter().take(20).map(String::as_str).collect();
                format!("--captured {port}: no route of {name} leaves by it; there are {}", known.join(", "))
            })
            .collect();
        if unknown.is_empty() { Ok(routes) } else { Err(unknown) }
    }

    fn add(&mut self, prefix: IpNet, captured: bool) {
        let family = if prefix.addr().is_ipv4() { &mut self.four } else { &mut self.six };
        family.0.entry(prefix.prefix_len()).or_default().insert(bits(prefix.network()), captured);
    }

    /// Whether packets to `destination` leave where something was captured; those without a route leave nowhere.
    pub fn leaves_captured(&self, destination: IpAddr) -> bool {
        let family = if destination.is_ipv4() { &self.four } else { &self.six };
        let bits = bits(destination);
        let found = family.0.iter().rev().find_map(|(&length, prefixes)| prefixes.get(&(bits & mask(length))));
        found.copied().unwrap_or(false)
    }
}

/// An address, with its first bit foremost.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
        IpAddr::V6(six) => six.to_bits(),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_says_where() {
        let mut routes = Routes::default();
        for (prefix, captured) in
            [("0.0.0.0/0", false), ("10.0.0.0/8", true), ("10.1.0.0/16", false), ("10.1.2.3/32", true), ("::/0", true)]
        {
            routes.add(prefix.parse().unwrap(), captured);
        }
        for (address, captured) in
            [("192.0.2.1", false), ("10.9.9.9", true), ("10.1.9.9", false), ("10.1.2.3", true), ("2001:db8::1", true)]
        {
            assert_eq!(routes.leaves_captured(address.parse().unwrap()), captured, "{address}");
        }
        assert!(!Routes::default().leaves_captured("10.0.0.1".parse().unwrap()), "no route");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes.csv");
        std::fs::write(&path, "prefix,port\n10.0.0.0/8,a\n10.0.0.0/33,a\nx,b\n").unwrap();
        let told = Routes::read(&path, &["a".to_owned()]).unwrap_err();
        assert_eq!(told.len(), 2, "{told:?}");
        std::fs::write(&path, "prefix,port\n10.0.0.0/8,a\n").unwrap();
        let told = Routes::read(&path, &["a".to_owned(), "c".to_owned()]).unwrap_err();
        assert!(told.len() == 1 && told[0].contains("--captured c") && told[0].contains("there are a"), "{told:?}");
        assert!(Routes::read(&path, &["a".to_owned()]).is_ok());
        assert!(Routes::read(Path::new("/no/routes"), &[]).unwrap_err()[0].contains("/no/routes"));
    }
}
