//! Varnish: its counters, which `varnishstat -j` reads from shared memory and prints. Versions from 6.0
//! on.
//!
//! Format: until Varnish 6.4 the counters are members of the object itself, since 6.5 of its member `counters`; each
//! has `value`, `flag` (`c` a counter, `g` a gauge, `b` a bitmap) and `format` (`B` bytes, `d` seconds). The counter
//! `VBE.boot.shop.req` is `varnish_vbe_req{ident="boot.shop"}`, and `MAIN.cache_hit` is `varnish_main_cache_hit`. Of a
//! bitmap, the results of the last 64 probes of a backend, the newest bit is stored.
//! Limits: those of `readings`; the command's are those of `command`, with [`ANSWER_BYTES_MAX`] of its output.

use serde_json::{Map, Value};

use super::command::{Line, Output, output};
use super::raw::Raw;
use super::readings::{ANSWER_BYTES_MAX, Metric, Readings, fields, json_of, refuse_labels, text_of};
use super::rows::word;
use super::run::{Failure, Reason, Run, cut};

const PROGRAM: &str = "/usr/bin/varnishstat";

/// The command that prints the counters.
#[derive(Clone, Debug)]
pub(super) struct Varnish(Line);

impl Varnish {
    /// What a table of this kind says; its target is the name of the instance.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        refuse_labels(raw, &["ident"])?;
        raw.command.get_or_insert_with(|| vec![PROGRAM.into()]);
        let mut line = Line::from_raw(raw)?;
        // It waits 5 s for a server otherwise.
        line.command.splice(1..1, ["-t".into(), "0".into()]);
        line.command.push("-j".into());
        for field in fields(raw, |field| !field.contains(char::is_whitespace))? {
            line.command.extend(["-f".into(), field]);
        }
        if let Some(name) = raw.target.take().filter(|name| !name.is_empty()) {
            line.command.extend(["-n".into(), name]);
        }
        Ok(Self(line))
    }
}

pub(super) async fn run(run: &mut Run, varnish: &Varnish) -> Result<(), Failure> {
    let Output { status, text, errors } = output(run, &varnish.0, ANSWER_BYTES_MAX as u64).await?;
    if !status.success() {
        let said = errors.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
        let program = &varnish.0.command[0];
        return Err(Failure::new(Reason::Status, format!("{program} ended with {status}: {said}")));
    }
    report(run, &text)
}

/// Reports the counters that were printed.
pub(super) fn report(run: &mut Run, text: &str) -> Result<(), Failure> {
    let answer = json_of(text)?;
    let counters = answer.get("counters").and_then(Value::as_object).or_else(|| answer.as_object());
    let mut readings = Readings::new(run);
    for (name, counter) in counters.unwrap_or(&Map::new()) {
        let (Some(value), flag) = (counter.get("value"), text_of(counter, "flag")) else { continue };
        let (Some(number), Some((head, last))) = (value.as_f64(), name.rsplit_once('.')) else {
            let sentence = format!("{:?} is no counter of Varnish", cut(name, 256));
            return Err(Failure::new(Reason::Protocol, sentence));
        };
        let (section, ident) = head.split_once('.').unwrap_or((head, ""));
        let unit = match text_of(counter, "format") {
            "B" => "By",
            "d" => "s",
            _ => "",
        };
        // Older versions write `a` for what accumulates.
        let is_counter = matches!(flag, "c" | "a");
        let number = if flag == "b" { (value.as_u64().unwrap_or_default() & 1) as f64 } else { number };
        let name = format!("varnish_{}_{}", word(section), word(last));
        readings.add(&Metric { name, unit: unit.into(), is_counter }, &[("ident", ident)], number)?;
    }
    if readings.count() == 0 {
        return Err(Failure::new(Reason::Content, "there is no counter in what varnishstat prints"));
    }
    readings.end()
}

#[cfg(test)]
mod tests {
    use ogive_model::{Temporality, Value};
    use ogive_probe::Clock;

    use super::*;
    use crate::config::{Config, Probe};

    /// As Varnish 7 prints it.
    const NEW: &str = r#"{"version": 1, "timestamp": "2026-01-05T10:00:00", "counters": {
        "MAIN.cache_hit": {"description": "Cache hits", "flag": "c", "format": "i", "value": 7},
        "SMA.s0.g_bytes": {"description": "Bytes outstanding", "flag": "g", "format": "B", "value": 1048},
        "VBE.boot.shop.happy": {"description": "Happy health probes", "flag": "b", "format": "b",
                                "value": 18446744073709551615}}}"#;
    /// As Varnish 6.1 prints it.
    const OLD: &str = r#"{"timestamp": "2020-01-05T10:00:00",
        "MAIN.cache_hit": {"description": "Cache hits", "flag": "c", "format": "i", "value": 7},
        "SMA.s0.g_bytes": {"description": "Bytes outstanding", "flag": "g", "format": "B", "value": 1048},
        "VBE.boot.shop.happy": {"description": "Happy", "flag": "b", "format": "b", "value": 3}}"#;

    fn found(text: &str) -> Result<Vec<(String, String, f64, bool)>, Failure> {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        report(&mut run, text)?;
        let batch = run.batch(&Ok(()), &[], std::time::Duration::from_secs(60));
        let shown = batch.samples.iter().flatten().filter_map(|sample| {
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let Value::Float(value) = sample.value else { return None };
            let is_counter = series.meta.temporality == Temporality::Cumulative;
            let (name, ident) = (series.labels.metric_name().to_owned(), series.labels.get("ident").to_owned());
            name.starts_with("varnish_").then_some((name, ident, value, is_counter))
        });
        Ok(shown.collect())
    }

    #[test]
    fn both_layouts_are_read() {
        for text in [NEW, OLD] {
            let expected = [
                ("varnish_main_cache_hit".to_owned(), String::new(), 7.0, true),
                ("varnish_sma_g_bytes".to_owned(), "s0".to_owned(), 1048.0, false),
                ("varnish_vbe_happy".to_owned(), "boot.shop".to_owned(), 1.0, false),
            ];
            assert_eq!(found(text).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for (text, reason) in [
            ("", Reason::Protocol),
            ("[]", Reason::Content),
            ("{\"version\": 1, \"counters\": {}}", Reason::Content),
            ("{\"counters\": {\"x\": {\"value\": 1}}}", Reason::Protocol),
            ("{\"counters\": {\"A.x\": {\"value\": \"1\"}}}", Reason::Protocol),
            ("{\"A.x\": {\"value\": 1}, \"a.x\": {\"value\": 1}}", Reason::Content),
        ] {
            assert_eq!(found(text).unwrap_err().reason, reason, "{text}");
        }
    }

    #[test]
    fn a_check_makes_a_command() {
        let command = |keys: &str| {
            let text = format!("[[check]]\nname = 'a'\nkind = 'varnish'\n{keys}\n");
            let config = Config::parse(&text).unwrap();
            assert_eq!(config.needs().collect::<Vec<_>>(), [("a", "command")]);
            let Probe::Varnish(varnish) = &config.check[0].ask else { unreachable!() };
            varnish.0.command.join(" ")
        };
        assert_eq!(command(""), "/usr/bin/varnishstat -t 0 -j");
        assert_eq!(
            command("target = '/var/x'\ncommand = ['/opt/varnishstat', '-t', '3']\nfields = ['MAIN.*']"),
            "/opt/varnishstat -t 0 -t 3 -j -f MAIN.* -n /var/x"
        );
    }
}
