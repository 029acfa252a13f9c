//! How many lines does a CPU filter in a second, from a batch to the batch that is stored? Each kind of filter in turn,
//! the rounds interleaved, on one thread: `cargo bench -p ogive-filter --bench lines`.

use std::hint::black_box;
use std::time::Instant;

use ogive_filter::{File, Stage, text};
use ogive_model::{Batch, Kind, MonoNs, Sample, SeriesDef, SeriesMeta, Temporality, Value};

/// As many as a busy agent sends at once.
const LINES: usize = 5_000;
const ROUNDS: usize = 60;

fn main() {
    let own = |rest: &str| format!("[[filter]]\nname = 'x'\nwhere = 'log{{job=\"nginx\"}}'\n{rest}");
    let access = |at: usize| {
        format!(
            "10.0.{}.7 - - [24/Nov/2026:02:03:04 +0000] \"GET /shop/item/{at} HTTP/1.1\" 200 {} \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\" rt=0.{:03} urt=0.{:03}",
            at % 250,
            100 + at % 4_000,
            at % 997,
            at % 499
        )
    };
    let json =
        |at: usize| format!(r#"{{"level":"info","msg":"handled","path":"/a/{}","took_ms":{}.5}}"#, at % 20, at % 977);
    let logfmt = |at: usize| format!("level=info msg=handled path=/a/{} took_ms={}.5", at % 20, at % 977);
    let session = |at: usize| format!("at={} id={} path=/a/{}", ["begin", "end"][at % 2], at / 2, at / 2 % 20);
    let number = "[[filter.number]]\nname = 'took'\nfield = 'took_ms'\nunit = 'ms'\nlabels = ['path']";
    type Line<'a> = &'a dyn Fn(usize) -> String;
    let kinds: Vec<(&str, String, Line<'_>)> = vec![
        ("nothing applies", own("").replace("nginx", "other"), &access),
        ("drop by a word", own("drop = 'handled'"), &logfmt),
        ("logfmt, a number", own(&format!("parse = 'logfmt'\n{number}")), &logfmt),
        ("JSON, a number", own(&format!("parse = 'json'\n{number}")), &json),
        (
            "grok, a number",
            own(&format!("parse = {{ grok = 'path=%{{NOTSPACE:path}} took_ms=%{{NUMBER:took_ms}}' }}\n{number}")),
            &logfmt,
        ),
        ("mask passwords", own("mask = ['password']"), &logfmt),
        (
            "sessions",
            own(
                "parse = 'logfmt'\n[[filter.session]]\nname = 's'\nid = 'id'\nbegin = 'at=begin'\nend = 'at=end'\nlabels = ['path']",
            ),
            &session,
        ),
        ("filters/nginx.toml", text("nginx").expect("it is shipped").to_owned(), &access),
    ];
    let stages: Vec<_> = kinds
        .iter()
        .map(|(name, filters, line)| {
            let stage = Stage::new(File::parse(filters).expect("it is right").filters).expect("names differ");
            (*name, stage, batch(line))
        })
        .collect();
    let mut seconds = vec![Vec::new(); stages.len()];
    for round in 0..ROUNDS {
        for ((_, stage, batch), seconds) in stages.iter().zip(&mut seconds) {
            // Each with a number of its own: none is a repeat.
            let batch = Batch { sequence: round as u64 + 1, ..batch.clone() };
            let from = Instant::now();
            black_box(stage.apply(black_box(batch), MonoNs(0)));
            seconds.push(from.elapsed().as_secs_f64());
        }
    }
    println!("{LINES} lines a batch, one thread; thousand lines a second: median (p10 to p90 of {ROUNDS} rounds)");
    for ((name, ..), mut seconds) in stages.into_iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        let rate = |of: usize| LINES as f64 / seconds[of * (ROUNDS - 1) / 100] / 1e3;
        println!("{name:22} {:7.0} ({:.0} to {:.0})", rate(50), rate(90), rate(10));
    }
}

fn batch(line: &dyn Fn(usize) -> String) -> Batch {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = SeriesDef::new([("__name__", "log"), ("job", "nginx"), ("instance", "web-1")], meta);
    let sample = |at: usize| {
        let time_ns = 1_700_000_000_000_000_000 + at as i64 * 100_000;
        Ok(Sample { series: 0, time_ns, start_ns: None, value: Value::Text(line(at)) })
    };
    Batch { series: vec![series], samples: (0..LINES).map(sample).collect(), ..Batch::default() }
}
