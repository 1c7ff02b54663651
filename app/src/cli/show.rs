//! `weir show`.

use clap::{Args, ValueEnum};

use super::Target;

/// `weir show`.
#[derive(Debug, Args)]
#[command(
    after_help = "FILTER selects what has it in its name: a port, a worker, a stage, a drop; the tables of functions say themselves \
                        what they take. With --watch, what is counted is shown per second, the most first.\n\nExamples:\n  weir \
                        show stats                     everything at a glance\n  weir show stats --watch 2           packets, bits \
                        and drops per second\n  weir show stats --watch --sort drops\n  weir show drops                     every \
                        drop, with its reason\n  weir show ports wan\n  weir show graph --dot | dot -Tsvg > graph.svg"
)]
pub(crate) struct Show {
    /// What to show
    #[arg(value_name = "WHAT", index = 1)]
    pub(crate) what: String,
    /// Which rows: a word that the table understands
    #[arg(value_name = "FILTER", index = 2)]
    pub(crate) filter: Option<String>,
    /// The function's name, where several have such a table
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Show what differs between the routes and those of another table; only for `routes`
    #[arg(long, value_name = "WITH", value_enum)]
    pub(crate) compare: Option<OtherTable>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the graph in the language of Graphviz
    #[arg(long, conflicts_with = "json")]
    pub(crate) dot: bool,
    /// Show it again every so many seconds, with rates in place of totals
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
    /// What rates are sorted by
    #[arg(long, value_name = "KEY", value_enum, default_value_t = Sort::Packets, requires = "watch")]
    pub(crate) sort: Sort,
    /// Show rows without traffic too, and as many as there are
    #[arg(long, requires = "watch")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// What routes are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OtherTable {
    /// The routes of the Linux network namespaces that speak for VRFs; what differs is put right at once
    Linux,
}

/// What rates are sorted by, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Packets per second, both ways together
    Packets,
    /// Bits per second, both ways together
    Bits,
    /// Packets dropped or lost per second
    Drops,
    /// The name, in the order of the alphabet
    Name,
}

/// What `weir show` shows of every Weir, with a word of help each.
pub(crate) const SHOWS: &[(&str, &str)] = &[
    ("stats", "everything at a glance: ports, workers, drops, the account"),
    ("ports", "the ports and what is known about their devices"),
    ("graph", "stages, and where their ways lead"),
    ("drops", "packets dropped, by place and reason"),
    ("cycles", "what workers spend their cycles on"),
    ("stages", "packets and cycles of each stage"),
    ("links", "links between workers"),
    ("services", "what the program does beside packets, and how it fares"),
    ("version", "what runs"),
];
