//! `ogive snapshot`: what a server held at one moment, kept, cloned, or brought back.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use ogive_journal::MirrorDisk;
use ogive_probe::Clock;
use ogive_store::{Deletions, Options, SnapshotInfo, Store, snapshot};
use serde_json::{Value, json};

use super::client::{Failure, Server};
use super::format::human;
use super::offline;
use super::times;
use ogive_http::snapshot_document as document;
use ogive_storage::Time;
use ogive_storage::upkeep::{absolute, clone_snapshot, open_mirror};
use ogive_text::calendar::utc;

/// Which store, and how to answer.
#[derive(clap::Args, Debug)]
pub(crate) struct StoreLocation {
    #[command(flatten)]
    server: Server,
    /// Data directory of a stopped server to read, instead of asking a running one. Repeatable.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Manages snapshots: instant, nearly free, with exactly the data acknowledged before.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Snapshot {
    /// Saves the current data under a name.
    Create {
        /// 1 to 100 letters, digits and -_.
        name: String,
        #[command(flatten)]
        place: StoreLocation,
        /// Copy a cluster of Apache Cassandra to the directory --data, which a restore reads (docs/cluster.md).
        #[cfg(feature = "cassandra")]
        #[arg(long, value_name = "URL", value_parser = super::cluster::address, requires = "data")]
        store: Option<ogive_cassandra::Address>,
    },
    /// Restores the copy of a cluster into an empty one, and reads it back to compare.
    #[cfg(feature = "cassandra")]
    Restore {
        /// Its name.
        name: String,
        /// Directory of the copy.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The empty cluster: its tables are there (ogive cluster init).
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", value_parser = super::cluster::address)]
        store: ogive_cassandra::Address,
    },
    /// Lists all snapshots.
    List {
        #[command(flatten)]
        place: StoreLocation,
    },
    /// Deletes a snapshot, and the bytes that only it holds.
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: StoreLocation,
    },
    /// Restores what a snapshot holds. The server must be stopped; the data that is replaced becomes a snapshot
    /// too.
    Rollback {
        /// Its name.
        name: String,
        /// Data directory of the stopped server. Repeatable.
        #[arg(long, value_name = "DIR")]
        data: Vec<PathBuf>,
        /// Keep deletions made since the snapshot.
        #[arg(long)]
        keep_deletions: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sends a snapshot to standard output, or to another machine's server; sends only what is missing there.
    #[command(after_help = super::snapshot_send::HELP)]
    Send(super::snapshot_send::Send),
    /// Receives from standard input what `send` wrote. No server may run on the directories; send to a running
    /// one with --to.
    Receive(super::snapshot_send::Receive),
    /// Creates a second, writable store from a snapshot, sharing its bytes where the file system is the same.
    Clone {
        /// Its name.
        name: String,
        /// Empty directory for the new store, on the server's machine.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Data directory of the snapshot's server, if it is stopped. Repeatable.
        #[arg(long, value_name = "DIR")]
        from: Vec<PathBuf>,
        #[command(flatten)]
        server: Server,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Snapshot) -> anyhow::Result<ExitCode> {
    let (requested, json) = match command {
        #[cfg(feature = "cassandra")]
        Snapshot::Create { name, place, store: Some(store) } => {
            anyhow::ensure!(place.data.len() == 1, "a copy of a cluster is one file; give --data once");
            return super::cluster::copy(name, &place.data[0], store);
        }
        #[cfg(feature = "cassandra")]
        Snapshot::Restore { name, data, store } => return super::cluster::restore(name, data, store),
        Snapshot::Create { name, place, .. } => (create(name, place)?, place.json),
        Snapshot::List { place } => (list(place)?, place.json),
        Snapshot::Delete { name, place } => (delete(name, place)?, place.json),
        Snapshot::Send(options) => return super::snapshot_send::send(options),
        Snapshot::Receive(options) => return super::snapshot_send::receive(options),
        Snapshot::Rollback { name, data, keep_deletions, yes, json } => {
            return rollback(name, data, *keep_deletions, *yes, *json);
        }
        Snapshot::Clone { name, data, from, server, json } => {
            let data = absolute(data)?;
            let made = if from.is_empty() {
                answer(server.post("/v1/snapshots/clone", &json!({"name": name, "data": data})))
            } else {
                Ok(document(&cloned(name, from, &data)?))
            };
            if made.is_ok() && !json {
                println!("start it with: ogive serve --data {}", data.display());
            }
            (made, *json)
        }
    };
    match requested {
        Ok(data) if json => println!("{data}"),
        Ok(data) => show(&data),
        Err(failure) => return Ok(failure.report()),
    }
    Ok(ExitCode::SUCCESS)
}

type ServerAnswer = Result<Value, Failure>;

fn answer(body: Result<String, Failure>) -> ServerAnswer {
    let answer: Value = serde_json::from_str(&body?).unwrap_or_default();
    Ok(answer["data"].clone())
}

fn create(name: &str, place: &StoreLocation) -> anyhow::Result<ServerAnswer> {
    let Some(mirror) = stopped(&place.data)? else {
        return Ok(answer(place.server.post("/v1/snapshots", &json!({"name": name}))));
    };
    let made = offline::noted(&mirror, "snapshot create", name, || {
        Ok(snapshot::create_stopped(&mirror, mirror.root(), name, times::now())?)
    });
    Ok(Ok(document(&made?)))
}

fn list(place: &StoreLocation) -> anyhow::Result<ServerAnswer> {
    let Some(mirror) = stopped(&place.data)? else {
        return Ok(answer(place.server.get("/v1/snapshots", &[])));
    };
    let all: Vec<Value> = snapshot::list(&mirror, mirror.root())?.iter().map(document).collect();
    Ok(Ok(json!({"snapshots": all})))
}

fn delete(name: &str, place: &StoreLocation) -> anyhow::Result<ServerAnswer> {
    let Some(mirror) = stopped(&place.data)? else {
        return Ok(answer(place.server.delete(&format!("/v1/snapshots/{name}"))));
    };
    offline::noted(&mirror, "snapshot delete", name, || Ok(snapshot::delete(&mirror, mirror.root(), name)?))?;
    Ok(Ok(json!({"deleted": name})))
}

/// A clone is recorded in its origin and in itself.
fn cloned(name: &str, from: &[PathBuf], data: &Path) -> anyhow::Result<SnapshotInfo> {
    let (mirror, _) = open_mirror(from, false)?;
    let what = format!("{name} to {}", data.display());
    let info = offline::noted(&mirror, "snapshot clone", &what, || Ok(clone_snapshot(&mirror, name, data)?))?;
    let (target, _) = open_mirror(&[data.to_owned()], false)?;
    let what = format!("{name} of {}", mirror.root().display());
    offline::noted(&target, "snapshot clone", &what, || Ok(info))
}

fn stopped(directories: &[PathBuf]) -> anyhow::Result<Option<MirrorDisk>> {
    if directories.is_empty() { Ok(None) } else { Ok(Some(open_mirror(directories, false)?.0)) }
}

fn rollback(name: &str, data: &[PathBuf], keep_deletions: bool, yes: bool, json: bool) -> anyhow::Result<ExitCode> {
    if data.is_empty() {
        eprintln!("ogive: stop the server, then say which directories: ogive snapshot rollback {name} --data DIR");
        return Ok(ExitCode::from(2));
    }
    let (mirror, _) = open_mirror(data, false).context("a rollback needs the server stopped")?;
    let kept = format!("before-rollback-{}", times::now().0);
    let deletions = snapshot::deletions(&mirror, mirror.root(), name)?;
    announce(name, &deletions, keep_deletions);
    if !yes && !agreed(name, &kept)? {
        bail!("nothing was changed");
    }
    let what = format!("{name}{}", if keep_deletions { ", keeping deletions" } else { "" });
    offline::noted(&mirror, "snapshot rollback", &format!("{what}; what was there before is {kept}"), || {
        snapshot::rollback(&mirror, mirror.root(), name, &kept, times::now(), keep_deletions)?;
        if keep_deletions { delete_again(&mirror) } else { Ok(()) }
    })?;
    let undone = if keep_deletions { 0 } else { deletions.count };
    if json {
        let kept_deletions = deletions.count - undone;
        println!(
            "{}",
            json!({
                "rolled_back_to": name, "kept": kept, "undone_deletions": undone, "kept_deletions": kept_deletions,
                "deletions": deletions.named,
            })
        );
    } else {
        println!("the store is what it was at {name}; what it was before is the snapshot {kept}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports what will happen to the deletions since a snapshot.
fn announce(name: &str, deletions: &Deletions, keep: bool) {
    match (deletions.count, keep) {
        (0, _) => return,
        (count, true) => eprintln!("ogive: {count} deletions were made since {name}, and are made again:"),
        (count, false) => eprintln!(
            "ogive: {count} deletions were made since {name}, and it brings back what they deleted; --keep-deletions makes them again:"
        ),
    }
    deletions.named.iter().for_each(|what| eprintln!("ogive:   {what}"));
}

/// Opens the store once: then the deleted data is gone immediately, not only with the next server.
fn delete_again(mirror: &MirrorDisk) -> anyhow::Result<()> {
    let options = Options { rollups: Vec::new(), ..Options::default() };
    let store = Store::open(Arc::new(mirror.clone()), mirror.root(), options, Arc::new(Time(Clock::global())));
    drop(store.context("it is rolled back; the deletions are made again by the next start")?);
    Ok(())
}

/// Whether a person at the terminal agrees.
fn agreed(name: &str, kept: &str) -> anyhow::Result<bool> {
    let mut input = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked here: say --yes if the store shall be what it was at {name}");
    }
    eprint!("The store becomes what it was at {name}; what it is now is kept as the snapshot {kept}. Go on? [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn show(data: &Value) {
    if let Some(name) = data["deleted"].as_str() {
        println!("{name} is deleted");
        return;
    }
    let several = data["snapshots"].as_array();
    let one = [data.clone()];
    let all = several.map_or(&one[..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let width = all.iter().map(|one| text(&one["name"]).len()).max().unwrap_or(0);
    for one in all {
        let bytes = |name: &str| human(one[name].as_u64().unwrap_or(0) as f64, "B");
        let created = utc(one["created_ms"].as_i64().unwrap_or(0).saturating_mul(1_000_000));
        let (name, blocks) = (text(&one["name"]), &one["blocks"]);
        let (blocks_bytes, journal) = (bytes("block_bytes"), bytes("journal_bytes"));
        println!("{name:width$}  made {created} UTC  {blocks} blocks of {blocks_bytes}, journal of {journal}");
    }
    if all.is_empty() {
        println!("there are no snapshots");
    }
}
