//! Runs scripts against the engine.

use std::path::Path;

use ogive_model::{Ms, WallMs};
use ogive_query::{Engine, EngineOptions, QueryResult, Value, value};

use crate::support::script::{self, Command, CommandKind, Eval, Times};
use crate::support::store::Memory;
use crate::support::{compare, variants};

/// One case that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) line: usize,
    pub(crate) query: String,
    pub(crate) reason: String,
}

/// What became of a file's cases.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<Failure>,
}

/// The settings that the scripts are written for.
fn engine() -> Engine {
    Engine::new(EngineOptions { samples_max: 10_000, delayed_name_removal: true, ..EngineOptions::default() })
}

/// Runs a file; `plain` asks each case only as it is written. An error means that the script itself is wrong.
pub(crate) fn file(path: &Path, plain: bool) -> Result<Outcome, String> {
    let commands = script::read(path)?;
    let engine = engine();
    let mut store = Memory::default();
    let mut out = Outcome::default();
    for Command { line, kind } in &commands {
        match kind {
            CommandKind::Clear => store = Memory::default(),
            CommandKind::Load(load) => store.load(load).map_err(|error| format!("line {line}: {error}"))?,
            CommandKind::Eval(eval) => match guarded(&engine, &store, eval, plain) {
                Ok(()) => out.passed += 1,
                Err(reason) => out.failures.push(Failure { line: *line, query: eval.query.clone(), reason }),
            },
        }
    }
    Ok(out)
}

/// A panic fails its case and no other.
fn guarded(engine: &Engine, store: &Memory, eval: &Eval, plain: bool) -> Result<(), String> {
    let run = std::panic::AssertUnwindSafe(|| case(engine, store, eval, plain));
    std::panic::catch_unwind(run).unwrap_or_else(|_| Err("panicked".to_owned()))
}

fn case(engine: &Engine, store: &Memory, eval: &Eval, plain: bool) -> Result<(), String> {
    match eval.times {
        Times::Range { start, end, step } => answer(
            eval,
            engine.range(store, &eval.query, WallMs(start), WallMs(end), Ms(step)).map_err(|error| error.to_string()),
        )
        .map(drop),
        Times::Instant(time) if plain => {
            answer(eval, engine.instant(store, &eval.query, WallMs(time)).map_err(|error| error.to_string())).map(drop)
        }
        Times::Instant(time) => {
            instant(engine, store, eval, &eval.query, time)?;
            let Some((query, times)) = variants::pinned(&eval.query, time) else { return Ok(()) };
            for time in times {
                instant(engine, store, eval, &query, time)
                    .map_err(|error| format!("asked as {query} at {time} ms: {error}"))?;
            }
            Ok(())
        }
    }
}

/// Asks at an instant, then as a range around it.
fn instant(engine: &Engine, store: &Memory, eval: &Eval, query: &str, time: i64) -> Result<(), String> {
    let result = engine.instant(store, query, WallMs(time)).map_err(|error| error.to_string());
    let Some(result) = answer(eval, result)? else { return Ok(()) };
    let comparable = matches!(result.value, Value::Scalar { .. } | Value::Vector(_));
    if !comparable || eval.expect.ordered || !variants::range_safe(query) {
        return Ok(());
    }
    let range = engine.range(store, query, WallMs(time - 60_000), WallMs(time + 60_000), Ms(60_000));
    let range = range.map_err(|error| format!("as a range: {error}"))?;
    let scalar = matches!(result.value, Value::Scalar { .. });
    compare::value(eval, &at_instant(range.value, time, scalar)?).map_err(|error| format!("as a range: {error}"))
}

/// Compares what came with what was expected; gives the value back when there was to be one.
fn answer(eval: &Eval, result: Result<QueryResult, String>) -> Result<Option<QueryResult>, String> {
    match (&eval.expect.fail, result) {
        (Some(rule), Err(error)) if rule.accepts(&error) => Ok(None),
        (Some(rule), Err(error)) => Err(format!("expected failure {rule:?}, got {error:?}")),
        (Some(rule), Ok(_)) => Err(format!("expected failure {rule:?}, got a value")),
        (None, Err(error)) => Err(format!("failed: {error}")),
        (None, Ok(result)) => {
            compare::annotations(&eval.expect, &result.warnings, &result.infos)?;
            compare::value(eval, &result.value)?;
            Ok(Some(result))
        }
    }
}

/// The points of a matrix at one time, as an instant query would give them.
fn at_instant(value: Value, time: i64, scalar: bool) -> Result<Value, String> {
    let Value::Matrix(series) = value else { return Err(format!("not a matrix: {value:?}")) };
    if let Some(pair) = series.windows(2).find(|pair| pair[0].labels >= pair[1].labels) {
        return Err(format!("{} comes before {}", pair[0].labels, pair[1].labels));
    }
    let sample = |series: &value::Series| {
        let float = series.floats.iter().find(|(at, _)| *at == time).map(|(_, value)| value::Point::Float(*value));
        let histogram = series.histograms.iter().find(|(at, _)| *at == time);
        let value = float.or_else(|| histogram.map(|(_, value)| value::Point::Histogram(value.clone())))?;
        Some(value::InstantSample { labels: series.labels.clone(), time: WallMs(time), value })
    };
    let samples: Vec<_> = series.iter().filter_map(sample).collect();
    match samples.as_slice() {
        [value::InstantSample { value: value::Point::Float(value), .. }] if scalar => {
            Ok(Value::Scalar { time: WallMs(time), value: *value })
        }
        other if scalar => Err(format!("expected one number, got {other:?}")),
        _ => Ok(Value::Vector(samples)),
    }
}
