//! What a query gives.

use super::functions;
use super::{Argument, COLUMNS_MAX, Call, Pipeline, PipelineInput, Source, Stage, forecasting, histograms};
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
    evaluate_last(pipeline, grid, grid.count, source)
}

/// The last `count` slots of what [`evaluate`] gives over `grid`, without evaluating the others where they have no
/// influence. A grid with more slots than a query may have begins later.
///
/// # Errors
/// A sentence.
pub fn evaluate_last(
    pipeline: &Pipeline,
    grid: Grid,
    count: usize,
    source: &dyn Source,
) -> Result<Vec<Output>, String> {
    assert!(count <= grid.count, "{count} slots of {}", grid.count);
    let before = slots_before(pipeline, grid)?;
    let room = COUNT_MAX.saturating_sub(before);
    if depends_on_range(pipeline) && grid.count > room {
        return Err(format!("the query depends on its whole range, which is longer than {room} slots; start it again"));
    }
    if count > room {
        return Err(format!("the windows of the query leave {room} slots of {COUNT_MAX}; use a longer period"));
    }
    let end_ms = grid.end_ms();
    let from = |slots: usize| end_ms - grid.period_ms * slots as i64;
    let since_ms = from(grid.count.min(room) + before);
    let evaluated = if depends_on_range(pipeline) { grid.count } else { count } + before;
    let slots = Slots { grid: Grid { start_ms: from(evaluated), count: evaluated, ..grid }, since_ms };
    let mut outputs = run(pipeline, Vec::new(), slots, source)?;
    for output in &mut outputs {
        match &mut output.column {
            Column::Numbers(all) => drop(all.drain(..evaluated - count)),
            Column::Histograms(all) => drop(all.drain(..evaluated - count)),
            Column::Texts(all) => drop(all.drain(..evaluated - count)),
        }
    }
    Ok(outputs)
}

/// The tag query and the kind of each function that finds streams.
///
/// # Errors
/// A sentence.
pub fn sources(pipeline: &Pipeline) -> Result<Vec<(String, &str)>, String> {
    let mut all = Vec::new();
    for stage in pipeline {
        match stage {
            Stage::Call(call) if is_source(call) => all.push((tag_query(call)?, kind(call).0)),
            Stage::Call(_) => {}
            Stage::Beside(pipelines) => {
                for pipeline in pipelines {
                    all.extend(sources(pipeline)?);
                }
            }
        }
    }
    Ok(all)
}

/// The evaluated slots, and the begin of the whole range.
#[derive(Clone, Copy)]
struct Slots {
    grid: Grid,
    since_ms: i64,
}

/// Whether a slot depends on more than a bounded number of slots before it.
fn depends_on_range(pipeline: &Pipeline) -> bool {
    pipeline.iter().any(|stage| match stage {
        Stage::Call(call) => {
            matches!((&*call.name, &*call.method), ("integrate" | "top" | "bottom", _) | ("fill", "forward"))
        }
        Stage::Beside(pipelines) => pipelines.iter().any(depends_on_range),
    })
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

fn run(
    pipeline: &Pipeline,
    mut columns: Vec<Output>,
    slots: Slots,
    source: &dyn Source,
) -> Result<Vec<Output>, String> {
    for (number, stage) in pipeline.iter().enumerate() {
        columns = match stage {
            Stage::Beside(pipelines) => {
                let mut all = Vec::new();
                for pipeline in pipelines {
                    all.extend(run(pipeline, columns.clone(), slots, source)?);
                }
                all
            }
            Stage::Call(call) if is_source(call) => {
                if number > 0 {
                    return Err(format!("{} begins a pipeline, and stands behind another function", call.name));
                }
                found(call, slots, source)?
            }
            Stage::Call(call) => {
                apply(call, columns, slots.grid).map_err(|why| format!("{}: {why}", call.full_name()))?
            }
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
fn found(call: &Call, slots: Slots, source: &dyn Source) -> Result<Vec<Output>, String> {
    let query = tag_query(call)?;
    let (kind, transform) = kind(call);
    let limit = call.named.iter().find(|(name, _)| name == "limit").map(|(_, limit)| limit);
    let limit = match limit {
        None => COLUMNS_MAX,
        Some(Argument::Number(limit)) if *limit >= 1.0 => *limit as usize,
        Some(_) => return Err(format!("{}: the limit is not a number from 1", call.name)),
    };
    source.find(&PipelineInput { query: &query, kind, transform, limit, grid: slots.grid, since_ms: slots.since_ms })
}

/// The query of tags of a function that finds streams.
fn tag_query(call: &Call) -> Result<String, String> {
    let texts = [call.text(0), call.text(1)];
    Ok(match (&*call.name, texts) {
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
    })
}

/// The kind of the streams that it finds, and their transform.
fn kind(call: &Call) -> (&'static str, &str) {
    match &*call.method {
        "histogram" | "histogram_cum" => ("histogram", "none"),
        "text" => ("text", "none"),
        "" => ("numeric", "average"),
        method => ("numeric", method),
    }
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
