//! The running graph as data, as text and for Graphviz.

use std::collections::HashSet;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use weir_stage::{Graph, Place, To};

use crate::trace::fate_word;
use weir_protocol::VERSION;

/// Stages and what their ways lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GraphView {
    /// The version of the form.
    pub(crate) version: u32,
    /// The stages, in order.
    pub(crate) stages: Vec<StageView>,
    /// Where the packets of each port enter.
    pub(crate) entries: Vec<EntryView>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageView {
    /// Its name.
    pub(crate) name: String,
    /// `worker`, `section N` of a pipeline, or `control`.
    pub(crate) place: String,
    /// Its ways and reasons; packets of which nothing is said take the first.
    pub(crate) ways: Vec<WayView>,
}

/// A way out of a stage, or a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WayView {
    /// Its name.
    pub(crate) name: String,
    /// `way`, `drop`, `consume`, `create` or `again`.
    pub(crate) fate: String,
    /// What it leads to: a stage's name, or `port NAME`; absent for a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// A sentence that explains it.
    pub(crate) help: String,
}

/// Where the packets of a port enter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryView {
    /// The port's name.
    pub(crate) port: String,
    /// The stage's name.
    pub(crate) stage: String,
}

impl GraphView {
    /// A view of a graph; `ports` are the names behind its indices.
    pub(crate) fn of(graph: &Graph, ports: &[(u16, String)]) -> GraphView {
        let port = |index: u16| {
            let name = ports.iter().find(|(other, _)| *other == index);
            name.map_or_else(|| index.to_string(), |(_, name)| name.clone())
        };
        let stage = |at: usize| graph.nodes().get(at).map_or_else(String::new, |node| node.name.clone());
        let target = |to: &To| match to {
            To::Stage(id) => stage(id.0),
            To::Port(index) => format!("port {}", port(*index)),
        };
        // Where several workers have the same stages, one stands for all.
        let mut seen = HashSet::new();
        let first = graph.nodes().iter().filter(|node| seen.insert(node.name.as_str()));
        let stages = first.map(|node| StageView {
            name: node.name.clone(),
            place: match node.place {
                Place::Worker { section: 0 } => "worker".to_owned(),
                Place::Worker { section } => format!("section {section}"),
                Place::Control => "control".to_owned(),
            },
            ways: (0..node.declaration.codes())
                .map(|code| WayView {
                    name: node.declaration.name_of(code),
                    fate: fate_word(node.declaration.fate_of(code)).to_owned(),
                    to: node.targets.get(code).and_then(Option::as_ref).map(target),
                    help: node.declaration.ways.get(code).map_or("", |way| way.help).trim().to_owned(),
                })
                .collect(),
        });
        let entries = graph.entries().iter().map(|&(index, at)| EntryView { port: port(index), stage: stage(at.0) });
        GraphView { version: VERSION, stages: stages.collect(), entries: entries.collect() }
    }

    /// Adds another function's graph.
    pub(crate) fn extend(&mut self, other: GraphView) {
        self.version = other.version;
        self.stages.extend(other.stages);
        self.entries.extend(other.entries);
    }

    /// All ways and reasons, written `STAGE.WAY`.
    pub(crate) fn ways(&self) -> impl Iterator<Item = String> {
        self.stages.iter().flat_map(|stage| stage.ways.iter().map(move |way| format!("{}.{}", stage.name, way.name)))
    }

    /// The reasons for which stages drop packets, and the ways that lead nowhere, written `STAGE.REASON`.
    pub(crate) fn drops(&self) -> impl Iterator<Item = String> {
        let is_drop = |way: &&WayView| way.fate == "drop" || (way.fate == "way" && way.to.is_none());
        self.stages.iter().flat_map(move |stage| {
            stage.ways.iter().filter(is_drop).map(move |way| format!("{}.{}", stage.name, way.name))
        })
    }

    /// The graph for people: a paragraph for each stage, a line for each way.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let _ = writeln!(text, "port {} -> {}", entry.port, entry.stage);
        }
        for stage in &self.stages {
            let place = if stage.place == "worker" { String::new() } else { format!("  [{}]", stage.place) };
            let _ = writeln!(text, "\n{}{place}", stage.name);
            let width = stage.ways.iter().map(|way| way.name.len()).max().unwrap_or(0);
            for way in &stage.ways {
                let to = match (&way.to, way.fate.as_str()) {
                    (Some(to), "again") => format!("-> {to} (next loop)"),
                    (Some(to), _) => format!("-> {to}"),
                    (None, "way" | "again") => "drop (not wired)".to_owned(),
                    (None, fate) => fate.to_owned(),
                };
                let _ = writeln!(text, "    {:width$}  {to}", way.name);
            }
        }
        text
    }

    /// The graph in the language of Graphviz.
    pub(crate) fn dot(&self) -> String {
        let mut dot = String::from("digraph weir {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
        for entry in &self.entries {
            let _ = writeln!(dot, "  {} [shape=ellipse];", quoted(&format!("in {}", entry.port)));
            let _ = writeln!(dot, "  {} -> {};", quoted(&format!("in {}", entry.port)), quoted(&entry.stage));
        }
        for stage in &self.stages {
            let style = if stage.place == "control" { " [style=dashed]" } else { "" };
            let _ = writeln!(dot, "  {}{style};", quoted(&stage.name));
            for way in &stage.ways {
                let Some(to) = &way.to else { continue };
                let _ = writeln!(dot, "  {} -> {} [label={}];", quoted(&stage.name), quoted(to), quoted(&way.name));
            }
        }
        dot.push_str("}\n");
        dot
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_packet::Batch;
    use weir_stage::{Declaration, Out, Stage};

    weir_stage::ways! {
        /// Ways out of a stage that does nothing.
        enum Toy {
            /// Goes on.
            Out => way "out",
            /// To the other side.
            Up => way "up",
            /// Too old.
            Expired => drop "expired",
        }
    }

    struct Nothing;

    impl Stage for Nothing {
        fn declare(&self) -> Declaration {
            Declaration::of::<Toy>()
        }

        fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
    }

    /// A graph of two stages and two ports.
    pub(crate) fn small() -> GraphView {
        let mut graph = Graph::new();
        let ttl = graph.add("toy.ttl", Nothing);
        let slow = graph.add_at("toy.slow", Box::new(Nothing), Place::Control);
        graph.wire(ttl, "out", To::Port(1));
        graph.wire(ttl, "up", To::Stage(slow));
        graph.receive(0, ttl);
        GraphView::of(&graph, &[(0, "wan".into()), (1, "lan".into())])
    }

    #[test]
    fn text_shows_where_ways_lead() {
        assert_eq!(
            small().text(),
            "port wan -> toy.ttl\n\ntoy.ttl\n    out      -> port lan\n    up       -> toy.slow\n    expired  drop\n\n\
             toy.slow  [control]\n    out      drop (not wired)\n    up       drop (not wired)\n    expired  drop\n"
        );
    }

    #[test]
    fn graphviz_gets_every_wire() {
        let dot = small().dot();
        assert!(dot.starts_with("digraph weir {") && dot.ends_with("}\n"));
        assert!(dot.contains("\"in wan\" -> \"toy.ttl\";"));
        assert!(dot.contains("\"toy.ttl\" -> \"port lan\" [label=\"out\"];"));
        assert!(dot.contains("\"toy.slow\" [style=dashed];"));
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
    }

    #[test]
    fn json_comes_back_and_help_is_there() {
        let view = small();
        let text = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<GraphView>(&text).unwrap(), view);
        assert_eq!(view.stages[0].ways[2].help, "Too old.");
        assert_eq!(view.ways().count(), 6);
        let drops: Vec<String> = view.drops().collect();
        assert_eq!(drops, ["toy.ttl.expired", "toy.slow.out", "toy.slow.up", "toy.slow.expired"]);
    }
}
