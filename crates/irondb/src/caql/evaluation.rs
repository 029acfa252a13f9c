//! What a query gives.

use super::functions;
use super::{Argument, COLUMNS_MAX, Call, Pipeline, Source, Stage, Wanted, forecasting, histograms};
use crate::fetch::COUNT_MAX;
use crate::frame::reduce;
use crate::frame::{Column, Grid, Output};

/// Evaluates a query over `grid`.
///
/// # Errors
/// A sentence.
pub fn evaluate(pipeline: &Pipeline, grid: Grid, source: &dyn Source) -> Result<Vec<Output>, String> {
    let before = slots_before(pipeline, grid)?;
    if grid.count + before > COUNT_MAX {
        return Err(format!(
            "the query needs {} slots with those that its windows look back on, more than {COUNT_MAX}; use a longer period",
            grid.count + before
        ));
    }
    let start_ms = grid.start_ms - grid.period_ms * before as i64;
    let wide = Grid { start_ms, count: grid.count + before, ..grid };
    let mut outputs = run(pipeline, Vec::new(), wide, source)?;
    for output in &mut outputs {
        match &mut output.column {
            Column::Numbers(all) => drop(all.drain(..before)),
            Column::Histograms(all) => drop(all.drain(..before)),
            Column::Texts(all) => drop(all.drain(..before)),
        }
    }
    Ok(outputs)
}

/// How many slots before the first its windows look back on, plus one where a function needs the previous slot.
fn slots_before(pipeline: &Pipeline, grid: Grid) -> Result<usize, String> {
    let mut all = 0_usize;
    for stage in pipeline {
        all += match stage {
            Stage::Call(call) if functions::is_windowed(call) => functions::slots(call, grid)?,
            Stage::Call(call) if call.name == "forecasting" => forecasting::slots_before(call, grid)?,
            Stage::Call(call) => usize::from(matches!(&*call.name, "rate" | "diff")),
            Stage::Beside(pipelines) => pipelines
                .iter()
                .map(|pipeline| slots_before(pipeline, grid))
                .try_fold(0, |most, one| one.map(|one| most.max(one)))?,
        };
        if all > COUNT_MAX {
            return Err(format!("the windows of the query are longer than {COUNT_MAX} slots; use a longer period"));
        }
    }
    Ok(all)
}

fn run(pipeline: &Pipeline, mut columns: Vec<Output>, grid: Grid, source: &dyn Source) -> Result<Vec<Output>, String> {
    for (number, stage) in pipeline.iter().enumerate() {
        columns = match stage {
            Stage::Beside(pipelines) => {
                let mut all = Vec::new();
                for pipeline in pipelines {
                    all.extend(run(pipeline, columns.clone(), grid, source)?);
                }
                all
            }
            Stage::Call(call) if is_source(call) => {
                if number > 0 {
                    return Err(format!("{} begins a pipeline, and stands behind another function", call.name));
                }
                found(call, grid, source)?
            }
            Stage::Call(call) => apply(call, columns, grid).map_err(|why| format!("{}: {why}", call.full_name()))?,
        };
        if columns.len() > COLUMNS_MAX {
            return Err(format!("{} columns, more than {COLUMNS_MAX}", columns.len()));
        }
    }
    Ok(columns)
}

fn is_source(call: &Call) -> bool {
    matches!(&*call.name, "find" | "search" | "metric")
}

/// Streams, each with a column.
fn found(call: &Call, grid: Grid, source: &dyn Source) -> Result<Vec<Output>, String> {
    let texts = [call.text(0), call.text(1)];
    let query = match (&*call.name, texts) {
        ("metric", [Some(check), Some(name)]) => {
            let parsed = crate::identity::Identity::parse(check, name).map_err(|fault| format!("metric: {fault}"))?;
            let tags = parsed.tags.iter().map(|(category, value)| term(category, value));
            let all: Vec<String> =
                [term("__check_uuid", check), term("__name", &parsed.base)].into_iter().chain(tags).collect();
            format!("and({})", all.join(","))
        }
        ("metric", _) => return Err("metric takes the UUID of a check and a name".into()),
        ("search", [Some(query), None]) => query.to_owned(),
        (_, [Some(name), None]) => format!("and(__name:{name})"),
        (_, [Some(name), Some(query)]) => format!("and(__name:{name},{query})"),
        _ => return Err(format!("{} takes a name and, if it is to, a query of tags", call.name)),
    };
    let (kind, transform) = match &*call.method {
        "histogram" | "histogram_cum" => ("histogram", "none"),
        "text" => ("text", "none"),
        "" => ("numeric", "average"),
        method => ("numeric", method),
    };
    let limit = call.named.iter().find(|(name, _)| name == "limit").map(|(_, limit)| limit);
    let limit = match limit {
        None => COLUMNS_MAX,
        Some(Argument::Number(limit)) if *limit >= 1.0 => *limit as usize,
        Some(_) => return Err(format!("{}: the limit is not a number from 1", call.name)),
    };
    source.find(&Wanted { query: &query, kind, transform, limit, grid })
}

/// A term that finds only this value.
fn term(category: &str, value: &str) -> String {
    use base64::Engine;
    let coded = base64::engine::general_purpose::STANDARD.encode(value);
    format!("{}:[exact]b\"{coded}\"", crate::identity::part(category, false))
}

fn apply(call: &Call, columns: Vec<Output>, grid: Grid) -> Result<Vec<Output>, String> {
    let label = || columns.first().map_or_else(String::new, |first| format!("{} of {}", call.full_name(), first.label));
    match &*call.name {
        "stats" | "aggregate" => reduce(columns.clone(), grid, &call.method, &[], &label()),
        "op" if matches!(&*call.method, "sum" | "prod" | "min" | "max") => {
            reduce(columns.clone(), grid, &call.method, &[], &label())
        }
        "op" => functions::folded(call, &columns, label()),
        "top" | "bottom" => functions::ranked(call, columns),
        "group_by" => {
            let categories: Vec<String> =
                (0..call.arguments.len()).filter_map(|at| call.text(at)).map(str::to_owned).collect();
            reduce(columns.clone(), grid, &format!("groupby_{}", call.method), &categories, &label())
        }
        "label" => {
            let text = call.text(0).ok_or("a text is missing")?;
            Ok(columns.into_iter().map(|column| Output { label: text.into(), ..column }).collect())
        }
        "pass" | "none" => Ok(columns),
        _ => {
            let each = |output: Output| {
                let column = one(call, output.column, grid)?;
                Ok(column.into_iter().map(move |column| Output {
                    label: output.label.clone(),
                    tags: output.tags.clone(),
                    column,
                }))
            };
            let all: Result<Vec<_>, String> = columns.into_iter().map(each).collect();
            Ok(all?.into_iter().flatten().collect())
        }
    }
}

/// A function of one column; a percentile may give several.
fn one(call: &Call, column: Column, grid: Grid) -> Result<Vec<Column>, String> {
    if call.name == "histogram" {
        return histograms::apply(call, column, grid);
    }
    match column {
        Column::Numbers(numbers) => {
            functions::numbers(call, &numbers, grid).map(|numbers| vec![Column::Numbers(numbers)])
        }
        Column::Histograms(slots) if functions::is_windowed(call) && matches!(&*call.method, "merge" | "") => {
            histograms::windowed(call, &slots, grid, call.name == "rolling")
                .map(|slots| vec![Column::Histograms(slots)])
        }
        other => Err(format!(
            "it is not of {} columns; there are histogram:..., window:merge and rolling:merge",
            other.kind()
        )),
    }
}
