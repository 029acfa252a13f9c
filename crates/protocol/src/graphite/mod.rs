//! Graphite's plain text: `path value time`, with tags as `path;name=value`.
//!
//! Format: graphite.readthedocs.io/en/latest/feeding-carbon.html and tags.html. Fields are separated by any number of
//! spaces or tabs; the time is in seconds since the epoch, whole or fractional, and -1 or missing for now.
//! Invariants: a line that breaks a rule is one [`Fault`], and the next line is read.
//! Limits: [`LINE_BYTES_MAX`](crate::lines::LINE_BYTES_MAX).

use ogive_model::{Kind, SeriesDef, Value};
use ogive_stream::Key;

use crate::Gather;
use crate::gather::untyped;
use crate::lines::{self, Fault, Faults, Names, Pairs, number};

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// Name and tags as the sender has them.
    pub path: &'a str,
    /// The value.
    pub value: f64,
    /// When, if the sender says.
    pub time_ns: Option<i64>,
}

/// Reads one line.
///
/// # Errors
/// The rule that it breaks.
pub fn line(line: &[u8]) -> Result<Point<'_>, Fault> {
    let mut parts = lines::text(line)?.split([' ', '\t']).filter(|part| !part.is_empty());
    let path = parts.next().ok_or(Fault::Name)?;
    let value = number(parts.next().ok_or(Fault::Fields)?, 0)?;
    let time_ns = match parts.next() {
        None | Some("-1" | "-1.0") => None,
        Some(time) => Some(lines::seconds_ns(time)?),
    };
    if parts.next().is_some() {
        return Err(Fault::Fields);
    }
    Ok(Point { path, value, time_ns })
}

impl Point<'_> {
    fn series(&self, names: Names) -> Result<SeriesDef, Fault> {
        let mut parts = self.path.split(';');
        let name = parts.next().filter(|name| !name.is_empty()).ok_or(Fault::Name)?;
        let mut pairs = Pairs::named(names.metric(name));
        for tag in parts.filter(|tag| !tag.is_empty()) {
            let (name, value) = tag.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or(Fault::Tags)?;
            pairs.add(names.label(name), value.into())?;
        }
        pairs.series(untyped(Kind::Float, name))
    }
}

/// Takes the lines of `message`, which arrived at `now_ns`. Each line becomes a sample or a fault.
pub fn feed(message: &[u8], now_ns: i64, names: Names, gather: &mut Gather, faults: &mut Faults) {
    for bytes in lines::lines(message) {
        let taken = line(bytes).and_then(|point| {
            let key = Key::new(0, point.path.as_bytes());
            // Who owns the gatherer takes it long before its labels reach the limit.
            let number = gather.number(key, || point.series(names)).map_err(|_| Fault::Labels)??;
            gather.push(number, point.time_ns.unwrap_or(now_ns), Value::Float(point.value));
            Ok(())
        });
        if let Err(fault) = taken {
            faults.count(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Batch, SourceId, Temporality, Tenant};
    use proptest::prelude::*;

    use super::*;
    use crate::mutations::mutations;

    const NOW: i64 = 1_700_000_000_500_000_000;

    fn fed(message: &[u8], names: Names) -> (Batch, Faults) {
        let (mut gather, mut faults) = (Gather::default(), Faults::default());
        feed(message, NOW, names, &mut gather, &mut faults);
        (gather.take(SourceId(1), 2, &Tenant::default()), faults)
    }

    fn samples(batch: &Batch) -> Vec<(String, i64, f64)> {
        let of = |sample: &ogive_model::Sample| {
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let Value::Float(value) = sample.value else { panic!() };
            (series.labels.to_string(), sample.time_ns, value)
        };
        batch.samples.iter().map(|sample| of(sample.as_ref().unwrap())).collect()
    }

    #[test]
    fn lines_become_samples() {
        let (batch, faults) = fed(
            b"h.load.load.shortterm 24.37841796875 1795287371\r\nh.load.load.shortterm\t1.5   1795287372.25 \n\
              disk.used;dc=eu;rack=a1 12 -1\nno.time 3\nreq_total 4 1795287371\n\n",
            Names::Underscore,
        );
        assert_eq!(faults.total(), 0);
        assert_eq!(
            samples(&batch),
            [
                ("h_load_load_shortterm".into(), 1_795_287_371_000_000_000, 24.37841796875),
                ("h_load_load_shortterm".into(), 1_795_287_372_250_000_000, 1.5),
                (r#"disk_used{dc="eu", rack="a1"}"#.into(), NOW, 12.0),
                ("no_time".into(), NOW, 3.0),
                ("req_total".into(), 1_795_287_371_000_000_000, 4.0),
            ]
        );
        let temporalities: Vec<_> =
            batch.series.iter().map(|series| series.as_ref().unwrap().meta.temporality).collect();
        assert_eq!((batch.series.len(), temporalities[3]), (4, Temporality::Cumulative));
        let (utf8, _) = fed(b"a.b 1 -1", Names::Utf8);
        assert_eq!(samples(&utf8)[0].0, "a.b");
    }

    #[test]
    fn what_breaks_a_rule_is_one_fault() {
        for (text, fault) in [
            ("  ", Fault::Name),
            ("a.b", Fault::Fields),
            ("a.b NaN 1", Fault::Value),
            ("a.b inf 1", Fault::Value),
            ("a.b x 1", Fault::Value),
            ("a.b 1 yesterday", Fault::Time),
            ("a.b 1 -2", Fault::Time),
            ("a.b 1 99999999999999999999", Fault::Time),
            ("a.b 1 2 3", Fault::Fields),
            (";a=b 1 2", Fault::Name),
            ("a;b 1 2", Fault::Tags),
            ("a;b= 1 2", Fault::Tags),
            ("a;=c 1 2", Fault::Tags),
            ("a;__name__=c 1 2", Fault::Tags),
        ] {
            let (batch, faults) = fed(text.as_bytes(), Names::Underscore);
            assert_eq!((batch.samples.len(), faults.iter().collect::<Vec<_>>()), (0, vec![(fault, 1)]), "{text:?}");
        }
        let long = format!("{} 1 2", "a".repeat(lines::LINE_BYTES_MAX));
        assert_eq!(fed(long.as_bytes(), Names::Underscore).1.iter().collect::<Vec<_>>(), [(Fault::TooLong, 1)]);
        assert_eq!(fed(b"\xff 1 2", Names::Underscore).1.iter().collect::<Vec<_>>(), [(Fault::NotUtf8, 1)]);
    }

    /// Seeded mutations of good lines: each line becomes one sample or one fault.
    #[test]
    fn mutated_lines_are_taken_or_counted() {
        let good = b"a.b;c=d;e=f 12.5e3 1795287371\nx.y 1 -1\r\n";
        mutations(good, 20_000, 5, b" \t;=.-+eE019\n\r\xff", |message| {
            let (batch, faults) = fed(message, Names::Underscore);
            assert_eq!(batch.samples.len() as u64 + faults.total(), lines::lines(message).count() as u64);
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_counted(message: Vec<u8>) {
            let (batch, faults) = fed(&message, Names::Utf8);
            prop_assert_eq!(batch.samples.len() as u64 + faults.total(), lines::lines(&message).count() as u64);
        }
    }
}
