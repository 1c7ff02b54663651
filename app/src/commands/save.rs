//! `weir save`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::json;
use weir_protocol::Request;

use super::{connect, print, print_json};
use crate::cli;
use crate::client::{Client, ClientError};
use crate::failure::Failed;

/// Writes what was added at run time to a file, which is there whole or stays as it was, or prints it.
pub(crate) fn save(options: &cli::Save) -> Result<(), Failed> {
    let mut client = connect(&options.target)?;
    if let Some(file) = &options.write {
        write(&mut client, file)?;
        return if options.json { print_json(json!({ "file": file })) } else { Ok(()) };
    }
    if !options.json {
        return client.text(Request::Save, print);
    }
    let mut script = String::new();
    client.text::<ClientError>(Request::Save, |piece| {
        script.push_str(piece);
        Ok(())
    })?;
    print_json(json!({ "script": script }))
}

fn write(client: &mut Client, path: &Path) -> Result<(), String> {
    let mut pieces =
        |file: &mut BufWriter<File>| client.text::<io::Error>(Request::Save, |piece| file.write_all(piece.as_bytes()));
    let before = fs::metadata(path).ok();
    if before.as_ref().is_some_and(|there| !there.is_file()) {
        // A pipe or a terminal is written to, not replaced.
        let written = File::options().write(true).open(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            pieces(&mut file)?;
            file.flush()
        });
        return written.map_err(|error| weir_page::cannot_write(path, &error));
    }
    // Behind a link is the file that is meant.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let written = weir_page::write_whole_by(&path, |file| {
        before.map_or(Ok(()), |before| file.get_ref().set_permissions(before.permissions()))?;
        pieces(file)
    });
    written.map(drop)
}
