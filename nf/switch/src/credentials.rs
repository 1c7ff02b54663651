//! What a switch proves itself by: the files that its configuration names, read and tried.

use std::io::Read;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, Errors, FilePath, Folder};
use weir_stage::{Channel, Credentials, Endpoint, Env, Given};
use weir_tls::{File, Wrong};

use crate::config::{SwitchConfig, SwitchTls};

/// Bytes of a file at most.
const LONGEST: u64 = 1 << 20;

/// The credentials that a configuration names, if it names any and the files are all right; otherwise it is told what is wrong.
pub(crate) fn load(given: &Given<'_, SwitchConfig>, env: &Env<'_>, errors: &mut Errors) -> Option<Arc<Credentials>> {
    let Some(tls) = &given.config.tls else {
        errors.extend(missing(given));
        return None;
    };
    // Where there is no folder there are no files: only tests are without.
    let read = read(tls, env.folder?).and_then(|credentials| {
        let Credentials { certificate, private_key, ca } = &credentials;
        weir_tls::Credentials::new(certificate, private_key, ca).map_err(|wrong| (wrong, ErrorKind::Malformed))?;
        Ok(credentials)
    });
    match read {
        Ok(credentials) => Some(Arc::new(credentials)),
        Err((wrong, kind)) => {
            errors.push(told(given, tls, &wrong, kind));
            None
        }
    }
}

/// That TLS is asked for without anything to prove oneself by.
fn missing(given: &Given<'_, SwitchConfig>) -> Option<ConfigError> {
    let channels = given.config.channels();
    let channel: &Channel = channels.iter().find(|channel| matches!(channel.endpoint(), Endpoint::Tls(_)))?;
    let problem = format!("is missing, and {} needs it", channel.endpoint());
    let error = given.element.error(ErrorKind::Missing, &given.element.path().field("tls"), problem);
    Some(
        error.remedy(
            "add tls = { certificate = \"switch.pem\", private_key = \"switch.key\", ca = \"controllers.pem\" }",
        ),
    )
}

fn read(tls: &SwitchTls, folder: &Folder) -> Result<Credentials, (Wrong, ErrorKind)> {
    let read = |file: File, path: &FilePath| {
        let wrong = |problem: String| {
            let remedy = "name a file that Weir's user can read, of 1 MiB at most";
            (Wrong { file, problem, remedy }, ErrorKind::File)
        };
        let mut bytes = Vec::new();
        let opened = folder.open_file(path).map_err(wrong)?;
        opened.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > LONGEST { Err(wrong("is longer than 1 MiB".to_owned())) } else { Ok(bytes) }
    };
    Ok(Credentials {
        certificate: read(File::Certificate, &tls.certificate)?,
        private_key: read(File::PrivateKey, &tls.private_key)?,
        ca: read(File::Ca, &tls.ca)?,
    })
}

fn told(given: &Given<'_, SwitchConfig>, tls: &SwitchTls, wrong: &Wrong, kind: ErrorKind) -> ConfigError {
    let (key, file) = match wrong.file {
        File::Certificate => ("certificate", &tls.certificate),
        File::PrivateKey => ("private_key", &tls.private_key),
        File::Ca => ("ca", &tls.ca),
    };
    let problem = format!("\"{file}\" {}", wrong.problem);
    given.element.error(kind, &given.element.path().field("tls").field(key), problem).remedy(wrong.remedy)
}
