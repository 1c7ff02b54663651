//! Stages alone, against a twin on plain bytes, and graphs of them.

mod golden;
mod graphs;
mod hostile;
mod owners;
mod rig;
mod twin;
