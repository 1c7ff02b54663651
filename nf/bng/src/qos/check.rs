//! What is wrong with a configuration of shaping, policing and remarking, beyond its schema.

use weir_config::{ConfigError, ErrorKind};
use weir_sched::police::Policer;
use weir_stage::{Given, Layout};

use super::{Direction, Shaped, classes, conditions_any, meters_any, profiles, schedulers};
use crate::config::{BngConfig, QosConfig};

/// A key of `qos`, and what is wrong with what it has.
type Fault = (&'static str, String);

/// Everything that is wrong.
pub(crate) fn faults(given: &Given<'_, BngConfig>) -> Vec<ConfigError> {
    let Given { element, config, .. } = given;
    let root = element.path();
    let here = root.field("qos");
    let qos = &config.qos;
    let all = [
        shapers(qos, config.limits.subscribers),
        classification(qos),
        policers(qos),
        remarks(qos),
        named(qos).into_iter().collect(),
        limited(qos).into_iter().collect(),
    ];
    let error = |(key, problem)| element.error(ErrorKind::Conflict, &here.field(key), problem);
    all.into_iter().flatten().map(error).chain(layout(given)).collect()
}

fn shapers(qos: &QosConfig, subscribers: u32) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(other) = schedulers(qos).find(|(shaped, _)| qos.both.is_some() && *shaped != Shaped::Both) {
        let problem =
            format!("is for what goes either way, and {} is there, too; leave one of them out", other.0.name());
        faults.push(("both", problem));
    }
    for (shaped, scheduler) in schedulers(qos) {
        let key = shaped.name();
        faults.extend(scheduler.faults().into_iter().map(|(at, problem)| (key, format!("{at}: {problem}"))));
        if scheduler.users < subscribers {
            let users = scheduler.users;
            faults.push((
                key,
                format!(
                    "users: is {users}, but there may be {subscribers} subscribers; raise it or lower limits.subscribers"
                ),
            ));
        }
        if !scheduler.assign.is_empty() {
            faults.push((key, "assign: subscribers name their profiles themselves; leave it out".to_owned()));
        }
    }
    faults
}

fn classification(qos: &QosConfig) -> Vec<Fault> {
    let queues = |class| schedulers(qos).map(|(_, scheduler)| scheduler.queues(class)).max().unwrap_or(1);
    let faults = qos.classify.faults(classes(qos), queues).into_iter();
    let mut faults: Vec<Fault> = faults.map(|(at, problem)| ("classify", format!("{at}: {problem}"))).collect();
    let counts: Vec<u8> = schedulers(qos).map(|(_, scheduler)| scheduler.classes).collect();
    if counts.windows(2).any(|pair| pair[0] != pair[1]) {
        faults.push(("down", "classes: must be as many as those of up, since both go by the same classify".to_owned()));
    }
    faults
}

fn policers(qos: &QosConfig) -> Vec<Fault> {
    let names = profiles(qos);
    let mut faults = Vec::new();
    for direction in Direction::BOTH {
        for (name, config) in qos.police.of(direction) {
            let at = format!("{}.{name}", direction.name());
            if !names.contains(name) {
                let problem =
                    format!("{at}: no profile is called \"{name}\" in each scheduler; there are {}", names.join(", "));
                faults.push(("police", problem));
            }
            faults.extend(Policer::new(config).err().map(|problem| ("police", format!("{at}: {problem}"))));
        }
    }
    faults
}

fn remarks(qos: &QosConfig) -> Vec<Fault> {
    let of = |direction: Direction| {
        let wrong = (1..).zip(qos.remark.of(direction)).filter_map(|(n, rule)| Some((n, rule.fault(classes(qos))?)));
        wrong.map(move |(n, problem): (u32, String)| ("remark", format!("{}[{n}] {problem}", direction.name())))
    };
    Direction::BOTH.into_iter().flat_map(of).collect()
}

fn named(qos: &QosConfig) -> Option<Fault> {
    let names = profiles(qos);
    let is_unknown = |usual: &&String| meters_any(qos) && !names.contains(usual);
    let usual = qos.usual.as_ref().filter(is_unknown)?;
    let problem = match schedulers(qos).next() {
        Some(_) => format!("no profile is called \"{usual}\" in each scheduler; there are {}", names.join(", ")),
        None => format!("no policer is for a profile called \"{usual}\"; there are {}", names.join(", ")),
    };
    Some(("usual", problem))
}

fn limited(qos: &QosConfig) -> Option<Fault> {
    let problem = "nothing is shaped, policed or remarked that it could be for; add `up`, `down`, `both`, `police` or `remark`, or leave it out";
    (qos.limit.is_some() && !conditions_any(qos)).then(|| ("limit", problem.to_owned()))
}

fn layout(given: &Given<'_, BngConfig>) -> Option<ConfigError> {
    let Given { element, config, placement } = given;
    let workers = placement.workers.len();
    if config.qos.both.is_some() && workers > 1 && placement.layout == Layout::Pipeline {
        let problem = format!(
            "what goes either way would have to come back to the first of {workers} workers, which a pipeline does not allow"
        );
        let root = element.path();
        let error = element.error(ErrorKind::Conflict, &root.field("layout"), problem);
        return Some(error.remedy(
            "choose layout = \"distributor\" (the others share the subscribers), one worker, or qos.up and qos.down",
        ));
    }
    if !meters_any(&config.qos) || workers < 2 || placement.layout != Layout::RunToCompletion {
        return None;
    }
    let problem = format!(
        "{workers} workers that each take what their queues give them: packets of one subscriber would come to several, and a \
         scheduler has one owner"
    );
    let error = element.error(ErrorKind::Conflict, &element.path().field("workers"), problem);
    Some(error.remedy(
        "choose layout = \"distributor\" (the others share the subscribers), layout = \"pipeline\" (one schedules for all), or one worker",
    ))
}
