//! Configurations of groups as files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ogive_door::differences::{differences, shown};
use ogive_fleet::{CONTENTS_BYTES_MAX, Contents, check_name};
use ogive_text::calendar::rfc3339;
use ogive_text::mistake::{file_text, flat};
use serde_json::{Value, json};

use super::super::client::{Failure, Server};
use super::super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::super::files::FILES;
use super::super::read_file;
use crate::fleet::Document;

/// The configuration of a group in files.
struct GroupFiles {
    group: String,
    path: PathBuf,
    contents: Contents,
}

/// The groups of a directory: GROUP.toml, and GROUP.yml beside it. Mistakes are printed.
fn read(directory: &Path) -> anyhow::Result<Result<Vec<GroupFiles>, ExitCode>> {
    let list = |pattern: &str| (FILES.list)(&directory.join(pattern));
    let found = list("*.toml").with_context(|| format!("cannot read {}", directory.display()))?;
    let (mut out, mut mistakes) = (Vec::new(), Vec::new());
    for path in &found {
        let group = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match read_group(path, group) {
            Ok(files) => out.push(files),
            Err(found) => mistakes.extend(found),
        }
    }
    // A scrape configuration alone is probably one whose TOML was forgotten.
    for path in list("*.yml")?.iter().filter(|path| !found.contains(&path.with_extension("toml"))) {
        mistakes.push(format!("{} has no {} beside it", path.display(), path.with_extension("toml").display()));
    }
    if found.is_empty() && mistakes.is_empty() {
        mistakes.push(format!("{} has no GROUP.toml", directory.display()));
    }
    if mistakes.is_empty() {
        return Ok(Ok(out));
    }
    mistakes.iter().for_each(|mistake| eprintln!("ogive: {mistake}"));
    Ok(Err(ExitCode::from(EXIT_FINDING)))
}

fn read_group(path: &Path, group: String) -> Result<GroupFiles, Vec<String>> {
    check_name(&group).map_err(|why| vec![format!("{}: {why}", path.display())])?;
    let one = |why: String| vec![why];
    let toml = file_text(read_file, path, CONTENTS_BYTES_MAX).map_err(one)?;
    let scrape_path = path.with_extension("yml");
    let is_there = (FILES.list)(&path.with_file_name("*.yml")).is_ok_and(|all| all.contains(&scrape_path));
    let scrape = is_there.then(|| file_text(read_file, &scrape_path, CONTENTS_BYTES_MAX)).transpose().map_err(one)?;
    let contents = Contents { toml, scrape };
    Document::parse(&contents, &path.display().to_string(), &scrape_path.display().to_string())?;
    Ok(GroupFiles { group, path: path.to_owned(), contents })
}

fn data(body: &str) -> anyhow::Result<Value> {
    let mut answer: Value = serde_json::from_str(body).context("the server's answer is not JSON")?;
    Ok(answer["data"].take())
}

/// `ogive fleet apply`.
pub(super) fn apply(directory: &Path, why: &str, server: &Server) -> anyhow::Result<ExitCode> {
    let all = match read(directory)? {
        Ok(all) => all,
        Err(code) => return Ok(code),
    };
    for GroupFiles { group, path, contents } in all {
        let body = json!({"toml": contents.toml, "scrape": contents.scrape, "why": why});
        match server.post(&format!("/v1/fleet/groups/{group}"), &body) {
            Ok(body) => {
                let data = data(&body)?;
                let unchanged = if data["changed"] == true { "" } else { ", which was in force" };
                println!("{group}: version {}{unchanged}", data["version"]);
            }
            Err(failure) => {
                eprintln!("ogive: {}:", path.display());
                return Ok(failure.report());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The version of a group in force; None when there is no such group.
fn in_force(server: &Server, group: &str) -> Result<Option<Value>, Failure> {
    match server.get(&format!("/v1/fleet/groups/{group}"), &[]) {
        Ok(body) => Ok(data(&body).ok().map(|mut data| data["package"].take())),
        Err(Failure::Refused { status: 404, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// `ogive fleet diff`.
pub(super) fn diff(directory: &Path, server: &Server) -> anyhow::Result<ExitCode> {
    let all = match read(directory)? {
        Ok(all) => all,
        Err(code) => return Ok(code),
    };
    let mut differs = false;
    for GroupFiles { group, contents, .. } in all {
        let package = match in_force(server, &group) {
            Ok(package) => package,
            Err(failure) => return Ok(failure.report()),
        };
        let before: Contents = match &package {
            Some(package) => serde_json::from_value(package["contents"].clone()).context("this is no configuration")?,
            None => Contents::default(),
        };
        if before == contents && package.is_some() {
            continue;
        }
        differs = true;
        match package {
            Some(package) => println!("{group}: differs from version {}", package["version"]),
            None => println!("{group}: new"),
        }
        let keys = differences(&shown(&flat(&before.toml)), &shown(&flat(&contents.toml)));
        keys.iter().flat_map(|keys| keys.lines()).for_each(|line| println!("  {line}"));
        let (old, new) = (before.scrape.unwrap_or_default(), contents.scrape.unwrap_or_default());
        for line in changed_lines(&old, &new) {
            println!("  {line}");
        }
    }
    Ok(if differs { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

/// Lines that only one of the texts has, in their order: those of the old one, then those of the new one.
fn changed_lines(old: &str, new: &str) -> Vec<String> {
    let only = |of: &str, other: &str, sign: char| -> Vec<String> {
        let known: std::collections::HashSet<&str> = other.lines().collect();
        of.lines().filter(|line| !known.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    [only(old, new, '-'), only(new, old, '+')].concat()
}

/// `ogive fleet rollback`.
pub(super) fn rollback(group: &str, version: u64, why: &str, server: &Server) -> anyhow::Result<ExitCode> {
    if let Err(why) = check_name(group) {
        eprintln!("ogive: {why}");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let body = json!({"version": version, "why": why});
    match server.post(&format!("/v1/fleet/groups/{group}/rollback"), &body) {
        Ok(body) => println!("{group}: version {}, which says what version {version} said", data(&body)?["version"]),
        Err(failure) => return Ok(failure.report()),
    }
    Ok(ExitCode::SUCCESS)
}

/// `ogive fleet list`.
pub(super) fn list(server: &Server, is_json: bool) -> anyhow::Result<ExitCode> {
    let body = match server.get("/v1/fleet/groups", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    if is_json {
        print!("{body}");
        return Ok(ExitCode::SUCCESS);
    }
    let data = data(&body)?;
    for group in data["groups"].as_array().into_iter().flatten() {
        let text = |name: &str| group[name].as_str().unwrap_or_default();
        let brokers = group["brokers"].as_object().into_iter().flatten();
        let brokers: Vec<String> =
            brokers.map(|(state, count)| format!("{count} {}", state.replace('_', " "))).collect();
        let brokers = if brokers.is_empty() { "no brokers".into() } else { brokers.join(", ") };
        let time = group["time_ms"].as_i64().map_or_else(String::new, rfc3339);
        println!("{:24} version {:<5} {time} by {}: {}", text("group"), group["version"], text("by"), text("why"));
        let waiting = match group["spread_waiting"].as_u64().unwrap_or(0) {
            0 => String::new(),
            count => format!(", {count} of them waiting for a broker"),
        };
        let spread = match group["spread_checks"].as_u64().unwrap_or(0) {
            0 => String::new(),
            count => format!("; {count} spread checks{waiting}"),
        };
        println!("{:24} {brokers}{spread}", "");
    }
    for damaged in data["damaged"].as_array().into_iter().flatten() {
        println!("damaged: {}", damaged.as_str().unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}

/// `ogive fleet show`.
pub(super) fn show(
    group: &str,
    version: Option<u64>,
    scrape: bool,
    history: bool,
    server: &Server,
) -> anyhow::Result<ExitCode> {
    if let Err(why) = check_name(group) {
        eprintln!("ogive: {why}");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let version = version.map(|version| version.to_string());
    let params: Vec<(&str, &str)> = version.iter().map(|version| ("version", version.as_str())).collect();
    let body = match server.get(&format!("/v1/fleet/groups/{group}"), &params) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let data = data(&body)?;
    if history {
        for one in data["versions"].as_array().into_iter().flatten() {
            let text = |name: &str| one[name].as_str().unwrap_or_default();
            let time = one["time_ms"].as_i64().map_or_else(String::new, rfc3339);
            println!("version {:<5} {time} by {}: {}", one["version"], text("by"), text("why"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let part = if scrape { "scrape" } else { "toml" };
    print!("{}", data["package"]["contents"][part].as_str().unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown() {
        assert_eq!(changed_lines("a\nb\nc\n", "a\nd\nc\ne\n"), ["- b", "+ d", "+ e"]);
        assert!(changed_lines("a\n", "a\n").is_empty());
    }

    #[test]
    fn groups_are_read_from_a_directory_or_nothing_is() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        assert!(read(directory.path()).unwrap().is_err(), "nothing is there");
        write("edge.toml", "labels = {site = \"fra\"}\n");
        write("edge.yml", "scrape_configs: []\n");
        write("core.toml", "");
        let all = read(directory.path()).unwrap().unwrap_or_else(|_| panic!("they are fine"));
        let names: Vec<_> = all.iter().map(|one| (one.group.as_str(), one.contents.scrape.is_some())).collect();
        assert_eq!(names, [("core", false), ("edge", true)]);
        write("lost.yml", "scrape_configs: []\n");
        assert!(read(directory.path()).unwrap().is_err());
    }
}
