//! Key paths: which key of a declaration is meant, as `router.routes["10/8"].via`.

use std::fmt;

use crate::value::{Key, quote};

/// A path to a key, built outwards on the stack; it is only made into text when it is needed.
///
/// ```
/// use weir_config::Path;
/// let root = Path::root("router");
/// assert_eq!(
///     root.field("routes").entry("10/8").field("via").index(1).to_string(),
///     r#"router.routes["10/8"].via[1]"#
/// );
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Root(&'a str),
    Field(&'a str),
    Entry(&'a str),
    Index(i64),
}

impl<'a> Path<'a> {
    /// The path of a whole declaration, such as `router` or `port["wan"]`.
    pub const fn root(text: &'a str) -> Self {
        Self { parent: None, segment: Segment::Root(text) }
    }

    /// A named key of a table.
    pub const fn field(&'a self, name: &'a str) -> Self {
        self.with(Segment::Field(name))
    }

    /// An entry of a map.
    pub const fn entry(&'a self, key: &'a str) -> Self {
        self.with(Segment::Entry(key))
    }

    /// An entry of a list, counted from 1 as in Lua, or of a map with integer keys.
    pub const fn index(&'a self, index: i64) -> Self {
        self.with(Segment::Index(index))
    }

    /// An entry of a map by its key as the script has it.
    pub const fn key(&'a self, key: &'a Key) -> Self {
        match key {
            Key::Index(index) => self.index(*index),
            Key::Name(name) => self.field(name.as_str()),
        }
    }

    const fn with(&'a self, segment: Segment<'a>) -> Self {
        Self { parent: Some(self), segment }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root(text) => f.write_str(text),
            Segment::Field(name) if crate::value::is_identifier(name) => write!(f, ".{name}"),
            Segment::Field(name) | Segment::Entry(name) => write!(f, "[{}]", quote(name)),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}
