//! The command line: what a user types, and what each command needs of the terminal.

// First: its macros are used by what follows.
#[macro_use]
mod standard_output;

mod advise;
#[cfg(feature = "amqp")]
mod amqp;
mod audit;
mod board;
pub(crate) mod broker;
mod client;
mod clock;
#[cfg(feature = "cassandra")]
mod cluster;
mod config;
pub(crate) mod config_file;
mod crash;
mod delete;
mod detect;
mod disk;
mod event;
mod exit;
mod export;
pub(crate) mod files;
mod filter;
mod findings;
mod fleet;
pub(crate) mod format;
mod hist;
mod import;
#[cfg(feature = "kernel")]
pub(crate) mod kernel;
#[cfg(not(feature = "kernel"))]
mod kernel_files;
mod keys;
mod logs;
mod observed;
mod offline;
mod offline_backtest;
mod ops;
mod plot;
mod progress;
mod query;
mod replay;
mod retention;
mod rules;
mod scale;
mod scrub;
pub(crate) mod serve;
mod snapshot;
mod snapshot_send;
mod sse;
mod status;
mod stream;
mod subscribe;
mod terminal;
mod test;
mod times;
mod token;
mod top;
mod trace;
mod tune;
pub(crate) mod web;
pub(crate) mod wire;

pub(crate) use web::read_file;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::log_output;
use exit::{EXIT_FINDING, EXIT_USAGE};
#[cfg(not(feature = "kernel"))]
use kernel_files as kernel;
use ogive_http::Flags;
use standard_output::StandardOutput;
use terminal::{Color, Terminal};

/// Measures every operation, stores histograms, and answers questions about the distribution later.
#[derive(Parser, Debug)]
#[command(name = "ogive", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 success, 1 a finding, 2 wrong usage, 3 the server cannot be reached.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to colour standard output.
    #[arg(long, global = true, value_enum, default_value = "auto", env = "OGIVE_COLOR")]
    color: Color,
}

#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
enum Command {
    Serve(serve::Serve),
    Broker(broker::BrokerCommand),
    Query(query::Query),
    Audit(audit::Audit),
    Stream(stream::StreamOptions),
    Event(event::EventOptions),
    #[command(subcommand)]
    Board(board::Board),
    Subscribe(subscribe::Subscribe),
    Status(status::Status),
    Ops(ops::Ops),
    Top(top::Top),
    Delete(delete::Delete),
    Detect(detect::Detect),
    Findings(findings::Findings),
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    #[command(subcommand)]
    Filter(filter::FilterCommand),
    #[command(subcommand)]
    Crash(crash::Crash),
    #[command(subcommand)]
    Disk(disk::Disk),
    #[command(subcommand)]
    Retention(retention::Retention),
    Scrub(scrub::Scrub),
    #[command(subcommand)]
    Snapshot(snapshot::Snapshot),
    Trace(trace::Trace),
    Logs(logs::Logs),
    #[cfg(feature = "amqp")]
    #[command(subcommand)]
    Amqp(amqp::Amqp),
    #[cfg(feature = "cassandra")]
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    Import(import::Import),
    Export(export::Export),
    Replay(replay::Replay),
    Tune(tune::Tune),
    #[command(subcommand)]
    Config(config::Config),
    #[command(subcommand)]
    Rules(rules::Rules),
    #[command(subcommand)]
    Test(test::Test),
    #[command(subcommand)]
    Token(token::Token),
    Hist(hist::Hist),
    Clock(clock::ClockCommand),
    Wire(wire::Wire),
    Scale(scale::Scale),
    #[command(subcommand)]
    Kernel(kernel::Kernel),
    /// Runs the Lua scripts of checks; started by the server.
    #[cfg(feature = "lua")]
    #[command(hide = true)]
    LuaWorker,
    /// Writes the manual pages, one per command, into a directory.
    #[command(hide = true)]
    Man {
        /// An existing directory.
        directory: std::path::PathBuf,
    },
    /// Prints a shell completion script.
    Completions {
        /// Shell to print the script for.
        shell: clap_complete::Shell,
    },
}

/// The arguments, with those that an option file adds.
fn parsed() -> Result<(Cli, Flags), String> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let command = Cli::command();
    let given = command.clone().get_matches_from(&arguments);
    let arguments = config_file::with_file(arguments, &command, &given)?;
    let all = command.clone().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&all).unwrap_or_else(|error| error.exit());
    Ok((cli, config_file::flags(&command, &all)))
}

fn pages_of_manual(directory: &std::path::Path) -> anyhow::Result<ExitCode> {
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory)?;
    Ok(ExitCode::SUCCESS)
}

fn wrong_usage(message: &str) -> ExitCode {
    eprintln!("ogive: {message}");
    ExitCode::from(EXIT_USAGE)
}

/// Runs the command that the arguments name; the process ends with the code.
#[must_use]
pub fn run() -> ExitCode {
    let (cli, flags) = match parsed() {
        Ok(parsed) => parsed,
        Err(message) => return wrong_usage(&message),
    };
    ogive_outgoing::install_crypto_provider();
    let terminal = Terminal::detect(cli.color);
    if !matches!(&cli.command, Command::Serve(_) | Command::Broker(_)) {
        log_output::start_of_command();
    }
    let outcome = match &cli.command {
        Command::Serve(options) => serve::run(options, flags),
        Command::Broker(command) => broker::run(command, &terminal),
        Command::Query(options) => query::run(options, &terminal),
        Command::Audit(options) => audit::run(options),
        Command::Stream(options) => stream::run(options),
        Command::Event(options) => event::run(options),
        Command::Board(command) => board::run(command),
        Command::Subscribe(command) => subscribe::run(command),
        Command::Status(options) => status::run(options),
        Command::Ops(options) => ops::run(options),
        Command::Top(options) => top::run(options, &terminal),
        Command::Crash(command) => crash::run(command),
        Command::Disk(command) => disk::run(command),
        Command::Retention(command) => retention::run(command),
        Command::Scrub(options) => scrub::run(options),
        Command::Snapshot(command) => snapshot::run(command),
        Command::Trace(options) => trace::run(options, &terminal),
        Command::Logs(options) => logs::run(options, &terminal),
        #[cfg(feature = "amqp")]
        Command::Amqp(command) => amqp::run(command),
        #[cfg(feature = "cassandra")]
        Command::Cluster(command) => cluster::run(command),
        Command::Import(options) => import::run(options),
        Command::Export(options) => export::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Tune(options) => tune::run(options),
        Command::Config(command) => config::run(command),
        Command::Rules(command) => rules::run(command),
        Command::Test(command) => test::run(command),
        Command::Token(command) => token::run(command),
        Command::Delete(options) => delete::run(options),
        Command::Detect(options) => detect::run(options),
        Command::Findings(options) => findings::run(options),
        Command::Fleet(command) => fleet::run(command),
        Command::Filter(command) => filter::run(command),
        Command::Hist(options) => hist::run(options, &terminal),
        Command::Clock(options) => clock::run(options, &terminal),
        Command::Wire(options) => wire::run(options, &terminal),
        Command::Scale(options) => scale::run(options, &terminal),
        Command::Kernel(command) => kernel::run(command),
        #[cfg(feature = "lua")]
        Command::LuaWorker => ogive_checks::lua::work(files::FILES),
        Command::Man { directory } => pages_of_manual(directory),
        Command::Completions { shell } => completions(*shell),
    };
    outcome.unwrap_or_else(|error| {
        if log_output::is_of_a_role() {
            tracing::error!("{error:#}");
        } else {
            eprintln!("ogive: {error:#}");
        }
        ExitCode::from(EXIT_FINDING)
    })
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    clap_complete::generate(shell, &mut Cli::command(), "ogive", &mut StandardOutput);
    Ok(ExitCode::SUCCESS)
}
