//! `weir capture`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::connect;
use crate::cli;
use crate::failure::Failed;
use crate::pcapng::{Record, Writer};
use weir_protocol::{Copied, Request, Response, from_hex};

/// Copies packets to a file.
pub(crate) fn capture(options: &cli::Capture) -> Result<(), Failed> {
    let mut client = connect(&options.target)?;
    client.enough_on_signals().map_err(|error| format!("cannot listen to signals: {error}"))?;
    client.send(Request::Capture {
        point: options.point.clone(),
        filter: options.filter.join(" "),
        count: options.count,
        snap: options.snap,
    })?;
    // Only a capture that was not refused makes a file.
    let mut response = client.next()?;
    let wrong = |error: io::Error| Failed::from(format!("cannot write {}: {error}", options.write.display()));
    let out: Box<dyn Write> = if options.write == Path::new("-") {
        Box::new(BufWriter::new(io::stdout().lock()))
    } else {
        Box::new(BufWriter::new(weir_host::files::output(&options.write).map_err(wrong)?))
    };
    let program = concat!("weir ", env!("CARGO_PKG_VERSION"));
    let mut writer = Writer::new(out, options.snap, program).map_err(wrong)?;
    writer.flush().map_err(wrong)?;
    loop {
        match response {
            Response::Captured(copies) => {
                copies.iter().try_for_each(|copy| write(&mut writer, copy)).map_err(wrong)?;
                writer.flush().map_err(wrong)?;
            }
            Response::Ok(end) => {
                let figure = |key: &str| end.get(key).and_then(Value::as_u64).unwrap_or_default();
                let (packets, missed) = (figure("packets"), figure("missed"));
                writer.finish(packets, missed).map_err(wrong)?;
                eprintln!("{packets} packets, {missed} of them came too fast to be copied");
                return Ok(());
            }
            other => return Err(Failed::from(format!("Weir's answer is not understood: {other:?}"))),
        }
        response = client.next()?;
    }
}

fn write(writer: &mut Writer<impl Write>, copy: &Copied) -> io::Result<()> {
    let bytes = from_hex(&copy.data).ok_or_else(|| io::Error::other("a packet came that is no hexadecimal"))?;
    let Copied { time, outbound, length, .. } = *copy;
    writer.packet(&copy.place, &Record { time, outbound, bytes: &bytes, length })
}
