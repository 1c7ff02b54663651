//! Weir: a software data plane for commodity servers that accounts for every packet and every cycle.
#![forbid(unsafe_code)]

mod bench;
mod capture;
mod catalogue;
mod cli;
mod client;
mod commands;
mod doctor;
mod failure;
mod flowstat;
mod generate;
mod graph;
mod handle;
mod log;
mod metrics;
mod pcapng;
mod privileges;
mod render;
mod run;
mod save;
mod server;
mod socket;
mod source;
mod spare;
mod stats;
mod supervisor;
#[cfg(test)]
mod torment;
mod trace;
mod version;
mod words;

use std::io::Write;
use std::process::ExitCode;

use cli::{Asked, BenchCommands, Commands};
use failure::Failed;

fn main() -> ExitCode {
    // The program is its own child for running configuration scripts.
    if std::env::args_os().nth(1).is_some_and(|word| word == weir_lua::CHILD_ARGUMENT) {
        return weir_lua::child_main();
    }
    let asked = match cli::parse(catalogue::FUNCTIONS, std::env::args_os()) {
        Ok(asked) => asked,
        // Prints the mistake, or the help asked for, and ends with clap's usual status.
        Err(error) => error.exit(),
    };
    match carry_out(asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            // Where nothing can be written there is nobody to tell.
            let _ = write!(std::io::stderr(), "{failed}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(asked: Asked) -> Result<(), Failed> {
    let command = match asked {
        Asked::Change(change) => return commands::change(&change),
        Asked::Command(command) => command,
    };
    match command {
        Commands::Run(options) => run::run(&options),
        Commands::Check(options) => commands::check(&options),
        Commands::Reload(options) => commands::reload(&options),
        Commands::Save(options) => commands::save(&options),
        Commands::Show(options) => commands::show(&options),
        Commands::Trace(options) => commands::trace(&options),
        Commands::Capture(options) => commands::capture(&options),
        Commands::Doctor(options) => doctor::doctor(options.json),
        Commands::Version(options) => commands::version(&options),
        Commands::Completion(options) => commands::completion(&options),
        Commands::Manual(options) => commands::manual(&options),
        Commands::Gen(options) => generate::generate(&options),
        Commands::Bench(options) => match &options.what {
            BenchCommands::Cpp(cpp) => commands::bench_cpp(cpp),
            BenchCommands::Run(run) => commands::bench_run(run),
            BenchCommands::Sample { job } => commands::bench_sample(job),
            BenchCommands::Count { job } => commands::bench_count(job),
            BenchCommands::Peers(peers) => commands::bench_peers(peers),
            BenchCommands::Shaping(options) => commands::bench_shaping(options),
            BenchCommands::Flowstat(options) => commands::bench_flowstat(options),
            BenchCommands::Compare(compare) => commands::bench_compare(compare),
            BenchCommands::Rfc2544(options) => commands::bench_rfc2544(options),
            BenchCommands::Other(words) => commands::later(&format!("bench {}", words.join(" "))),
        },
        Commands::Top(_) => commands::later("top"),
        Commands::Flowstat(options) => flowstat::flowstat(&options),
    }
}
