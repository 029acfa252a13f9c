//! `ogive stream`: the value of an expression at each second, as lines of JSON.
//!
//! Format: one object a line: `t`, `event` (`value` or `correction`), `resultType` and `result` as `/api/v1/query`
//! answers them, and `warnings` and `infos` where there are any; or `event: gap` with what was left out.
//! Failure: a server that is away is asked again, ever more rarely up to [`PAUSE_MAX`]; one that refuses ends the
//! command with its word.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde_json::{Map, Value};

use super::client::{Failure, Server};
use super::sse::{self, Event, LONGEST, PAUSE, PAUSE_MAX};

/// Prints the value of an expression for each second as it closes, one JSON object per line.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive stream 'sum by (job) (rate(rpc_seconds_count[10s]))'
  ogive stream 'histogram_quantile(0.99, sum(rpc_seconds))' --values 10 | jq -c '[.t, .result[0].value[1]]'")]
pub(crate) struct StreamOptions {
    /// PromQL expression to evaluate.
    #[arg(value_name = "EXPR")]
    query: String,
    /// Interval between values, in whole seconds; default: 1s.
    #[arg(long, value_name = "TIME")]
    step: Option<String>,
    /// How long after its end a second is evaluated, up to 60s; default: the server's 250ms.
    #[arg(long, value_name = "TIME")]
    lateness: Option<String>,
    /// Stop after this many values.
    #[arg(long, value_name = "COUNT")]
    values: Option<u64>,
    #[command(flatten)]
    server: Server,
}

/// Runs the command.
pub(crate) fn run(options: &StreamOptions) -> anyhow::Result<ExitCode> {
    let mut params = vec![("query", &*options.query)];
    params.extend(options.step.as_deref().map(|step| ("step", step)));
    params.extend(options.lateness.as_deref().map(|lateness| ("lateness", lateness)));
    let (mut after, mut left, mut pause) = (None::<i64>, options.values, PAUSE);
    loop {
        let id = after.map(|id| id.to_string());
        let header = id.as_deref().map(|id| ("last-event-id", id));
        let why = match options.server.stream("/v1/stream", &params, header, LONGEST) {
            Ok(stream) => {
                let over = sse::read(stream, |event| {
                    if event.name == "value" {
                        (after, pause) = (event.id.or(after), PAUSE);
                    }
                    print(event, &mut left)
                })?;
                match over {
                    ControlFlow::Break(()) => return Ok(ExitCode::SUCCESS),
                    ControlFlow::Continue(why) => why,
                }
            }
            Err(Failure::Unreachable(why)) => why,
            Err(Failure::Refused { status, message }) if status >= 500 || status == 429 => message,
            Err(failure) => return Ok(failure.report()),
        };
        eprintln!("ogive: {why}; asking again in {} ms", pause.as_millis());
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Prints an event; breaks when it was the last one, or the reader is gone.
fn print(event: Event, left: &mut Option<u64>) -> anyhow::Result<ControlFlow<()>> {
    let Event { name, id, data } = event;
    let Ok(Value::Object(mut answer)) = serde_json::from_str::<Value>(&data) else {
        anyhow::bail!("the server sent {data:?}");
    };
    if name == "error" {
        anyhow::bail!("the server ended the stream: {}", answer["error"].as_str().unwrap_or(&data));
    }
    let mut line = Map::new();
    line.extend(id.map(|id| ("t".to_owned(), id.into())));
    line.insert("event".into(), name.as_str().into());
    if let Some(Value::Object(data)) = answer.remove("data") {
        answer.remove("status");
        line.extend(data);
    }
    line.extend(answer);
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", Value::Object(line)).and_then(|()| out.flush()).is_err() {
        // The reader is gone.
        return Ok(ControlFlow::Break(()));
    }
    if let Some(left) = left.as_mut().filter(|_| name == "value") {
        *left = left.saturating_sub(1);
    }
    Ok(if *left == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}
