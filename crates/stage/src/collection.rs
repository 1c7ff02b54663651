//! Collections: entries that a configuration lists, that a file lists line by line, and that come and go at run time.
//!
//! A function declares a collection once, by the fields of its entries. From these follow the columns of the file, the arguments of requests and
//! of their command lines, and how what was added is saved. What one field holds is read in one place, whichever of them it stands in
//! ([`Source`]). How requests are carried out, all or none of a list, and how entries are told by the piece, is in [`entries`](crate::entries).

use std::io::{BufRead, BufReader};

use serde_json::Value;
use weir_config::{Element, ErrorKind, Errors, FilePath, Folder, Path, Row, Rows, Scalar};

use crate::request::{Argument, Saved};

/// A collection of entries of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// What an entry is called in requests: `route`.
    pub noun: &'static str,
    /// The key of the function's configuration that holds entries: `routes`.
    pub key: &'static str,
    /// Whether that key holds a list; else a table, whose keys are the entries' first fields.
    pub is_list: bool,
    /// The key that names a file of entries, where there is one: `routes_csv`.
    pub file_key: &'static str,
    /// What is known of an entry. Those that are required come first; they are columns that a file must have.
    pub fields: &'static [Argument],
    /// Whether a request is told which field is wrong: where they are few, their values say it.
    pub has_labels: bool,
}

/// Where a configuration names a file of entries.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The declaration.
    pub element: &'a Element,
    /// The table in it that has the key.
    pub path: Path<'a>,
    /// The configuration's folder, below which files lie.
    pub folder: Option<&'a Folder>,
}

impl Collection {
    fn names(&self, required: bool) -> Vec<&'static str> {
        self.fields.iter().filter(|field| field.required == required).map(|field| field.name).collect()
    }

    /// The position of a field, which is that of its column in a file's rows.
    pub fn column(&self, field: &str) -> usize {
        self.fields.iter().position(|known| known.name == field).unwrap_or(usize::MAX)
    }

    /// Reads a file of entries line by line; a wrong line does not keep the next ones from being looked at. What is wrong goes to `errors`.
    pub fn read_file(
        &self,
        file: &FilePath,
        site: Site<'_>,
        errors: &mut Errors,
        each: impl FnMut(&Row<'_>, &mut Errors),
    ) {
        let opened = match site.folder {
            Some(folder) => folder.open_file(file),
            None => Err("can not be opened: the configuration has no folder".to_owned()),
        };
        match opened {
            Ok(opened) => self.read_rows(&file.to_string(), BufReader::with_capacity(1 << 18, opened), errors, each),
            Err(reason) => {
                let path = site.path.field(self.file_key);
                errors.push(site.element.error(ErrorKind::File, &path, format!("\"{file}\" {reason}")));
            }
        }
    }

    /// Reads entries line by line, of what is called `name` in messages.
    pub fn read_rows(
        &self,
        name: &str,
        input: impl BufRead,
        errors: &mut Errors,
        mut each: impl FnMut(&Row<'_>, &mut Errors),
    ) {
        let mut rows = match Rows::new(name, input, &self.names(true), &self.names(false)) {
            Ok(rows) => rows,
            Err(wrong) => return errors.extend(wrong),
        };
        while let Some(row) = rows.next(errors) {
            each(&row, errors);
        }
    }

    /// The fields of a request about an entry.
    pub fn arguments<'a>(&self, arguments: &'a Value) -> Arguments<'a> {
        Arguments { arguments, has_labels: self.has_labels, problem: None }
    }

    /// A row of a file as a source of fields. What is wrong with them goes to `errors`.
    pub fn row<'a>(&'a self, row: &'a Row<'a>, errors: &'a mut Errors) -> RowFields<'a> {
        RowFields { collection: self, row, errors }
    }

    /// An entry as it is saved: the request `action` with these arguments adds it again.
    pub fn saved(&self, action: &str, arguments: Value) -> Saved {
        let entry = self.is_list.then(|| arguments.clone());
        Saved { verb: format!("{} {action}", self.noun), arguments, key: self.key.to_owned(), entry, within: None }
    }
}

/// What is said of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<T> {
    /// Nothing: it stays as it was.
    Nothing,
    /// That it has no value.
    None,
    /// A value.
    Some(T),
}

impl<T> Said<T> {
    /// What it is from now on, if it was this.
    pub fn over<U>(self, before: Option<U>, new: impl FnOnce(T) -> U) -> Option<U> {
        match self {
            Said::Nothing => before,
            Said::None => None,
            Said::Some(value) => Some(new(value)),
        }
    }
}

/// The word by which a request takes a value away.
const NONE: &str = "none";

/// Where an entry is described. What is wrong with a field is told by the source; whoever reads it goes on with the others.
pub trait Source {
    /// A field of one value; `None` if it is wrong.
    fn one<T: Scalar>(&mut self, field: &str) -> Option<Said<T>>;

    /// A field of any number of values; `None` if one of them is wrong.
    fn many<T: Scalar>(&mut self, field: &str) -> Option<Said<Vec<T>>>;
}

/// A row of a file; its empty fields say nothing.
pub struct RowFields<'a> {
    collection: &'a Collection,
    row: &'a Row<'a>,
    errors: &'a mut Errors,
}

impl Source for RowFields<'_> {
    fn one<T: Scalar>(&mut self, field: &str) -> Option<Said<T>> {
        let column = self.collection.column(field);
        let is_required = self.collection.fields.get(column).is_some_and(|field| field.required);
        if !is_required && self.row.text(column).is_empty() {
            return Some(Said::Nothing);
        }
        self.row.read(column, self.errors).map(Said::Some)
    }

    fn many<T: Scalar>(&mut self, field: &str) -> Option<Said<Vec<T>>> {
        let column = self.collection.column(field);
        if self.row.text(column).is_empty() {
            return Some(Said::Nothing);
        }
        self.row.read_list(column, ';', self.errors).map(Said::Some)
    }
}

/// The arguments of a request.
#[derive(Debug)]
pub struct Arguments<'a> {
    arguments: &'a Value,
    has_labels: bool,
    /// The first thing that is wrong.
    problem: Option<String>,
}

impl Arguments<'_> {
    /// Something, if nothing was wrong with what it was made of.
    ///
    /// # Errors
    ///
    /// What was wrong first.
    pub fn finish<T>(self, made: Option<T>) -> Result<T, String> {
        match (self.problem, made) {
            (None, Some(made)) => Ok(made),
            (problem, _) => Err(problem.unwrap_or_default()),
        }
    }

    /// A field that must be there; `None` if it is not, or is wrong.
    pub fn required<T: Scalar>(&mut self, field: &str) -> Option<T> {
        match self.value(field).map(|value| self.parse(field, value)) {
            Some(parsed) => self.told(parsed),
            None => self.told(Err(format!("{field} is missing"))),
        }
    }

    /// A field of any number of values, none where nothing is said of it.
    pub fn list<T: Scalar>(&mut self, field: &str) -> Option<Vec<T>> {
        let value = self.value(field);
        let list = value.map_or(&[][..], |value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
        let parsed = list.iter().map(|value| self.parse(field, value)).collect();
        self.told(parsed)
    }

    fn value(&self, field: &str) -> Option<&Value> {
        self.arguments.get(field).filter(|value| !value.is_null())
    }

    fn told<T>(&mut self, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|problem| _ = self.problem.get_or_insert(problem)).ok()
    }

    fn parse<T: Scalar>(&self, field: &str, value: &Value) -> Result<T, String> {
        let label = if self.has_labels { format!("{field}: ") } else { String::new() };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(format!("{label}{value} is not {}", T::WHAT)),
        };
        T::parse(&text).map_err(|malformed| {
            let usual = || format!("write it as in {}", T::EXAMPLE);
            let remedy = if malformed.remedy.is_empty() { usual() } else { malformed.remedy };
            format!("{label}\"{text}\" {}; {remedy}", malformed.problem)
        })
    }
}

impl Source for Arguments<'_> {
    fn one<T: Scalar>(&mut self, field: &str) -> Option<Said<T>> {
        match self.value(field) {
            None => Some(Said::Nothing),
            Some(value) if value == NONE => Some(Said::None),
            Some(value) => {
                let parsed = self.parse(field, value);
                self.told(parsed).map(Said::Some)
            }
        }
    }

    fn many<T: Scalar>(&mut self, field: &str) -> Option<Said<Vec<T>>> {
        match self.value(field) {
            None => Some(Said::Nothing),
            Some(value) if value == NONE || value.as_array().is_some_and(|list| list.as_slice() == [NONE]) => {
                Some(Said::None)
            }
            Some(_) => self.list(field).map(Said::Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;

    const PREFIX: Argument = Argument { name: "prefix", keyword: None, required: true, many: false, help: "" };
    const ROUTES: Collection = Collection {
        noun: "route",
        key: "routes",
        is_list: false,
        file_key: "routes_csv",
        fields: &[
            PREFIX,
            Argument { name: "via", keyword: Some("via"), many: true, ..PREFIX },
            Argument { name: "mtu", keyword: Some("mtu"), required: false, ..PREFIX },
        ],
        has_labels: true,
    };

    type Route = (Said<Ipv4Addr>, Said<Vec<Ipv4Addr>>);

    fn read(source: &mut impl Source) -> Option<Route> {
        let (prefix, via) = (source.one("prefix"), source.many("via"));
        Some((prefix?, via?))
    }

    fn of_request(arguments: &Value) -> Result<Route, String> {
        let mut arguments = ROUTES.arguments(arguments);
        let route = read(&mut arguments);
        arguments.finish(route)
    }

    #[test]
    fn rows_and_requests_say_the_same_of_an_entry() {
        let text = "via,prefix\n192.0.2.1;192.0.2.2,10.0.0.0\n,11.0.0.0\n192.0.2,\n";
        let mut rows = Rows::new("r.csv", text.as_bytes(), &ROUTES.names(true), &ROUTES.names(false)).unwrap();
        let (mut errors, mut found) = (Errors::new(), Vec::new());
        while let Some(row) = rows.next(&mut errors) {
            found.push(read(&mut ROUTES.row(&row, &mut errors)));
        }
        let asked =
            [json!({ "prefix": "10.0.0.0", "via": ["192.0.2.1", "192.0.2.2"] }), json!({ "prefix": "11.0.0.0" })];
        assert_eq!(found[..2], asked.map(|asked| of_request(&asked).ok()));
        assert_eq!(found[2..], [None]);
        let told: Vec<String> = errors.into_result(()).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with("r.csv:4:9: prefix: ") && told[1].starts_with("r.csv:4:1: via: "), "{told:?}");
        assert_eq!((told.len(), ROUTES.column("prefix"), ROUTES.column("mtu")), (2, 0, 2));
    }

    #[test]
    fn what_a_request_says_of_a_field_goes_over_what_was() {
        let said = |value: Value| {
            let value = json!({ "via": value });
            let mut arguments = ROUTES.arguments(&value);
            let said = arguments.one::<Ipv4Addr>("via");
            arguments.finish(said).map(|said| said.over(Some("before".to_owned()), |address| address.to_string()))
        };
        assert_eq!(said(Value::Null), Ok(Some("before".to_owned())));
        assert_eq!(said(json!("none")), Ok(None));
        assert_eq!(said(json!("192.0.2.1")), Ok(Some("192.0.2.1".to_owned())));
        assert_eq!(said(json!(true)), Err("via: true is not an IPv4 address".to_owned()));
        let wrong = "via: \"192.0.2\" is not an IPv4 address; write it as in 192.0.2.9";
        assert_eq!(said(json!("192.0.2")), Err(wrong.to_owned()));
        let absent = json!({});
        let mut arguments = ROUTES.arguments(&absent);
        let prefix = arguments.required::<Ipv4Addr>("prefix");
        assert_eq!(arguments.finish(prefix), Err("prefix is missing".to_owned()));
    }

    #[test]
    fn what_is_saved_names_the_request_and_the_key() {
        let arguments = json!({ "prefix": "10.0.0.0" });
        let saved = ROUTES.saved("add", arguments.clone());
        assert_eq!((&*saved.verb, &*saved.key, saved.entry), ("route add", "routes", None));
        assert_eq!(Collection { is_list: true, ..ROUTES }.saved("add", arguments.clone()).entry, Some(arguments));
    }
}
