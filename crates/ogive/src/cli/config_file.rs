//! The file of `ogive serve -c`: options under their names, in TOML.
//!
//! Invariants: what the command line says wins over the environment, that over the file, that over the defaults. A key
//! is the name of an option, `scrub-rate` or `scrub_rate`; a table's name stands before the names in it, so that
//! `samples` in `[query]` is `query-samples`.
//! Limits: [`FILE_BYTES_MAX`]; tables in tables to a depth of [`DEPTH_MAX`].
//! Failure: every mistake is reported with its line, and what was probably meant.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use ogive_text::mistake::{self, Mistake, line};
use ogive_text::near::{did_you_mean, nearest};
use ogive_text::secrets::without_secrets;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read_file;
use ogive_http::{Flag, Flags};

/// 1 MiB: thousands of options; there are fewer than a hundred.
const FILE_BYTES_MAX: usize = 1 << 20;

/// 4: names of options have at most five words.
const DEPTH_MAX: usize = 4;

/// Options that a file cannot set: the file itself, and those that only print.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// Tables of filters, which are no options (`filtering`).
const FILTER: &str = "filter";

/// An option as the file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) line: usize,
    /// The name of the option, without dashes before it.
    pub(super) name: String,
    /// As on the command line; a switch that is on has one empty value, one that is off has none.
    pub(super) values: Vec<String>,
    is_switch: bool,
}

/// The arguments, followed by the options from the file that they name which neither they nor the environment set.
pub(super) fn with_file(
    mut arguments: Vec<OsString>,
    root: &Command,
    given: &ArgMatches,
) -> Result<Vec<OsString>, String> {
    let Some(("serve", given)) = given.subcommand() else { return Ok(arguments) };
    let Some(path) = given.get_one::<std::path::PathBuf>("config") else { return Ok(arguments) };
    let serve = root.find_subcommand("serve").expect("it is a command");
    let entries = read(path, serve)?;
    for entry in entries {
        let argument = option(serve, &entry.name).expect("it was looked up before");
        let source = given.value_source(argument.get_id().as_str());
        if matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            continue;
        }
        arguments.extend(entry.arguments().map(OsString::from));
    }
    Ok(arguments)
}

/// The options of `serve` with their values except secrets, from any origin; none for another command.
pub(super) fn flags(root: &Command, given: &ArgMatches) -> Flags {
    let Some(("serve", given)) = given.subcommand() else { return Flags::default() };
    let serve = root.find_subcommand("serve").expect("it is a command");
    let flag = |argument: &Arg| {
        let id = argument.get_id().as_str();
        let raw = given.try_get_raw(id).ok().flatten().into_iter().flatten();
        let name = argument.get_long()?;
        let values = raw.map(|value| without_secrets(name, &value.to_string_lossy())).collect();
        let is_default = matches!(given.value_source(id), None | Some(ValueSource::DefaultValue));
        Some(Flag { name: name.to_owned(), values, is_default })
    };
    Flags(serve.get_arguments().filter_map(flag).filter(|flag| !matches!(&*flag.name, "help" | "version")).collect())
}

/// The options of the file at `path`, or all its mistakes, one a line.
pub(super) fn read(path: &Path, serve: &Command) -> Result<Vec<Entry>, String> {
    parse(&text(path)?, serve).map_err(|mistakes| {
        let lines = mistakes.iter().map(|mistake| format!("{}, {mistake}", path.display()));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// The text of the file at `path`.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    mistake::file_text(read_file, path, FILE_BYTES_MAX)
}

impl Entry {
    /// As on the command line.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> + '_ {
        let Self { name, is_switch, .. } = self;
        self.values.iter().map(move |value| if *is_switch { format!("--{name}") } else { format!("--{name}={value}") })
    }
}

/// What is read so far.
struct Reader<'a> {
    text: &'a str,
    serve: &'a Command,
    /// Keys and tables that are not options and are read elsewhere.
    others: &'a [&'a str],
    entries: Vec<Entry>,
    mistakes: Vec<Mistake>,
}

fn parse(text: &str, serve: &Command) -> Result<Vec<Entry>, Vec<Mistake>> {
    parse_but(text, serve, &[FILTER])
}

/// The options of `text`, without the keys and tables `others`.
pub(crate) fn parse_but(text: &str, serve: &Command, others: &[&str]) -> Result<Vec<Entry>, Vec<Mistake>> {
    let mut reader = Reader { text, serve, others, entries: Vec::new(), mistakes: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => reader.table("", table.get_ref(), 0),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.mistake(at, error.message().to_owned());
        }
    }
    let Reader { mut entries, mut mistakes, .. } = reader;
    mistakes.sort_by_key(Mistake::line);
    entries.sort_by_key(|entry| entry.line);
    if mistakes.is_empty() { Ok(entries) } else { Err(mistakes) }
}

impl Reader<'_> {
    fn mistake(&mut self, at: usize, message: String) {
        self.mistakes.push(Mistake::at(self.text, at, message));
    }

    fn table(&mut self, before: &str, table: &DeTable<'_>, depth: usize) {
        // In the order of the file, not of the alphabet: of two the second is the mistake.
        let mut all: Vec<_> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in all {
            let at = key.span().start;
            let key = key.get_ref().replace('_', "-");
            let name = if before.is_empty() { key } else { format!("{before}-{key}") };
            if depth == 0 && self.others.contains(&&*name) {
                continue;
            }
            match value.get_ref() {
                DeValue::Table(_) if self.is_slip(&name) => self.option(at, name, value),
                DeValue::Table(table) if depth < DEPTH_MAX => self.table(&name, table, depth + 1),
                DeValue::Table(_) => self.mistake(at, format!("{name:?}: tables stand in tables too deep")),
                _ => self.option(at, name, value),
            }
        }
    }

    /// Whether it is a misspelt name of one of the other tables.
    fn is_slip(&self, name: &str) -> bool {
        let begins = |argument: &Arg| argument.get_long().is_some_and(|long| long.starts_with(name));
        nearest(self.others.iter().copied(), name).is_some() && !self.serve.get_arguments().any(begins)
    }

    fn option(&mut self, at: usize, name: String, value: &Spanned<DeValue<'_>>) {
        let Some(argument) = option(self.serve, &name) else {
            let other = nearest(self.others.iter().copied(), &name);
            let meant = did_you_mean(other.or_else(|| meant(self.serve, &name)));
            return self.mistake(at, format!("there is no option {name:?}{meant}"));
        };
        if let Some(other) = self.entries.iter().find(|entry| entry.name == name) {
            let message = format!("{name:?} was given in line {} already", other.line);
            return self.mistake(at, message);
        }
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        let found = values(argument, value.get_ref()).and_then(|values| {
            let entry = Entry { line: line(self.text, at), name: name.clone(), values, is_switch };
            check(self.serve, &entry).map(|()| entry)
        });
        match found {
            Ok(entry) => self.entries.push(entry),
            Err(message) => self.mistake(value.span().start, format!("{name:?}: {message}")),
        }
    }
}

/// The option of this name, if a file may give it.
fn option<'a>(serve: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut all = serve.get_arguments().filter(|argument| !NOT_IN_FILES.contains(&argument.get_id().as_str()));
    all.find(|argument| argument.get_long() == Some(name))
}

fn values(argument: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match (argument.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(is_on)) => Ok(if *is_on { vec![String::new()] } else { Vec::new() }),
        (ArgAction::SetTrue, _) => Err("give true or false".into()),
        (ArgAction::Append, DeValue::Array(all)) => all.iter().map(|value| scalar(value.get_ref())).collect(),
        (_, DeValue::Array(_)) => Err("it has one value, not a list".into()),
        (_, value) => scalar(value).map(|value| vec![value]),
    }
}

fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        DeValue::Integer(_) => Err("write the number in decimal".into()),
        DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
        other => Err(format!("a {} is not a value here; give a string or a number", other.type_str())),
    }
}

/// Whether the option accepts its values, decided by the same code that parses the command line.
fn check(serve: &Command, entry: &Entry) -> Result<(), String> {
    let alone = serve.clone().mut_args(|argument| argument.env(Resettable::Reset));
    let arguments = std::iter::once("serve".to_owned()).chain(entry.arguments());
    match alone.try_get_matches_from(arguments) {
        Ok(_) => Ok(()),
        // Whether options may be combined is checked when all are known.
        Err(error) if matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) => {
            Ok(())
        }
        Err(error) => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            Err(first.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// The option whose name is nearest to `name`, when it is near.
fn meant<'a>(serve: &'a Command, name: &str) -> Option<&'a str> {
    let all = serve.get_arguments().filter_map(|argument| argument.get_long());
    nearest(all.filter(|known| !NOT_IN_FILES.contains(known)), name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn serve() -> Command {
        Cli::command().find_subcommand("serve").unwrap().clone()
    }

    fn said(text: &str) -> String {
        let mistakes = parse(text, &serve()).err().unwrap_or_default();
        mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn options_are_told_with_their_values() {
        let command = Cli::command();
        let of = |arguments: &[&str]| flags(&command, &command.clone().get_matches_from(arguments)).0;
        let all = of(&["ogive", "serve", "--data", "a", "--data", "b", "--degraded"]);
        let one =
            |name: &str| all.iter().find(|flag| flag.name == name).map(|flag| (flag.values.join(","), flag.is_default));
        assert_eq!(one("data"), Some(("a,b".into(), false)));
        assert_eq!(one("degraded"), Some(("true".into(), false)));
        assert_eq!(one("rollups"), Some(("1m,1h".into(), true)));
        assert_eq!(one("retention"), Some((String::new(), true)));
        assert_eq!(one("help"), None);
        assert_eq!(of(&["ogive", "status"]), []);
    }

    #[test]
    fn keys_are_the_names_of_options() {
        let text = "listen = ['127.0.0.1:1', \"127.0.0.1:2\"]\nscrub_rate = '1MiB/s'\ndegraded = true\nenable-admin-api = false\n\
            retention = '30d'\n[query]\nsamples = 1_000_000\ntimeout_s = 30\n[limit.label]\nbytes = 100\n";
        let entries = parse(text, &serve()).unwrap();
        let arguments: Vec<String> = entries.iter().flat_map(Entry::arguments).collect();
        let expected = [
            "--listen=127.0.0.1:1",
            "--listen=127.0.0.1:2",
            "--scrub-rate=1MiB/s",
            "--degraded",
            "--retention=30d",
            "--query-samples=1000000",
            "--query-timeout-s=30",
            "--limit-label-bytes=100",
        ];
        assert_eq!(arguments, expected);
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 7, 8, 10]);
        assert_eq!(parse("", &serve()), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_have_their_line_and_what_was_meant() {
        let check = |text: &str, expected: &[&str]| {
            let said = said(text);
            for word in expected {
                assert!(said.contains(word), "{word:?} is not in {said:?} of {text:?}");
            }
        };
        check("\nlistne = 'x'", &["line 2", "no option \"listne\"", "did you mean \"listen\""]);
        check("[query]\nsample = 1", &["line 2", "query-samples"]);
        check("qqqqqqq = 1", &["line 1", "no option"]);
        assert!(!said("qqqqqqq = 1").contains("mean"));
        for name in NOT_IN_FILES {
            check(&format!("{name} = 'x'"), &["no option"]);
        }
        check("data = 'a'\nretention = 'soon'", &["line 2", "retention", "soon"]);
        check("degraded = 'yes'", &["line 1", "true or false"]);
        check("scrub-rate = ['1', '2']", &["one value"]);
        check("scrub-rate = true", &["boolean"]);
        check("query-series = 0x10", &["decimal"]);
        check("query-series = 1\n[query]\nseries = 2", &["line 3", "line 1 already"]);
        check("a = 1\nb = \n", &["line 2"]);
        check("a = 1\na = 2\n", &["line 2", "duplicate"]);
        // Each is reported, in the order of the lines.
        assert_eq!(said("retention = 'soon'\nlistne = 1\ndegraded = 1").lines().count(), 3);
    }

    /// Bytes from outside: whatever they are, there are options or mistakes.
    #[test]
    fn no_text_breaks_it() {
        let seed = "listen = ['a']\n[query]\nsamples = 1\n[[x]]\ny = {z = 1979-05-27}\n";
        let serve = serve();
        for cut in 0..seed.len() {
            for with in ["", "[", "\"", "\u{0}", "é", "= ", "\n"] {
                let text = format!("{}{with}{}", &seed[..cut], &seed[cut..]);
                let _ = parse(&text, &serve);
            }
        }
        let deep = format!("{} = 1", vec!["a"; 200].join("."));
        assert!(parse(&deep, &serve).is_err());
    }
}
