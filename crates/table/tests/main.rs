//! The tests of tables, in one program: each file is a module.

mod classifier;
mod exact;
mod exact_concurrent;
mod lpm4;
mod lpm4_concurrent;
mod lpm6;
mod lpm6_concurrent;
mod mac;
mod meter;
mod numbers;
mod rates;
mod wheel;
