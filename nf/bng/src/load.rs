//! Subscribers from the configuration: a list of tables, or a CSV file, which is read row by row. All that is wrong is told at
//! once, each with its place.

use std::collections::{HashMap, HashSet};

use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Row};
use weir_stage::Site;

use crate::registry::{Column, Entry, Fields, Registry, Settings, check_alone};
use crate::request::{SUBSCRIBERS, described};
use crate::table::{Address, BindingKey, Tags};
use crate::words::Vlan;

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Column::Svlan => "svlan",
            Column::Cvlan => "cvlan",
            Column::Port => "port",
            Column::Key => "key",
            Column::User => "user",
            Column::Ipv4 => "ipv4",
            Column::Ipv6 => "ipv6",
            Column::Mac => "mac",
            Column::Profile => "profile",
        }
    }

    fn at(self) -> usize {
        SUBSCRIBERS.column(self.name())
    }
}

/// Where a subscriber is described.
enum Place<'a> {
    Row(&'a Row<'a>),
    /// The n-th of a list, counted from 1.
    Item(&'a Element, usize),
}

impl Place<'_> {
    fn error(&self, column: Column, kind: ErrorKind, problem: impl Into<String>) -> ConfigError {
        match self {
            Place::Row(row) => row.error(column.at(), kind, problem),
            Place::Item(element, n) => {
                let root = element.path();
                let list = root.field("subscribers");
                let item = list.index(*n as i64);
                element.error(kind, &item.field(column.name()), problem)
            }
        }
    }

    /// As others refer to it.
    fn name(&self) -> String {
        match self {
            Place::Row(row) => format!("line {}", row.line()),
            Place::Item(_, n) => format!("number {n}"),
        }
    }

    /// What tells it from others.
    fn ordinal(&self) -> u32 {
        match self {
            Place::Row(row) => u32::try_from(row.line()).unwrap_or(u32::MAX),
            Place::Item(_, n) => u32::try_from(*n).unwrap_or(u32::MAX),
        }
    }
}

/// Collects the subscribers that a configuration wants.
pub(crate) struct Loader<'a> {
    settings: &'a Settings,
    /// Others than the configuration have subscribers, too.
    taken: Taken,
    entries: Vec<Entry>,
    errors: Errors,
    tags: HashMap<Tags, u32>,
    keys: HashMap<u32, u32>,
    addresses: HashMap<BindingKey, u32>,
    svlans: HashSet<(u8, u16)>,
    limit_told: bool,
}

/// What subscribers have that others than the configuration entered.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    tags: HashMap<Tags, ()>,
    keys: HashMap<u32, String>,
    addresses: HashMap<BindingKey, String>,
}

impl Taken {
    /// What a running gateway's subscribers have.
    pub(crate) fn of(registry: &Registry) -> Taken {
        let mut taken = Taken::default();
        for subscriber in registry.subscribers_from(0).filter(|one| one.source() != weir_net::RouteSource::Config) {
            let name = format!("{} ({})", registry.named(subscriber.tags), subscriber.source());
            taken.tags.insert(subscriber.tags, ());
            for key in subscriber.fixed_keys(registry.settings()) {
                taken.addresses.insert(key, name.clone());
            }
            if let Some(key) = subscriber.fields().key {
                taken.keys.insert(key, name);
            }
        }
        taken
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
        let Some(entry) = self.read_row(row, errors) else { return };
        std::mem::swap(&mut self.errors, errors);
        self.add(&Place::Row(row), entry);
        std::mem::swap(&mut self.errors, errors);
    }

    fn read_row(&self, row: &Row<'_>, errors: &mut Errors) -> Option<Entry> {
        let port = self.port(&row.text(Column::Port.at()), &Place::Row(row), errors);
        let svlan = row.read::<Vlan>(Column::Svlan.at(), errors);
        let cvlan = row.read::<Vlan>(Column::Cvlan.at(), errors);
        let fields = described(&mut SUBSCRIBERS.row(row, errors), Fields::default());
        Some(Entry { tags: Tags { port: port?, svlan: svlan?.0, cvlan: cvlan?.0 }, fields: fields? })
    }

    /// The position of a port, which need not be named if there is one only.
    fn port(&self, name: &str, place: &Place<'_>, errors: &mut Errors) -> Option<u8> {
        let ports = &self.settings.ports;
        let found = match (name, ports.len()) {
            ("", 1) => Some(0),
            _ => ports.iter().position(|port| port == name),
        };
        if found.is_none() {
            let problem =
                if name.is_empty() { "is missing".to_owned() } else { format!("\"{name}\" is no access port") };
            let error = place.error(Column::Port, ErrorKind::Dangling, problem);
            errors.push(error.allowed(format!("one of {}", ports.join(", "))));
        }
        found.and_then(|position| u8::try_from(position).ok())
    }

    /// Adds the n-th subscriber of a list, counted from 1.
    pub(crate) fn add_item(
        &mut self,
        element: &Element,
        n: usize,
        port: Option<&str>,
        tags: (u16, u16),
        fields: Fields,
    ) {
        let place = Place::Item(element, n);
        let mut errors = std::mem::take(&mut self.errors);
        let port = self.port(port.unwrap_or_default(), &place, &mut errors);
        self.errors = errors;
        if let Some(port) = port {
            self.add(&place, Entry { tags: Tags { port, svlan: tags.0, cvlan: tags.1 }, fields });
        }
    }

    /// Adds a subscriber if it may be, beside those before and those of others.
    fn add(&mut self, place: &Place<'_>, entry: Entry) {
        if self.entries.len() >= self.settings.subscribers as usize {
            if !self.limit_told {
                self.limit_told = true;
                let problem = format!("is one more than limits.subscribers, {}", self.settings.subscribers);
                let error = place.error(Column::Svlan, ErrorKind::Limit, problem);
                self.errors.push(error.remedy("raise that limit"));
            }
            return;
        }
        let wrong = match check_alone(self.settings, entry.tags, &entry.fields) {
            Err((column, problem)) => Some((column, ErrorKind::Conflict, problem)),
            Ok(()) => self.duplicate(place, &entry),
        };
        match wrong {
            Some((column, kind, problem)) => self.errors.push(place.error(column, kind, problem)),
            None => self.entries.push(entry),
        }
    }

    /// What a subscriber has that another has too; notes what it has.
    fn duplicate(&mut self, place: &Place<'_>, entry: &Entry) -> Option<(Column, ErrorKind, String)> {
        let Entry { tags, fields } = entry;
        let (n, other) = (place.ordinal(), |n: u32| match place {
            Place::Row(_) => format!("line {n}"),
            Place::Item(..) => format!("number {n}"),
        });
        let duplicate = |column, problem: String| Some((column, ErrorKind::Duplicate, problem));
        if let Some(first) = self.tags.insert(*tags, n) {
            let problem =
                format!("{} has the tags {}.{} as {} has", place.name(), tags.svlan, tags.cvlan, other(first));
            return duplicate(Column::Svlan, problem);
        }
        self.svlans.insert((tags.port, tags.svlan));
        if self.svlans.len() > self.settings.svlans as usize && !self.limit_told {
            self.limit_told = true;
            let problem =
                format!("is in one more SVLAN than limits.svlans, {}; raise that limit", self.settings.svlans);
            return Some((Column::Svlan, ErrorKind::Limit, problem));
        }
        // A command may have changed what the configuration says about these very tags: that goes on to count.
        let is_covered = self.taken.tags.contains_key(tags);
        if let Some(key) = fields.key {
            if let Some(first) = self.keys.insert(key, n) {
                return duplicate(Column::Key, format!("the key {key} is that of {}; keys are unique", other(first)));
            }
            if let Some(name) = self.taken.keys.get(&key).filter(|_| !is_covered) {
                return duplicate(Column::Key, format!("the key {key} is that of {name}; keys are unique"));
            }
        }
        let scope = if self.settings.has_keys { fields.key.unwrap_or(0) } else { 0 };
        for address in fields.addresses() {
            let column = if matches!(address, Address::V4(_)) { Column::Ipv4 } else { Column::Ipv6 };
            let key = BindingKey::new(scope, address);
            if let Some(first) = self.addresses.insert(key, n) {
                return duplicate(column, format!("the address {address} is that of {}", other(first)));
            }
            if let Some(name) = self.taken.addresses.get(&key).filter(|_| !is_covered) {
                return duplicate(column, format!("the address {address} is that of {name}"));
            }
        }
        if self.addresses.len() > self.settings.bindings as usize && !self.limit_told {
            self.limit_told = true;
            let problem = format!(
                "has more addresses than limits.bindings, {}, leaves; raise that limit",
                self.settings.bindings
            );
            return Some((Column::Ipv4, ErrorKind::Limit, problem));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::MacAddr;

    use crate::registry::Timing;

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
        let first = Fields {
            key: Some(99),
            user: Some(5),
            ipv4: vec!["192.0.2.9/32".parse().unwrap(), "198.51.100.0/30".parse().unwrap()],
            ipv6: vec!["2001:db8:0:7::/64".parse().unwrap()],
            mac: Some(MacAddr([2, 0, 0, 0, 0, 9])),
            profile: Some("gold".into()),
        };
        let second = Fields { key: Some(0), ..Fields::default() };
        let tags = |port, svlan, cvlan| Tags { port, svlan, cvlan };
        assert_eq!(
            entries,
            [Entry { tags: tags(1, 100, 7), fields: first }, Entry { tags: tags(0, 1, 4094), fields: second }]
        );
        let one_port = Settings { ports: vec!["east".to_owned()], has_keys: false, ..settings() };
        let entries = load(&one_port, "cvlan,svlan\n7,100\n").unwrap();
        assert_eq!(entries, [Entry { tags: tags(0, 100, 7), fields: Fields::default() }]);
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
            "s.csv:3:1: port: \"south\" is no access port; expected one of east, west",
            "s.csv:3:11: cvlan: \"4095\" is not a VLAN identifier from 1 to 4094; expected a VLAN identifier from 1 to 4094, \
             e.g. \"100\"",
            "s.csv:3:16: key: \"1x\" is not a number from 0 to 4294967295; expected a number from 0 to 4294967295, e.g. \"7\"",
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
                "s.csv:11:1: port: is missing; expected one of east, west",
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
