//! A script's commands.

use std::path::Path;

use regex::Regex;

use super::notation::{SeriesLine, millis, series_line};
use super::points;

/// One command with the line it starts at.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) kind: CommandKind,
}

#[derive(Debug)]
pub(crate) enum CommandKind {
    Clear,
    Load(Load),
    Eval(Box<Eval>),
}

/// Series to store.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) step_ms: i64,
    /// Also as native histograms with custom bounds.
    pub(crate) with_nhcb: bool,
    pub(crate) series: Vec<SeriesLine>,
}

/// A query with what it must give.
#[derive(Debug)]
pub(crate) struct Eval {
    pub(crate) query: String,
    pub(crate) times: Times,
    pub(crate) expect: Expect,
}

/// When a query is evaluated, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    Instant(i64),
    Range { start: i64, end: i64, step: i64 },
}

/// How a text must look.
#[derive(Debug)]
pub(crate) enum Text {
    Any,
    Exact(String),
    Pattern(Regex),
}

impl Text {
    pub(crate) fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == text,
            Self::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

/// What a query must give.
#[derive(Debug, Default)]
pub(crate) struct Expect {
    pub(crate) fail: Option<Text>,
    pub(crate) warn: Vec<Text>,
    pub(crate) info: Vec<Text>,
    pub(crate) no_warn: bool,
    pub(crate) no_info: bool,
    pub(crate) ordered: bool,
    pub(crate) string: Option<String>,
    pub(crate) scalar: Option<f64>,
    /// `expect range vector from .. to .. step ..`.
    pub(crate) range_vector: Option<(i64, i64, i64)>,
    pub(crate) series: Vec<SeriesLine>,
}

/// The commands of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Command>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse(&text)
}

/// The commands of a text; an error names its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Command>, String> {
    let lines: Vec<&str> =
        text.lines().map(|line| if line.trim().starts_with('#') { "" } else { line.trim() }).collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].is_empty() {
            at += 1;
            continue;
        }
        let length = lines[at..].iter().position(|line| line.is_empty()).unwrap_or(lines.len() - at);
        // `clear` takes one line; what follows without a blank line is the next command.
        let length = if lines[at] == "clear" { 1 } else { length };
        let kind = command(&lines[at..at + length]).map_err(|error| format!("line {}: {error}", at + 1))?;
        out.push(Command { line: at + 1, kind });
        at += length;
    }
    Ok(out)
}

fn command(block: &[&str]) -> Result<CommandKind, String> {
    let (word, rest) = block[0].split_once([' ', '\t']).unwrap_or((block[0], ""));
    match word {
        "clear" => Ok(CommandKind::Clear),
        "load" | "load_with_nhcb" => {
            let series = block[1..].iter().map(|line| in_line(line, series_line(line))).collect::<Result<_, _>>()?;
            let load = Load { step_ms: millis(rest.trim())?, with_nhcb: word != "load", series };
            Ok(CommandKind::Load(load))
        }
        "eval" | "eval_fail" | "eval_warn" | "eval_info" | "eval_ordered" => eval(word, rest.trim(), &block[1..]),
        _ => Err(format!("unknown command {word:?}")),
    }
}

fn in_line<T>(line: &str, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|error| format!("{line:?}: {error}"))
}

fn eval(word: &str, head: &str, lines: &[&str]) -> Result<CommandKind, String> {
    let (times, query) = times(head)?;
    let mut expect = Expect::default();
    match word {
        "eval_fail" => expect.fail = Some(Text::Any),
        "eval_warn" => expect.warn.push(Text::Any),
        "eval_info" => expect.info.push(Text::Any),
        "eval_ordered" => expect.ordered = true,
        _ => {}
    }
    for line in lines {
        in_line(line, expect.line(line))?;
    }
    Ok(CommandKind::Eval(Box::new(Eval { query, times, expect })))
}

/// `instant at T QUERY` or `range from A to B step S QUERY`.
fn times(head: &str) -> Result<(Times, String), String> {
    let mut rest = head;
    let mut word = |wanted: Option<&str>| -> Result<&str, String> {
        let (word, tail) = rest.split_once([' ', '\t']).ok_or_else(|| format!("{head:?} ends early"))?;
        rest = tail.trim_start();
        if wanted.is_some_and(|wanted| wanted != word) { Err(format!("{word:?} is not {wanted:?}")) } else { Ok(word) }
    };
    let times = if word(None)? == "instant" {
        word(Some("at"))?;
        Times::Instant(millis(word(None)?)?)
    } else {
        word(Some("from"))?;
        let start = millis(word(None)?)?;
        word(Some("to"))?;
        let end = millis(word(None)?)?;
        word(Some("step"))?;
        Times::Range { start, end, step: millis(word(None)?)? }
    };
    Ok((times, rest.trim().to_owned()))
}

impl Expect {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("expected_fail_message ") {
            self.fail = Some(Text::Exact(rest.trim().to_owned()));
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("expected_fail_regexp ") {
            self.fail = Some(pattern(rest)?);
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("expect ") {
            return self.directive(rest.trim());
        }
        if let Ok(value) = points::number(line) {
            self.scalar = Some(value);
            return Ok(());
        }
        self.series.push(series_line(line)?);
        Ok(())
    }

    fn directive(&mut self, text: &str) -> Result<(), String> {
        let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "fail" => self.fail = Some(text_rule(rest)?),
            "warn" => self.warn.push(text_rule(rest)?),
            "info" => self.info.push(text_rule(rest)?),
            "no_warn" => self.no_warn = true,
            "no_info" => self.no_info = true,
            "ordered" => self.ordered = true,
            "string" => self.string = Some(quoted(rest)?),
            "range" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let ["vector", "from", start, "to", end, "step", step] = words[..] else {
                    return Err(format!("bad range vector {rest:?}"));
                };
                self.range_vector = Some((millis(start)?, millis(end)?, millis(step)?));
            }
            _ => return Err(format!("unknown expectation {word:?}")),
        }
        Ok(())
    }
}

fn text_rule(rest: &str) -> Result<Text, String> {
    if rest.is_empty() {
        return Ok(Text::Any);
    }
    let (word, text) = rest.split_once(':').ok_or_else(|| format!("bad rule {rest:?}"))?;
    match word.trim() {
        "msg" => Ok(Text::Exact(text.trim().to_owned())),
        "regex" => pattern(text),
        _ => Err(format!("bad rule {rest:?}")),
    }
}

fn pattern(text: &str) -> Result<Text, String> {
    Regex::new(text.trim()).map(Text::Pattern).map_err(|error| error.to_string())
}

fn quoted(text: &str) -> Result<String, String> {
    match ogive_query::parse(text).map_err(|error| error.to_string())?.kind {
        ogive_query::ast::ExprKind::String(value) => Ok(value),
        _ => Err(format!("{text:?} is not a string")),
    }
}
