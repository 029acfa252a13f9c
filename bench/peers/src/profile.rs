//! Where a server's processor time goes while it works: samples by `perf` as folded stacks, for `ogive kernel flame
//! --from FILE --svg FILE`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

/// Samples a second of processor time, no multiple of what runs at regular intervals.
const RATE: &str = "997";

/// One of so many samples.
const PART: usize = 150;

/// A recording that runs.
pub struct Profile {
    perf: Child,
    samples: PathBuf,
    folded: PathBuf,
}

impl Profile {
    /// Samples process `id` from now on, for `directory/name.folded`.
    pub fn start(directory: &Path, name: &str, id: u32) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let words = name.split(|part: char| !part.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join("-");
        let (samples, folded) = [".perf", ".folded"].map(|suffix| directory.join(format!("{name}{suffix}"))).into();
        // Release builds have no frame pointers: a copy of each stack is unwound afterwards.
        let mut perf = Command::new("perf")
            .args(["record", "--quiet", "--event=cpu-clock", "--call-graph=dwarf,16384", "-F", RATE])
            .args(["-p", &id.to_string(), "-o"])
            .arg(&samples)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("perf does not start (Debian's package linux-perf)")?;
        // Its header is written when it samples.
        while fs::metadata(&samples).map_or(0, |file| file.len()) == 0 {
            ensure!(perf.try_wait()?.is_none(), "perf cannot sample process {id}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { perf, samples, folded })
    }

    /// Ends the recording and writes the folded stacks.
    pub fn finish(mut self) -> anyhow::Result<()> {
        Command::new("kill").args(["-INT", &self.perf.id().to_string()]).status()?;
        self.perf.wait()?;
        let out = Command::new("perf")
            .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
            .arg(&self.samples)
            .stderr(Stdio::null())
            .output()?;
        ensure!(out.status.success(), "perf script cannot read {}", self.samples.display());
        fs::write(&self.folded, folded(&String::from_utf8_lossy(&out.stdout)))?;
        fs::remove_file(&self.samples)?;
        Ok(())
    }
}

/// What `perf script` prints, a line for each different stack, outermost first, with how often it was seen. A frame
/// with less than a [`PART`]th of the samples counts as its caller, which keeps the file small.
fn folded(script: &str) -> String {
    let mut stacks: BTreeMap<String, usize> = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().map(str::trim).filter(|line| !line.is_empty());
        let Some(thread) = lines.next() else { continue };
        let mut frames: Vec<String> = lines.map(function).collect();
        // A thread that ended before its name was read has its number for it.
        frames.push(if thread.starts_with(':') { "[thread]".to_owned() } else { thread.replace(';', ":") });
        frames.reverse();
        *stacks.entry(frames.join(";")).or_default() += 1;
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (stack, count) in &stacks {
        callers(stack).for_each(|caller| *seen.entry(caller).or_default() += count);
    }
    let least = stacks.values().sum::<usize>() / PART;
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for (stack, count) in &stacks {
        let often = callers(stack).take_while(|caller| seen[caller] > least).last();
        *kept.entry(often.unwrap_or("[rare]")).or_default() += count;
    }
    let mut out = String::new();
    for (stack, count) in kept {
        let _ = writeln!(out, "{stack} {count}");
    }
    out
}

/// The stack's beginnings, the outermost frame alone first, the whole stack last.
fn callers(stack: &str) -> impl Iterator<Item = &str> {
    stack.match_indices(';').map(|(at, _)| &stack[..at]).chain([stack])
}

/// The name in a line of an address and a symbol, without the hash that ends Rust's.
fn function(line: &str) -> String {
    let name = line.split_once(' ').map_or("[unknown]", |(_, name)| name);
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    };
    name.replace(';', ":")
}
