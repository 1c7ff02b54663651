//! From the configuration to what is wanted; everything that is wrong with it, at once.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;
use weir_config::{ConfigError, Element, ErrorKind, Errors, OneOrMany, nearest};
use weir_sched::classify::Classifier;
use weir_sched::police::{Policer, Policers};
use weir_sched::remark::Remarking;
use weir_stage::{Entry as _, Env, Given, Layout, Placement, Site, Stands, Wrong};

use crate::config::{QosConfig, UserBy, UserConfig, UserEntry};
use crate::key::{AnyPrefix, Tags, UserKey};
use crate::request::USERS;
use crate::subports::Subports;
use crate::users::{Overrides, WantedUser};

/// What a checked configuration wants.
pub(crate) struct Wanted {
    /// Users but everybody else.
    pub(crate) users: Vec<WantedUser>,
    /// Everybody else: profile and subport.
    pub(crate) others: Option<(u16, u16)>,
    pub(crate) names: Names,
    pub(crate) subports: Subports,
    pub(crate) classifier: Classifier,
    pub(crate) policers: Policers,
    pub(crate) remarking: Remarking,
}

/// Names of profiles and subports, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) profiles: Vec<String>,
    pub(crate) subports: Vec<String>,
}

impl Names {
    pub(crate) fn profile(&self, name: &str) -> Option<u16> {
        number(&self.profiles, name)
    }

    pub(crate) fn subport(&self, name: &str) -> Option<u16> {
        number(&self.subports, name)
    }

    /// What a user was given, by numbers of `old`, as numbers of these; nothing of what is no longer there.
    pub(crate) fn translate(&self, given: Overrides, old: &Names) -> Overrides {
        let name = |names: &[String], number: Option<u16>| names.get(usize::from(number?)).cloned();
        Overrides {
            profile: name(&old.profiles, given.profile).and_then(|name| self.profile(&name)),
            subport: name(&old.subports, given.subport).and_then(|name| self.subport(&name)),
        }
    }
}

/// The number of a name.
pub(crate) fn number(names: &[String], name: &str) -> Option<u16> {
    names.iter().position(|one| one == name && !name.is_empty()).and_then(|position| u16::try_from(position).ok())
}

/// What a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with it beyond its schema.
pub(crate) fn load(given: &Given<'_, QosConfig>, env: &Env<'_>) -> Result<Wanted, Vec<ConfigError>> {
    let Given { element, config, placement } = given;
    let names = Names {
        profiles: config.scheduler.profiles.keys().cloned().collect(),
        subports: config.scheduler.subports.keys().cloned().collect(),
    };
    let mut loader = Loader { element, env, config, names, errors: Errors::new(), seen: HashMap::new() };
    loader.placement(placement);
    loader.classes();
    loader.remarks();
    let policers = loader.policers();
    let others = loader.others();
    let mut users = loader.listed();
    loader.filed(&mut users);
    loader.check_users(&users);
    loader.check_limits(&users);
    let Loader { errors, names, .. } = loader;
    let classifier = Classifier::new(&config.classify, config.scheduler.classes);
    let subports = Subports::new(config.scheduler.subports.iter(), config.scheduler.subports_at_most());
    let remarking = Remarking::new(&config.remark);
    errors.into_result(Wanted { users, others, names, subports, classifier, policers, remarking })
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a QosConfig,
    names: Names,
    errors: Errors,
    /// Keys of users.
    seen: HashMap<UserKey, Seen>,
}

/// Where a user is from.
#[derive(Clone, Copy)]
struct Seen {
    /// Its position among the users.
    user: usize,
    stands: Stands,
    /// Whether the entry stands for several users.
    several: bool,
}

impl<'a> Loader<'a> {
    fn error(&mut self, kind: ErrorKind, key: &str, problem: impl Into<String>, remedy: &str) {
        let root = self.element.path();
        self.errors.push(self.element.error(kind, &root.field(key), problem).remedy(remedy));
    }

    fn placement(&mut self, placement: &Placement) {
        if self.config.from == self.config.to {
            let problem = format!("\"{}\" is where packets come from, too", self.config.to);
            self.error(ErrorKind::Conflict, "to", problem, "name another port");
        }
        let workers = placement.workers.len();
        if placement.layout == Layout::RunToCompletion && workers > 1 {
            let problem = format!(
                "{workers} workers that each take what their queues give them: packets of one user would come to several, and a \
                 scheduler has one owner"
            );
            let remedy = "choose layout = \"distributor\" (the others share the users), layout = \"pipeline\" (one schedules for all), \
                          or one worker";
            self.error(ErrorKind::Conflict, "workers", problem, remedy);
        }
    }

    fn classes(&mut self) {
        let scheduler = &self.config.scheduler;
        let wrong = self.config.classify.faults(scheduler.classes, |class| scheduler.queues(class));
        for (key, problem) in wrong {
            self.error(ErrorKind::Conflict, "classify", format!("{key}: {problem}"), "");
        }
        for (key, problem) in self.config.scheduler.faults() {
            self.error(ErrorKind::Conflict, "scheduler", format!("{key}: {problem}"), "");
        }
    }

    fn remarks(&mut self) {
        let (config, classes) = (self.config, self.config.scheduler.classes);
        for (rule, n) in config.remark.iter().zip(1..) {
            if let Some(problem) = rule.fault(classes) {
                self.error(ErrorKind::Conflict, "remark", format!("[{n}] {problem}"), "");
            }
        }
    }

    fn check_users(&mut self, users: &[WantedUser]) {
        let most = self.config.scheduler.users;
        if users.len() >= most as usize {
            let problem = format!("users is {most}, which is too few: there are {}, and `others`", users.len());
            self.error(ErrorKind::Limit, "scheduler", problem, "raise it");
        }
        if !self.config.scheduler.assign.is_empty() {
            let problem = "assign: users have no numbers here";
            self.error(ErrorKind::Conflict, "scheduler", problem, "say whose profile it is in `users`");
        }
    }

    fn policers(&mut self) -> Policers {
        let mut policers = Policers(self.names.profiles.iter().map(|_| None).collect());
        for (name, config) in &self.config.police {
            let Some(number) = self.profile_number("police", name) else { continue };
            match (Policer::new(config), policers.0.get_mut(usize::from(number))) {
                (Ok(policer), place) => place.into_iter().for_each(|place| *place = Some(policer)),
                (Err(problem), _) => self.error(ErrorKind::Conflict, "police", format!("{name}: {problem}"), ""),
            }
        }
        policers
    }

    fn others(&mut self) -> Option<(u16, u16)> {
        match &self.config.others {
            Some(name) => self.profile_number("others", name).map(|profile| (profile, 0)),
            None if self.config.user_by == UserBy::Nothing => {
                let problem = "with user_by = \"nothing\" all packets are of one user, who has no profile";
                self.error(ErrorKind::Missing, "others", problem, "name a profile");
                None
            }
            None => None,
        }
    }

    fn profile_number(&mut self, key: &str, name: &str) -> Option<u16> {
        let number = self.names.profile(name);
        if number.is_none() {
            let (problem, remedy) = unknown("profile", name, &self.names.profiles);
            self.error(ErrorKind::Dangling, key, problem, &remedy);
        }
        number
    }

    fn site(&self) -> Site<'a> {
        Site { element: self.element, path: self.element.path(), folder: self.env.folder }
    }

    /// The users of the script.
    fn listed(&mut self) -> Vec<WantedUser> {
        let (site, config, mut users) = (self.site(), self.config, Vec::new());
        for (one, n) in config.users.iter().zip(1..) {
            let wrong = self.add_listed(&mut users, one, Stands::Number(n)).err().unwrap_or_default();
            self.errors.extend(wrong.into_iter().map(|wrong| USERS.at_number(site, n, wrong)));
        }
        users
    }

    /// Adds the users that an entry of the script stands for.
    fn add_listed(
        &mut self,
        users: &mut Vec<WantedUser>,
        config: &UserConfig,
        stands: Stands,
    ) -> Result<(), Vec<Wrong>> {
        let (profile, subport) = self.assigned(&config.profile, config.subport.as_deref())?;
        let all = self.keys(config).map_err(|problem| vec![Wrong::field("", problem)])?;
        let several = all.len() > 1;
        let user = |keys| WantedUser { keys, profile, subport };
        let added = all.into_iter().map(|keys| self.add(users, user(keys), stands, several));
        let wrong: Vec<Wrong> = added.filter_map(Result::err).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// The numbers of a profile and a subport, which is the first one if none is named.
    fn assigned(&self, profile: &str, subport: Option<&str>) -> Result<(u16, u16), Vec<Wrong>> {
        let find = |what, name: &str, names: &[String]| {
            number(names, name).ok_or_else(|| {
                let (problem, remedy) = unknown(what, name, names);
                Wrong { kind: ErrorKind::Dangling, ..Wrong::field(what, problem).remedy(remedy) }
            })
        };
        let profile = find("profile", profile, &self.names.profiles);
        match (profile, subport.map_or(Ok(0), |name| find("subport", name, &self.names.subports))) {
            (Ok(profile), Ok(subport)) => Ok((profile, subport)),
            (profile, subport) => Err(profile.err().into_iter().chain(subport.err()).collect()),
        }
    }

    /// The keys of each user that an entry stands for.
    fn keys(&self, config: &UserConfig) -> Result<Vec<Vec<UserKey>>, String> {
        let prefixes = config.prefix.0.as_slice();
        match (self.config.user_by, config.tags, prefixes) {
            (UserBy::Nothing, ..) => Err("there are no users with user_by = \"nothing\"; leave it out".to_owned()),
            (UserBy::Tags, Some(tags), []) => tagged(tags, self.config.scheduler.users),
            (UserBy::Tags, ..) => Err("users are known by tags here; it needs `tags`, and no `prefix`".to_owned()),
            (_, None, [_, ..]) => match config.each {
                None => Ok(vec![prefixes.iter().map(|prefix| UserKey::Prefix(prefix.0.trunc())).collect()]),
                Some(each) => each_of(prefixes, each, self.config.scheduler.users),
            },
            _ => Err("users are known by addresses here; it needs `prefix`, and no `tags`".to_owned()),
        }
    }

    /// Adds a user, unless somebody has one of its keys already. An entry of its own goes before one for several users.
    fn add(
        &mut self,
        users: &mut Vec<WantedUser>,
        user: WantedUser,
        stands: Stands,
        several: bool,
    ) -> Result<(), Wrong> {
        let known = user.keys.iter().find_map(|key| self.seen.get(key).map(|seen| (*key, *seen)));
        match known {
            None => {
                let seen = Seen { user: users.len(), stands, several };
                self.seen.extend(user.keys.iter().map(|key| (*key, seen)));
                users.push(user);
            }
            Some((key, seen)) if seen.several && !several && user.keys == [key] => {
                self.seen.insert(key, Seen { stands, several, ..seen });
                if let Some(entry) = users.get_mut(seen.user) {
                    *entry = user;
                }
            }
            Some((key, seen)) => {
                let problem = format!("user {key} is there twice; the other is {}", seen.stands);
                let wrong = Wrong { kind: ErrorKind::Duplicate, ..Wrong::field("", problem) };
                return Err(wrong.remedy("leave one out"));
            }
        }
        Ok(())
    }

    /// The users of the file.
    fn filed(&mut self, users: &mut Vec<WantedUser>) {
        let Some(file) = self.config.users_csv.as_ref() else { return };
        let mut errors = std::mem::take(&mut self.errors);
        USERS.read_file(file, self.site(), &mut errors, |row, errors| {
            let Some(entry) = UserEntry::read_from(&mut USERS.row(row, errors), None) else { return };
            let wrong = self.add_filed(users, entry, Stands::of_row(row)).err().unwrap_or_default();
            errors.extend(wrong.into_iter().map(|wrong| USERS.at_row(row, wrong)));
        });
        self.errors = errors;
    }

    /// Adds the user of a row.
    fn add_filed(&mut self, users: &mut Vec<WantedUser>, entry: UserEntry, stands: Stands) -> Result<(), Vec<Wrong>> {
        let UserEntry { user: OneOrMany(keys), profile, subport } = entry;
        let (profile, subport) = self.assigned(&profile, subport.as_deref())?;
        if let Some(problem) = self.unfit(&keys) {
            return Err(vec![Wrong::field("user", problem)]);
        }
        let keys = keys.into_iter().map(trunc).collect();
        self.add(users, WantedUser { keys, profile, subport }, stands, false).map_err(|wrong| vec![wrong])
    }

    /// Why keys do not fit what users are known by.
    fn unfit(&self, keys: &[UserKey]) -> Option<&'static str> {
        let tags = |key: &UserKey| matches!(key, UserKey::Tags(..));
        match self.config.user_by {
            UserBy::Nothing => Some("there are no users with user_by = \"nothing\""),
            UserBy::Tags if keys.len() == 1 && keys.iter().all(tags) => None,
            UserBy::Tags => Some("is no pair of VLANs, which users are known by here"),
            _ if !keys.is_empty() && !keys.iter().any(tags) => None,
            _ => Some("is no address or prefix, which users are known by here"),
        }
    }

    fn check_limits(&mut self, users: &[WantedUser]) {
        let limits = &self.config.limits;
        let prefixes = || {
            users.iter().flat_map(|user| &user.keys).filter_map(|key| match key {
                UserKey::Prefix(prefix) => Some(*prefix),
                UserKey::Tags(..) => None,
            })
        };
        let networks: BTreeSet<u32> = prefixes()
            .filter_map(|prefix| match prefix {
                IpNet::V4(prefix) if prefix.prefix_len() > 24 => Some(prefix.addr().to_bits() >> 8),
                _ => None,
            })
            .collect();
        let v4 = prefixes().filter(|prefix| prefix.addr().is_ipv4()).count();
        let bounds = [
            ("prefixes", v4.max(prefixes().count() - v4), limits.prefixes),
            ("networks", networks.len(), limits.networks),
        ];
        for (name, needed, most) in bounds {
            if needed > most as usize {
                let root = self.element.path();
                let path = root.field("limits");
                let problem = format!("{most} is too few: this configuration takes {needed}");
                self.errors.push(self.element.error(ErrorKind::Limit, &path.field(name), problem));
            }
        }
    }
}

fn trunc(key: UserKey) -> UserKey {
    match key {
        UserKey::Prefix(prefix) => UserKey::Prefix(prefix.trunc()),
        tags => tags,
    }
}

fn tagged(tags: Tags, most: u32) -> Result<Vec<Vec<UserKey>>, String> {
    if tags.count() > most {
        return Err(format!("\"{tags}\" is {} users; `scheduler.users` allows {most}", tags.count()));
    }
    Ok(tags.keys().map(|key| vec![key]).collect())
}

/// A user for each prefix of a length in some prefixes.
fn each_of(prefixes: &[AnyPrefix], each: u8, most: u32) -> Result<Vec<Vec<UserKey>>, String> {
    let mut all = Vec::new();
    for prefix in prefixes {
        let length = prefix.0.prefix_len();
        if each < length || each > prefix.0.max_prefix_len() {
            return Err(format!("each is {each}, and {prefix} has no prefixes of that length in it"));
        }
        if u32::from(each - length) >= u32::BITS || 1u32 << (each - length) > most {
            return Err(format!(
                "{prefix} has more prefixes of length {each} in it than `scheduler.users` allows: {most}"
            ));
        }
        let subnets = prefix.0.trunc().subnets(each).map_err(|error| error.to_string())?;
        all.extend(subnets.map(|subnet| vec![UserKey::Prefix(subnet)]));
    }
    Ok(all)
}

/// What is said of a name that there is not, and what to do.
pub(crate) fn unknown(what: &str, name: &str, names: &[String]) -> (String, String) {
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let remedy = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if names.is_empty() => format!("there are no {what}s: declare them under scheduler.{what}s"),
        None => format!("the {what}s are {}", names.join(", ")),
    };
    (format!("there is no {what} \"{name}\""), remedy)
}
