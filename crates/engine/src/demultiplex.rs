//! Ports that several functions share: a stage before all of them parts the packets.

use weir_stage::Stage;

use crate::layout::{Goal, Inlet, Layout};

/// What parts the packets of a port among functions: a stage on each worker that receives them.
pub struct Demultiplexer {
    /// The name of the stage.
    pub name: String,
    /// The index of the port.
    pub port: u16,
    /// Makes the stage: indexed ways, one per function. Its first way leads to the first one, too.
    pub stage: Box<dyn Fn() -> Box<dyn Stage>>,
    /// The graphs of each function, as positions in [`Blueprint::graphs`](crate::Blueprint::graphs). The workers of the first one receive.
    pub functions: Vec<Vec<usize>>,
}

impl Layout<'_> {
    /// Puts a stage before what the packets of a port enter functions by: way `n` leads to function `n`, on the same worker where that has it,
    /// and else over a link.
    pub(crate) fn demultiplex(&mut self, demultiplexer: &Demultiplexer) {
        let Demultiplexer { name, port, stage, functions } = demultiplexer;
        let (theirs, others): (Vec<Inlet>, Vec<Inlet>) =
            std::mem::take(&mut self.inlets).into_iter().partition(|inlet| inlet.port == *port);
        self.inlets = others;
        let of = |graphs: &Vec<usize>| -> Vec<Inlet> {
            theirs.iter().copied().filter(|inlet| graphs.contains(&inlet.graph)).collect()
        };
        let functions: Vec<Vec<Inlet>> = functions.iter().map(of).collect();
        for (replica, receiver) in functions.first().into_iter().flatten().enumerate() {
            let goal = |inlets: &Vec<Inlet>| {
                let near = inlets.iter().find(|inlet| inlet.worker == receiver.worker);
                let nth = replica.checked_rem(inlets.len()).and_then(|n| inlets.get(n));
                near.or(nth).map(|inlet| Goal::Stage(inlet.at))
            };
            let goals = functions.iter().map(goal).collect();
            let at = self.put_before(name.clone(), stage(), goals, (receiver.worker, replica), false);
            self.inlets.push(Inlet { at, ..*receiver });
        }
    }
}
