//! Metrics as Prometheus reads them: the text format, version 0.0.4, over HTTP.

mod http;
mod text;

pub(crate) use http::{Limits, listen};
pub(crate) use text::text;
