//! Tests of functions: builds them as the program does, and holds them to their descriptions.

use std::sync::Arc;

use weir_config::{ConfigError, Element};

use crate::function::{Env, Ground, Redrawn};
use crate::graph::{Graph, Node};
use crate::instance::Instance;
use crate::kind::Prepared;
use crate::program::AnyFunction;

/// Builds a declared function, to take the place of `env.running`.
///
/// # Errors
///
/// Everything that is wrong with it.
///
/// # Panics
///
/// Its graph is not the one that it was described by.
pub fn build(
    function: &'static dyn AnyFunction,
    element: &Arc<Element>,
    env: &Env<'_>,
    ground: &Ground<'_>,
) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
    let described = function.configure(element)?.describe(env)?;
    let sketch = described.sketch(0).map(|graph| outline(&graph));
    let instance = described.instantiate(ground, env.running)?;
    for graph in [instance.graph(0), instance.sketch(0)] {
        assert_eq!(sketch, graph.map(|graph| outline(&graph)), "its graph is not the one that it was described by");
    }
    Ok(instance)
}

/// Prepares `env.running` for a declaration that differs in live keys only.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn change(
    function: &'static dyn AnyFunction,
    element: &Arc<Element>,
    env: &Env<'_>,
) -> Result<Prepared, Vec<ConfigError>> {
    function.configure(element)?.describe(env)?.change(env)
}

/// What becomes of the graph of `env.running` with a declaration that differs in live keys only.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn redraw(
    function: &'static dyn AnyFunction,
    element: &Arc<Element>,
    env: &Env<'_>,
) -> Result<Redrawn<Box<dyn Instance>>, Vec<ConfigError>> {
    Ok(function.configure(element)?.describe(env)?.redraw(env))
}

/// All of a graph but the stages themselves, and what is wrong with it.
fn outline(graph: &Graph) -> (Vec<String>, String) {
    let node = |node: &Node| {
        format!("{} at {:?}: {:?} -> {:?}, open {:?}", node.name, node.place, node.declaration, node.targets, node.open)
    };
    (graph.nodes().iter().map(node).collect(), format!("{:?}, {:?}", graph.entries(), graph.check()))
}
