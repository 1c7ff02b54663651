//! A device under test in the process of its generator: a configuration whose ports end in cables.

use std::path::{Path, PathBuf};

use weir_config::{Document, Value};
use weir_lua::Limits;

use crate::catalogue;
use crate::failure::Failed;
use crate::supervisor::{Next, load};

/// What the engine of a measurement is told, unless the configuration says something itself: who sleeps adds to the latency.
const ENGINE: &str = "engine";

/// A configuration, and where it is joined to the generator.
pub(super) struct Dut {
    document: Document,
    folder: PathBuf,
    cores: Vec<u16>,
}

/// The ends of a cable, one for the device and one for the generator.
pub(super) fn cable(side: &str) -> String {
    format!("mem:cable=bench-{}-{side}", std::process::id())
}

impl Dut {
    /// The configuration `file`, whose ports `tx` and `rx` are put to the generator's cables of these names.
    ///
    /// # Errors
    ///
    /// It is wrong, or does not declare the ports.
    pub(super) fn load(file: &Path, tx: &str, rx: &str) -> Result<Dut, Failed> {
        // As it stands first, so that mistakes are told as `weir check` tells them.
        let loaded = load(file, Some(&[]), Next::Nothing)?;
        let cores = loaded.cores().to_vec();
        let kinds = catalogue::kinds();
        let mut document = weir_lua::evaluate(Path::new("/proc/self/exe"), file, &kinds.names(), &Limits::default())?;
        document.messages.clear();
        for (name, side) in [(tx, "tx"), (rx, "rx")] {
            plug(&mut document, file, name, &cable(side))?;
        }
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Dut { document, folder: folder.to_owned(), cores })
    }

    /// The cores of its workers.
    pub(super) fn cores(&self) -> &[u16] {
        &self.cores
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its declarations with those of the generator behind them.
    pub(super) fn with(&self, generator: Document) -> Document {
        let mut whole = self.document.clone();
        let own_engine = whole.declarations.iter().any(|declaration| declaration.kind == ENGINE);
        let more = generator.declarations.into_iter().filter(|declaration| !own_engine || declaration.kind != ENGINE);
        whole.declarations.extend(more);
        whole
    }
}

fn plug(document: &mut Document, file: &Path, name: &str, device: &str) -> Result<(), Failed> {
    let named =
        |value: &Value| value.as_table().and_then(|table| table.get("name")).and_then(Value::as_text) == Some(name);
    let mut ports = document.declarations.iter_mut().filter(|declaration| declaration.kind == "port");
    match ports.find(|port| named(&port.table)).map(|port| &mut port.table) {
        Some(Value::Table(table)) => {
            table.set("device", Value::text(device));
            Ok(())
        }
        _ => Err(Failed::from(format!(
            "{} declares no port \"{name}\"; name two of its ports with --tx and --rx",
            file.display()
        ))),
    }
}
