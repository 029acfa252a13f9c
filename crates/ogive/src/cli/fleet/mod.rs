//! `ogive fleet`: what the brokers of each group shall do, as files; and the brokers themselves.

mod brokers;
mod connect;
mod groups;
mod order;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use ogive_model::Ms;

use super::client::Server;
use order::Order;

/// Manages the brokers under a server: configurations of groups, enrolment, state.
#[derive(clap::Subcommand, Debug)]
#[command(after_help = "\
  ogive fleet apply brokers/ --why 'check the new shop'
  ogive fleet rollback edge 6 --why 'the new check is too much for the shop'
  ogive fleet ticket --group edge        # then, on the host: ogive broker enroll URL TICKET -c broker.toml")]
pub(crate) enum FleetCommand {
    /// Makes the files of a directory the configurations of groups: GROUP.toml, and GROUP.yml beside it for scrapes.
    /// All files are validated before the first is sent; what is in force already is left alone.
    Apply {
        /// The directory.
        directory: PathBuf,
        /// Why, for those who look later.
        #[arg(long, default_value = "")]
        why: String,
        #[command(flatten)]
        server: Server,
    },
    /// Shows how the files of a directory differ from what is in force. Exit code 1 when they do.
    Diff {
        /// The directory.
        directory: PathBuf,
        #[command(flatten)]
        server: Server,
    },
    /// Puts an earlier version of a group in force again, as a new version.
    Rollback {
        /// The group.
        group: String,
        /// The earlier version.
        #[arg(value_name = "VERSION")]
        earlier: u64,
        /// Why, for those who look later.
        #[arg(long, default_value = "")]
        why: String,
        #[command(flatten)]
        server: Server,
    },
    /// Lists the groups, and how many of their brokers run what is in force.
    List {
        #[command(flatten)]
        server: Server,
        /// Print the server's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints the configuration of a group.
    Show {
        /// The group.
        group: String,
        /// An earlier version.
        #[arg(long)]
        revision: Option<u64>,
        /// Print its scrape configuration (YAML) instead.
        #[arg(long, conflicts_with = "history")]
        scrape: bool,
        /// List its versions instead: when, who, why.
        #[arg(long)]
        history: bool,
        #[command(flatten)]
        server: Server,
    },
    /// Lists the brokers: version, lag, spool, gaps, clock, cost. Exit code 1 when one refuses its configuration.
    Brokers {
        #[command(flatten)]
        server: Server,
        /// Print the server's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Makes a ticket that enrols one broker, and shows it once.
    Ticket {
        /// The group of the broker.
        #[arg(long)]
        group: String,
        /// The only broker that may use it; it may then replace one of that name.
        #[arg(long)]
        broker: Option<String>,
        /// How long the ticket is good, up to 31d.
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
        expires: Ms,
        /// How long each token of the broker is good, 10s to 366d; it is replaced after a third of that.
        #[arg(long, value_name = "TIME", default_value = "90d", value_parser = time)]
        lifetime: Ms,
        #[command(flatten)]
        server: Server,
    },
    /// Revokes a broker: its server does not answer it any more.
    Revoke {
        /// The broker.
        broker: String,
        #[command(flatten)]
        server: Server,
    },
    /// Asks a broker to do something now, over the connection that it keeps, and prints the outcome. A request to a
    /// broker that is away waits there for it, up to a week.
    Ask {
        /// The broker.
        broker: String,
        #[command(subcommand)]
        order: Order,
        /// How long to wait for the outcome.
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, global = true)]
        wait: Ms,
    },
    /// Listens on this machine, and passes each connection on through a broker to a target that only the broker
    /// reaches. The broker's own file lists what it may connect to ([fleet] connect).
    Connect {
        /// The broker.
        broker: String,
        /// Where the broker connects to: HOST:PORT, as the broker's file lists it.
        target: String,
        /// Where to listen: an address of this machine alone. Port 0 is any that is free.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        #[command(flatten)]
        server: Server,
    },
    /// Shows what comes to a broker, each second, whatever its destinations are doing. Nothing of it is stored.
    /// The broker's own file permits it ([fleet] allow = ["watch"]).
    Watch {
        /// The broker.
        broker: String,
        /// Selector of the series, such as rpc_seconds{job="shop"}.
        #[arg(value_name = "SELECTOR")]
        selector: String,
        /// Quantiles of each distribution, 16 at most.
        #[arg(long, value_name = "LIST", default_value = "0.5,0.99")]
        quantiles: String,
        /// Stop after this many seconds.
        #[arg(long, value_name = "COUNT")]
        seconds: Option<u64>,
        #[command(flatten)]
        server: Server,
        /// Print the server's JSON, a line each second.
        #[arg(long)]
        json: bool,
    },
}

fn time(text: &str) -> Result<Ms, String> {
    let span = ogive_text::duration::seconds_or_units_ms(text).map(Ms).filter(|span| *span > Ms::ZERO);
    span.ok_or_else(|| "give a time such as 90d or 30s".into())
}

/// Runs the command.
pub(crate) fn run(command: &FleetCommand) -> anyhow::Result<ExitCode> {
    match command {
        FleetCommand::Apply { directory, why, server } => groups::apply(directory, why, server),
        FleetCommand::Diff { directory, server } => groups::diff(directory, server),
        FleetCommand::Rollback { group, earlier, why, server } => groups::rollback(group, *earlier, why, server),
        FleetCommand::List { server, json } => groups::list(server, *json),
        FleetCommand::Show { group, revision, scrape, history, server } => {
            groups::show(group, *revision, *scrape, *history, server)
        }
        FleetCommand::Brokers { server, json } => brokers::list(server, *json),
        FleetCommand::Ticket { group, broker, expires, lifetime, server } => {
            brokers::ticket(group, broker.as_deref(), *expires, *lifetime, server)
        }
        FleetCommand::Revoke { broker, server } => brokers::revoke(broker, server),
        FleetCommand::Ask { broker, order, wait } => brokers::ask(broker, order, *wait),
        FleetCommand::Connect { broker, target, listen, server } => connect::run(broker, target, *listen, server),
        FleetCommand::Watch { broker, selector, quantiles, seconds, server, json } => {
            watch::run(broker, &watch::Wanted { selector, quantiles, seconds: *seconds, is_json: *json }, server)
        }
    }
}
