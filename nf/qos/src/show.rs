//! The tables that are shown: users, and the schedulers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use weir_config::Scalar;
use weir_sched::gates::UserCount;
use weir_sched::shaping::Shaping;
use weir_stage::{InTurn, RequestError, Saved, Show, ShowRows, columns, entries, whole};

use crate::config::{SubportEntry, UserEntry};
use crate::find::OTHERS;
use crate::history;
use crate::key::UserKey;
use crate::load::unknown;
use crate::request;
use crate::state::{Control, Direction, lock};
use crate::subports::Carried;
use crate::users::User;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "users",
        columns: columns!(
            UserEntry,
            "number",
            "source",
            "direction",
            "packets",
            "bytes",
            "dropped",
            "drops",
            "marked",
            "marks",
            "held_by",
            "held_for"
        ),
        help: "Users, what became of their packets at the scheduler, why some were dropped, how many were marked (ECN) in which classes, what holds a user back now, and for how many \
               seconds it has. Filter: a user, or a profile",
    },
    Show {
        what: "subports",
        columns: columns!(SubportEntry, "level", "users", "source", "packets", "bytes", "dropped"),
        help: "Subports, each with those below it behind it: what their users may send together, and of each class that has a rate, how many there are, and what became of the packets of those who are in it, or below, now. Filter: a subport, which is shown with those below it",
    },
    Show {
        what: "history",
        columns: history::COLUMNS,
        help: "What became of one user's packets at the scheduler in each of the last ten seconds and minutes: how many were sent, at how many bit/s, why some were dropped, how many were marked (ECN), \
               and how long half of them, and 99 of 100, waited at most. Counted from when somebody asks about the user first. Filter: a user, which must be given",
    },
    Show {
        what: "schedulers",
        columns: &["direction", "users", "most_users", "state_bytes", "buffers", "buffer_bytes"],
        help: "The schedulers: how large they are, and their memory for users and, apart from it, for packets that wait",
    },
];

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Mutex<Control>>,
    what: &str,
    filter: Option<&str>,
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    let control = &*lock(shared);
    match what {
        "users" => {
            // Whoever asks about one user is likely to ask for its history next.
            if let Some(number) = filter.and_then(|word| one(control, word)) {
                history::watch(control, number, now);
            }
            Ok(users(shared, chosen(control, filter)?, move |control, number| user_rows(control, number, now)))
        }
        "history" => match filter.map(|word| (word, one(control, word))) {
            Some((_, Some(number))) => Ok(whole(history::rows(control, number, now)?)),
            Some((word, None)) => Err(RequestError(format!(
                "there is no user \"{word}\"; write one such as {}, or `others`; `show users` lists them",
                UserKey::EXAMPLE
            ))),
            None => Err(RequestError(format!(
                "the table 'history' is of one user: write which, such as {}, or `others`; `show users` lists them",
                UserKey::EXAMPLE
            ))),
        },
        "subports" => subport_rows(control, filter),
        "schedulers" => match filter {
            Some(word) => Err(RequestError(format!(
                "\"{word}\" selects nothing: the table 'schedulers' is shown whole; leave the word out"
            ))),
            None => Ok(whole(schedulers(control))),
        },
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// The rows of all subports, or of one.
fn subport_rows(control: &Control, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let number = match filter.map(|name| (name, control.names.subport(name))) {
        Some((name, None)) => {
            let (problem, remedy) = unknown("subport", name, &control.names.subports);
            return Err(RequestError(format!("{problem}; {remedy}")));
        }
        Some((_, number)) => number,
        None => None,
    };
    let mut carried = vec![Carried::default(); control.names.subports.len()];
    let others = control.others.map(|(_, subport)| (OTHERS, subport));
    for (user, subport) in control.users.iter().map(|(user, known)| (user, known.subport())).chain(others) {
        let counts = control.schedulers.iter().map(|(_, shaping)| shaping.count(user));
        let one = Carried { users: 1, count: counts.fold(UserCount::default(), UserCount::plus) };
        carried.iter_mut().skip(usize::from(subport)).take(1).for_each(|all| *all = all.plus(one));
    }
    Ok(whole(control.subports.rows(number, &carried)))
}

/// The number of the one user that a word names, if it does.
fn one(control: &Control, word: &str) -> Option<u32> {
    if word == "others" {
        return control.others.map(|_| OTHERS);
    }
    UserKey::parse(word).ok().and_then(|key| control.users.number(&key))
}

/// The numbers of the users that a filter selects.
fn chosen(control: &Control, filter: Option<&str>) -> Result<Vec<u32>, RequestError> {
    let all = || std::iter::once(OTHERS).chain(control.users.iter().map(|(number, _)| number));
    let Some(word) = filter else { return Ok(all().collect()) };
    if word == "others" {
        return Ok(vec![OTHERS]);
    }
    if let Some(profile) = control.names.profile(word) {
        return Ok(all().filter(|number| profile_of(control, *number) == Some(profile)).collect());
    }
    match UserKey::parse(word) {
        Ok(key) => Ok(control.users.number(&key).into_iter().collect()),
        Err(_) => Err(RequestError(format!(
            "\"{word}\" selects no users; write a user such as {}, `others`, or a profile: {}",
            UserKey::EXAMPLE,
            control.names.profiles.join(", ")
        ))),
    }
}

fn profile_of(control: &Control, number: u32) -> Option<u16> {
    match number {
        OTHERS => control.others.map(|(profile, _)| profile),
        number => control.users.get(number).map(|user| user.profile()),
    }
}

/// What was changed at run time, as requests that would change it again.
pub(crate) fn saved(shared: &Arc<Mutex<Control>>) -> Box<dyn ShowRows<Saved>> {
    let control = lock(shared);
    let given = control.users.iter().filter(|(_, user)| user.is_given()).map(|(number, _)| number).collect();
    let subports = control.subports.saved(control.classes()).into_iter();
    drop(control);
    Box::new(InTurn::new([users(shared, given, request::saved), Box::new(subports)]))
}

fn users<R: 'static, I: IntoIterator<Item = R> + 'static>(
    shared: &Arc<Mutex<Control>>,
    numbers: Vec<u32>,
    rows: impl Fn(&Control, u32) -> I + Send + 'static,
) -> Box<dyn ShowRows<R>> {
    let shared = Arc::clone(shared);
    // What there is to tell of a user is at most two rows.
    entries::pieces(numbers, 2, move |numbers| {
        let control = lock(&shared);
        numbers.flat_map(|number| rows(&control, number)).collect()
    })
}

/// A row for each direction.
fn user_rows(control: &Control, number: u32, now: u64) -> Vec<Value> {
    let user = control.users.get(number);
    let subport = match (number, user) {
        (OTHERS, _) => control.others.map(|(_, subport)| subport),
        (_, user) => user.map(User::subport),
    };
    let Some((profile, subport)) = profile_of(control, number).zip(subport) else { return Vec::new() };
    let name = |names: &[String], number: u16| names.get(usize::from(number)).cloned().unwrap_or_default();
    let keys = user.map_or_else(
        || "others".to_owned(),
        |user| user.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    );
    let source = if user.is_some_and(|user| user.is_given()) { "cli" } else { "config" };
    let row = |(direction, shaping): &(Direction, Arc<Shaping>)| {
        let (count, hold) = (shaping.count(number), shaping.hold(number, now));
        json!({
            "user": keys,
            "number": number,
            "profile": name(&control.names.profiles, profile),
            "subport": name(&control.names.subports, subport),
            "source": source,
            "direction": direction.name(),
            "packets": count.packets,
            "bytes": count.bytes,
            "dropped": count.dropped(),
            "drops": count.by_reason(),
            "marked": count.marked(),
            "marks": count.marks(),
            "held_by": hold.map(|hold| shaping.held_by(&hold)),
            "held_for": hold.map(|hold| hold.seconds(now)),
        })
    };
    control.schedulers.iter().map(row).collect()
}

fn schedulers(control: &Control) -> Vec<Value> {
    let row = |(direction, shaping): &(Direction, Arc<Shaping>)| {
        let (state, buffer) = shaping.bytes();
        json!({
            "direction": direction.name(),
            "users": control.users.len(),
            "most_users": shaping.users(),
            "state_bytes": state * shaping.users() as usize,
            "buffers": shaping.buffers(),
            "buffer_bytes": buffer * shaping.buffers(),
        })
    };
    control.schedulers.iter().map(row).collect()
}
