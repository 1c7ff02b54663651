//! What a user may write, and what is said when it is wrong.
//!
//! A function declares its configuration once, as a struct, with [`config!`]: the doc comments are the manual, and the
//! [`Schema`] made from it drives the checking, the help and the tests of errors. A script yields a [`Document`]
//! of plain [`Value`]s; checked against a [`Catalogue`] of kinds it becomes a [`Checked`] configuration whose
//! [`Element`]s are read into those structs; two of them give a [`Plan`] for a reload. Big tables come as CSV through
//! [`Rows`].
//!
//! ```
//! use weir_config::{Catalogue, Declaration, Document, Kind, Place, PortName, Table, Value, config};
//!
//! config! {
//!     /// Copies packets from one port to another.
//!     pub struct CopyConfig {
//!         /// Where packets come in.
//!         pub from: PortName = required, rebuild;
//!         /// Where they go out.
//!         pub to: PortName = required, rebuild;
//!         /// How many packets are copied at once.
//!         pub batch: u8 = default(64), live, range(1..=64);
//!     }
//! }
//! config! {
//!     /// A port.
//!     pub struct PortConfig {
//!         /// What it stands for.
//!         pub device: String = required, restart_port;
//!     }
//! }
//!
//! let catalogue: Catalogue =
//!     [Kind::named("port", PortConfig::schema()), Kind::function("copy", CopyConfig::schema())]
//!         .into_iter()
//!         .collect();
//! let declare = |kind: &str, line, keys: &[(&str, Value)]| Declaration {
//!     kind: kind.to_owned(),
//!     table: Value::Table(keys.iter().map(|(key, value)| ((*key).into(), value.clone())).collect::<Table>()),
//!     place: Place::line("copy.lua", line),
//!     incomplete: false,
//! };
//! let document = Document {
//!     declarations: vec![
//!         declare("port", 1, &[("name", "a".into()), ("device", "null".into())]),
//!         declare("copy", 2, &[("from", "a".into()), ("to", "b".into()), ("batch", 65.into())]),
//!     ],
//!     ..Document::default()
//! };
//! let errors = document.check(&catalogue, None).unwrap_err();
//! let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     r#"copy.lua:2: copy.to: "b" names no port; expected the name of a port, such as "a"; declare it with port { name = "b", ... }"#,
//!     r#"copy.lua:2: copy.batch: 65 is out of range; expected an integer from 1 to 64"#,
//! ]);
//! ```
#![forbid(unsafe_code)]

mod check;
mod contents;
mod diff;
mod document;
mod error;
mod folder;
mod macros;
mod manual;
mod path;
mod place;
mod quantity;
mod rows;
mod scalar;
mod schema;
mod setting;
mod shown;
mod texts;
mod types;
mod value;
mod wrong;

pub use check::Context;
pub use diff::{Action, KeyChange, Plan, What};
pub use document::{Catalogue, Checked, Declaration, Document, Element, Kind};
pub use error::{ConfigError, ErrorKind, Errors, nearest};
pub use folder::{FilePath, Folder};
pub use path::Path;
pub use place::Place;
pub use quantity::{Nanos, PacketRate, Quantity, Rate, Size, Units};
pub use rows::{Row, Rows};
pub use scalar::{InterfaceAddress, MacAddress, Malformed, Scalar, ScalarType};
pub use schema::{Change, KeySchema, Presence, Schema};
pub use setting::{
    Measured, OneOrMany, PortName, Ranged, Setting, read_key, table_or_empty, with_contents, with_length, with_pattern,
    write_key,
};
pub use shown::Shown;
pub use types::{EXAMPLE_NAME, INTERFACE_NAME, Length, NAME, Pattern, Type, Word};
pub use value::{Key, Table, Value};
pub use wrong::WrongValue;
