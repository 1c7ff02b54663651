//! Access lists as a configuration has them; everything that is wrong with them, at once.

use std::collections::BTreeMap;

use weir_acl::request::RULES;
use weir_config::{Element, ErrorKind, Errors, NAME, Path};
use weir_stage::{Env, Site};

use super::rule::{Action, Rule};
use super::sets::{MAX_PREFIXES, Sets};
use super::{AclSettings, MAX_LISTS, MAX_RULES};

/// What a checked configuration wants of access lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedAcls {
    /// Rules and default of each list.
    pub(super) lists: BTreeMap<String, (Vec<Rule>, Action)>,
    pub(super) sets: Sets,
    pub(super) inward: BTreeMap<String, String>,
    pub(super) outward: BTreeMap<String, String>,
    pub(super) of_vrfs: BTreeMap<String, String>,
    /// By VRF, for what is for the router itself.
    pub(super) own: BTreeMap<String, String>,
}

impl WantedAcls {
    /// Whether something is judged that comes in, that is for the router itself, and that leaves.
    pub(crate) fn sides(&self) -> [bool; 3] {
        [!self.inward.is_empty() || !self.of_vrfs.is_empty(), !self.own.is_empty(), !self.outward.is_empty()]
    }

    /// Whether a list judges what is not looked up any more: what leaves, or is for the router itself.
    pub(super) fn judges_the_end(&self, list: &str) -> bool {
        self.outward.values().chain(self.own.values()).any(|attached| attached == list)
    }
}

/// What is wrong with where a rule redirects packets.
pub(super) struct Misled {
    kind: ErrorKind,
    pub(super) problem: String,
    allowed: String,
    pub(super) remedy: String,
}

impl Misled {
    /// What is wrong with a rule in a router with these VRFs, in a list that `judges_the_end` of packets' way: what leaves, or is for the
    /// router itself.
    pub(super) fn of(rule: &Rule, vrfs: &[String], judges_the_end: bool) -> Option<Misled> {
        let vrf = rule.redirect.as_ref()?;
        if !vrfs.contains(vrf) {
            let problem = format!("redirects to \"{vrf}\", and there is no such VRF");
            let allowed = format!("one of {}", vrfs.iter().take(16).map(String::as_str).collect::<Vec<_>>().join(", "));
            let remedy = format!("write {allowed}, or declare it in vrfs");
            return Some(Misled { kind: ErrorKind::Dangling, problem, allowed, remedy });
        }
        judges_the_end.then(|| Misled {
            kind: ErrorKind::Conflict,
            problem: "redirects, and its list judges what leaves or is for the router itself".to_owned(),
            allowed: "redirect in lists of acl_in and acl_vrf".to_owned(),
            remedy: "give acl_out and acl_own a list without redirect".to_owned(),
        })
    }
}

/// What a configuration wants, where there are these interfaces and VRFs. What is wrong goes to `errors`.
pub(crate) fn load(
    (element, env): (&Element, &Env<'_>),
    settings: AclSettings<'_>,
    (interfaces, all_vrfs): (&[&str], &[String]),
    errors: &mut Errors,
) -> WantedAcls {
    let root = element.path();
    let sets = load_sets(element, settings, errors);
    let mut lists = BTreeMap::new();
    for (name, config) in settings.acls {
        let path = root.field("acls");
        let path = path.entry(name);
        if !(NAME.matches)(name) {
            let error = element.error(ErrorKind::Malformed, &path, format!("\"{name}\" is not {}", NAME.what));
            errors.push(error.remedy(format!("write one such as {}", NAME.example)));
        }
        let mut rules = config.rules.clone();
        if let Some(file) = &config.rules_csv {
            let site = Site { element, path, folder: env.folder };
            RULES.read_file(file, site, errors, |row, errors| rules.extend(row.read::<Rule>(0, errors)));
        }
        check_sets(element, name, (&rules, &sets), errors);
        lists.insert(name.clone(), (rules, config.default));
    }
    let count: usize = lists.values().map(|(rules, _)| rules.len()).sum();
    for (what, count, most) in [("rules", count, MAX_RULES), ("access lists", lists.len(), MAX_LISTS)] {
        if count > most {
            let problem = format!("there are {count} {what}, and there is room for {most}");
            errors.push(element.error(ErrorKind::Limit, &root.field("acls"), problem));
        }
    }
    let vrfs: Vec<&str> = all_vrfs.iter().map(String::as_str).collect();
    for (key, attached, known, what) in [
        ("acl_in", settings.acl_in, interfaces, "interface"),
        ("acl_out", settings.acl_out, interfaces, "interface"),
        ("acl_vrf", settings.acl_vrf, vrfs.as_slice(), "VRF"),
        ("acl_own", settings.acl_own, vrfs.as_slice(), "VRF"),
    ] {
        let path = root.field(key);
        for (of, list) in attached {
            let mut dangling = |path: &Path<'_>, problem: String, all: &[&str]| {
                let error = element.error(ErrorKind::Dangling, path, problem);
                errors.push(
                    error.allowed(format!("one of {}", all.iter().take(16).copied().collect::<Vec<_>>().join(", "))),
                );
            };
            if !known.contains(&of.as_str()) {
                dangling(&path.entry(of), format!("there is no {what} \"{of}\""), known);
            }
            if !lists.contains_key(list) {
                let all: Vec<&str> = lists.keys().map(String::as_str).collect();
                dangling(&path.entry(of), format!("there is no access list \"{list}\""), &all);
            }
        }
    }
    let wanted = WantedAcls {
        lists,
        sets,
        inward: settings.acl_in.clone(),
        outward: settings.acl_out.clone(),
        of_vrfs: settings.acl_vrf.clone(),
        own: settings.acl_own.clone(),
    };
    check_redirects(element, &wanted, all_vrfs, errors);
    wanted
}

/// Whether rules redirect packets to VRFs that there are, before these are looked up.
fn check_redirects(element: &Element, wanted: &WantedAcls, vrfs: &[String], errors: &mut Errors) {
    let root = element.path();
    let path = root.field("acls");
    for (name, (rules, _)) in &wanted.lists {
        for rule in rules {
            if let Some(wrong) = Misled::of(rule, vrfs, wanted.judges_the_end(name)) {
                let problem = format!("the rule \"{rule}\" {}", wrong.problem);
                let error = element.error(wrong.kind, &path.entry(name), problem);
                errors.push(error.allowed(wrong.allowed).remedy(wrong.remedy));
            }
        }
    }
}

/// The sets that a configuration has.
fn load_sets(element: &Element, settings: AclSettings<'_>, errors: &mut Errors) -> Sets {
    let root = element.path();
    let path = root.field("prefix_sets");
    for (name, nets) in settings.prefix_sets {
        let mut wrong = |kind, problem: String, remedy: String| {
            errors.push(element.error(kind, &path.entry(name), problem).remedy(remedy));
        };
        if !(NAME.matches)(name) {
            let remedy = format!("write one such as {}", NAME.example);
            wrong(ErrorKind::Malformed, format!("\"{name}\" is not {}", NAME.what), remedy);
        }
        if nets.len() > MAX_PREFIXES {
            let problem = format!("there are {} prefixes, and a set has room for {MAX_PREFIXES}", nets.len());
            wrong(ErrorKind::Limit, problem, "make several sets of it".to_owned());
        }
    }
    Sets::of(settings.prefix_sets.iter().map(|(name, nets)| (name, &**nets)))
}

/// Whether there are the sets that rules of a list name, and rules come to no more matches with them than there may be.
fn check_sets(element: &Element, list: &str, (rules, sets): (&[Rule], &Sets), errors: &mut Errors) {
    let root = element.path();
    let path = root.field("acls");
    let path = path.entry(list);
    for rule in rules {
        for name in rule.sets().filter(|name| !sets.has(name)) {
            let problem = format!("the rule \"{rule}\" names the set \"{name}\", which prefix_sets does not have");
            let known = sets.names().take(16).collect::<Vec<_>>().join(", ");
            errors.push(element.error(ErrorKind::Dangling, &path, problem).allowed(format!("one of {known}")));
        }
        if let Err(wrong) = rule.check_with(sets) {
            let problem = format!("the rule \"{rule}\" {}", wrong.problem);
            errors.push(element.error(ErrorKind::Limit, &path, problem).remedy(wrong.remedy));
        }
    }
}
