//! What `weir bench cpp switch` measures.

use weir_flow_tables::agent::FailMode;
use weir_openflow::flow::FlowMod;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};
use weir_stage::case::Traffic;
use weir_stage::{Case, Instance, PortInfo};

use crate::function::Running;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    vec![
        case::<0>("port-to-port", "64-byte UDP packets from port to port, by one flow"),
        case::<100>("rules-100", "the same behind 100 flows of a higher priority that do not match"),
    ]
}

/// One flow that sends all from the port `in` to the port `out`, and others before it.
fn case<const OTHERS: u32>(name: &'static str, help: &'static str) -> Case {
    let script = "switch { ports = { \"in\", \"out\" } }".to_owned();
    let prepare = |instance: &dyn Instance, _: &[PortInfo], _: &_| traffic(instance, OTHERS);
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

fn flow(priority: u16, fields: Vec<Oxm>, actions: Vec<Action>) -> Result<FlowMod, String> {
    let matches = Match::new(fields).map_err(|error| error.to_string())?;
    Ok(FlowMod::add(0, priority, matches, vec![Instruction::ApplyActions(actions)]))
}

fn traffic(instance: &dyn Instance, others: u32) -> Result<Traffic, String> {
    let running = instance.downcast_ref::<Running>().ok_or("it is no switch")?;
    let mut core = running.shared.core();
    core.set_ports(running.ports(), 0);
    core.agent.set_fail_mode(FailMode::Secure);
    for other in 0..others {
        let fields = vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::Ipv4Dst, (0xc612_0000 + other).into())];
        let flow = flow(2, fields, Vec::new())?;
        core.agent.switch.flow_mod(&flow, 0).map_err(|error| error.to_string())?;
    }
    let all = flow(1, vec![Oxm::exact(Field::InPort, 1)], vec![Action::Output { port: 2, max_len: 0 }])?;
    core.agent.switch.flow_mod(&all, 0).map_err(|error| error.to_string())?;
    Ok(Traffic::plain())
}
