//! Both stages alone, against a twin on plain bytes.

mod golden;
mod hostile;
mod owners;
mod rig;
mod twin;
