//! The tests of `qos`, in one program: each file is a module.

mod common;
mod config;
mod ecn;
mod flows;
mod history;
mod l4s;
mod layouts;
mod levels;
mod live;
mod nested;
mod remark;
mod shape;
mod slow;
mod subports;
mod together;
