//! Changes and tables of stages, each named by its stage and a point before the name that it has there: `STAGE.NAME`.

use std::collections::VecDeque;

use serde_json::Value;
use weir_stage::{Entries, MakeStage, PIECE, RequestError, Saved, Show, ShowRows, TakeBack, Verb, entries};

use crate::function::STAGES;
use crate::running::Part;

type Parts = [Part<dyn MakeStage>];

/// Carries out a request for one or many changes: all of it or nothing.
pub(crate) fn carry_out(parts: &Parts, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    entries::carry_out(|| Box::new(Changing(parts)), PIECE, (verb, arguments), now)
}

/// Changes what these stages have.
struct Changing<'a>(&'a Parts);

impl Entries for Changing<'_> {
    type Undo = TakeBack;

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<TakeBack, String> {
        let knows = |part: &Part<dyn MakeStage>| verb_of(part, verb).is_some();
        let argument = self.0.iter().find_map(|part| verb_of(part, verb)?.arguments.first());
        let argument = argument.ok_or_else(|| format!("no stage knows '{verb}'"))?;
        let full = arguments.get(argument.name).and_then(Value::as_str);
        let full = full.ok_or_else(|| format!("{} is missing", argument.name))?;
        let (part, name) = named(self.0, knows, argument.name, full)?;
        let mut own = arguments.clone();
        if let Some(own) = own.as_object_mut() {
            own.insert(argument.name.to_owned(), name.into());
        }
        part.make.change(verb, &own, now)
    }

    fn take_back(&mut self, undo: TakeBack, now: u64) {
        undo(now);
    }
}

fn verb_of(part: &Part<dyn MakeStage>, name: &str) -> Option<&'static Verb> {
    part.kind.verbs().iter().find(|verb| verb.name() == name)
}

fn show_of(part: &Part<dyn MakeStage>, what: &str) -> Option<&'static Show> {
    part.kind.shows().iter().find(|show| show.what == what)
}

/// The stage that a full name is about, one of those that have something of this sort, and the rest of the name.
fn named<'p, 'n>(
    parts: &'p Parts,
    has: impl Fn(&Part<dyn MakeStage>) -> bool,
    sort: &str,
    full: &'n str,
) -> Result<(&'p Part<dyn MakeStage>, &'n str), String> {
    let found = full.split_once('.').and_then(|(stage, name)| {
        let part = parts.iter().find(|part| part.name == stage && has(part))?;
        Some((part, name))
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = parts.iter().filter(|part| has(part)).map(|part| part.name.as_str()).collect();
        match names.as_slice() {
            [] => format!("there is no {sort} \"{full}\"; no stage has one"),
            names => {
                let sort_word = sort.to_uppercase();
                format!(
                    "there is no {sort} \"{full}\"; write STAGE.{sort_word}, where STAGE is one of {}",
                    names.join(", ")
                )
            }
        }
    })
}

/// Whether a stage here is of a kind that shows such a table.
pub(crate) fn is_shown(parts: &Parts, what: &str) -> bool {
    parts.iter().any(|part| show_of(part, what).is_some())
}

/// The rows of a table that kinds of stages show.
pub(crate) fn show(parts: &Parts, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let column = parts.iter().find_map(|part| show_of(part, what)?.columns.first()).copied().unwrap_or("table");
    let has = |part: &Part<dyn MakeStage>| show_of(part, what).is_some();
    let asked: Vec<(&Part<dyn MakeStage>, Option<&str>)> = match filter {
        Some(word) => {
            let (part, name) = named(parts, has, column, word).map_err(RequestError)?;
            vec![(part, Some(name))]
        }
        None => parts.iter().filter(|part| has(part)).map(|part| (part, None)).collect(),
    };
    let rows = asked.into_iter().map(|(part, filter)| Ok((part.name.clone(), part.make.show(what, filter)?)));
    let rows = rows.collect::<Result<_, RequestError>>()?;
    Ok(Box::new(InStages {
        rows,
        full: move |stage: &str, row: &mut Value| {
            if let Some(name) = row.get_mut(column) {
                *name = format!("{stage}.{}", name.as_str().unwrap_or_default()).into();
            }
        },
    }))
}

/// What was added at run time to what stages have.
pub(crate) fn save(parts: &Parts) -> Box<dyn ShowRows<Saved>> {
    let arguments: Vec<(String, &'static str)> = parts
        .iter()
        .flat_map(|part| part.kind.verbs())
        .filter_map(|verb| Some((verb.name(), verb.arguments.first()?.name)))
        .collect();
    let rows = parts.iter().map(|part| (part.name.clone(), part.make.save())).collect();
    Box::new(InStages {
        rows,
        full: move |stage: &str, saved: &mut Saved| {
            saved.key = format!("{STAGES}.{stage}.{}", saved.key);
            let argument = arguments.iter().find(|(verb, _)| *verb == saved.verb).map(|(_, argument)| *argument);
            if let Some(name) = argument.and_then(|argument| saved.arguments.get_mut(argument)) {
                *name = format!("{stage}.{}", name.as_str().unwrap_or_default()).into();
            }
        },
    })
}

/// The rows of one stage behind those of another. Each is given its full name.
struct InStages<R, F> {
    rows: VecDeque<(String, Box<dyn ShowRows<R>>)>,
    full: F,
}

impl<R: Send, F: Fn(&str, &mut R) + Send> ShowRows<R> for InStages<R, F> {
    fn piece(&mut self) -> Vec<R> {
        while let Some((stage, rows)) = self.rows.front_mut() {
            let mut piece = rows.piece();
            if !piece.is_empty() {
                piece.iter_mut().for_each(|row| (self.full)(stage, row));
                return piece;
            }
            self.rows.pop_front();
        }
        Vec::new()
    }
}
