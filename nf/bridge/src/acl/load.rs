//! Access lists as a configuration has them; everything that is wrong with them, at once.

use weir_acl::request::RULES;
use weir_config::{Element, ErrorKind, Errors, NAME};
use weir_stage::{Env, Site};

use super::book::WantedAcls;
use super::rule::Rule;
use super::{MAX_LISTS, MAX_MATCHES, MAX_RULES};
use crate::config::BridgeConfig;

/// What a configuration wants: lists within bounds, of which ports have such as there are. What is wrong goes to `errors`.
pub(crate) fn load((element, env): (&Element, &Env<'_>), config: &BridgeConfig, errors: &mut Errors) -> WantedAcls {
    let (root, mut wanted) = (element.path(), WantedAcls::new());
    let path = root.field("acls");
    for (name, list) in &config.acls {
        let path = path.entry(name);
        if !(NAME.matches)(name) {
            let error = element.error(ErrorKind::Malformed, &path, format!("\"{name}\" is not {}", NAME.what));
            errors.push(error.remedy(format!("write one such as {}", NAME.example)));
        }
        let mut rules = list.rules.clone();
        if let Some(file) = &list.rules_csv {
            let site = Site { element, path, folder: env.folder };
            RULES.read_file(file, site, errors, |row, errors| rules.extend(row.read::<Rule>(0, errors)));
        }
        let matches: usize = rules.iter().map(Rule::count).sum();
        if matches > MAX_MATCHES {
            let problem =
                format!("comes to {matches} combinations of what its rules list, and there is room for {MAX_MATCHES}");
            errors.push(element.error(ErrorKind::Limit, &path, problem).remedy("let its rules list less"));
        }
        wanted.insert(name.clone(), (rules, list.default));
    }
    let rules = wanted.values().map(|(rules, _)| rules.len()).sum();
    for (what, count, most) in [("rules", rules, MAX_RULES), ("access lists", wanted.len(), MAX_LISTS)] {
        if count > most {
            let problem = format!("there are {count} {what}, and there is room for {most}");
            errors.push(element.error(ErrorKind::Limit, &path, problem).remedy("write fewer"));
        }
    }
    check_ports(element, config, errors);
    wanted
}

/// Whether there are the lists that ports have.
fn check_ports(element: &Element, config: &BridgeConfig, errors: &mut Errors) {
    let root = element.path();
    let path = root.field("ports");
    for (name, port) in &config.ports {
        let path = path.field(name.as_str());
        for (key, list) in [("acl_in", &port.acl_in), ("acl_out", &port.acl_out)] {
            if let Some(list) = list.as_ref().filter(|list| !config.acls.contains_key(*list)) {
                let all = config.acls.keys().take(16).cloned().collect::<Vec<_>>().join(", ");
                let allowed =
                    if all.is_empty() { "one of acls, which has none".to_owned() } else { format!("one of {all}") };
                let problem = format!("there is no access list \"{list}\"");
                errors.push(element.error(ErrorKind::Dangling, &path.field(key), problem).allowed(allowed));
            }
        }
    }
}
