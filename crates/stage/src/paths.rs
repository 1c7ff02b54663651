//! Paths from port to port, as configurations write them: `paths = { "west -> east" }`.

pub mod no_path;

use weir_config::{ConfigError, Element, ErrorKind, Errors, Path, PortName, nearest};

use crate::function::{Env, PortInfo};
use crate::graph::{Graph, Place, To};
use crate::instance::Stateless;
use crate::stage::Stage;
use no_path::NoPath;

/// The names of the ports of a path; `None` if it is not written as one.
pub fn ends_of(path: &str) -> Option<[&str; 2]> {
    let (from, to) = path.split_once("->")?;
    Some([from.trim(), to.trim()])
}

/// The names of all ports of pairs and paths.
pub fn ports(pairs: &[[PortName; 2]], paths: &[String]) -> Vec<String> {
    let pairs = pairs.iter().flatten().map(PortName::as_str);
    pairs.chain(paths.iter().filter_map(|path| ends_of(path)).flatten()).map(str::to_owned).collect()
}

/// The ports that paths lead to and none starts from, by their names.
fn ends_only(paths: &[[PortInfo; 2]]) -> Vec<&PortInfo> {
    let starts = |port: &PortInfo| paths.iter().any(|[from, _]| from.index == port.index);
    let mut ends: Vec<&PortInfo> = paths.iter().map(|[_, to]| to).filter(|to| !starts(to)).collect();
    ends.sort_unstable_by_key(|port| &port.name);
    ends.dedup_by_key(|port| port.index);
    ends
}

/// Paths of one function while they are gathered, with what is wrong with them. A port is the start of one of them at most.
pub struct Paths<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    wired: Vec<[&'a PortInfo; 2]>,
    errors: Errors,
}

impl<'a> Paths<'a> {
    /// None yet, of a function that is declared by this element.
    pub fn new(element: &'a Element, env: &'a Env<'a>) -> Paths<'a> {
        Paths { element, env, wired: Vec::new(), errors: Errors::new() }
    }

    /// Adds those that a key lists.
    pub fn list(&mut self, key: &str, texts: &[String]) {
        let root = self.element.path();
        let path = root.field(key);
        for (text, n) in texts.iter().zip(1..) {
            match ends_of(text) {
                Some(ends) => self.add(&path.index(n), ends),
                None => {
                    let problem = format!("\"{text}\" is not a path; write it \"from -> to\"");
                    self.errors.push(self.element.error(ErrorKind::Malformed, &path.index(n), problem));
                }
            }
        }
    }

    /// Adds those between the ports of pairs that a key lists, in both directions.
    pub fn pairs(&mut self, key: &str, pairs: &[[PortName; 2]]) {
        let root = self.element.path();
        let path = root.field(key);
        for ([one, other], n) in pairs.iter().zip(1..) {
            let (one, other) = (one.as_str(), other.as_str());
            [[one, other], [other, one]].into_iter().for_each(|ends| self.add(&path.index(n), ends));
        }
    }

    /// Adds one that stands at `path`, by the names of its ports.
    pub fn add(&mut self, path: &Path<'_>, ends: [&str; 2]) {
        let [Some(from), Some(to)] = ends.map(|name| self.port(path, name)) else { return };
        if self.wired.iter().any(|[start, _]| start.index == from.index) {
            let problem = format!("port \"{}\" is the start of two paths; a packet leaves by one", from.name);
            self.errors.push(self.element.error(ErrorKind::Conflict, path, problem));
        }
        self.wired.push([from, to]);
    }

    fn port(&mut self, path: &Path<'_>, name: &str) -> Option<&'a PortInfo> {
        let found = self.env.ports.iter().find(|port| port.name == name);
        if found.is_none() {
            self.errors.push(no_port(self.element, path, name, self.env));
        }
        found
    }

    /// What leads packets along the paths, each by a stage of its own: `NAME.PORT` of the port where the path starts, with the way `out`. What comes
    /// in by a port that paths only lead to is dropped as `no-path`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the paths; where there is none, that one of `keys` is needed.
    pub fn along(
        self,
        name: &str,
        keys: &str,
        stage: impl Fn() -> Box<dyn Stage> + Send + Sync + 'static,
    ) -> Result<Stateless, Vec<ConfigError>> {
        let element = self.element;
        let paths: Vec<[PortInfo; 2]> = self.finish()?.into_iter().map(|ends| ends.map(PortInfo::clone)).collect();
        if paths.is_empty() {
            let problem = format!("has no path for packets; expected {keys}");
            return Err(vec![element.error(ErrorKind::Missing, &element.path(), problem)]);
        }
        let name = name.to_owned();
        Ok(Stateless::new(move |_replica| {
            let mut graph = Graph::new();
            let place = Place::Worker { section: 0 };
            for [from, to] in &paths {
                let stage = graph.add_at(format!("{name}.{}", from.name), stage(), place);
                graph.wire(stage, "out", To::Port(to.index));
                graph.receive(from.index, stage);
            }
            for port in ends_only(&paths) {
                let stage = graph.add(format!("{name}.{}", port.name), NoPath);
                graph.leave_open(stage, "out"); // never taken
                graph.receive(port.index, stage);
            }
            Ok(graph)
        }))
    }

    /// The ports where each path starts and ends.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn finish(self) -> Result<Vec<[&'a PortInfo; 2]>, Vec<ConfigError>> {
        self.errors.into_result(self.wired)
    }
}

/// That a name, which stands at `path`, is none of a port, with those that there are.
pub fn no_port(element: &Element, path: &Path<'_>, name: &str, env: &Env<'_>) -> ConfigError {
    let names: Vec<&str> = env.ports.iter().map(|port| port.name.as_str()).collect();
    let error = element.error(ErrorKind::Dangling, path, format!("\"{name}\" names no port"));
    let error = error.allowed(format!("one of {}", names.join(", ")));
    match nearest(name, names) {
        Some(near) => error.remedy(format!("did you mean \"{near}\"?")),
        None => error.remedy(format!("declare it with port {{ name = \"{name}\", ... }}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_two_ends() {
        assert_eq!(ends_of("a->b"), Some(["a", "b"]));
        assert_eq!(ends_of(" a -> b "), Some(["a", "b"]));
        assert_eq!(ends_of("a b"), None);
        let pairs = [["c", "d"].map(PortName::new)];
        assert_eq!(ports(&pairs, &["a -> b".to_owned(), "a b".to_owned()]), ["c", "d", "a", "b"]);
    }
}
