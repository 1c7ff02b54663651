//! What the configuration of a network layer comes to, and the tables that are built of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{ConfigError, Element, ErrorKind, Errors};
use weir_mem::Domain;
use weir_net::{neighbor, rib};
use weir_simd::Kernel;
use weir_stage::{Description, Env, Graph, GraphError, Ground, Prepared, Redrawn};
use weir_table::lpm4;
use weir_table::lpm6::{self, Compiled};

use crate::Interfaces;
use crate::acl::{self, AclSettings, Acls, WantedAcls};
use crate::config::{Limits, Settings, TableKind};
use crate::flows::{self, FlowExportConfig, Flows};
use crate::graph::{Guards, Stages};
use crate::host::Hosts;
use crate::load::{Wanted, has_hosts, load, vrf_names};
use crate::state::Control;
use crate::state::routing::{Routing, Tables};
use crate::state::shared::{self, lock};
use crate::tables::fib::{Fib, Leads};
use crate::tables::prefixes::{PrefixTable, VrfTables};
use crate::urpf::{self, ReversePath, ReversePaths};
use weir_table::counters::Counters;

use super::Running;

/// Indexes of ports that there is room for at least: those of ports that are added later are among them.
const INDICES: usize = 4096;

/// What the layer of a configuration comes to.
pub struct Described {
    element: Arc<Element>,
    shape: Stages,
    /// Names of the VRFs, by number.
    vrfs: Vec<String>,
    /// Whether Linux speaks for each of them.
    hosts: Arc<[bool]>,
    wanted: Wanted,
    acls: WantedAcls,
    urpf: urpf::Wanted,
    flows: flows::Wanted,
    /// The index of a port, of whatever function, is below.
    indices: usize,
}

impl Described {
    /// What `settings` come to, which stand in `element`, for stages whose names begin with `name`; with a layer that runs `before` it, whose ports come first. Where it `is_parted`,
    /// packets are checked by one worker and forwarded by another.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them beyond their schema.
    pub fn new(
        (element, name): (&Arc<Element>, &str),
        settings: Settings<'_>,
        env: &Env<'_>,
        before: Option<&Running>,
        is_parted: bool,
    ) -> Result<Described, Vec<ConfigError>> {
        let before = before.map_or_else(Vec::new, Running::port_names);
        let wanted = load(element, settings, env, &before)?;
        let ports = wanted.general.ports.iter().map(|port| port.index).collect();
        let shape = Stages::new(name, settings, ports, is_parted);
        let indices = env.ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0).max(INDICES);
        let (vrfs, hosts) = (vrf_names(settings), has_hosts(settings));
        let (acls, urpf, flows) = (WantedAcls::default(), urpf::Wanted::default(), flows::Wanted::default());
        let element = Arc::clone(element);
        Ok(Described { element, shape, vrfs, hosts, wanted, acls, urpf, flows, indices })
    }
}

impl Described {
    /// The same with access lists.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them beyond their schema.
    pub fn with_acls(mut self, settings: AclSettings<'_>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let names: Vec<&str> = self.wanted.interfaces.iter().map(|wanted| wanted.fresh.name.as_str()).collect();
        let wanted = acl::load((&self.element, env), settings, (&names, &self.vrfs), &mut errors);
        let guards = self.shape.guards;
        let [acl_in, acl_own, acl_out] = wanted.sides();
        self.shape.guards = Guards { acl_in, acl_own, acl_out, ..guards };
        self.acls = wanted;
        errors.into_result(self)
    }

    /// The same with checks of sources, by interface.
    ///
    /// # Errors
    ///
    /// There is no such interface or VRF.
    pub fn with_urpf(mut self, wanted: &BTreeMap<String, ReversePath>) -> Result<Described, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let names: Vec<&str> = self.wanted.interfaces.iter().map(|wanted| wanted.fresh.name.as_str()).collect();
        urpf::check(&self.element, wanted, (&names, &self.vrfs), &mut errors);
        self.shape.guards.urpf = !wanted.is_empty();
        self.urpf = wanted.clone();
        errors.into_result(self)
    }

    /// The same with samples of what comes in, for collectors of flows.
    ///
    /// # Errors
    ///
    /// There is no such interface, or an address does not fit.
    pub fn with_flow_export(mut self, wanted: Option<&FlowExportConfig>) -> Result<Described, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let names: Vec<&str> = self.wanted.interfaces.iter().map(|wanted| wanted.fresh.name.as_str()).collect();
        wanted.into_iter().for_each(|wanted| flows::check(&self.element, wanted, &names, &mut errors));
        self.shape.guards.samples = wanted.is_some();
        self.flows = flows::Wanted(wanted.cloned());
        errors.into_result(self)
    }

    /// The stages, to be drawn.
    pub fn stages(&self) -> &Stages {
        &self.shape
    }
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        old.map_or(Ok(()), |old| self.check_added(old))?;
        let running = self.build(ground)?;
        if let Some(old) = old {
            shared::adopt(&running.shared, &old.shared, ground.now);
            running.acls.adopt(&old.acls);
            running.publish_guards();
        }
        Ok(running)
    }

    fn redraw(&self, running: &Running) -> Redrawn<Running> {
        let (before, now) = (&running.shape.ports, &self.shape.ports);
        let known = lock(&running.shared).interfaces.ingress().indices();
        match now.strip_prefix(before.as_slice()) {
            Some([]) if running.shape.guards == self.shape.guards => Redrawn::Same,
            Some(more) if more.iter().all(|index| usize::from(*index) < known) => {
                Redrawn::As(Running { shape: self.shape.clone(), ..running.clone() })
            }
            _ => Redrawn::Anew,
        }
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        self.check_added(running)?;
        let (running, wanted, acls, urpf, flows) = (running.clone(), self.wanted, self.acls, self.urpf, self.flows);
        Ok(Box::new(move |now| {
            shared::reconcile(&running.shared, wanted, now);
            running.acls.reconcile(&acls);
            running.urpf.reconcile(&urpf);
            running.flows.reconcile(&flows);
            running.publish_guards();
        }))
    }
}

impl Described {
    /// Whether rules that were added at run time still fit.
    fn check_added(&self, running: &Running) -> Result<(), Vec<ConfigError>> {
        let (mut errors, root) = (Errors::new(), self.element.path());
        for problem in running.acls.objections(&self.acls, &self.vrfs) {
            let error = self.element.error(ErrorKind::Conflict, &root.field("acls"), problem);
            errors.push(
                error.remedy("delete it (weir acl del), or leave its VRF, and where its list is attached, as they are"),
            );
        }
        errors.into_result(())
    }

    fn build(self, ground: &Ground<'_>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, shape, vrfs, hosts, wanted, indices, .. } = self;
        let (wanted_acls, wanted_urpf, wanted_flows) = (self.acls, self.urpf, self.flows);
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let kernel = Kernel::detect();
        let limits = &shape.limits;
        let tables = tables(&shape, vrfs.len(), kernel, ground.domain).map_err(no_memory)?;
        let interfaces =
            Interfaces::new(limits.interfaces, indices, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let fib = Fib::new(limits.next_hops, limits.groups, interfaces.egress(), interfaces.ingress())
            .map_err(|error| no_memory(error.to_string()))?;
        let (counters, received) = (Counters::new(fib.places()), Counters::new(interfaces.limit()));
        let line_counters = Counters::new(interfaces.limit());
        let flows = Arc::new(Flows::new(ground.domain, interfaces.limit(), shape.seed ^ ground.now));
        flows.reconcile(&wanted_flows);
        let readers = tables.iter().map(VrfTables::readers).collect();
        let tables = Tables {
            tables,
            fib: Arc::clone(&fib),
            counters: Arc::clone(&counters),
            line_counters: Arc::clone(&line_counters),
            domain: ground.domain.clone(),
        };
        let rib = rib::Limits { routes: limits.routes, next_hops: limits.next_hops, groups: limits.groups };
        let routing = Routing::new(rib, tables);
        let neighbors = limits.neighbors as usize;
        let neighbors = neighbor::Limits { per_port: neighbors, total: neighbors, ..neighbor::Limits::default() };
        let vrf_names = vrfs.clone();
        let mut control = Control::new(
            interfaces,
            Arc::clone(&received),
            (vrfs, shape.function.clone()),
            routing,
            neighbors,
            shape.seed ^ ground.now,
        );
        control.hosts = Hosts::new((0..).zip(hosts.iter()).filter(|(_, has)| **has).map(|(vrf, _)| vrf));
        let refused = control.reconcile(wanted, ground.now);
        let errors: Vec<ConfigError> = refused
            .iter()
            .take(weir_config::Errors::KEPT)
            .map(|((_, prefix), refusal)| {
                let (root, text) = (element.path(), prefix.to_string());
                let path = root.field("routes");
                element.error(ErrorKind::Limit, &path.entry(&text), refusal.to_string())
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let shared = Arc::new(shared::Shared::new(control));
        let acls = Arc::new(Acls::new(ground.domain, &vrf_names));
        acls.reconcile(&wanted_acls);
        let urpf = Arc::new(ReversePaths::new(ground.domain));
        urpf.reconcile(&wanted_urpf);
        let running = Running {
            shape,
            readers,
            fib,
            counters,
            received,
            line_counters,
            kernel,
            hosts,
            shared,
            acls,
            urpf,
            flows,
        };
        running.publish_guards();
        Ok(running)
    }
}

/// The prefix tables of so many VRFs.
fn tables(shape: &Stages, vrfs: usize, kernel: Kernel, domain: &Domain) -> Result<Vec<VrfTables>, String> {
    let (four, six) = table_configs(&shape.limits, kernel);
    let make = |vrf: usize| {
        // The others are usually small, and there may be many.
        let is_main = vrf == 0 || vrf == usize::from(shape.vrfs[0]);
        let kind = if is_main { shape.table } else { TableKind::Packed };
        let four = PrefixTable::new(kind, &four, domain).map_err(|error| error.to_string())?;
        Ok(VrfTables { four, six: Compiled::new(&six, domain).map_err(|error| error.to_string())? })
    };
    (0..vrfs).map(make).collect()
}

fn table_configs(limits: &Limits, kernel: Kernel) -> (lpm4::Config, lpm6::Config) {
    let max_routes = limits.routes as usize + SPECIALS;
    let six = lpm6::Config { miss: Leads::NO_ROUTE.value(), max_routes, max_lines: limits.ipv6_lines };
    let four = lpm4::Config {
        miss: Leads::NO_ROUTE.value(),
        // Own addresses and broadcasts come on top of the routes: three for each interface, of which there are few.
        max_routes,
        max_groups: limits.long_prefix_networks,
        kernel,
    };
    (four, six)
}

/// Room for prefixes that are no routes.
const SPECIALS: usize = 65_536;
