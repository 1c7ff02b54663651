//! Subscribers from the configuration: a list of tables, or a CSV file, which is read row by row. All that is wrong is told at
//! once, each with its place.

use std::collections::{HashMap, HashSet};
use std::fmt;

use weir_config::{ConfigError, ErrorKind, Errors, FilePath, PortName, Row};
use weir_net::RouteSource;
use weir_stage::{Entry as _, Site, Stands, Wrong};

use crate::config::SubscriberConfig;
use crate::registry::{Entry, Registry, Settings, check_alone, column_of};
use crate::request::SUBSCRIBERS;
use crate::table::{BindingKey, Tags};

/// Collects the subscribers that a configuration wants.
pub(crate) struct Loader<'a> {
    settings: &'a Settings,
    /// Others than the configuration have subscribers, too.
    taken: Taken,
    entries: Vec<Entry>,
    errors: Errors,
    tags: HashMap<Tags, Stands>,
    keys: HashMap<u32, Stands>,
    addresses: HashMap<BindingKey, Stands>,
    svlans: HashSet<(u8, u16)>,
    limit_told: bool,
}

/// What subscribers have that others than the configuration entered.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    tags: HashSet<Tags>,
    keys: HashMap<u32, String>,
    addresses: HashMap<BindingKey, String>,
    /// Names of interfaces with tags as lines have them.
    interfaces: HashMap<Tags, String>,
}

impl Taken {
    /// What a running gateway's subscribers have.
    pub(crate) fn of(registry: &Registry) -> Taken {
        let mut taken = Taken::default();
        for subscriber in registry.subscribers_from(0).filter(|one| one.source() != RouteSource::Config) {
            let name = format!("{} ({})", registry.named(subscriber.tags), subscriber.source());
            taken.tags.insert(subscriber.tags);
            for key in subscriber.fixed_keys(registry.settings()) {
                taken.addresses.insert(key, name.clone());
            }
            if let Some(key) = subscriber.fields().key {
                taken.keys.insert(key, name);
            }
        }
        taken
    }

    /// The same, and the tags of interfaces.
    pub(crate) fn with_interfaces(mut self, interfaces: impl Iterator<Item = (Tags, String)>) -> Taken {
        self.interfaces.extend(interfaces);
        self
    }
}

impl<'a> Loader<'a> {
    pub(crate) fn new(settings: &'a Settings, taken: Taken) -> Loader<'a> {
        Loader {
            settings,
            taken,
            entries: Vec::new(),
            errors: Errors::new(),
            tags: HashMap::new(),
            keys: HashMap::new(),
            addresses: HashMap::new(),
            svlans: HashSet::new(),
            limit_told: false,
        }
    }

    /// The subscribers, in order.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub(crate) fn finish(self) -> Result<Vec<Entry>, Vec<ConfigError>> {
        self.errors.into_result(self.entries)
    }

    /// Reads a file of subscribers.
    pub(crate) fn read_file(&mut self, file: &FilePath, site: Site<'_>) {
        let mut errors = std::mem::take(&mut self.errors);
        SUBSCRIBERS.read_file(file, site, &mut errors, |row, errors| self.add_row(row, errors));
        self.errors = errors;
    }

    fn add_row(&mut self, row: &Row<'_>, errors: &mut Errors) {
        // A port that there is not is told whatever else is wrong.
        let named = row.text(SUBSCRIBERS.column("port"));
        let port = self.settings.position(Some(&*named).filter(|name| !name.is_empty()));
        let port = port.map_err(|wrong| errors.push(SUBSCRIBERS.at_row(row, wrong)));
        let said = SubscriberConfig::read_from(&mut SUBSCRIBERS.row(row, errors), None);
        if let (Ok(port), Some(said)) = (port, said) {
            let added = self.add(port, said, Stands::of_row(row));
            errors.extend(added.err().map(|wrong| SUBSCRIBERS.at_row(row, wrong)));
        }
    }

    /// Adds the subscribers of a list.
    pub(crate) fn read_list(&mut self, list: &[SubscriberConfig], site: Site<'_>) {
        for (n, said) in (1..).zip(list) {
            let port = self.settings.position(said.port.as_ref().map(PortName::as_str));
            let added = port.and_then(|port| self.add(port, said.clone(), Stands::Number(n)));
            self.errors.extend(added.err().map(|wrong| SUBSCRIBERS.at_number(site, n, wrong)));
        }
    }

    /// Adds a subscriber if it may be, beside those before and those of others.
    fn add(&mut self, port: u8, said: SubscriberConfig, stands: Stands) -> Result<(), Wrong> {
        let entry = Entry::new(Tags { port, svlan: said.svlan, cvlan: said.cvlan }, said);
        let most = self.settings.subscribers;
        if self.entries.len() >= most as usize {
            let wrong = Wrong::field("svlan", format!("is one more than limits.subscribers, {most}"));
            return self.full(wrong.remedy("raise that limit"));
        }
        check_alone(self.settings, entry.tags, &entry.fields)?;
        self.note_tags(&entry, stands)?;
        self.note_key(&entry, stands)?;
        self.note_addresses(&entry, stands)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Says that something is one too many, once.
    fn full(&mut self, wrong: Wrong) -> Result<(), Wrong> {
        let is_told = std::mem::replace(&mut self.limit_told, true);
        if is_told { Ok(()) } else { Err(Wrong { kind: ErrorKind::Limit, ..wrong }) }
    }

    fn note_tags(&mut self, entry: &Entry, stands: Stands) -> Result<(), Wrong> {
        let tags = entry.tags;
        if let Some(first) = self.tags.insert(tags, stands) {
            let problem = format!("{stands} has the tags {}.{} as {first} has", tags.svlan, tags.cvlan);
            return Err(duplicate("svlan", problem));
        }
        if let Some(interface) = self.taken.interfaces.get(&tags) {
            let problem = format!("{}.{} are the tags of the interface \"{interface}\"", tags.svlan, tags.cvlan);
            return Err(duplicate("svlan", problem));
        }
        self.svlans.insert((tags.port, tags.svlan));
        let most = self.settings.svlans;
        if self.svlans.len() > most as usize {
            let wrong = Wrong::field("svlan", format!("is in one more SVLAN than limits.svlans, {most}"));
            return self.full(wrong.remedy("raise that limit"));
        }
        Ok(())
    }

    /// Who has something, among those whom others than the configuration entered; nobody if a command changed what the configuration says about
    /// these very tags, as that goes on to count.
    fn of_another<'t>(&self, tags: Tags, who: Option<&'t String>) -> Option<&'t String> {
        who.filter(|_| !self.taken.tags.contains(&tags))
    }

    fn note_key(&mut self, entry: &Entry, stands: Stands) -> Result<(), Wrong> {
        let Some(key) = entry.fields.key else { return Ok(()) };
        let problem = |other: &dyn fmt::Display| format!("the key {key} is that of {other}; keys are unique");
        if let Some(first) = self.keys.insert(key, stands) {
            return Err(duplicate("key", problem(&first)));
        }
        match self.of_another(entry.tags, self.taken.keys.get(&key)) {
            Some(other) => Err(duplicate("key", problem(other))),
            None => Ok(()),
        }
    }

    fn note_addresses(&mut self, entry: &Entry, stands: Stands) -> Result<(), Wrong> {
        let Entry { tags, fields } = entry;
        let scope = if self.settings.has_keys { fields.key.unwrap_or(0) } else { 0 };
        for address in fields.addresses() {
            let problem = |other: &dyn fmt::Display| format!("the address {address} is that of {other}");
            let key = BindingKey::new(scope, address);
            if let Some(first) = self.addresses.insert(key, stands) {
                return Err(duplicate(column_of(address), problem(&first)));
            }
            if let Some(other) = self.of_another(*tags, self.taken.addresses.get(&key)) {
                return Err(duplicate(column_of(address), problem(other)));
            }
        }
        let most = self.settings.bindings;
        if self.addresses.len() > most as usize {
            let wrong = Wrong::field("ipv4", format!("has more addresses than limits.bindings, {most}, leaves"));
            return self.full(wrong.remedy("raise that limit"));
        }
        Ok(())
    }
}

/// What a subscriber has that another has too.
fn duplicate(field: &'static str, problem: String) -> Wrong {
    Wrong { kind: ErrorKind::Duplicate, ..Wrong::field(field, problem) }
}

#[cfg(test)]
mod tests {
    use weir_config::{MacAddress, OneOrMany};

    use super::*;
    use crate::registry::Timing;
    use crate::words::{Profile, Source4, Source6};

    fn settings() -> Settings {
        Settings {
            ports: vec!["east".to_owned(), "west".to_owned()],
            tpid: weir_wire::ethernet::SVLAN,
            has_keys: true,
            subscribers: 65_536,
            bindings: 131_072,
            svlans: 1024,
            addresses: 8,
            hosts6: 32,
            learn: Vec::new(),
            gateways: vec!["10.0.0.1/8".parse().unwrap()],
            timing: Timing { ageing: 1, retransmit: 1, questions: 1, failed: 1 },
            shaping: None,
            owners: weir_stage::ownership::Owners::ONE,
        }
    }

    fn load(settings: &Settings, text: &str) -> Result<Vec<Entry>, Vec<String>> {
        let mut loader = Loader::new(settings, Taken::default());
        let mut errors = Errors::new();
        SUBSCRIBERS.read_rows("s.csv", text.as_bytes(), &mut errors, |row, errors| loader.add_row(row, errors));
        loader.errors = errors;
        loader.finish().map_err(|errors| errors.iter().map(ConfigError::to_string).collect())
    }

    #[test]
    fn a_row_says_all_that_a_subscriber_has() {
        let text = "port,svlan,cvlan,key,user,ipv4,ipv6,mac,profile\n\
                    west,100,7,99,5,192.0.2.9;198.51.100.0/30,2001:db8:0:7::/64,02:00:00:00:00:09,gold\n\
                    east,1,4094,0,,,,,\n";
        let entries = load(&settings(), text).unwrap();
        let first = SubscriberConfig {
            key: Some(99),
            user: Some(5),
            ipv4: OneOrMany(["192.0.2.9/32", "198.51.100.0/30"].map(|net| Source4(net.parse().unwrap())).to_vec()),
            ipv6: OneOrMany(vec![Source6("2001:db8:0:7::/64".parse().unwrap())]),
            mac: Some(MacAddress::new([2, 0, 0, 0, 0, 9])),
            profile: Some(Profile("gold".into())),
            ..SubscriberConfig::behind(100, 7)
        };
        let second = SubscriberConfig { key: Some(0), ..SubscriberConfig::behind(1, 4094) };
        let tags = |port, svlan, cvlan| Tags { port, svlan, cvlan };
        assert_eq!(
            entries,
            [Entry { tags: tags(1, 100, 7), fields: first }, Entry { tags: tags(0, 1, 4094), fields: second }]
        );
        let one_port = Settings { ports: vec!["east".to_owned()], has_keys: false, ..settings() };
        let entries = load(&one_port, "cvlan,svlan\n7,100\n").unwrap();
        assert_eq!(entries, [Entry { tags: tags(0, 100, 7), fields: SubscriberConfig::behind(100, 7) }]);
    }

    #[test]
    fn all_errors_have_their_line_and_column() {
        let text = "port,svlan,cvlan,key,ipv4,mac,profile\n\
                    west,100,1,1,192.0.2.1,,\n\
                    south,100,4095,1x,192.0.2.300;10.0.0.256,02:00,a b\n\
                    west,100,1,3,,,\n\
                    west,100,2,1,,,\n\
                    west,100,3,,,,\n\
                    west,100,4,4,192.0.2.1,,\n\
                    west,100,5,5,192.0.2.4;192.0.2.4/31,,\n\
                    west,100,6,6,10.0.0.1,01:00:00:00:00:01,\n\
                    ,100,7\n\
                    ,100,8,8,,,\n";
        let errors = load(&settings(), text).unwrap_err();
        let expected = [
            "s.csv:3:1: port: \"south\" is no access port; name one of east, west",
            "s.csv:3:11: cvlan: \"4095\" is not an integer from 1 to 4094; expected an integer from 1 to 4094",
            "s.csv:3:16: key: \"1x\" is not an integer from 0 to 4294967295; expected an integer from 0 to 4294967295",
            "s.csv:3:19: ipv4: \"192.0.2.300\" is not an IPv4 address or prefix; expected an IPv4 address or prefix, e.g. \
             \"192.0.2.9\"",
            "s.csv:3:19: ipv4: \"10.0.0.256\" is not an IPv4 address or prefix; expected an IPv4 address or prefix, e.g. \
             \"192.0.2.9\"",
        ];
        assert_eq!(errors[..5], expected);
        let rest: Vec<&str> = errors[7..].iter().map(String::as_str).collect();
        assert_eq!(
            rest,
            [
                "s.csv:4:6: svlan: line 4 has the tags 100.1 as line 2 has",
                "s.csv:5:12: key: the key 1 is that of line 2; keys are unique",
                "s.csv:6:12: key: the key is missing; with gre+mpls each subscriber has one",
                "s.csv:8:14: ipv4: 192.0.2.4 stands here twice",
                "s.csv:9:23: mac: 01:00:00:00:00:01 is not the address of one station",
                "s.csv:10:1: has 3 columns; expected 7 as in the first line",
                "s.csv:11:1: port: is missing; name one of east, west",
            ]
        );
        assert!(
            errors[5].starts_with("s.csv:3:42: mac:") && errors[6].starts_with("s.csv:3:48: profile:"),
            "{errors:?}"
        );
    }

    #[test]
    fn equal_addresses_are_told_where_keys_do_not_part_them() {
        let plain = Settings { has_keys: false, ports: vec!["east".to_owned()], ..settings() };
        let errors = load(&plain, "svlan,cvlan,ipv4\n1,1,192.0.2.0/30\n1,2,192.0.2.3\n").unwrap_err();
        assert_eq!(errors, ["s.csv:3:5: ipv4: the address 192.0.2.3 is that of line 2"]);
    }

    #[test]
    fn limits_are_told_once() {
        let settings = Settings { subscribers: 2, ports: vec!["east".to_owned()], ..settings() };
        let errors = load(&settings, "svlan,cvlan,key\n1,1,1\n1,2,2\n1,3,3\n1,4,4\n").unwrap_err();
        assert_eq!(errors, ["s.csv:4:1: svlan: is one more than limits.subscribers, 2; raise that limit"]);
        let settings = Settings { bindings: 3, subscribers: 9, ..settings };
        let errors = load(&settings, "svlan,cvlan,key,ipv4\n1,1,1,192.0.2.0/31\n1,2,2,192.0.2.4/31\n").unwrap_err();
        assert_eq!(errors, ["s.csv:3:7: ipv4: has more addresses than limits.bindings, 3, leaves; raise that limit"]);
    }

    #[test]
    fn as_many_as_there_may_be_are_read() {
        let mut text = "svlan,cvlan,key,user,ipv4,mac,profile\n".to_owned();
        for n in 0..65_536_u32 {
            let (a, b) = (n >> 8, n & 0xff);
            text +=
                &format!("{},{},{n},{n},10.1.{a}.{b},02:00:00:00:{a:02x}:{b:02x},gold\n", 1 + n / 4000, 1 + n % 4000);
        }
        let settings = Settings { ports: vec!["east".to_owned()], ..settings() };
        assert_eq!(load(&settings, &text).map(|entries| entries.len()), Ok(65_536));
    }
}
