//! The softwires of a lwAFTR: whose a shared IPv4 address and port is, and where the tunnel there ends.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weir_config::{ConfigError, ErrorKind, Errors, Row, Rows};
use weir_wire::port_sets::PortSets;

/// A tunnel to a customer (B4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Softwire {
    /// Its number: that of its row, from 0.
    pub(crate) id: u32,
    /// The shared address.
    pub(crate) ipv4: Ipv4Addr,
    /// Which port set of it is the customer's.
    pub(crate) psid: u16,
    /// The customer's end.
    pub(crate) b4: Ipv6Addr,
    /// The relay's end, if the table says it.
    pub(crate) aftr: Option<Ipv6Addr>,
}

/// A table of softwires.
#[derive(Clone, Debug, Default)]
pub struct Softwires {
    /// How the ports of each address are divided.
    sets: HashMap<Ipv4Addr, PortSets>,
    softwires: HashMap<(Ipv4Addr, u16), Softwire>,
    b4s: HashSet<Ipv6Addr>,
}

impl Softwires {
    /// Reads a CSV file with the columns `ipv4` and `b4`, and, if there are such, `psid`, `psid_length`, `psid_offset` (0 where they are empty) and `aftr`
    /// (any where it is empty).
    ///
    /// # Errors
    ///
    /// All that is wrong in it, a sentence each.
    pub fn read(path: &Path) -> Result<Softwires, Vec<String>> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| vec![format!("cannot read the softwires {name}: {error}")])?;
        let told = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let optional = &["psid", "psid_length", "psid_offset", "aftr"];
        let mut rows = Rows::new(name, BufReader::new(file), &["ipv4", "b4"], optional).map_err(told)?;
        let (mut errors, mut all) = (Errors::new(), Softwires::default());
        while let Some(row) = rows.next(&mut errors) {
            let (ipv4, b4) = (row.read::<Ipv4Addr>(0, &mut errors), row.read::<Ipv6Addr>(1, &mut errors));
            let [psid, length, offset] =
                [(2, 65_535), (3, 16), (4, 16)].map(|(column, most)| number(&row, column, most, &mut errors));
            let aftr = if row.text(5).is_empty() { None } else { row.read::<Ipv6Addr>(5, &mut errors) };
            // The numbers are small.
            let sets = PortSets::new(length as u8, offset as u8).filter(|_| psid >> length == 0);
            let Some(sets) = sets else {
                let problem = format!("there is no PSID {psid} of {length} bits behind {offset} others");
                errors.push(
                    row.error(2, ErrorKind::OutOfRange, problem)
                        .remedy("give psid_length and psid_offset in the table"),
                );
                continue;
            };
            if let (Some(ipv4), Some(b4)) = (ipv4, b4) {
                all.add(Softwire { id: 0, ipv4, psid: psid as u16, b4, aftr }, sets, &row, &mut errors);
            }
        }
        errors.into_result(all).map_err(told)
    }

    fn add(&mut self, softwire: Softwire, sets: PortSets, row: &Row<'_>, errors: &mut Errors) {
        let Softwire { ipv4, psid, b4, .. } = softwire;
        let softwire = Softwire { id: self.softwires.len() as u32, ..softwire };
        if *self.sets.entry(ipv4).or_insert(sets) != sets {
            let problem = format!("the ports of {ipv4} are divided otherwise in a line before");
            errors.push(row.error(3, ErrorKind::Conflict, problem).remedy("divide the ports of an address in one way"));
        }
        if self.softwires.insert((ipv4, psid), softwire).is_some() {
            let problem = format!("{ipv4} with the PSID {psid} stands in a line before");
            errors.push(row.error(0, ErrorKind::Duplicate, problem).remedy("leave one of them out"));
        }
        self.b4s.insert(b4);
    }

    /// Whose an address and port is.
    pub(crate) fn of(&self, address: Ipv4Addr, port: u16) -> Option<&Softwire> {
        let psid = self.sets.get(&address)?.psid(port)?;
        self.softwires.get(&(address, psid))
    }

    /// Whether any tunnel ends there.
    pub(crate) fn has_b4(&self, b4: Ipv6Addr) -> bool {
        self.b4s.contains(&b4)
    }
}

/// A number; 0 where there is none.
fn number(row: &Row<'_>, column: usize, most: u32, errors: &mut Errors) -> u32 {
    let text = row.text(column);
    let text = text.trim();
    let parsed = if text.is_empty() { Some(0) } else { text.parse().ok().filter(|number| *number <= most) };
    parsed.unwrap_or_else(|| {
        errors.push(row.error(column, ErrorKind::Malformed, format!("\"{text}\" is no number from 0 to {most}")));
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Softwires, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("softwires.csv");
        std::fs::write(&path, text).unwrap();
        Softwires::read(&path)
    }

    #[test]
    fn rows_are_found_and_mistakes_are_told_at_once() {
        let all = table("psid,ipv4,b4,aftr,psid_length\n5,192.0.2.1,::5,::a,6\n6,192.0.2.1,::6,,6\n,192.0.2.2,::7,,\n")
            .unwrap();
        let found = |host, port| all.of(Ipv4Addr::new(192, 0, 2, host), port).map(|softwire| softwire.b4.to_string());
        assert_eq!(found(1, 5 << 10).as_deref(), Some("::5"));
        assert_eq!(found(1, (7 << 10) - 1).as_deref(), Some("::6"));
        assert_eq!((found(1, 7 << 10), found(3, 1)), (None, None));
        assert_eq!(found(2, 65_535).as_deref(), Some("::7"));
        assert!(all.has_b4(Ipv6Addr::from_bits(6)) && !all.has_b4(Ipv6Addr::from_bits(0xa)));
        let wrong = "ipv4,b4,psid,psid_length\n192.0.2.1,::5,64,6\n192.0.2.2,::5,1,6\n192.0.2.2,::5,1,6\n192.0.2.2,::5,1,7\nx,::5,0,77\n";
        let told = table(wrong).unwrap_err();
        assert_eq!(told.len(), 6, "{told:#?}");
        assert!(told[0].contains("there is no PSID 64 of 6 bits behind 0 others"), "{told:#?}");
    }
}
