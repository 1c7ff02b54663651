//! What an entry of a collection is, declared once: its schema in a configuration, the columns of its file, the arguments of its requests, the
//! columns of its table, and how it is saved.

use serde_json::{Map, Value};
use weir_config::{KeySchema, Schema, Setting};

use crate::collection::Source;
use crate::request::Argument;

/// An entry of a collection. [`entry!`](crate::entry) declares one.
pub trait Entry: Clone + PartialEq + Send + Setting + 'static {
    /// What tells entries apart: the first fields.
    type Key: Ord + Clone + Send + 'static;

    /// The fields, as arguments of the request that adds one. Those that must be given are required; of these, those that tell entries apart stand
    /// alone and come first, the others are behind their names.
    const FIELDS: &'static [Argument];
    /// Those of the fields that tell entries apart.
    const KEYS: &'static [Argument];
    /// The fields, as arguments of the request that changes one: only those that tell entries apart are required.
    const CHANGES: &'static [Argument];
    /// The names of the fields.
    const NAMES: &'static [&'static str];

    /// What is allowed of each field.
    fn fields() -> &'static Schema;

    /// What tells it from others.
    fn key(&self) -> Self::Key;

    /// Reads what tells an entry from others.
    fn read_key(source: &mut impl Source) -> Option<Self::Key>;

    /// Reads an entry; fields of which nothing is said are as they were `before`, or have their defaults. `None` if something is wrong, which is
    /// told by the source.
    fn read_from(source: &mut impl Source, before: Option<&Self>) -> Option<Self>;

    /// Its fields as they are saved and shown; those without a value are left out.
    fn to_json(&self) -> Map<String, Value>;

    /// An entry as people speak of it: `203.0.113.1 psid 3`.
    fn name_of(key: &Self::Key) -> String;

    /// Its row in a table: all its fields, those without a value as `null` or an empty list, and more columns.
    fn row(&self, more: Value) -> Value {
        let mut fields = self.to_json();
        for field in Self::FIELDS {
            let none = || if field.many { Value::Array(Vec::new()) } else { Value::Null };
            fields.entry(field.name).or_insert_with(none);
        }
        if let Value::Object(more) = more {
            fields.extend(more);
        }
        fields.into()
    }
}

/// Declares an entry: a struct as [`config!`](weir_config::config) declares it, and behind its name the fields that tell entries apart, which come
/// first. On the command line those of them that must be given stand alone, and all else is behind its name. Their doc comments are the manual of
/// the configuration's key, of the columns of a file and of the arguments of requests.
///
/// ```
/// use std::net::Ipv4Addr;
/// use weir_stage::{Collection, Entry, Verb};
///
/// weir_stage::entry! {
///     /// A host that has a name.
///     pub struct Host by (address: Ipv4Addr) {
///         /// Its address.
///         pub address: Ipv4Addr = required, live;
///         /// What it is called.
///         pub name: String = required, live;
///         /// How many seconds the name counts.
///         pub seconds: u32 = default(300), live, range(1..=86_400);
///     }
/// }
/// static HOSTS: Collection = Collection::of::<Host>("host", "hosts").in_file("hosts_csv");
/// static VERBS: &[Verb] = &[HOSTS.verb("add", Host::FIELDS, "Names a host"), HOSTS.verb("del", Host::KEYS, "Forgets it")];
///
/// assert_eq!(Host::schema().defects(), Vec::<String>::new());
/// assert_eq!(Host::NAMES, ["address", "name", "seconds"]);
/// assert_eq!((Host::FIELDS[2].keyword, Host::FIELDS[2].help), (Some("seconds"), "How many seconds the name counts"));
/// ```
#[macro_export]
macro_rules! entry {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident by ($($id:ident: $id_type:ty),+ $(,)?) {
            $(
                $(#[doc = $key_doc:literal])*
                $key_vis:vis $key:ident : $type:ty = $presence:ident $(($default:expr))? , $change:ident
                    $(, $rule:ident($bound:expr))* ;
            )*
        }
    ) => {
        $crate::weir_config::config! {
            $(#[doc = $doc])*
            $vis struct $name {
                $(
                    $(#[doc = $key_doc])*
                    $key_vis $key: $type = $presence $(($default))?, $change $(, $rule($bound))*;
                )*
            }
        }

        impl $crate::Entry for $name {
            type Key = ($($id_type,)+);

            const FIELDS: &'static [$crate::Argument] = &$crate::collection::entry::arguments([
                $((
                    ::core::stringify!($key),
                    ::core::concat!($($key_doc),*),
                    $crate::__is_required!($presence),
                    <$type as $crate::weir_config::Setting>::IS_LIST,
                )),*
            ], &[$(::core::stringify!($id)),+]);
            const KEYS: &'static [$crate::Argument] =
                Self::FIELDS.split_at([$(::core::stringify!($id)),+].len()).0;
            const CHANGES: &'static [$crate::Argument] =
                &$crate::collection::entry::changes::<{ Self::FIELDS.len() }>(Self::FIELDS, Self::KEYS.len());
            const NAMES: &'static [&'static str] = &[$(::core::stringify!($key)),*];

            fn fields() -> &'static $crate::weir_config::Schema {
                static FIELDS: ::std::sync::LazyLock<$crate::weir_config::Schema> =
                    ::std::sync::LazyLock::new($name::schema);
                &FIELDS
            }

            fn key(&self) -> Self::Key {
                ($(::core::clone::Clone::clone(&self.$id),)+)
            }

            fn read_key(source: &mut impl $crate::Source) -> ::core::option::Option<Self::Key> {
                let mut fields = <Self as $crate::Entry>::fields().keys.iter();
                $(let $id = $crate::collection::entry::field::<$id_type>(source, fields.next(), None);)+
                ::core::option::Option::Some(($($id?,)+))
            }

            fn read_from(
                source: &mut impl $crate::Source,
                before: ::core::option::Option<&Self>,
            ) -> ::core::option::Option<Self> {
                let mut fields = <Self as $crate::Entry>::fields().keys.iter();
                $(let $key = $crate::collection::entry::field::<$type>(
                    source, fields.next(), before.map(|before| &before.$key));)*
                ::core::option::Option::Some(Self { $($key: $key?,)* })
            }

            fn to_json(&self) -> $crate::serde_json::Map<::std::string::String, $crate::serde_json::Value> {
                let mut map = $crate::serde_json::Map::new();
                $($crate::collection::entry::write(&mut map, ::core::stringify!($key), &self.$key);)*
                map
            }

            fn name_of(key: &Self::Key) -> ::std::string::String {
                let ($($id,)+) = key;
                $crate::collection::entry::named(&[
                    $((::core::stringify!($id), $crate::weir_config::Setting::write($id))),+
                ])
            }
        }
    };
}

/// Whether a key must be given; part of [`entry!`](crate::entry).
#[doc(hidden)]
#[macro_export]
macro_rules! __is_required {
    (required) => {
        true
    };
    ($presence:ident) => {
        false
    };
}

/// The columns of a table of entries: their fields, and others.
///
/// ```
/// weir_stage::entry! {
///     /// A host.
///     struct Host by (name: String) {
///         /// Its name.
///         name: String = required, live;
///     }
/// }
/// assert_eq!(weir_stage::columns!(Host, "source", "packets"), &["name", "source", "packets"]);
/// ```
#[macro_export]
macro_rules! columns {
    ($entry:ty $(, $more:literal)* $(,)?) => {{
        const MORE: &[&str] = &[$($more),*];
        const FIELDS: &[&str] = <$entry as $crate::Entry>::NAMES;
        const ALL: &[&str] = &$crate::collection::entry::join::<{ FIELDS.len() + MORE.len() }>(FIELDS, MORE);
        ALL
    }};
}

/// Two lists of names in one; part of [`columns!`](crate::columns).
#[doc(hidden)]
pub const fn join<const N: usize>(one: &[&'static str], other: &[&'static str]) -> [&'static str; N] {
    let mut all = [""; N];
    let mut n = 0;
    while n < N {
        all[n] = if n < one.len() { one[n] } else { other[n - one.len()] };
        n += 1;
    }
    all
}

/// Fields as arguments, from names, doc comments, whether they must be given, and whether they are lists. Of those that tell entries apart, whose
/// names are `keys`, those that must be given stand alone, and come first; all others are behind their names. Part of [`entry!`](crate::entry).
#[doc(hidden)]
pub const fn arguments<const N: usize>(
    said: [(&'static str, &'static str, bool, bool); N],
    keys: &[&str],
) -> [Argument; N] {
    let none = Argument { name: "", keyword: None, required: false, many: false, help: "" };
    let (mut alone, mut n) = (0, 0);
    while n < keys.len() {
        assert!(is_same(said[n].0, keys[n]), "the fields that tell entries apart come first");
        alone += said[n].2 as usize;
        n += 1;
    }
    let mut all = [none; N];
    let (mut before, mut behind) = (0, alone);
    n = 0;
    while n < N {
        let (name, doc, required, many) = said[n];
        let stands_alone = required && n < keys.len();
        let (keyword, at) = if stands_alone { (None, &mut before) } else { (Some(name), &mut behind) };
        all[*at] = Argument { name, keyword, required, many, help: help(doc) };
        *at += 1;
        n += 1;
    }
    all
}

impl Argument {
    /// Those of some arguments that have these names, in the order of the names, and `more` behind them; `N` in all.
    pub const fn these<const N: usize>(all: &[Argument], names: &[&str], more: &[Argument]) -> [Argument; N] {
        assert!(names.len() + more.len() == N, "so many arguments are named");
        let mut these = [Argument { name: "", keyword: None, required: false, many: false, help: "" }; N];
        let (mut n, mut at) = (0, 0);
        while n < N {
            if n >= names.len() {
                these[n] = more[n - names.len()];
            } else if is_same(all[at].name, names[n]) {
                (these[n], at) = (all[at], 0);
            } else {
                at += 1;
                continue;
            }
            n += 1;
        }
        these
    }
}

/// Whether two names are the same.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A doc comment as the help of an argument has it.
const fn help(doc: &'static str) -> &'static str {
    let doc = doc.trim_ascii();
    match doc.as_bytes() {
        [text @ .., b'.'] => match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(_) => doc,
        },
        _ => doc,
    }
}

/// The same arguments, of which only the first must be given, if they had to be. Part of [`entry!`](crate::entry).
#[doc(hidden)]
pub const fn changes<const N: usize>(all: &[Argument], keys: usize) -> [Argument; N] {
    let none = Argument { name: "", keyword: None, required: false, many: false, help: "" };
    let mut changes = [none; N];
    let mut n = 0;
    while n < N {
        changes[n] = Argument { required: all[n].required && n < keys, ..all[n] };
        n += 1;
    }
    changes
}

/// Reads a field, which the schema has at the place that it has in the declaration. Part of [`entry!`](crate::entry).
#[doc(hidden)]
pub fn field<T: Setting + Clone>(source: &mut impl Source, field: Option<&KeySchema>, before: Option<&T>) -> Option<T> {
    source.field(field?, before)
}

/// What a field is where nothing is said of it: what it was, or its default.
pub(super) fn unsaid<T: Setting + Clone>(key: &KeySchema, before: Option<&T>) -> Option<T> {
    use weir_config::Presence;
    before.cloned().or_else(|| match &key.presence {
        Presence::Required => None,
        Presence::Optional => T::read(&weir_config::Value::Nil),
        Presence::Default(default) => T::read(default),
    })
}

/// Writes a field, unless it has no value. Part of [`entry!`](crate::entry).
#[doc(hidden)]
pub fn write<T: Setting>(map: &mut Map<String, Value>, name: &str, field: &T) {
    let value = match json(field.write()) {
        Value::Null => return,
        Value::Array(list) if list.is_empty() => return,
        one if T::IS_LIST && !one.is_array() => Value::Array(vec![one]),
        value => value,
    };
    map.insert(name.to_owned(), value);
}

/// A value of a configuration as JSON has it.
fn json(value: weir_config::Value) -> Value {
    match value {
        weir_config::Value::Nil => Value::Null,
        weir_config::Value::Bool(boolean) => boolean.into(),
        weir_config::Value::Integer(integer) => integer.into(),
        weir_config::Value::Number(number) => number.into(),
        weir_config::Value::Text(text) => text.into(),
        weir_config::Value::List(list) => list.into_iter().map(json).collect(),
        weir_config::Value::Table(table) => {
            table.0.into_iter().map(|(key, value)| (key_text(key), json(value))).collect()
        }
    }
}

fn key_text(key: weir_config::Key) -> String {
    match key {
        weir_config::Key::Index(index) => index.to_string(),
        weir_config::Key::Name(name) => name,
    }
}

/// An entry by what tells it from others. Part of [`entry!`](crate::entry).
#[doc(hidden)]
pub fn named(fields: &[(&str, weir_config::Value)]) -> String {
    let mut name = String::new();
    for (field, value) in fields {
        let text = match value {
            weir_config::Value::Nil => continue,
            weir_config::Value::Text(text) => text.clone(),
            other => other.to_string(),
        };
        match name.is_empty() {
            true => name = text,
            false => name.extend([" ", field, " ", &text]),
        }
    }
    name
}
