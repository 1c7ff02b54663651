#![forbid(unsafe_code)]
mod clock;
mod hash;
mod spool;
mod table;
