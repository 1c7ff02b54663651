//! The subscribers of a gateway: what they are called on either side of it.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use weir_config::{ConfigError, ErrorKind, Errors, Row, Rows};

/// Subscribers by their pairs of VLANs and by their GRE keys.
#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    by_vlans: HashMap<(u16, u16), u32>,
    by_key: HashMap<u32, u32>,
    names: Vec<Box<str>>,
}

impl Subscribers {
    /// Reads a CSV file with the columns `svlan`, `cvlan`, `gre` and, if there is one, `subscriber`: a name, else `svlan.cvlan`.
    ///
    /// # Errors
    ///
    /// All that is wrong in it, a sentence each.
    pub fn read(path: &Path) -> Result<Subscribers, Vec<String>> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| vec![format!("cannot read the subscribers {name}: {error}")])?;
        let told = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let columns = &["svlan", "cvlan", "gre"];
        let mut rows = Rows::new(name, BufReader::new(file), columns, &["subscriber"]).map_err(told)?;
        let (mut errors, mut all) = (Errors::new(), Subscribers::default());
        while let Some(row) = rows.next(&mut errors) {
            let svlan = number(&row, 0, 4095, &mut errors);
            let cvlan = number(&row, 1, 4095, &mut errors);
            let gre = number(&row, 2, u32::MAX, &mut errors);
            if let (Some(svlan), Some(cvlan), Some(gre)) = (svlan, cvlan, gre) {
                all.add(svlan as u16, cvlan as u16, gre, &row.text(3), &row, &mut errors);
            }
        }
        errors.into_result(all).map_err(told)
    }

    fn add(&mut self, svlan: u16, cvlan: u16, gre: u32, name: &str, row: &Row<'_>, errors: &mut Errors) {
        let id = self.names.len() as u32;
        let name = if name.is_empty() { format!("{svlan}.{cvlan}") } else { name.to_owned() };
        let once = "give each subscriber a pair of VLANs and a key of its own";
        if self.by_vlans.insert((svlan, cvlan), id).is_some() {
            let problem = format!("svlan {svlan} and cvlan {cvlan} stand in a line before");
            errors.push(row.error(0, ErrorKind::Duplicate, problem).remedy(once));
        }
        if self.by_key.insert(gre, id).is_some() {
            errors.push(row.error(2, ErrorKind::Duplicate, format!("key {gre} stands in a line before")).remedy(once));
        }
        self.names.push(name.into());
    }

    /// The subscriber of a pair of VLANs, the outer one first.
    pub(crate) fn of_vlans(&self, svlan: u16, cvlan: u16) -> Option<u32> {
        self.by_vlans.get(&(svlan, cvlan)).copied()
    }

    /// The subscriber of a GRE key.
    pub(crate) fn of_key(&self, key: u32) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// What a subscriber is called.
    pub(crate) fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |name| name)
    }
}

fn number(row: &Row<'_>, column: usize, most: u32, errors: &mut Errors) -> Option<u32> {
    let text = row.text(column);
    let parsed = text.trim().parse().ok().filter(|number| *number <= most);
    if parsed.is_none() {
        let problem = format!("\"{}\" is no number from 0 to {most}", text.trim());
        errors.push(row.error(column, ErrorKind::Malformed, problem));
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_lead_to_the_subscriber_and_mistakes_are_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("subscribers.csv");
        std::fs::write(&path, "gre,svlan,cvlan,subscriber\n100,1,2,anna\n101,1,3,\n").unwrap();
        let all = Subscribers::read(&path).unwrap();
        assert_eq!((all.of_vlans(1, 2), all.of_key(101), all.of_key(7)), (Some(0), Some(1), None));
        assert_eq!((all.name(0), all.name(1)), ("anna", "1.3"));
        std::fs::write(&path, "svlan,cvlan,gre\n1,2,100\n1,2,101\n1,3,100\n5000,x,-1\n").unwrap();
        assert_eq!(Subscribers::read(&path).unwrap_err().len(), 5);
    }
}
