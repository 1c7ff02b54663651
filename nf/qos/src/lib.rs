//! The function `qos`: users shaped by a hierarchical scheduler.
//!
//! | file | what |
//! |---|---|
//! | `identify.rs` | stage `qos.identify`: whose frame it is, and of which class |
//! | `balance.rs` | stage `qos.balance`: to the worker that has the user |
//! | `limit.rs` | stage `qos.limit`: a limiter before all others |
//! | `back.rs` | stage `qos.back`: the direction that is not shaped |
//! | `find.rs`, `table.rs` | tables that users are found in |
//! | `users.rs`, `subports.rs`, `classes.rs`, `state.rs` | who is a user, what subports and their classes may send, and what schedulers are told |
//! | `config.rs`, `load.rs` | the configuration, and what is wrong with it |
//! | `request.rs`, `show.rs`, `history.rs` | what can be asked at run time |
#![forbid(unsafe_code)]

mod back;
mod balance;
mod cases;
mod classes;
mod config;
mod find;
mod function;
mod graph;
mod history;
mod identify;
mod key;
mod load;
mod request;
mod show;
mod state;
mod subports;
mod table;
mod users;

pub use function::Qos;
