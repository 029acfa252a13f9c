//! `ogive board`: boards of the page as files, saved on a server, listed, shown and deleted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ogive_text::calendar::rfc3339;
use serde_json::Value;

use super::client::Server;
use super::exit::EXIT_USAGE;
use super::read_file;

/// Manages boards: pages of several panels, stored on a server.
#[derive(clap::Subcommand, Debug)]
#[command(after_help = "\
  ogive board apply checkout.json
  ogive board show checkout > checkout.json
  ogive board show checkout --revision 3 | ogive board apply -")]
pub(crate) enum Board {
    /// Saves boards from files, each as the next version of its name; an unchanged board gets no new version.
    Apply {
        /// Board files; `-` is standard input.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        server: Server,
    },
    /// Lists the boards.
    List {
        #[command(flatten)]
        server: Server,
        /// Print the server's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints a board in the file format.
    Show {
        /// Its name.
        name: String,
        /// Show an earlier version.
        #[arg(long)]
        revision: Option<u64>,
        #[command(flatten)]
        server: Server,
    },
    /// Deletes a board; its versions remain readable.
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        server: Server,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Board) -> anyhow::Result<ExitCode> {
    match command {
        Board::Apply { files, server } => apply(files, server),
        Board::List { server, json } => list(server, *json),
        Board::Show { name, revision, server } => show(server, name, *revision),
        Board::Delete { name, server } => match server.delete(&path(name)) {
            Ok(_) => Ok(ExitCode::SUCCESS),
            Err(failure) => Ok(failure.report()),
        },
    }
}

/// Other names have characters that are not allowed in addresses; the server reports what a name may be.
fn path(name: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c.to_string() } else { "%20".into() };
    format!("/v1/boards/{}", name.chars().map(fine).collect::<String>())
}

fn apply(files: &[PathBuf], server: &Server) -> anyhow::Result<ExitCode> {
    for file in files {
        let bytes = bytes_of(file).with_context(|| format!("cannot read {}", file.display()))?;
        if let Err(error) = serde_json::from_slice::<Value>(&bytes) {
            eprintln!("ogive: {} is not JSON: {error}", file.display());
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        let body = match server.post_document("/v1/boards", &[], &bytes) {
            Ok(body) => body,
            Err(failure) => {
                eprintln!("ogive: {}:", file.display());
                return Ok(failure.report());
            }
        };
        let answer: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
        println!("{}: version {}", file.display(), answer["data"]["version"]);
    }
    Ok(ExitCode::SUCCESS)
}

fn bytes_of(file: &Path) -> std::io::Result<Vec<u8>> {
    read_file(if file == Path::new("-") { Path::new("/dev/stdin") } else { file })
}

fn list(server: &Server, json: bool) -> anyhow::Result<ExitCode> {
    let body = match server.get("/v1/boards", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    if json {
        print!("{body}");
        return Ok(ExitCode::SUCCESS);
    }
    let answer: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    for board in answer["data"]["boards"].as_array().into_iter().flatten() {
        let text = |name: &str| board[name].as_str().unwrap_or_default().to_owned();
        let (time, name, title) =
            (board["time_ms"].as_i64().map_or_else(String::new, rfc3339), text("name"), text("title"));
        println!(
            "{name:24} version {:<4} {time} {} panels, by {}: {title}",
            board["version"],
            board["panels"],
            text("by")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn show(server: &Server, name: &str, version: Option<u64>) -> anyhow::Result<ExitCode> {
    let version = version.map(|version| version.to_string());
    let params: Vec<(&str, &str)> = version.iter().map(|version| ("version", version.as_str())).collect();
    let body = match server.get(&path(name), &params) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let answer: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    println!("{}", serde_json::to_string_pretty(&answer["data"]["board"])?);
    Ok(ExitCode::SUCCESS)
}
