//! How long a million routes take to read from CSV: `cargo run --release -p weir-config --example read_rows [FILE]`.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::net::Ipv4Addr;
use std::time::Instant;

use ipnet::Ipv4Net;
use weir_config::{Errors, Rows};

const ROUTES: u32 = 1_000_000;

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("weir-rows-{}.csv", std::process::id()));
    write_routes(&mut std::io::BufWriter::new(File::create(&path)?))?;
    for _ in 0..5 {
        let start = Instant::now();
        let input = BufReader::with_capacity(1 << 16, File::open(&path)?);
        let mut rows =
            Rows::new("routes.csv", input, &["prefix", "via"], &[]).map_err(|errors| format!("{errors:?}"))?;
        let mut errors = Errors::new();
        let mut routes: Vec<(Ipv4Net, Vec<Ipv4Addr>)> = Vec::new();
        while let Some(row) = rows.next(&mut errors) {
            let prefix = row.read(0, &mut errors);
            routes.extend(prefix.zip(row.read_list(1, ';', &mut errors)));
        }
        println!("{} routes, {} errors, {:?}", routes.len(), errors.count(), start.elapsed());
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

fn write_routes(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "prefix,via")?;
    for route in 0..ROUTES {
        let prefix = Ipv4Addr::from_bits(route << 8);
        let via = Ipv4Addr::from_bits(0xc0a8_0001 + route % 200);
        writeln!(out, "{prefix}/24,{via}")?;
    }
    out.flush()
}
