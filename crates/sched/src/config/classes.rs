//! What must hold of a traffic class of a profile, and what it comes to.

use std::sync::Arc;

use weir_config::{Nanos, Rate};

use super::{ClassConfig, Fault, FlowOrder, ProfileConfig, SubportConfig};
use crate::codel::Codel;
use crate::l4s::L4s;
use crate::manage::Manage;
use crate::profile::{ClassProfile, QUANTUM};
use crate::rate::Bucket;
use crate::red::Red;

/// Bytes that come in a period at a rate.
pub(super) fn in_period(rate: Rate, period: Nanos) -> u64 {
    let size = u128::from(rate.bits_per_second()) * u128::from(period.nanos()) / 8_000_000_000;
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// The size of the bucket of what a class is guaranteed. It holds two full frames at least: with less, a class would lose what it waits for others.
pub(super) fn guaranteed_at_once(rate: Rate, period: Nanos) -> u64 {
    in_period(rate, period).max(2 * u64::from(QUANTUM))
}

/// A class may send what it is guaranteed.
fn guarantee_fault(guarantee: Option<Rate>, rate: Option<Rate>) -> Option<String> {
    let (guarantee, rate) = guarantee.zip(rate)?;
    (guarantee.bits_per_second() > rate.bits_per_second()).then(|| {
        format!("{guarantee} is more than the class may send, its tc_rate of {rate}: lower it, or raise tc_rate")
    })
}

impl SubportConfig {
    /// A class may send what it is guaranteed, and the subport what all of them are.
    pub(super) fn promises_fault(&self) -> Option<Fault> {
        for (n, class) in self.classes.iter().enumerate() {
            if let Some(problem) = guarantee_fault(class.tc_guarantee, class.tc_rate) {
                return Some((format!("classes[{}].tc_guarantee", n + 1), problem));
            }
        }
        let rates = self.classes.iter().filter_map(|class| class.tc_guarantee).map(Rate::bits_per_second);
        let all = rates.fold(0, u64::saturating_add);
        let (key, most) = match (self.ceil, self.tb_rate) {
            (Some(ceil), _) => ("ceil", ceil),
            (None, rate) => ("tb_rate", rate?),
        };
        (all > most.bits_per_second()).then(|| {
            let all = Rate::new(all);
            let problem = format!(
                "{most} is less than what is guaranteed to its classes together, {all}: raise it, or lower their tc_guarantee"
            );
            (key.to_owned(), problem)
        })
    }
}

impl ProfileConfig {
    /// No more is guaranteed to classes than their user is.
    pub(super) fn guarantees_fault(&self) -> Option<String> {
        let rates = self.classes.iter().filter_map(|class| class.tc_guarantee).map(Rate::bits_per_second);
        let all = rates.fold(0, u64::saturating_add);
        (all > self.tb_rate.bits_per_second()).then(|| {
            let (rate, all) = (self.tb_rate, Rate::new(all));
            format!("{rate} is less than what is guaranteed to its classes together, {all}: raise it, or lower their tc_guarantee")
        })
    }
}

impl ClassConfig {
    /// A class may send what it is guaranteed.
    pub(super) fn guarantee_fault(&self) -> Option<String> {
        guarantee_fault(self.tc_guarantee, self.tc_rate)
    }

    /// Several queues with weights of their own are in classes above the lowest.
    pub(super) fn weights_fault(&self, is_lowest: bool) -> Option<String> {
        if self.weights.is_empty() {
            return None;
        }
        if is_lowest {
            return Some(
                "the lowest class has eight queues with the weights of the profile: write them in its `weights`"
                    .to_owned(),
            );
        }
        self.weights.contains(&0).then(|| "a weight is 1 to 255".to_owned())
    }

    /// Where there are two lines, what couples them decides alone; and where a single packet takes longer than they are to wait, at the rate `most` of their
    /// user, nearly all would be dropped.
    pub(super) fn l4s_fault(&self, most: Rate) -> Option<Fault> {
        let target = self.l4s.as_ref()?.target;
        let least = Nanos::new((u64::from(QUANTUM) * 8_000_000_000).div_ceil(most.bits_per_second().max(1)));
        if least.nanos() > target.nanos() {
            let problem = format!(
                "a packet of {QUANTUM} bytes takes {least} at {most}, so that nearly all would be dropped: give {least} or more, or a higher rate"
            );
            return Some(("l4s.target".to_owned(), problem));
        }
        let other = match self {
            ClassConfig { red: Some(_), .. } => "red",
            ClassConfig { codel: Some(_), .. } => "codel",
            ClassConfig { flows: FlowOrder::Fair, .. } => "flows = \"fair\"",
            _ => return None,
        };
        Some(("l4s".to_owned(), format!("a class has l4s or {other}, not both: leave one out, or use another class")))
    }

    pub(super) fn profile(&self) -> ClassProfile {
        let period = self.tc_period.nanos();
        let cap = self.tc_rate.map_or(Bucket::UNLIMITED, |rate| Bucket::of_period(rate.bits_per_second(), period));
        let guarantee = self.tc_guarantee.map(|rate| {
            let size = guaranteed_at_once(rate, self.tc_period);
            Bucket::new(rate.bits_per_second(), size)
        });
        let red = self.red.as_ref().and_then(|red| Red::new(red).ok());
        let fair = self.flows == FlowOrder::Fair;
        let codel = self.codel.as_ref().map(Codel::new).or_else(|| fair.then(Codel::usual));
        let manage = match (red, codel) {
            (Some(red), _) => Some(Arc::new(red) as Arc<dyn Manage>),
            (None, Some(codel)) => Some(Arc::new(codel) as Arc<dyn Manage>),
            (None, None) => None,
        };
        let dual = self.l4s.as_ref().map(L4s::new);
        let weights = self.weights.clone().into_boxed_slice();
        ClassProfile { cap, guarantee, queue_size: self.queue_size, manage, fair, dual, weights }
    }
}
