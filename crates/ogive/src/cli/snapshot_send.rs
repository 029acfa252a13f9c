//! `ogive snapshot send` and `receive`: a snapshot to another machine, through a pipe or over HTTP.
//!
//! The sender needs no lock: a snapshot's files never change, also while the server runs. Over HTTP it sends a list of
//! files, hears what is lacking, and sends that in requests of 8 MiB; whatever ends in between is gone on with.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use ogive_journal::{Disk, RealDisk};
use ogive_store::transfer::{self, FileEntry, Inventory, PIECE_BYTES_MAX, Progress, StreamWriter};
use serde_json::Value;

use super::client::{Failure, Server};
use super::exit::EXIT_FINDING;
use super::format::human;
use super::offline;
use ogive_storage::upkeep::{absolute, open_mirror};

pub(super) const HELP: &str = "\
DIR is the data directory of a server; it may run. Of a mirror, name each directory: the first in which everything is whole is read.

  ogive snapshot send monday --data /data/ogive --to https://other:6448      # OGIVE_TOKEN: one that allows admin there
  ogive snapshot send monday --data /data/ogive | ssh other ogive snapshot receive --data /data/ogive
  ogive snapshot send tuesday --data /data/ogive --since monday > tuesday    # only what monday has not

The receiver keeps the snapshot under its name: `ogive snapshot clone` makes a store of it, `ogive snapshot rollback` makes it the
server's own. What ended before its end is sent again with the same command, and goes on.

Exit codes: 0 it is there (or written); 1 it is not, and the same command goes on; 2 wrong usage; 3 the server cannot be reached.";

/// 8 MiB a request: a second on a line of 70 Mbit/s.
const REQUEST_BYTES: usize = 8 << 20;

/// An hour: the last request waits while the receiver reads everything back.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// Consecutive requests without progress: with waits of 1 s up to 30 s some three minutes.
const TRIES: u32 = 10;

const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(clap::Args, Debug)]
pub(crate) struct Send {
    /// Its name.
    name: String,
    /// Data directory of the snapshot's server. Repeatable.
    #[arg(long, value_name = "DIR", required = true)]
    data: Vec<PathBuf>,
    /// Snapshot that the receiver already has; its contents are not sent. Only for pipes: a server is asked what
    /// it has.
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    since: Vec<String>,
    /// URL of the receiving server; default: standard output.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    #[command(flatten)]
    server: Server,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Receive {
    /// Data directory of the store that receives the snapshot; may be empty. Repeatable.
    #[arg(long, value_name = "DIR", required = true)]
    data: Vec<PathBuf>,
}

/// Where a snapshot is read.
struct Source {
    directory: PathBuf,
    inventory: Inventory,
}

impl Source {
    /// The snapshot in the first directory in which everything is intact.
    fn find(directories: &[PathBuf], name: &str) -> anyhow::Result<Self> {
        let mut failed = None;
        for directory in directories {
            let directory = absolute(directory)?;
            match Inventory::from_snapshot(&RealDisk, &directory, name, &mut |_| Ok(())) {
                Ok(inventory) => return Ok(Self { directory, inventory }),
                Err(error) => {
                    failed = failed.or(Some(anyhow::Error::new(error).context(directory.display().to_string())))
                }
            }
        }
        Err(failed.context("name a directory with --data")?)
    }

    /// Passes the pieces of a file from `offset` on to `each`, until that wants no more.
    fn pieces(
        &self,
        file: &FileEntry,
        mut offset: u64,
        mut each: impl FnMut(u64, &[u8]) -> std::io::Result<bool>,
    ) -> anyhow::Result<()> {
        let path = self.inventory.path_in(&self.directory, file);
        let opened = RealDisk.open_read(&path).context("the snapshot was removed meanwhile")?;
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        while offset < file.bytes {
            let wanted = usize::try_from(file.bytes - offset).unwrap_or(usize::MAX).min(buffer.len());
            let read = opened.read_at(offset, &mut buffer[..wanted])?;
            if read == 0 {
                bail!("{} ends at byte {offset}, and had {}", path.display(), file.bytes);
            }
            if !each(offset, &buffer[..read])? {
                return Ok(());
            }
            offset += read as u64;
        }
        Ok(())
    }
}

/// Runs `ogive snapshot send`.
pub(crate) fn send(options: &Send) -> anyhow::Result<ExitCode> {
    let source = Source::find(&options.data, &options.name)?;
    match &options.to {
        Some(url) => send_to(&source, &options.server.at_address(url)),
        None => write(&source, &options.data, &options.since),
    }
}

fn write(source: &Source, data: &[PathBuf], since: &[String]) -> anyhow::Result<ExitCode> {
    if std::io::stdout().is_terminal() {
        eprintln!("ogive: this writes bytes that are no text: send them to a file or a pipe, or to a server with --to");
        return Ok(ExitCode::from(2));
    }
    let mut known = HashSet::new();
    for name in since {
        let earlier = Source::find(data, name)?;
        known.extend(earlier.inventory.files.into_iter().map(|file| (file.path, file.sha256)));
    }
    let mut stream = StreamWriter::begin(std::io::BufWriter::new(std::io::stdout().lock()), &source.inventory)?;
    let mut sent = 0;
    for (index, file) in source.inventory.files.iter().enumerate() {
        if known.contains(&(file.path.clone(), file.sha256)) {
            continue;
        }
        source.pieces(file, 0, |offset, bytes| stream.piece(index, offset, bytes).map(|()| true))?;
        sent += file.bytes;
    }
    stream.end()?;
    let of = human(source.inventory.bytes() as f64, "B");
    eprintln!("ogive: wrote {} of the {of} of {}", human(sent as f64, "B"), source.inventory.info.name);
    Ok(ExitCode::SUCCESS)
}

/// A server's response.
struct Answer {
    missing: Vec<(usize, u64)>,
    done: bool,
}

impl Answer {
    fn read(body: &str, files: usize) -> anyhow::Result<Self> {
        let answer: Value = serde_json::from_str(body).context("the server's answer is not as documented")?;
        let data = &answer["data"];
        let pair = |pair: &Value| Some((usize::try_from(pair[0].as_u64()?).ok()?, pair[1].as_u64()?));
        let pairs = data["missing"].as_array().context("the server's answer has no `missing`")?;
        let missing: Option<Vec<_>> = pairs.iter().map(pair).collect();
        let missing = missing.filter(|missing| missing.iter().all(|(index, _)| *index < files));
        Ok(Self {
            missing: missing.context("the server lacks files that there are not")?,
            done: data["snapshot"].is_object(),
        })
    }
}

/// The list of files, and the first of the missing pieces.
fn request(source: &Source, missing: &[(usize, u64)]) -> anyhow::Result<(Vec<u8>, u64)> {
    let (mut body, mut sent) = (Vec::new(), 0);
    let mut stream = StreamWriter::begin(&mut body, &source.inventory)?;
    for (index, offset) in missing {
        if sent >= REQUEST_BYTES as u64 {
            break;
        }
        source.pieces(&source.inventory.files[*index], *offset, |offset, bytes| {
            stream.piece(*index, offset, bytes)?;
            sent += bytes.len() as u64;
            Ok(sent < REQUEST_BYTES as u64)
        })?;
    }
    stream.end()?;
    Ok((body, sent))
}

fn send_to(source: &Source, server: &Server) -> anyhow::Result<ExitCode> {
    let (mut missing, mut sent, mut idle) = (Vec::new(), 0, 0);
    let mut wait = Duration::from_secs(1);
    loop {
        let (body, bytes) = request(source, &missing)?;
        let failure = match server.post_bytes("/v1/snapshots/receive", &body, TIMEOUT) {
            Ok(body) => {
                let answer = Answer::read(&body, source.inventory.files.len())?;
                sent += bytes;
                if answer.done {
                    let (name, all) = (&source.inventory.info.name, human(source.inventory.bytes() as f64, "B"));
                    println!("{name} is there: {} of its {all} were sent", human(sent as f64, "B"));
                    return Ok(ExitCode::SUCCESS);
                }
                let same = answer.missing == missing;
                missing = answer.missing;
                if !same {
                    (idle, wait) = (0, Duration::from_secs(1));
                    continue;
                }
                Failure::Refused { status: 500, message: "the server still lacks what it was sent".into() }
            }
            // An error that will not go away on a retry.
            Err(failure @ (Failure::Usage(_) | Failure::Refused { status: 400..=428, .. })) => {
                return Ok(failure.report());
            }
            Err(failure) => failure,
        };
        idle += 1;
        if idle == TRIES {
            eprintln!("ogive: {} were sent; the same command goes on from there", human(sent as f64, "B"));
            return Ok(failure.report());
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(WAIT_MAX);
        // It is not known what the server has of the last request: ask.
        missing.clear();
    }
}

/// Runs `ogive snapshot receive`.
pub(crate) fn receive(options: &Receive) -> anyhow::Result<ExitCode> {
    let directories = options.data.iter().map(|path| absolute(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let (mirror, _) = open_mirror(&directories, false)
        .context("a server that runs is sent to with `ogive snapshot send NAME --data DIR --to URL`")?;
    let (inventory, progress) = offline::noted(&mirror, "snapshot receive", "from standard input", || {
        Ok(transfer::receive(&mirror, mirror.root(), std::io::stdin().lock())?)
    })?;
    let name = &inventory.info.name;
    match progress {
        Progress::Done(_) => {
            println!("{name} is there: {} files, {}", inventory.files.len(), human(inventory.bytes() as f64, "B"));
            Ok(ExitCode::SUCCESS)
        }
        Progress::Missing(missing) => {
            let first = missing.first().map_or("", |one| &inventory.files[one.index].path);
            let mut err = std::io::stderr().lock();
            writeln!(
                err,
                "ogive: {name} is not whole: {} files are lacking, such as {first}; send it without --since, or the snapshot it builds on first",
                missing.len()
            )?;
            Ok(ExitCode::from(EXIT_FINDING))
        }
    }
}
