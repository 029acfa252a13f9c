//! The functions available to a script, in the process that runs it.
//!
//! Invariants: a script can reach only the functions of this module: no files, no processes, no other modules, no
//! bytecode, no `ffi`, no just-in-time compiler (which would bypass the time limit). Patterns are regular expressions
//! in linear time.
//! Limits: the time and the memory of the [`Job`], [`FIGURES_MAX`], [`CALLS_MAX`]. The functions of this module hold,
//! besides the script's own memory, at most [`REPORT_BYTES_MAX`], [`ANSWER_BYTES_MAX`], [`JSON_BYTES_MAX`],
//! [`TEXT_BYTES_MAX`].
//! Failure: a script that fails or is stopped is a failed run. A script that evades the hook that stops it is killed
//! with the process.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hyper::{Request, Uri, header};
use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Table, Value as LuaValue, Variadic, VmState};
use ogive_model::{MonoNs, Value};
use ogive_outgoing::Body;
use ogive_probe::Clock;
use regex::{Regex, RegexBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;

use super::message::{Figure, Job};
use crate::net::Network;
use crate::run::{Failure, Reason, Run};
use crate::target::{HostAndPort, Trust};
use crate::{dns, http};
use ogive_outgoing::{AGENT, Origin, authority, target};

/// 1,000 figures and texts of a run.
const FIGURES_MAX: usize = 1_000;
/// 1 MiB of names, labels and texts that a run reports.
const REPORT_BYTES_MAX: usize = 1 << 20;
/// 4 MiB of JSON: some pages together.
const JSON_BYTES_MAX: usize = 4 << 20;
/// 32 MiB of texts in which matches are looked for at once.
const TEXT_BYTES_MAX: usize = 32 << 20;
/// 100 questions of a run.
const CALLS_MAX: usize = 100;
/// 1 MiB of an answer over TCP.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// 1 MiB of a compiled expression.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;
/// 100 expressions are kept compiled.
const EXPRESSIONS_MAX: usize = 100;
/// 1,000 instructions, some 10 µs, between two looks at the clock.
const INSTRUCTIONS: u32 = 1_000;

/// What a script could do harm with, beside the libraries that are not loaded.
const FORBIDDEN: [&str; 13] = [
    "dofile",
    "loadfile",
    "load",
    "loadstring",
    "require",
    "module",
    "collectgarbage",
    "newproxy",
    "getfenv",
    "setfenv",
    "coroutine",
    "gcinfo",
    "print",
];

/// What the functions of a script work with.
pub(super) struct World {
    network: Arc<Network>,
    handle: Handle,
    clock: Clock,
    until: MonoNs,
    calls: Cell<usize>,
    reported: RefCell<Vec<Figure>>,
    reported_bytes: Cell<usize>,
    /// Of texts in which matches are looked for.
    text_bytes: Cell<usize>,
    expressions: RefCell<HashMap<String, Regex>>,
}

impl World {
    pub(super) fn new(network: Arc<Network>, handle: Handle, clock: Clock, until: MonoNs) -> Rc<Self> {
        let (calls, reported_bytes, text_bytes) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let (reported, expressions) = (RefCell::default(), RefCell::default());
        Rc::new(Self { network, handle, clock, until, calls, reported, reported_bytes, text_bytes, expressions })
    }

    /// What was emitted so far.
    pub(super) fn take(&self) -> Vec<Figure> {
        std::mem::take(&mut *self.reported.borrow_mut())
    }

    /// Runs a script to its end.
    pub(super) fn exec(self: Rc<Self>, job: &Job, source: &[u8]) -> Result<(), Failure> {
        let failed = |error: mlua::Error| failure(&error);
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT;
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(failed)?;
        lua.set_memory_limit(job.memory_bytes).map_err(failed)?;
        self.clone().close(&lua).map_err(failed)?;
        self.clone().open(&lua, job).map_err(failed)?;
        self.watch(&lua).map_err(failed)?;
        let done = lua.load(source).set_name(format!("={}", job.name)).set_mode(ChunkMode::Text).exec();
        done.map_err(|error| failure(&error))
    }

    /// Stops the script when its time is over, also inside `pcall`.
    fn watch(self: Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_hook(triggers, move |lua, _| {
            if MonoNs(self.clock.now()) < self.until {
                return Ok(VmState::Continue);
            }
            // From now on at each instruction: who catches the error gets it again before anything else.
            let last = |_: &Lua, _: &mlua::debug::Debug<'_>| Err(late());
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), last)?;
            Err(late())
        })
    }

    /// Takes away what a check has no use for.
    fn close(self: Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let globals = lua.globals();
        for name in FORBIDDEN {
            globals.set(name, LuaValue::Nil)?;
        }
        let string: Table = globals.get("string")?;
        string.set("dump", LuaValue::Nil)?;
        let world = self.clone();
        let find = |_: &Lua, (text, part): (String, String)| {
            // Two numbers, or nothing.
            Ok(match text.find(&part) {
                Some(at) => Variadic::from_iter([Some(at + 1), Some(at + part.len())]),
                None => Variadic::from_iter([None]),
            })
        };
        string.set("find", lua.create_function(find)?)?;
        string.set(
            "match",
            lua.create_function(move |_, (text, pattern): (String, String)| {
                let groups = world.expression(&pattern)?.captures(&text).map(|found| groups(&found));
                Ok(Variadic::from_iter(groups.unwrap_or_else(|| vec![None])))
            })?,
        )?;
        let world = self.clone();
        string.set(
            "gmatch",
            lua.create_function(move |lua, (text, pattern): (String, String)| {
                let (expression, places) = (world.expression(&pattern)?, RefCell::new(MatchPosition::default()));
                let text = Text::new(world.clone(), text)?;
                // One at a time: all of them at once would be memory that no limit counts.
                lua.create_function(move |_, ()| {
                    let found = places.borrow_mut().next(&expression, &text.words);
                    Ok(Variadic::from_iter(found.map_or_else(|| vec![None], |found| groups(&found))))
                })
            })?,
        )?;
        string.set(
            "gsub",
            lua.create_function(move |_, (text, pattern, by): (String, String, String)| {
                replaced(&self.expression(&pattern)?, &text, &by)
            })?,
        )
    }

    fn expression(&self, pattern: &str) -> mlua::Result<Regex> {
        let mut kept = self.expressions.borrow_mut();
        if let Some(found) = kept.get(pattern) {
            return Ok(found.clone());
        }
        let made = RegexBuilder::new(pattern).size_limit(EXPRESSION_BYTES_MAX).build();
        let made = made.map_err(|error| mlua::Error::RuntimeError(error.to_string()))?;
        if kept.len() >= EXPRESSIONS_MAX {
            kept.clear();
        }
        kept.insert(pattern.to_owned(), made.clone());
        Ok(made)
    }

    /// Gives it what a check needs.
    fn open(self: Rc<Self>, lua: &Lua, job: &Job) -> mlua::Result<()> {
        let globals = lua.globals();
        let check = lua.create_table()?;
        check.set("target", job.target.as_str())?;
        check.set("arguments", lua.create_table_from(job.arguments.iter().map(|(k, v)| (k.as_str(), v.as_str())))?)?;
        globals.set("check", check)?;
        let world = self.clone();
        globals.set("now", lua.create_function(move |_, ()| Ok(world.clock.wall() as f64 / 1e9))?)?;
        globals.set(
            "fail",
            lua.create_function(|_, sentence: String| Err::<(), _>(reported(Reason::Content, sentence)))?,
        )?;
        globals.set(
            "json",
            lua.create_function(|lua, text: String| {
                if text.len() > JSON_BYTES_MAX {
                    return Err(limit(format!("the JSON has more than {JSON_BYTES_MAX} bytes")));
                }
                let value = serde_json::from_str(&text);
                table(lua, &value.map_err(|error| mlua::Error::RuntimeError(format!("no JSON: {error}")))?)
            })?,
        )?;
        let world = self.clone();
        let measure = move |_: &Lua, (metric, value, more): (String, f64, Option<Table>)| {
            world.tell(metric, more, Value::Float(value))
        };
        globals.set("measure", lua.create_function(measure)?)?;
        let world = self.clone();
        let text = move |_: &Lua, (metric, words, more): (String, String, Option<Table>)| {
            world.tell(metric, more, Value::Text(words))
        };
        globals.set("text", lua.create_function(text)?)?;
        self.open_network(lua, &globals)
    }

    fn open_network(self: Rc<Self>, lua: &Lua, globals: &Table) -> mlua::Result<()> {
        let world = self.clone();
        let get = move |lua: &Lua, (url, more): (String, Option<Table>)| {
            let headers: Option<Table> = more.as_ref().map(|more| more.get("headers")).transpose()?.flatten();
            let trust = trust(more.as_ref())?;
            let (requested, from) = (http_get(&world, &url, headers, &trust)?, world.clock.now());
            let (status, body) = world.wait(requested)?;
            let out = lua.create_table()?;
            out.set("status", status)?;
            out.set("body", lua.create_string(&body)?)?;
            out.set("seconds", (world.clock.now() - from) as f64 / 1e9)?;
            Ok(out)
        };
        globals.set("http_get", lua.create_function(get)?)?;
        let world = self.clone();
        let request = move |lua: &Lua, (host, port, words, more): (String, u16, mlua::LuaString, Option<Table>)| {
            let tls = more.as_ref().map(|more| more.get::<Option<bool>>("tls")).transpose()?.flatten();
            let stop: Option<String> = more.as_ref().map(|more| more.get("stop")).transpose()?.flatten();
            let trust = if tls == Some(true) { Some(trust(more.as_ref())?) } else { None };
            let words = words.as_bytes().to_vec();
            let answer =
                world.wait(tcp_request(&world, HostAndPort { host, port }, &words, stop.as_deref(), trust.as_ref()))?;
            lua.create_string(&answer)
        };
        globals.set("tcp_request", lua.create_function(request)?)?;
        let world = self.clone();
        let names = move |_: &Lua, host: String| {
            let mut run = Run::begin(world.clock);
            world.wait(dns::addresses(&world.network, &mut run, &host))
        };
        globals.set("dns", lua.create_function(names)?)?;
        let certificate = move |lua: &Lua, (host, port): (String, Option<u16>)| {
            let mut run = Run::begin(self.clock);
            let requested = async {
                let place = HostAndPort { host, port: port.unwrap_or(443) };
                let trust = Trust { insecure: true, ..Trust::default() };
                self.network.open(&mut run, &place, Some(&trust)).await.map(drop)
            };
            self.wait(requested)?;
            let out = lua.create_table()?;
            out.set("seconds_left", run.figure_of("ogive_check_certificate_seconds"))?;
            out.set("valid", run.figure_of("ogive_check_certificate_valid") == Some(1.0))?;
            Ok(out)
        };
        globals.set("certificate", lua.create_function(certificate)?)
    }

    fn tell(&self, metric: String, more: Option<Table>, value: Value) -> mlua::Result<()> {
        let mut reported = self.reported.borrow_mut();
        if reported.len() >= FIGURES_MAX {
            return Err(limit(format!("the script reports more than {FIGURES_MAX} values")));
        }
        let (mut unit, mut labels) = (String::new(), Vec::new());
        if let Some(more) = more {
            unit = more.get::<Option<String>>("unit")?.unwrap_or_default();
            if let Some(named) = more.get::<Option<Table>>("labels")? {
                for pair in named.pairs::<String, String>() {
                    labels.push(pair?);
                }
            }
        }
        // `measure` and `text` are the script's own; what the check says of itself is not.
        if metric.starts_with("ogive_") {
            return Err(mlua::Error::RuntimeError(format!(
                "{metric}: names that begin with ogive_ are the server's own"
            )));
        }
        let words = if let Value::Text(words) = &value { words.len() } else { 0 };
        let of_labels: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = self.reported_bytes.get() + metric.len() + unit.len() + words + of_labels;
        if bytes > REPORT_BYTES_MAX {
            return Err(limit(format!("the script reports more than {REPORT_BYTES_MAX} bytes")));
        }
        self.reported_bytes.set(bytes);
        reported.push(Figure { metric, unit, labels, value });
        Ok(())
    }

    /// Waits for what was asked, no longer than the script may.
    fn wait<T>(&self, requested: impl Future<Output = Result<T, Failure>>) -> mlua::Result<T> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() > CALLS_MAX {
            return Err(limit(format!("the script asks more than {CALLS_MAX} times")));
        }
        let left = self.until.since(MonoNs(self.clock.now())).to_duration();
        match self.handle.block_on(async { tokio::time::timeout(left, requested).await }) {
            Ok(done) => done.map_err(mlua::Error::external),
            Err(_) => Err(late()),
        }
    }
}

/// A text that is held outside of the script's memory, as long as somebody may look for matches in it.
struct Text {
    world: Rc<World>,
    words: String,
}

impl Text {
    fn new(world: Rc<World>, words: String) -> mlua::Result<Self> {
        world.text_bytes.set(world.text_bytes.get() + words.len());
        // Counted from here on, also when it is too much: `drop` takes it off again.
        let text = Self { world, words };
        if text.world.text_bytes.get() > TEXT_BYTES_MAX {
            return Err(limit(format!("gmatch looks through more than {TEXT_BYTES_MAX} bytes at once")));
        }
        Ok(text)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.world.text_bytes.set(self.world.text_bytes.get() - self.words.len());
    }
}

/// Where a look for matches goes on.
#[derive(Default)]
struct MatchPosition {
    at: usize,
    last_end: Option<usize>,
}

impl MatchPosition {
    /// The next match, as [`Regex::captures_iter`] would give it.
    fn next<'t>(&mut self, expression: &Regex, text: &'t str) -> Option<regex::Captures<'t>> {
        while self.at <= text.len() {
            let found = expression.captures_at(text, self.at)?;
            let place = found.get(0).expect("the whole is a group").range();
            let is_repeated = place.is_empty() && self.last_end == Some(place.end);
            // Behind an empty match by one letter, so that it ends.
            let step = text[place.end..].chars().next().map_or(1, char::len_utf8);
            self.at = if place.is_empty() { place.end + step } else { place.end };
            self.last_end = Some(place.end);
            if !is_repeated {
                return Some(found);
            }
        }
        None
    }
}

/// The text with every match replaced; an error as soon as it would have more than [`ANSWER_BYTES_MAX`] bytes.
fn replaced(expression: &Regex, text: &str, by: &str) -> mlua::Result<String> {
    let too_long = || limit(format!("gsub makes more than {ANSWER_BYTES_MAX} bytes"));
    let (mut out, mut from) = (String::new(), 0);
    for found in expression.captures_iter(text) {
        let place = found.get(0).expect("the whole is a group").range();
        out.push_str(&text[from..place.start]);
        from = place.end;
        // At most each sign of a group becomes the whole match.
        let most = by.len().saturating_add(by.matches('$').count().saturating_mul(place.len()));
        if most > 4 * ANSWER_BYTES_MAX {
            return Err(too_long());
        }
        found.expand(by, &mut out);
        if out.len() > ANSWER_BYTES_MAX {
            return Err(too_long());
        }
    }
    out.push_str(&text[from..]);
    if out.len() > ANSWER_BYTES_MAX { Err(too_long()) } else { Ok(out) }
}

fn groups(found: &regex::Captures<'_>) -> Vec<Option<String>> {
    let words = |part: Option<regex::Match<'_>>| part.map(|part| part.as_str().to_owned());
    // As in Lua: the groups, or the whole where there are none.
    let from = usize::from(found.len() > 1);
    (from..found.len()).map(|at| words(found.get(at))).collect()
}

fn reported(reason: Reason, sentence: impl Into<String>) -> mlua::Error {
    mlua::Error::external(Failure::new(reason, sentence))
}

fn limit(sentence: String) -> mlua::Error {
    reported(Reason::Limit, sentence)
}

fn late() -> mlua::Error {
    reported(Reason::Limit, "the script's time is over")
}

fn trust(more: Option<&Table>) -> mlua::Result<Trust> {
    let insecure = more.map(|more| more.get::<Option<bool>>("insecure")).transpose()?.flatten().unwrap_or(false);
    Ok(Trust { insecure, ..Trust::default() })
}

fn http_get<'w>(
    world: &'w World,
    url: &str,
    headers: Option<Table>,
    trust: &Trust,
) -> mlua::Result<impl Future<Output = Result<(u16, Vec<u8>), Failure>> + 'w> {
    let wrong = |sentence: String| mlua::Error::RuntimeError(sentence);
    let url: Uri = url.parse().map_err(|error| wrong(format!("{url}: {error}")))?;
    Origin::from_url(&url).map_err(wrong)?;
    let mut request = Request::get(target(&url)).header(header::HOST, authority(&url));
    request = request.header(header::USER_AGENT, AGENT);
    for pair in headers.iter().flat_map(Table::pairs::<String, String>) {
        let (name, value) = pair?;
        request = request.header(name, value);
    }
    let request = request.body(Body::default()).map_err(|error| wrong(error.to_string()))?;
    let trust = trust.clone();
    Ok(async move {
        let mut run = Run::begin(world.clock);
        let response = http::send(&world.network, &mut run, &url, &trust, request).await?;
        let status = response.status().as_u16();
        Ok((status, http::body(response, crate::request::BODY_BYTES_MAX).await?.bytes))
    })
}

/// Sends words and reads until the server closes, until it said `stop`, or up to the limit.
async fn tcp_request(
    world: &World,
    place: HostAndPort,
    words: &[u8],
    stop: Option<&str>,
    trust: Option<&Trust>,
) -> Result<Vec<u8>, Failure> {
    let mut run = Run::begin(world.clock);
    let mut stream = world.network.open(&mut run, &place, trust).await?;
    stream.write_all(words).await?;
    stream.flush().await?;
    let mut out = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part).await?;
        if length == 0 {
            return Ok(out);
        }
        // The end of what was there may be the beginning of the words that are waited for.
        let from = out.len().saturating_sub(stop.map_or(0, str::len));
        out.extend_from_slice(&part[..length]);
        if stop.is_some_and(|stop| out[from..].windows(stop.len().max(1)).any(|part| part == stop.as_bytes())) {
            return Ok(out);
        }
        if out.len() > ANSWER_BYTES_MAX {
            return Err(Failure::new(Reason::Limit, format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
        }
    }
}

/// JSON as Lua has it; null is nil.
fn table(lua: &Lua, value: &serde_json::Value) -> mlua::Result<LuaValue> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::Null => LuaValue::Nil,
        Json::Bool(is) => LuaValue::Boolean(*is),
        Json::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => LuaValue::String(lua.create_string(text)?),
        Json::Array(all) => {
            let out = lua.create_table()?;
            for (at, value) in all.iter().enumerate() {
                out.raw_set(at + 1, table(lua, value)?)?;
            }
            LuaValue::Table(out)
        }
        Json::Object(all) => {
            let out = lua.create_table()?;
            for (name, value) in all {
                out.raw_set(name.as_str(), table(lua, value)?)?;
            }
            LuaValue::Table(out)
        }
    })
}

/// Why a script ended.
fn failure(error: &mlua::Error) -> Failure {
    match error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        Some(failure) => failure.clone(),
        None => {
            let is_memory = error.chain().any(|cause| {
                cause.downcast_ref::<mlua::Error>().is_some_and(|error| matches!(error, mlua::Error::MemoryError(_)))
            });
            let reason = if is_memory { Reason::Limit } else { Reason::Script };
            let text = error.to_string();
            Failure::new(reason, text.split("\nstack traceback:").next().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// How a script ends, and what it reported.
    fn run_for(source: &str, memory_mib: usize, ms: u64) -> (Result<(), Failure>, Vec<Figure>) {
        let files = crate::testing::FILES;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clock = Clock::global();
        let until = MonoNs(clock.now() + ms * 1_000_000);
        let world = World::new(Arc::new(Network::new(files)), runtime.handle().clone(), clock, until);
        let arguments = BTreeMap::from([("a".to_owned(), "7".to_owned())]);
        let (name, target, memory_bytes) = ("test.lua".to_owned(), "t".to_owned(), memory_mib << 20);
        let job = Job { name, target, arguments, memory_bytes, time_ms: ms };
        let end = world.clone().exec(&job, source.as_bytes());
        (end, world.take())
    }

    /// Why a script fails that ends by itself.
    fn reason(source: &str) -> (Reason, String) {
        reason_within(source, 60_000)
    }

    fn reason_within(source: &str, ms: u64) -> (Reason, String) {
        let failure = run_for(source, 8, ms).0.unwrap_err();
        (failure.reason, failure.sentence)
    }

    #[test]
    fn a_script_tells_what_it_found() {
        let (end, reported) = run_for(
            "local t = json('{\"depth\": [1, 2.5, null], \"name\": \"x\"}')
             measure('queue_depth', t.depth[2], {unit = 'By', labels = {queue = t.name}})
             measure('groups', tonumber(('a=12'):match('=([0-9]+)')) + check.arguments.a)
             text('state', check.target .. tostring(('abc'):find('c')) .. ('a.b'):gsub('[.]', '-'))
             for word in ('p q'):gmatch('[a-z]') do text('word', word) end",
            8,
            60_000,
        );
        assert_eq!(end, Ok(()));
        let labels = vec![("queue".to_owned(), "x".to_owned())];
        let (metric, unit) = ("queue_depth".into(), "By".into());
        assert_eq!(reported[0], Figure { metric, unit, labels, value: Value::Float(2.5) });
        assert_eq!(reported[1].value, Value::Float(19.0));
        let texts: Vec<&Value> = reported[2..].iter().map(|reported| &reported.value).collect();
        let text = |words: &str| Value::Text(words.into());
        assert_eq!(texts, [&text("t3a-b"), &text("p"), &text("q")]);
    }

    #[test]
    fn a_script_that_runs_away_is_stopped() {
        let late = (Reason::Limit, "the script's time is over".to_owned());
        for source in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do pcall(pcall, function() while true do end end) end",
            "local function f() return f() end f()",
            "pcall(function() while true do end end) while true do pcall(error) end",
            "setmetatable({}, {__index = function(t, k) while true do end end}).x()",
        ] {
            assert_eq!(reason_within(source, 300), late, "{source}");
        }
    }

    #[test]
    fn a_script_that_takes_too_much_memory_is_stopped() {
        for source in [
            "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
            "return ('x'):rep(1e9)",
            "local s = 'x' while true do s = s .. s end",
        ] {
            let (found, sentence) = reason(source);
            assert!(found == Reason::Limit && sentence.contains("memory"), "{source}: {sentence}");
        }
    }

    /// What the functions around a script made was bounded when it was there already: a few lines took all of the
    /// machine's memory.
    #[test]
    fn what_is_made_outside_of_the_scripts_memory_is_bounded_too() {
        for source in [
            "return (('x'):rep(2^20)):gsub('', ('y'):rep(2^20))",
            "return (('x'):rep(2^20)):gsub('(x+)', ('$1'):rep(2^19))",
            "for i = 1, 900 do text('t', ('x'):rep(2^20)) end",
            "for i = 1, 900 do measure('t', 1, {labels = {l = ('x'):rep(2^16)}}) end",
            "json('[' .. ('[],'):rep(2^21) .. '1]')",
            "local all = {} for i = 1, 1e5 do all[i] = ('x'):rep(2^20):gmatch('y') end",
        ] {
            let (end, reported) = run_for(source, 64, 30_000);
            assert_eq!(end.unwrap_err().reason, Reason::Limit, "{source}");
            assert!(reported.len() <= 16);
        }
        let many = "local n = 0 for a, b in (('ab'):rep(2^18)):gmatch('(a)(b)') do n = n + 1 end assert(n == 2^18)
            local empty = 0 for word in ('a\u{e4}b'):gmatch('x*') do empty = empty + 1 assert(word == '') end assert(empty == 4)
            local parts = '' for word in ('aXbbXc'):gmatch('[a-z]*') do parts = parts .. word .. '.' end assert(parts == 'a.bb.c.')
            assert(('a.b'):gsub('([a-z])', '<$1>') == '<a>.<b>' and ('x'):rep(2^20):gsub('y', 'z'):len() == 2^20)";
        assert_eq!(run_for(many, 64, 60_000).0, Ok(()));
    }

    #[test]
    fn nothing_else_is_reachable() {
        for name in ["io", "os", "debug", "package", "ffi", "jit", "string.dump"].into_iter().chain(FORBIDDEN) {
            assert_eq!(run_for(&format!("assert({name} == nil)"), 8, 60_000).0, Ok(()), "{name}");
        }
        let bytecode = "\u{1b}LJ\u{2}";
        assert_eq!(reason(bytecode).0, Reason::Script);
        assert_eq!(reason("measure('ogive_check_up', 1)").0, Reason::Script);
    }

    #[test]
    fn failures_have_their_reason_and_their_line() {
        assert_eq!(reason("fail('too deep')"), (Reason::Content, "too deep".into()));
        let (found, sentence) = reason("\nlocal x = nil + 1");
        assert_eq!(found, Reason::Script);
        assert!(sentence.contains("test.lua:2:"), "{sentence}");
        assert_eq!(reason("x x").0, Reason::Script);
        assert_eq!(reason("http_get('http://127.0.0.1:1/')").0, Reason::Refused);
        assert_eq!(reason("http_get('ftp://a')").0, Reason::Script);
        assert_eq!(reason("for i = 1, 2000 do measure('a', i) end").0, Reason::Limit);
        let caught =
            "local ok, error = pcall(tcp_request, '127.0.0.1', 1, 'x') text('e', tostring(error)) assert(not ok)";
        assert_eq!(run_for(caught, 8, 60_000).0, Ok(()));
    }

    #[test]
    fn the_limit_of_time_holds_for_answers_too() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let source = format!("tcp_request('127.0.0.1', {port}, 'x', {{stop = 'never'}})");
        assert_eq!(reason_within(&source, 300), (Reason::Limit, "the script's time is over".into()));
    }

    #[test]
    fn json_of_any_depth_is_read_or_refused() {
        let deep = format!("json(('['):rep({0}) .. (']'):rep({0}))", 100_000);
        assert_eq!(reason(&deep).0, Reason::Script);
    }
}
