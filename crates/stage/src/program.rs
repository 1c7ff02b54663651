//! Functions as the program has them: of whatever kind, side by side.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use weir_config::{ConfigError, Element, ErrorKind, Schema, Table};

use crate::case::Case;
use crate::function::{Description, Env, Function, Given, Ground, Import, Layout, Placement, Redrawn, SpreadBy};
use crate::graph::{Graph, GraphError};
use crate::instance::Instance;
use crate::kind::Prepared;
use crate::neighbor::NamedInterface;
use crate::request::{Show, Verb};
use crate::service::Need;
use crate::share::Switched;

/// A [`Function`] of whatever kind.
pub trait AnyFunction: Sync + 'static {
    /// See [`Function::kind`].
    fn kind(&self) -> &'static str;

    /// Its configuration with what every function has, but for the name: keys, help, manual.
    fn schema(&self) -> Schema;

    /// Reads a checked declaration, which nobody needs to read again.
    ///
    /// # Errors
    ///
    /// That it was checked against another schema, which only a wrong catalogue brings about.
    fn configure(&'static self, element: &Arc<Element>) -> Result<Configured, Vec<ConfigError>>;

    /// See [`Function::switched`].
    fn switched(&self, keys: &Table) -> Option<Switched>;

    /// See [`Function::routes`].
    fn routes(&self) -> bool;

    /// See [`Function::add_port`].
    fn add_port(&self, keys: &mut Table, port: &str, vlans: &BTreeSet<u16>);

    /// See [`Configured::describe`].
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    fn describe(&self, configured: &Configured, env: &Env<'_>) -> Result<Box<dyn AnyDescription>, Vec<ConfigError>>;

    /// See [`Function::verbs`].
    fn verbs(&self) -> &'static [Verb];

    /// See [`Function::examples`].
    fn examples(&self) -> &'static [&'static str];

    /// See [`Function::shows`].
    fn shows(&self) -> &'static [Show];

    /// See [`Function::imports`].
    fn imports(&self) -> &'static [Import];

    /// See [`Function::cases`].
    fn cases(&self) -> Vec<Case>;
}

/// What a function needs of a port of its.
#[derive(Clone)]
struct PortUse {
    name: String,
    /// See [`Function::in_front`].
    in_front: u16,
    /// See [`Function::promiscuous`].
    promiscuous: bool,
    /// See [`Function::has_interfaces`].
    has_interfaces: bool,
}

/// A declared function, read once: all that the program asks of it before it is described.
#[derive(Clone)]
pub struct Configured {
    function: &'static dyn AnyFunction,
    element: Arc<Element>,
    config: Arc<dyn Any + Send + Sync>,
    placement: Placement,
    ports: Vec<PortUse>,
    holds: usize,
    permissions: Vec<&'static str>,
    balances: bool,
    neighbors_on: Vec<NamedInterface>,
    needs: Vec<Need>,
}

impl Configured {
    /// Its kind.
    pub fn function(&self) -> &'static dyn AnyFunction {
        self.function
    }

    /// Its declaration.
    pub fn element(&self) -> &Arc<Element> {
        &self.element
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.element.name()
    }

    /// Its workers.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Names of its ports, sorted, each once.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// Whether a port is one of its.
    pub fn has_port(&self, name: &str) -> bool {
        self.ports().any(|port| port == name)
    }

    /// See [`Function::in_front`]; `None` if the port is none of its.
    pub fn in_front(&self, port: &str) -> Option<u16> {
        self.port(port).map(|port| port.in_front)
    }

    /// See [`Function::promiscuous`]; no port is, that is none of its.
    pub fn promiscuous(&self, port: &str) -> bool {
        self.port(port).is_some_and(|port| port.promiscuous)
    }

    fn port(&self, name: &str) -> Option<&PortUse> {
        self.ports.iter().find(|port| port.name == name)
    }

    /// See [`Function::holds`].
    pub fn holds(&self) -> usize {
        self.holds
    }

    /// See [`Function::permissions`].
    pub fn permissions(&self) -> &[&'static str] {
        &self.permissions
    }

    /// See [`Function::balances`].
    pub fn balances(&self) -> bool {
        self.balances
    }

    /// See [`Function::has_interfaces`]; none may be declared on ports of others.
    pub fn has_interfaces_on(&self, port: &str) -> bool {
        self.port(port).is_some_and(|port| port.has_interfaces)
    }

    /// Whether interfaces may be declared on any of its ports.
    pub fn has_interfaces(&self) -> bool {
        self.ports.iter().any(|port| port.has_interfaces)
    }

    /// See [`Function::neighbors_on`].
    pub fn neighbors_on(&self) -> &[NamedInterface] {
        &self.neighbors_on
    }

    /// See [`Function::needs`].
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// Says what it comes to on the ports of `env`. No table is built.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it beyond its schema, at once.
    pub fn describe(&self, env: &Env<'_>) -> Result<Box<dyn AnyDescription>, Vec<ConfigError>> {
        self.function.describe(self, env)
    }

    /// Describes it and builds its tables, to take the place of `env.running`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn instantiate(&self, env: &Env<'_>, ground: &Ground<'_>) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        self.describe(env)?.instantiate(ground, env.running)
    }
}

/// A [`Description`] of whatever kind.
pub trait AnyDescription: Send {
    /// See [`Description::sketch`].
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    fn sketch(&self, replica: usize) -> Result<Graph, GraphError>;

    /// See [`Description::instantiate`].
    ///
    /// # Errors
    ///
    /// What there is no room for.
    fn instantiate(
        self: Box<Self>,
        ground: &Ground<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>>;

    /// See [`Description::redraw`]: of `env.running`, as [`change`](Self::change).
    fn redraw(&self, env: &Env<'_>) -> Redrawn<Box<dyn Instance>>;

    /// See [`Description::change`]: prepares `env.running`, which is of the same kind, as the names of functions go with their kinds. There
    /// is nothing to change where it is not.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it for that instance.
    fn change(self: Box<Self>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>>;
}

impl<D: Description> AnyDescription for D {
    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        Description::sketch(self, replica)
    }

    fn instantiate(
        self: Box<Self>,
        ground: &Ground<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let old = old.and_then(|old| old.downcast_ref());
        Ok(Box::new(Description::instantiate(*self, ground, old)?))
    }

    fn redraw(&self, env: &Env<'_>) -> Redrawn<Box<dyn Instance>> {
        let Some(running) = env.running.and_then(|running| running.downcast_ref()) else { return Redrawn::Same };
        match Description::redraw(self, running) {
            Redrawn::Same => Redrawn::Same,
            Redrawn::As(instance) => Redrawn::As(Box::new(instance)),
            Redrawn::Anew => Redrawn::Anew,
        }
    }

    fn change(self: Box<Self>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        match env.running.and_then(|running| running.downcast_ref()) {
            Some(running) => Description::change(*self, running, env),
            None => Ok(Box::new(|_now| {})),
        }
    }
}

impl<F: Function> AnyFunction for F {
    fn kind(&self) -> &'static str {
        Function::kind(self)
    }

    fn schema(&self) -> Schema {
        let mut schema = Function::schema(self);
        let placement = Placement::schema().keys.into_iter();
        let has = |key: &str| match key {
            "layout" => self.has_layouts(),
            // Users that have owners are spread by whose they are, and softwires by themselves.
            "spread_by" => self.has_layouts() && !self.balances() && !self.spreads(),
            _ => true,
        };
        schema.keys.extend(placement.filter(|key| has(key.name)));
        schema
    }

    fn configure(&'static self, element: &Arc<Element>) -> Result<Configured, Vec<ConfigError>> {
        let config: Arc<F::Config> = Arc::new(element.read()?);
        // The one place that reads them. Where there is no key `layout`, there is one layout.
        let placement = Placement {
            workers: element.read_key("workers").unwrap_or_default(),
            layout: element.read_key("layout").unwrap_or(Layout::RunToCompletion),
            spread_by: element.read_key("spread_by").unwrap_or(SpreadBy::Flow),
        };
        let given = Given { element, config: &config, placement: &placement };
        let port_use = |name: String| PortUse {
            in_front: self.in_front(&given, &name),
            promiscuous: self.promiscuous(&given, &name),
            has_interfaces: self.has_interfaces(&given, &name),
            name,
        };
        let ports = BTreeSet::from_iter(Function::ports(self, &given)).into_iter().map(port_use).collect();
        let (holds, permissions) = (self.holds(&given), self.permissions(&given));
        Ok(Configured {
            function: self,
            element: Arc::clone(element),
            ports,
            holds,
            permissions,
            balances: self.balances(),
            neighbors_on: self.neighbors_on(&given),
            needs: self.needs(&given),
            placement,
            config,
        })
    }

    fn describe(&self, configured: &Configured, env: &Env<'_>) -> Result<Box<dyn AnyDescription>, Vec<ConfigError>> {
        let Configured { element, config, placement, .. } = configured;
        let Ok(config) = Arc::clone(config).downcast::<F::Config>() else {
            return Err(vec![element.error(ErrorKind::Malformed, &element.path(), "is another function's")]);
        };
        let given = Given { element, config: &config, placement };
        Ok(Box::new(Function::describe(self, &given, env)?))
    }

    fn switched(&self, keys: &Table) -> Option<Switched> {
        Function::switched(self, keys)
    }

    fn routes(&self) -> bool {
        Function::routes(self)
    }

    fn add_port(&self, keys: &mut Table, port: &str, vlans: &BTreeSet<u16>) {
        Function::add_port(self, keys, port, vlans);
    }

    fn verbs(&self) -> &'static [Verb] {
        Function::verbs(self)
    }

    fn examples(&self) -> &'static [&'static str] {
        Function::examples(self)
    }

    fn shows(&self) -> &'static [Show] {
        Function::shows(self)
    }

    fn imports(&self) -> &'static [Import] {
        Function::imports(self)
    }

    fn cases(&self) -> Vec<Case> {
        Function::cases(self)
    }
}
