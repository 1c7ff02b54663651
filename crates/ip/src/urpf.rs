//! Whether packets come from where routes lead to: unicast reverse path forwarding (RFC 3704), by interface.
//!
//! - [`ReversePath`]: what an interface asks for, as people write it.
//! - `stage`: the stage `NAME.urpf`, in front of those that forward. It is in a graph only where an interface asks for it.

mod stage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::{Element, ErrorKind, Errors, Malformed, NAME, Scalar, scalar};
use weir_mem::{Domain, Published};

use crate::Interfaces;

pub(crate) use stage::declaration;

/// How a packet's source is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A route to it leads out by the interface that the packet came in by (RFC 3704 section 2.2), or one of several that share the traffic.
    Strict,
    /// A route to it leads anywhere (RFC 3704 section 2.4).
    Loose,
}

/// What an interface asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReversePath {
    mode: Mode,
    /// The VRF whose routes are asked; that of the interface if none is named.
    vrf: Option<String>,
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode {
            Mode::Strict => "strict",
            Mode::Loose => "loose",
        })?;
        self.vrf.as_ref().map_or(Ok(()), |vrf| write!(f, " vrf {vrf}"))
    }
}

impl Scalar for ReversePath {
    const WHAT: &'static str = "a check of sources";
    const EXAMPLE: &'static str = "strict";

    fn parse(text: &str) -> Result<ReversePath, Malformed> {
        let remedy = "write strict or loose, and behind it, if other routes than those of its VRF are to be asked, vrf and a name";
        let wrong = || Err(Malformed::because("is no check of sources").remedy(remedy));
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (mode, vrf) = match words.as_slice() {
            [mode] => (*mode, None),
            [mode, "vrf", vrf] if (NAME.matches)(vrf) => (*mode, Some((*vrf).to_owned())),
            _ => return wrong(),
        };
        let mode = match mode {
            "strict" => Mode::Strict,
            "loose" => Mode::Loose,
            _ => return wrong(),
        };
        Ok(ReversePath { mode, vrf })
    }
}

scalar!(ReversePath);

/// What a configuration wants, by the name of the interface.
pub(crate) type Wanted = BTreeMap<String, ReversePath>;

/// Whether there are all interfaces and VRFs that are named; what is wrong goes to `errors`.
pub(crate) fn check(element: &Element, wanted: &Wanted, (interfaces, vrfs): (&[&str], &[String]), errors: &mut Errors) {
    let root = element.path();
    let path = root.field("urpf");
    let vrfs: Vec<&str> = vrfs.iter().map(String::as_str).collect();
    for (name, reverse_path) in wanted {
        let mut dangling = |problem: String, known: &[&str]| {
            let some = known.iter().take(16).copied().collect::<Vec<_>>().join(", ");
            errors
                .push(element.error(ErrorKind::Dangling, &path.entry(name), problem).allowed(format!("one of {some}")));
        };
        if !interfaces.contains(&name.as_str()) {
            dangling(format!("there is no interface \"{name}\""), interfaces);
        }
        if let Some(vrf) = reverse_path.vrf.as_deref().filter(|vrf| !vrfs.contains(vrf)) {
            dangling(format!("there is no VRF \"{vrf}\""), &vrfs);
        }
    }
}

/// What is asked of packets that come in by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    mode: Mode,
    /// The VRF whose routes are asked.
    vrf: u16,
}

/// By number of the interface.
type Tables = Vec<Option<Asked>>;

/// What all interfaces ask for: the only writer of what workers see of it.
pub(crate) struct ReversePaths {
    wanted: Mutex<Wanted>,
    tables: Arc<Published<Tables>>,
}

impl ReversePaths {
    pub(crate) fn new(domain: &Domain) -> ReversePaths {
        ReversePaths { wanted: Mutex::default(), tables: Arc::new(Published::new(domain, Box::default())) }
    }

    /// Becomes what a checked configuration wants; workers see it by [`ReversePaths::publish`].
    pub(crate) fn reconcile(&self, wanted: &Wanted) {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone_from(wanted);
    }

    /// Lets workers see it, with the interfaces as they are now, in VRFs of these names.
    pub(crate) fn publish(&self, interfaces: &Interfaces, vrfs: &[String]) {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables: Tables = vec![None; interfaces.limit()];
        for interface in interfaces.iter() {
            let Some(reverse_path) = wanted.get(interface.name()) else { continue };
            let number = |name: &String| (0..).zip(vrfs).find(|(_, known)| *known == name).map(|(vrf, _)| vrf);
            let vrf = reverse_path.vrf.as_ref().and_then(number).unwrap_or(interface.wanted.vrf);
            if let Some(asked) = tables.get_mut(usize::from(interface.id)) {
                *asked = Some(Asked { mode: reverse_path.mode, vrf });
            }
        }
        self.tables.publish(Box::new(tables));
    }
}
