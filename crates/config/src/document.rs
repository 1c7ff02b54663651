//! A configuration as a script declares it, and as it is after checking.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::check::Context;
use crate::contents::{NamedFile, named_files};
use crate::error::{ConfigError, ErrorKind, Errors, nearest};
use crate::folder::Folder;
use crate::path::Path;
use crate::place::Place;
use crate::schema::{Change, KeySchema, Presence, Schema};
use crate::setting::Setting;
use crate::types::{Length, NAME, Pattern, Type};
use crate::value::{Table, Value, quote};

/// One declaring call of a script, such as `port { ... }`; nothing in it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// What is declared: `port`, `router`, ...
    pub kind: String,
    /// The table that the call was given.
    pub table: Value,
    /// Where the call stands.
    pub place: Place,
    /// Whether parts of the table could not be taken over; the errors about them stand in
    /// [`Document::errors`], so that the rest is not looked at.
    #[serde(default)]
    pub incomplete: bool,
}

/// All that a script declares, in its order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The script, as the user named it.
    pub file: String,
    /// The declaring calls.
    pub declarations: Vec<Declaration>,
    /// Mistakes that did not stop the script, such as the call of an unknown kind.
    pub errors: Vec<ConfigError>,
    /// What the script printed.
    pub messages: Vec<String>,
}

/// How often a kind may be declared, and whether by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// Any number, each with a name.
    Named,
    /// Any number; one that has no name bears that of its kind.
    MayBeNamed,
    /// At most one, without a name. If there is none, its defaults hold.
    Single,
}

/// A kind of declaration that is known.
#[derive(Debug, Clone)]
pub struct Kind {
    name: &'static str,
    schema: Schema,
    naming: Naming,
}

impl Kind {
    /// A kind whose every declaration has a name, such as `port`. The key `name` is added to the schema.
    pub fn named(name: &'static str, schema: Schema) -> Self {
        Self::new(name, schema, Naming::Named)
    }

    /// The same with names by a rule of their own, of which the schema may have the key already.
    pub fn named_by(name: &'static str, rule: &'static Pattern, schema: Schema) -> Self {
        Self::of(name, rule, schema, Naming::Named)
    }

    /// A function: its name may be left out where there is one only. The key `name` is added to the schema.
    pub fn function(name: &'static str, schema: Schema) -> Self {
        Self::new(name, schema, Naming::MayBeNamed)
    }

    /// A kind that is declared at most once and has no name, such as `engine`.
    pub fn single(name: &'static str, schema: Schema) -> Self {
        Self::new(name, schema, Naming::Single)
    }

    fn new(name: &'static str, schema: Schema, naming: Naming) -> Self {
        Self::of(name, &NAME, schema, naming)
    }

    fn of(name: &'static str, rule: &'static Pattern, mut schema: Schema, naming: Naming) -> Self {
        let presence = match naming {
            Naming::Named => Presence::Required,
            Naming::MayBeNamed => Presence::Default(Value::from(name)),
            Naming::Single => return Self { name, schema, naming },
        };
        let text = Type::Text { length: Length::ANY, pattern: Some(rule) };
        let doc = "The name, which must be the only one of its kind: it is what a reload knows the element by.";
        match schema.keys.iter_mut().find(|key| key.name == "name") {
            Some(own) => own.holds = text,
            None => schema.keys.insert(0, KeySchema::new("name", text, presence, Change::RestartProcess, doc)),
        }
        Self { name, schema, naming }
    }

    /// The word that declares it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its keys.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The name that a declaration gives, or that it has by default.
    fn name_of<'a>(&'a self, declaration: &'a Declaration) -> Option<&'a str> {
        let given = declaration.table.as_table().and_then(|table| table.get("name"));
        match (self.naming, given) {
            (Naming::Single, _) | (Naming::MayBeNamed, None) => Some(self.name),
            (_, given) => given.and_then(Value::as_text),
        }
    }

    /// How a declaration is called in messages.
    fn title(&self, name: &str) -> String {
        if name == self.name { name.to_owned() } else { format!("{}[{}]", self.name, quote(name)) }
    }
}

/// The kinds that are known.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    kinds: Vec<Kind>,
}

impl FromIterator<Kind> for Catalogue {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        Self { kinds: kinds.into_iter().collect() }
    }
}

impl Catalogue {
    /// The kind of this name.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// All kinds.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The words that a script may call.
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(Kind::name).collect()
    }
}

/// A checked declaration: its value has the form that its schema asks for, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    kind: &'static str,
    name: String,
    title: String,
    place: Place,
    value: Value,
    pub(crate) files: Vec<NamedFile>,
}

impl Element {
    /// What it is: `port`, `router`, ...
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Its name; that of its kind where the script gives none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it was declared.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its keys in canonical form.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The start of its key paths: `router` or `port["wan"]`.
    pub fn path(&self) -> Path<'_> {
        Path::root(&self.title)
    }

    /// Reads it into the type whose schema it was checked against.
    ///
    /// # Errors
    /// That the type is not the one that it was checked against, which only a wrong catalogue brings about.
    pub fn read<T: Setting>(&self) -> Result<T, Vec<ConfigError>> {
        T::read(&self.value)
            .ok_or_else(|| vec![self.error(ErrorKind::Malformed, &self.path(), "cannot be read as its schema says")])
    }

    /// Reads one key of it, however much stands in the others; `None` if the key is not of that type, which only a wrong catalogue brings
    /// about.
    pub fn read_key<T: Setting>(&self, name: &str) -> Option<T> {
        if let Value::Table(table) = &self.value { crate::setting::read_key(table, name) } else { None }
    }

    /// An error about a key of it, for what only the function itself can check.
    pub fn error(&self, kind: ErrorKind, path: &Path<'_>, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(kind, &self.place, path, problem)
    }
}

/// The element as a script would declare it.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Value::Table(Table(entries)) = &self.value else {
            return writeln!(f, "{} {}", self.kind, self.value);
        };
        writeln!(f, "{} {{", self.kind)?;
        for (key, value) in entries {
            writeln!(f, "  {key} = {value},")?;
        }
        writeln!(f, "}}")
    }
}

/// A checked configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    elements: Vec<Arc<Element>>,
}

impl Checked {
    /// The elements in the order of their declarations; kinds that hold by default come last.
    pub fn elements(&self) -> &[Arc<Element>] {
        &self.elements
    }

    /// The elements of one kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Arc<Element>> {
        self.elements.iter().filter(move |element| element.kind == kind)
    }

    /// A script of these elements, as if it stood in `file`: checked against the same kinds, it comes to the same again.
    pub fn document(&self, file: impl Into<String>) -> Document {
        let declaration = |element: &Arc<Element>| Declaration {
            kind: element.kind.to_owned(),
            table: element.value.clone(),
            place: element.place.clone(),
            incomplete: false,
        };
        let declarations = self.elements.iter().map(declaration).collect();
        Document { file: file.into(), declarations, ..Document::default() }
    }

    /// The element of this kind and name.
    pub fn get(&self, kind: &str, name: &str) -> Option<&Arc<Element>> {
        self.elements.iter().find(|element| element.kind == kind && element.name == name)
    }
}

/// The configuration as a script would declare it.
impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.iter().try_for_each(|element| element.fmt(f))
    }
}

impl Document {
    /// Checks everything against the kinds that are known. Files are looked for in `folder`, if there is one.
    ///
    /// # Errors
    /// All mistakes, in the order of the declarations.
    pub fn check(&self, catalogue: &Catalogue, folder: Option<&Folder>) -> Result<Checked, Vec<ConfigError>> {
        match self.examine(catalogue, folder) {
            (checked, errors) if errors.is_empty() => Ok(checked),
            (_, errors) => Err(errors),
        }
    }

    /// As [`Document::check`], with the elements that nothing is wrong with beside the mistakes in others: what is wrong with their
    /// meaning can be told at once, too.
    pub fn examine(&self, catalogue: &Catalogue, folder: Option<&Folder>) -> (Checked, Vec<ConfigError>) {
        let mut errors = Errors::new();
        errors.extend(self.errors.iter().cloned());
        let context = self.context(catalogue).folder(folder.cloned());
        let mut elements = Vec::new();
        let mut first_places = BTreeMap::new();
        for declaration in &self.declarations {
            let Some(kind) = catalogue.kind(&declaration.kind) else {
                errors.push(unknown_kind(declaration, catalogue));
                continue;
            };
            let name = kind.name_of(declaration).unwrap_or_default();
            if let Some(first) = first_places.get(&(kind.name, name)) {
                errors.push(declared_twice(kind, name, &declaration.place, first));
            } else if !name.is_empty() {
                first_places.insert((kind.name, name), declaration.place.clone());
            }
            if !declaration.incomplete {
                elements.extend(kind.element(declaration, name, &context, &mut errors).map(Arc::new));
            }
        }
        self.add_defaults(catalogue, &context, &mut elements, &mut errors);
        (Checked { elements }, errors.into_result(()).err().unwrap_or_default())
    }

    fn context(&self, catalogue: &Catalogue) -> Context {
        self.declarations.iter().fold(Context::new(), |context, declaration| {
            match catalogue.kind(&declaration.kind).and_then(|kind| kind.name_of(declaration)) {
                Some(name) => context.name(&declaration.kind, name),
                None => context,
            }
        })
    }

    fn add_defaults(
        &self,
        catalogue: &Catalogue,
        context: &Context,
        elements: &mut Vec<Arc<Element>>,
        errors: &mut Errors,
    ) {
        for kind in catalogue.kinds.iter().filter(|kind| kind.naming == Naming::Single) {
            if elements.iter().any(|element| element.kind == kind.name) {
                continue;
            }
            let absent = Declaration {
                kind: kind.name.to_owned(),
                table: Value::Table(Table::default()),
                place: Place::line(&self.file, 0),
                incomplete: false,
            };
            // Where it is declared wrongly, which was told, its defaults stand in, for others to be looked at.
            let is_declared = self.declarations.iter().any(|declaration| declaration.kind == kind.name);
            let mut told = Errors::new();
            let errors = if is_declared { &mut told } else { &mut *errors };
            elements.extend(kind.element(&absent, kind.name, context, errors).map(Arc::new));
        }
    }
}

impl Kind {
    fn element(
        &self,
        declaration: &Declaration,
        name: &str,
        context: &Context,
        errors: &mut Errors,
    ) -> Option<Element> {
        let title = self.title(if name.is_empty() { self.name } else { name });
        let path = Path::root(&title);
        let checked = self.schema.check(&declaration.table, &declaration.place, &path, context);
        let value = checked.map_err(|found| errors.extend(found)).ok()?;
        let files =
            context.files_in().map(|folder| named_files(&self.schema, &value, &path, folder)).unwrap_or_default();
        Some(Element { kind: self.name, name: name.to_owned(), place: declaration.place.clone(), value, files, title })
    }
}

fn unknown_kind(declaration: &Declaration, catalogue: &Catalogue) -> ConfigError {
    let names = catalogue.names();
    let near = nearest(&declaration.kind, names.iter().copied());
    ConfigError::new(ErrorKind::Unknown, &declaration.place, &declaration.kind, "is nothing that can be declared")
        .allowed(format!("one of {}", names.join(", ")))
        .remedy(crate::check::did_you_mean(near))
}

fn declared_twice(kind: &Kind, name: &str, place: &Place, first: &Place) -> ConfigError {
    let remedy = match kind.naming {
        Naming::Single => "put all keys into one declaration",
        Naming::Named => "give it another name",
        Naming::MayBeNamed => "give each a name of its own, as in name = \"one\"",
    };
    ConfigError::new(ErrorKind::Duplicate, place, kind.title(name), format!("is declared already at {first}"))
        .remedy(remedy)
}
