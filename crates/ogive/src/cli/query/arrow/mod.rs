//! An answer as an Arrow IPC file: what pandas, Polars, DuckDB and R read without a conversion.
//!
//! Format: docs/formats/arrow.md. A row is a point; labels are dictionary columns; a native histogram is a struct with
//! its bins.
//! Limits: [`BATCH_ROWS`].

mod file;
mod flat;

use std::collections::BTreeMap;

use self::file::{Column, Field, File, Type};
use super::answer::{Answer, Data, Distribution, Series, go_float};

/// 65,536 rows: some MB of a batch, so that readers go through a large file piece by piece.
const BATCH_ROWS: usize = 1 << 16;

/// The columns that are there in any file.
const OWN: [&str; 4] = ["time", "value", "text", "histogram"];

/// A point.
struct Row<'a> {
    series: usize,
    time_ms: i64,
    cell: Cell<'a>,
}

/// The value of a cell.
enum Cell<'a> {
    Float(f64),
    Text(&'a str),
    Histogram(&'a Distribution),
}

impl<'a> Cell<'a> {
    const fn float(&self) -> Option<f64> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    const fn text(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    const fn histogram(&self) -> Option<&'a Distribution> {
        if let Self::Histogram(found) = self { Some(found) } else { None }
    }
}

/// The Arrow file for `answer` to `expr`.
pub(super) fn file(answer: &Answer, expr: &str) -> anyhow::Result<Vec<u8>> {
    let rows = rows(&answer.data)?;
    let labels = labels(series(&answer.data));
    let mut fields = vec![Field::new("time", Type::Time)];
    fields.extend((0_i64..).zip(&labels).map(|(id, label)| label.field(id)));
    fields.push(Field::nullable("value", Type::Float));
    fields.push(Field::nullable("text", Type::Text));
    fields.push(histogram_field());
    let mut file = File::new(fields, metadata(answer, expr)?);
    for (id, label) in (0_i64..).zip(&labels) {
        file.dictionary(id, &Column::texts(label.values.iter().map(|value| Some(*value))));
    }
    for rows in rows.chunks(BATCH_ROWS) {
        let mut columns = vec![Column::times(rows.iter().map(|row| row.time_ms))];
        columns.extend(labels.iter().map(|label| Column::numbers(rows.iter().map(|row| label.by_series[row.series]))));
        columns.push(Column::floats(rows.iter().map(|row| row.cell.float())));
        columns.push(Column::texts(rows.iter().map(|row| row.cell.text())));
        columns.push(histograms(rows)?);
        file.batch(&columns);
    }
    Ok(file.finish())
}

fn series(data: &Data) -> &[Series] {
    match data {
        Data::Scalar(_) | Data::String(_) => &[],
        Data::Vector(series) | Data::Matrix(series) => series,
    }
}

fn rows(data: &Data) -> anyhow::Result<Vec<Row<'_>>> {
    let row = |series: usize, seconds: f64, cell| Row { series, time_ms: (seconds * 1000.0).round() as i64, cell };
    let mut out = Vec::new();
    match data {
        Data::Scalar((time, value)) => out.push(row(0, *time, Cell::Float(go_float(value)?))),
        Data::String((time, text)) => out.push(row(0, *time, Cell::Text(text))),
        Data::Vector(series) | Data::Matrix(series) => {
            for (at, one) in series.iter().enumerate() {
                for (time, value) in one.value.iter().chain(&one.values) {
                    out.push(row(at, *time, Cell::Float(go_float(value)?)));
                }
                for (time, found) in one.histogram.iter().chain(&one.histograms) {
                    out.push(row(at, *time, Cell::Histogram(found)));
                }
            }
        }
    }
    Ok(out)
}

/// A label that occurs: its values, and which of them each series has.
struct Label<'a> {
    name: &'a str,
    column: String,
    values: Vec<&'a str>,
    by_series: Vec<Option<i32>>,
}

impl Label<'_> {
    fn field(&self, id: i64) -> Field {
        let mut field = Field::nullable(&self.column, Type::Dictionary(id));
        field.metadata = vec![("ogive.label".into(), self.name.into())];
        field
    }
}

/// The labels of `series`, by name.
fn labels(series: &[Series]) -> Vec<Label<'_>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, i32>> = BTreeMap::new();
    for (name, value) in series.iter().flat_map(|one| &one.metric) {
        found.entry(name).or_default().insert(value, 0);
    }
    for values in found.values_mut() {
        values.values_mut().zip(0..).for_each(|(index, at)| *index = at);
    }
    let label = |(name, values): (&&'_ str, &BTreeMap<&'_ str, i32>)| {
        let of = |one: &Series| one.metric.get(*name).map(|value| values[&**value]);
        (column_name(name, |taken| found.contains_key(taken)), series.iter().map(of).collect())
    };
    let columns: Vec<(String, Vec<Option<i32>>)> = found.iter().map(label).collect();
    let whole = |((name, values), (column, by_series)): ((_, BTreeMap<_, i32>), _)| Label {
        name,
        column,
        values: values.into_keys().collect(),
        by_series,
    };
    found.into_iter().zip(columns).map(whole).collect()
}

/// The label's name; prefixed with `label_` until it differs from our own columns and from all other labels.
fn column_name(label: &str, is_label: impl Fn(&str) -> bool) -> String {
    let mut column = label.to_owned();
    while OWN.contains(&&*column) || (column != label && is_label(&column)) {
        column.insert_str(0, "label_");
    }
    column
}

fn metadata(answer: &Answer, expr: &str) -> anyhow::Result<Vec<(String, String)>> {
    let kind = match &answer.data {
        Data::Scalar(_) => "scalar",
        Data::String(_) => "string",
        Data::Vector(_) => "vector",
        Data::Matrix(_) => "matrix",
    };
    Ok(vec![
        ("ogive.query".into(), expr.into()),
        ("ogive.result_type".into(), kind.into()),
        ("ogive.warnings".into(), serde_json::to_string(&answer.warnings)?),
        ("ogive.infos".into(), serde_json::to_string(&answer.infos)?),
    ])
}

fn histogram_field() -> Field {
    let bucket = vec![
        Field::new("lower", Type::Float),
        Field::new("upper", Type::Float),
        Field::new("lower_inclusive", Type::Bool),
        Field::new("upper_inclusive", Type::Bool),
        Field::new("count", Type::Float),
    ];
    let parts = vec![
        Field::new("count", Type::Float),
        Field::new("sum", Type::Float),
        Field::new("zero_threshold", Type::Float),
        Field::new("zero_count", Type::Float),
        Field::new("buckets", Type::List(Box::new(Field::new("item", Type::Struct(bucket))))),
    ];
    Field::nullable("histogram", Type::Struct(parts))
}

/// The bins of one point.
struct Bins {
    zero: [f64; 2],
    /// Lower, upper, count.
    bounds: Vec<[f64; 3]>,
    /// Whether lower and upper belong to it.
    closed: Vec<[bool; 2]>,
}

impl Bins {
    fn from_distribution(found: &Distribution) -> anyhow::Result<Self> {
        let mut out = Self { zero: [0.0; 2], bounds: Vec::new(), closed: Vec::new() };
        for (rule, lower, upper, count) in &found.buckets {
            let [lower, upper, count] = [go_float(lower)?, go_float(upper)?, go_float(count)?];
            // The bin around zero has both bounds, at equal distances from zero.
            if *rule == 3 && lower == -upper {
                out.zero = [upper, count];
                continue;
            }
            out.bounds.push([lower, upper, count]);
            out.closed.push([matches!(rule, 1 | 3), matches!(rule, 0 | 3)]);
        }
        Ok(out)
    }
}

fn histograms(rows: &[Row<'_>]) -> anyhow::Result<Column> {
    let there: Vec<bool> = rows.iter().map(|row| row.cell.histogram().is_some()).collect();
    // The contents of a null row are ignored, but must be present.
    let (mut count, mut sum, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let found = row.cell.histogram();
        let number = |text: Option<&String>| text.map_or(Ok(0.0), |text| go_float(text));
        count.push(number(found.map(|found| &found.count))?);
        sum.push(number(found.map(|found| &found.sum))?);
        let none = Bins { zero: [0.0; 2], bounds: Vec::new(), closed: Vec::new() };
        all.push(found.map_or(Ok(none), Bins::from_distribution)?);
    }
    let bounds: Vec<[f64; 3]> = all.iter().flat_map(|bins| bins.bounds.iter().copied()).collect();
    let closed: Vec<[bool; 2]> = all.iter().flat_map(|bins| bins.closed.iter().copied()).collect();
    let bound = |at: usize| Column::floats(bounds.iter().map(|bin| Some(bin[at])));
    let edge = |at: usize| Column::bools(&closed.iter().map(|bin| bin[at]).collect::<Vec<_>>());
    let items = Column::structs(&vec![true; bounds.len()], vec![bound(0), bound(1), edge(0), edge(1), bound(2)]);
    let lists = Column::lists(all.iter().map(|bins| bins.bounds.len()), items);
    let plain = |values: Vec<f64>| Column::floats(values.into_iter().map(Some));
    let zero = |at: usize| plain(all.iter().map(|bins| bins.zero[at]).collect());
    Ok(Column::structs(&there, vec![plain(count), plain(sum), zero(0), zero(1), lists]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_called_as_columns_get_names_of_their_own() {
        let labels = ["value", "label_value", "job", "time"];
        let named: Vec<String> =
            labels.iter().map(|label| column_name(label, |taken| labels.contains(&taken))).collect();
        assert_eq!(named, ["label_label_value", "label_value", "job", "label_time"]);
    }

    #[test]
    fn a_batch_ends_where_the_limit_is() {
        let answer = |rows: usize| {
            let values = (0..rows).map(|at| (at as f64, "1".to_owned())).collect();
            let metric = BTreeMap::from([("job".to_owned(), "a".to_owned())]);
            let series = Series { metric, value: None, histogram: None, values, histograms: Vec::new() };
            Answer { data: Data::Matrix(vec![series]), warnings: Vec::new(), infos: Vec::new() }
        };
        let messages = |rows: usize| {
            let file = file(&answer(rows), "job").unwrap();
            assert_eq!((&file[..8], &file[file.len() - 6..]), (&b"ARROW1\0\0"[..], &b"ARROW1"[..]));
            file.chunks(64).filter(|chunk| chunk.starts_with(&[0xff; 4])).count() + 1
        };
        // The schema, the dictionary, batches, and the end.
        assert_eq!([messages(0), messages(1), messages(BATCH_ROWS), messages(BATCH_ROWS + 1)], [3, 4, 4, 5]);
    }
}
