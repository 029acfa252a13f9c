//! Parquet files: those of `ogive export`, without a loss, and others by what their columns mean ([`table`]).
//!
//! Limits: [`ROWS_MAX`] rows are read at once; what a page of the file unfolds to is what its header says, which the
//! Arrow project's reader checks.
//! Failure: a file that is none is [`Error::Unreadable`]; so is one that is damaged where it is damaged, behind the
//! samples before.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::reader::ChunkReader;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{DataType, TimeUnit as Unit};
use ogive_hist::{Bins, Count, Histogram};
use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Value};
use twox_hash::XxHash3_128;

use crate::sample_table::{RESETS, SCHEMA};
use crate::table::{self, Options, Plan};
use crate::{Batches, Error, scheme_text};

/// 8,192 rows at once.
pub const ROWS_MAX: usize = 8_192;

/// Reads a file; `progress` is called with the share of its rows that is done, in thousandths.
///
/// # Errors
/// [`Error::Unreadable`] and [`Error::Stopped`].
pub fn read<F: ChunkReader + 'static>(
    file: F,
    options: &Options,
    out: &mut Batches<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let unreadable = |error: &dyn std::fmt::Display| Error::Unreadable(format!("parquet: {error}"));
    // The types are those of Parquet itself, of which there are fewer than of Arrow types that may have been written.
    let how = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let opened = caught(|| ParquetRecordBatchReaderBuilder::try_new_with_options(file, how))?;
    let builder = opened.map_err(|error| unreadable(&error))?;
    let rows = builder.metadata().file_metadata().num_rows().max(1) as u64;
    let mut reader = caught(|| builder.with_batch_size(ROWS_MAX).build())?.map_err(|error| unreadable(&error))?;
    let mut done = 0_u64;
    let mut plan = None;
    while let Some(batch) = caught(|| reader.next())? {
        let batch = batch.map_err(|error| unreadable(&error))?;
        let schema = batch.schema();
        if is_ours(&batch) {
            ours(done, &batch, out)?;
        } else {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let is_text = |at: usize| *schema.field(at).data_type() == DataType::Utf8;
            let plan = match &plan {
                Some(plan) => plan,
                None => plan.insert(Plan::new(&names, &is_text, options).map_err(Error::Unreadable)?),
            };
            others(done, &batch, plan, options, out)?;
        }
        done += batch.num_rows() as u64;
        progress(done * 1000 / rows);
    }
    Ok(())
}

/// A panic of the library over a damaged file must not end the program.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Error::Unreadable("parquet: the file is damaged".into()))
}

fn is_ours(batch: &RecordBatch) -> bool {
    let schema = batch.schema();
    let (found, ours) = (schema.fields(), SCHEMA.fields());
    found.len() == ours.len()
        && found.iter().zip(ours).all(|(one, our)| one.name() == our.name())
        && ["scheme", "buckets", "whole", "reset"].iter().all(|field| {
            matches!(found[found.len() - 1].data_type(), DataType::Struct(fields) if fields.find(field).is_some())
        })
}

/// Rows of [`crate::sample_table`].
fn ours(before: u64, batch: &RecordBatch, out: &mut Batches<'_>) -> Result<(), Error> {
    let damaged = || Error::Unreadable("parquet: a column of the table is of another type than exports have".into());
    let column = |name: &str| batch.column_by_name(name).ok_or_else(damaged);
    let texts = |name: &str| column(name)?.as_string_opt::<i32>().ok_or_else(damaged);
    let times = |name: &str| column(name)?.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(damaged);
    let (time, start, name, temporality) = (times("time")?, times("start")?, texts("name")?, texts("temporality")?);
    let (unit, text) = (texts("unit")?, texts("text")?);
    let value = column("value")?.as_primitive_opt::<Float64Type>().ok_or_else(damaged)?;
    let labels = column("labels")?.as_map_opt().ok_or_else(damaged)?;
    let histogram = column("histogram")?.as_struct_opt().ok_or_else(damaged)?;
    let width = batch.column_by_name("width_ms").map(|column| column.as_ref()).ok_or_else(damaged)?;
    for row in 0..batch.num_rows() {
        let place = before + row as u64 + 1;
        let entries = labels.value(row);
        let (keys, values) = (entries.column(0).as_string_opt::<i32>(), entries.column(1).as_string_opt::<i32>());
        let (Some(keys), Some(values)) = (keys, values) else { return Err(damaged()) };
        let read = if !value.is_null(row) {
            Ok((Kind::Float, Value::Float(value.value(row))))
        } else if !text.is_null(row) {
            Ok((Kind::Text, Value::Text(text.value(row).to_owned())))
        } else {
            distribution(histogram, row).map(|one| (Kind::Histogram, one))
        };
        let (kind, sample) = match read {
            Ok(read) => read,
            Err(what) => {
                out.bad(place, "histogram_invalid", what);
                continue;
            }
        };
        let words = [Temporality::Gauge, Temporality::Cumulative, Temporality::Delta];
        let Some(temporality) = words.into_iter().find(|one| one.as_str() == temporality.value(row)) else {
            out.bad(place, "type_unknown", "the temporality is none of gauge, cumulative and delta");
            continue;
        };
        let nanoseconds = |ms: i64| ms.checked_mul(1_000_000);
        let Some(time_ns) = nanoseconds(time.value(row)) else {
            out.bad(place, "time_invalid", "the time is beyond what can be stored");
            continue;
        };
        let start_ns = if start.is_null(row) { None } else { nanoseconds(start.value(row)) };
        let pairs = || (0..keys.len()).map(|at| (keys.value(at), values.value(at)));
        let seed = kind as u128 * 8 + temporality as u128;
        let key = pairs().fold(hash(seed, name.value(row)), |key, (name, value)| hash(hash(key, name), value));
        let define = || {
            let width_ms = number(width, row).unwrap_or(0.0) as u32;
            let meta = SeriesMeta { kind, temporality, unit: unit.value(row).to_owned(), width_ms };
            let pairs = pairs().chain([(METRIC_NAME, name.value(row))]);
            SeriesDef::new(pairs, meta).map_err(|error| error.to_string())
        };
        out.sample(place, key, define, start_ns, time_ns, sample)?;
    }
    Ok(())
}

fn hash(seed: u128, text: &str) -> u128 {
    XxHash3_128::oneshot_with_seed(seed as u64, text.as_bytes()) ^ seed.rotate_left(1)
}

/// The histogram of a row.
fn distribution(all: &StructArray, row: usize) -> Result<Value, &'static str> {
    const DAMAGED: &str = "a row has neither a value, a text nor a whole histogram";
    if all.is_null(row) {
        return Err(DAMAGED);
    }
    let field = |name: &str| all.column_by_name(name).ok_or(DAMAGED);
    let text = |name: &str| Ok::<_, &str>(field(name)?.as_string_opt::<i32>().ok_or(DAMAGED)?.value(row));
    let double = |name: &str| Ok::<_, &'static str>(number(field(name)?, row));
    let scheme = scheme_text::parse(text("scheme")?).ok_or("the scheme of a histogram is not known")?;
    let word = text("reset")?;
    let reset = RESETS.iter().find(|(known, _)| *known == word).ok_or("the reset of a histogram is not known")?.1;
    let buckets = field("buckets")?.as_list_opt::<i32>().ok_or(DAMAGED)?.value(row);
    let buckets = buckets.as_struct_opt().ok_or(DAMAGED)?;
    let column = |name: &str| buckets.column_by_name(name).ok_or(DAMAGED);
    let (side, index, count) = (column("side")?, column("index")?, column("count")?);
    let mut sides: [Vec<(i32, f64)>; 2] = [Vec::new(), Vec::new()];
    for at in 0..buckets.len() {
        let (side, index, count) = (number(side, at), number(index, at), number(count, at));
        let (Some(side), Some(index), Some(count)) = (side, index, count) else { return Err(DAMAGED) };
        let bins = &mut sides[usize::from(side > 0.0)];
        if bins.last().is_some_and(|last| last.0 >= index as i32) {
            return Err("the bins of a histogram do not ascend");
        }
        bins.push((index as i32, count));
    }
    let mut one = Histogram::<f64>::new(scheme);
    (one.sum, one.min, one.max, one.reset) = (double("sum")?, double("min")?, double("max")?, reset);
    one.zero_threshold = double("zero_threshold")?.ok_or(DAMAGED)?;
    let counts = [double("zero_count")?, double("nan_count")?, double("count")?];
    let [Some(zero), Some(nan), Some(count)] = counts else { return Err(DAMAGED) };
    if field("whole")?.as_boolean_opt().ok_or(DAMAGED)?.value(row) {
        let mut whole = Histogram { zero: zero as u64, nan: nan as u64, count: 0, ..empty::<f64, u64>(&one) };
        [whole.negative, whole.positive] = sides.map(|bins| bins_of(bins, |count| count as u64));
        whole.recount();
        whole.check()?;
        return Ok(Value::Histogram(Box::new(whole)));
    }
    (one.zero, one.nan, one.count) = (zero, nan, count);
    [one.negative, one.positive] = sides.map(|bins| bins_of(bins, |count| count));
    one.check()?;
    Ok(Value::FloatHistogram(Box::new(one)))
}

/// All but the counts.
fn empty<C: Count, D: Count>(of: &Histogram<C>) -> Histogram<D> {
    let mut out = Histogram::new(of.scheme.clone());
    (out.sum, out.min, out.max, out.reset) = (of.sum, of.min, of.max, of.reset);
    out.zero_threshold = of.zero_threshold;
    out
}

fn bins_of<C: Count>(bins: Vec<(i32, f64)>, count: impl Fn(f64) -> C) -> Bins<C> {
    let (index, counts) = bins.into_iter().map(|(index, value)| (index, count(value))).unzip();
    Bins::from_columns(index, counts)
}

/// Rows of a table that Ogive did not write.
fn others(
    before: u64,
    batch: &RecordBatch,
    plan: &Plan,
    options: &Options,
    out: &mut Batches<'_>,
) -> Result<(), Error> {
    for row in 0..batch.num_rows() {
        let place = before + row as u64 + 1;
        let Some(time_ns) = time_ns(batch.column(plan.time), row, options) else {
            out.bad(place, "time_invalid", "the time is missing, or is none");
            continue;
        };
        let text = |at: usize| label(batch.column(at), row);
        let name = plan.name.map(text);
        let labels: Vec<(&str, String)> = plan.labels.iter().map(|(at, label)| (&**label, text(*at))).collect();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        let key = labels.iter().fold(hash(0, name.as_deref().unwrap_or_default()), |key, label| hash(key, label.1));
        for (at, metric) in &plan.values {
            let column = batch.column(*at);
            if column.is_null(row) {
                continue;
            }
            let Some(value) = number(column, row) else {
                out.bad(place, "value_invalid", &format!("a value of type {} is no number", column.data_type()));
                continue;
            };
            let metric = name.as_deref().unwrap_or(metric);
            let define = || table::series(metric, &labels, options);
            out.sample(place, hash(key, metric), define, None, time_ns, Value::Float(value))?;
        }
    }
    Ok(())
}

fn time_ns(column: &dyn Array, row: usize, options: &Options) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Timestamp(Unit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1_000_000)
        }
        DataType::Timestamp(Unit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().value(row).checked_mul(1_000)
        }
        DataType::Timestamp(Unit::Nanosecond, _) => Some(column.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Int64 => options.time_unit.whole(column.as_primitive::<Int64Type>().value(row)),
        DataType::Utf8 => options.time_unit.parse(column.as_string::<i32>().value(row)),
        _ => options.time_unit.number(number(column, row)?),
    }
}

fn label(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.as_string_opt::<i32>() {
        Some(texts) => texts.value(row).to_owned(),
        None => number(column, row).map_or_else(String::new, |number| number.to_string()),
    }
}

/// The number in a row; None in a column of another type, or where it is null.
fn number(column: &dyn Array, row: usize) -> Option<f64> {
    fn value_at<T: ArrowPrimitiveType>(column: &dyn Array, row: usize) -> T::Native {
        column.as_primitive::<T>().value(row)
    }
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Float64 => value_at::<Float64Type>(column, row),
        DataType::Float32 => f64::from(value_at::<Float32Type>(column, row)),
        DataType::Int8 => f64::from(value_at::<Int8Type>(column, row)),
        DataType::Int16 => f64::from(value_at::<Int16Type>(column, row)),
        DataType::Int32 => f64::from(value_at::<Int32Type>(column, row)),
        DataType::Int64 => value_at::<Int64Type>(column, row) as f64,
        DataType::UInt8 => f64::from(value_at::<UInt8Type>(column, row)),
        DataType::UInt16 => f64::from(value_at::<UInt16Type>(column, row)),
        DataType::UInt32 => f64::from(value_at::<UInt32Type>(column, row)),
        DataType::UInt64 => value_at::<UInt64Type>(column, row) as f64,
        DataType::Boolean => f64::from(u8::from(column.as_boolean().value(row))),
        _ => return None,
    })
}
