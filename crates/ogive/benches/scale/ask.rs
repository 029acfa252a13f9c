//! What a question costs the server, or why it has no answer.

use std::time::Duration;

use serde_json::Value;

use crate::target::Target;

/// A round asks for so long, at least once.
const ROUND: Duration = Duration::from_millis(500);
const TIMES_MAX: u32 = 50;
/// What takes longer is asked once.
const LONG_MS: f64 = 10_000.0;

/// What an answered question took.
pub(crate) struct Figures {
    /// Of the server's process for one time, in each round.
    pub(crate) cpu_ms: Vec<f64>,
    /// For the client, the median.
    pub(crate) wall_ms: f64,
    /// Series or values in the answer.
    pub(crate) rows: usize,
    /// Width of the coarsest cells that it came from; 0 for samples as they came.
    pub(crate) resolution_ms: u64,
}

/// Figures, or the status and the sentence of the refusal.
pub(crate) type Answer = Result<Figures, String>;

/// Asks once to warm up, and then in `rounds` rounds.
pub(crate) fn ask(target: &Target, path: &str, rounds: usize) -> Answer {
    let first = once(target, path)?;
    let mut figures = Figures {
        cpu_ms: vec![first.cpu_ms],
        wall_ms: first.wall_ms,
        rows: first.rows,
        resolution_ms: first.resolution_ms,
    };
    if first.wall_ms > LONG_MS {
        return Ok(figures);
    }
    figures.cpu_ms.clear();
    let mut walls = Vec::new();
    for _ in 0..rounds {
        let (meter, mut times) = (target.meter(), 0);
        while times == 0 || (times < TIMES_MAX && meter.seconds() < ROUND.as_secs_f64()) {
            walls.push(once(target, path)?.wall_ms);
            times += 1;
        }
        figures.cpu_ms.push(target.used(&meter) * 1e3 / f64::from(times));
    }
    walls.sort_by(f64::total_cmp);
    figures.wall_ms = walls[walls.len() / 2];
    Ok(figures)
}

struct Once {
    cpu_ms: f64,
    wall_ms: f64,
    rows: usize,
    resolution_ms: u64,
}

fn once(target: &Target, path: &str) -> Result<Once, String> {
    let meter = target.meter();
    let answer = target.server.request(&format!("GET {path} HTTP/1.1"), b"");
    let (cpu_ms, wall_ms) = (target.used(&meter) * 1e3, meter.seconds() * 1e3);
    let (status, body) = answer.map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    if status != 200 {
        return Err(format!("{status}: {}", body["error"].as_str().unwrap_or("no reason")));
    }
    let lists = [&body["data"], &body["data"]["result"]];
    let rows = lists.into_iter().find_map(|list| list.as_array().map(Vec::len)).unwrap_or(0);
    Ok(Once { cpu_ms, wall_ms, rows, resolution_ms: body["resolution_ms"].as_u64().unwrap_or(0) })
}
