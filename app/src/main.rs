//! Weir: a software data plane for commodity servers that accounts for every packet and every cycle.
#![forbid(unsafe_code)]

mod bench;
mod capture;
mod catalogue;
mod cli;
mod client;
mod commands;
mod complete;
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
mod rates;
mod reload;
mod render;
mod run;
mod save;
mod server;
mod services;
mod signals;
mod socket;
mod source;
mod spare;
mod stats;
mod supervisor;
#[cfg(test)]
mod torment;
mod trace;
mod version;
mod watch;
mod words;

use std::process::ExitCode;

use cli::{Asked, BenchCommands, Commands};
use failure::Failed;

fn main() -> ExitCode {
    // The program is its own child for running configuration scripts.
    if std::env::args_os().nth(1).is_some_and(|word| word == weir_lua::CHILD_ARGUMENT) {
        return weir_lua::child_main();
    }
    let json = cli::wants_json(std::env::args_os());
    match cli::parse(catalogue::FUNCTIONS, std::env::args_os()) {
        Ok(asked) => carry_out(asked).map_or_else(|failed| failed.tell(json), |()| ExitCode::SUCCESS),
        Err(error) => failure::misused(&error, json),
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
        Commands::Import(options) => commands::import(&options),
        Commands::Reload(options) => commands::reload(&options),
        Commands::Save(options) => commands::save(&options),
        Commands::Show(options) => commands::show(&options),
        Commands::Trace(options) => commands::trace(&options),
        Commands::Capture(options) => commands::capture(&options),
        Commands::Log(options) => commands::log(&options),
        Commands::Doctor(options) => doctor::doctor(options.json),
        Commands::Version(options) => commands::version(&options),
        Commands::Completion(options) => commands::completion(&options),
        Commands::Complete(options) => commands::complete(&options),
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
        },
        Commands::Flowstat(options) => flowstat::flowstat(&options),
    }
}
