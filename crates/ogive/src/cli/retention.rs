//! `ogive retention`: the time that a running server drops data by.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::client::Server;
use super::exit::EXIT_FINDING;
use ogive_text::calendar::utc;

/// Shows or confirms the clock that retention uses.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Retention {
    /// Shows the time that retention uses, and whether it waits for the clock to be confirmed (exit code 1).
    Show {
        #[command(flatten)]
        server: Server,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Confirms that the server's clock is right: data that is too old by it is dropped.
    Confirm {
        #[command(flatten)]
        server: Server,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Retention) -> anyhow::Result<ExitCode> {
    let (requested, json) = match command {
        Retention::Show { server, json } => (server.get("/v1/retention", &[]), *json),
        Retention::Confirm { server, json } => (server.post("/v1/retention", &json!({"confirm_clock": true})), *json),
    };
    match requested {
        Ok(body) => Ok(show(&body, json)),
        Err(failure) => Ok(failure.report()),
    }
}

fn show(body: &str, json: bool) -> ExitCode {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let data = &answer["data"];
    let held = data["held"] == json!(true);
    if json {
        println!("{data}");
    } else {
        let clock = utc(data["clock_ms"].as_i64().unwrap_or(0).saturating_mul(1_000_000));
        println!(
            "retention goes by {clock} UTC, {} s behind the server's clock",
            data["lag_ms"].as_i64().unwrap_or(0) / 1000
        );
        if held {
            println!(
                "data that is too old by the server's clock is kept until that is confirmed: by two senders, or by \
                 `ogive retention confirm`"
            );
        }
    }
    if held { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS }
}
