//! What a way leads to, as a configuration says it.

use weir_config::{Element, ErrorKind, Errors, Path, nearest};
use weir_stage::PortInfo;

/// The word for a way whose packets are dropped under its name.
const DROP: &str = "drop";

/// What stands before the name of a port.
const PORT: &str = "port ";

/// What a way leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The stage at this place of the list.
    Stage(usize),
    /// The port of this index.
    Port(u16),
    /// Nowhere, on purpose.
    Drop,
}

/// The name of the port that a text leads to, if it leads to one.
pub(crate) fn port_of(text: &str) -> Option<&str> {
    text.strip_prefix(PORT).map(str::trim)
}

/// Whether a stage may not have this name, as it would mean something else.
pub(crate) fn is_taken(name: &str) -> bool {
    name == DROP
}

/// The names that targets refer to.
pub(crate) struct Names<'a> {
    pub(crate) element: &'a Element,
    pub(crate) stages: Vec<&'a str>,
    pub(crate) ports: &'a [PortInfo],
}

impl Names<'_> {
    /// What the text at a key path leads to. That it leads nowhere known goes to `errors`.
    pub(crate) fn target(&self, text: &str, path: &Path<'_>, errors: &mut Errors) -> Option<Target> {
        if text == DROP {
            return Some(Target::Drop);
        }
        let Some(port) = port_of(text) else {
            return self.stage(text, path, errors).map(Target::Stage);
        };
        let found = self.ports.iter().find(|info| info.name == port).map(|info| Target::Port(info.index));
        if found.is_none() {
            let names: Vec<&str> = self.ports.iter().map(|info| info.name.as_str()).collect();
            let error = self.element.error(ErrorKind::Dangling, path, format!("\"{port}\" names no port"));
            let error = error.allowed(format!("one of {}", names.join(", ")));
            errors.push(match nearest(port, names) {
                Some(near) => error.remedy(format!("did you mean \"{PORT}{near}\"?")),
                None => error.remedy(format!("declare it with port {{ name = \"{port}\", ... }}")),
            });
        }
        found
    }

    /// The place of a stage in the list. That there is none of this name goes to `errors`.
    pub(crate) fn stage(&self, name: &str, path: &Path<'_>, errors: &mut Errors) -> Option<usize> {
        let found = self.stages.iter().position(|known| *known == name);
        if found.is_none() {
            let error = self.element.error(ErrorKind::Dangling, path, format!("\"{name}\" names no stage"));
            let error = error.allowed(format!("one of {}", self.stages.join(", ")));
            errors.push(if self.ports.iter().any(|info| info.name == name) {
                error.remedy(format!("write \"{PORT}{name}\" if you mean the port"))
            } else {
                let near = nearest(name, self.stages.iter().copied());
                error.remedy(near.map_or_else(String::new, |near| format!("did you mean \"{near}\"?")))
            });
        }
        found
    }
}
