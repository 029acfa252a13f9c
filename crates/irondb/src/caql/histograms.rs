//! Functions of histograms.

use ogive_hist::Histogram;

use super::{Argument, Call, functions};
use crate::frame::{Column, Data, Grid, transform};

type Slots = Vec<Option<Histogram<u64>>>;

/// `histogram:METHOD`.
pub(super) fn apply(call: &Call, column: Column, grid: Grid) -> Result<Vec<Column>, String> {
    let slots = match column {
        Column::Histograms(slots) => slots,
        Column::Numbers(numbers) => {
            let one = |number: f64| {
                let mut histogram = Histogram::log_linear();
                histogram.record(number);
                histogram
            };
            numbers.into_iter().map(|number| number.map(one)).collect()
        }
        Column::Texts(_) => return Err("a text column has no histograms".into()),
    };
    match &*call.method {
        "" | "create" | "none" => Ok(vec![Column::Histograms(slots)]),
        "window" | "rolling" => {
            windowed(call, &slots, grid, call.method == "rolling").map(|slots| vec![Column::Histograms(slots)])
        }
        method => {
            let method = if method == "median" { "quantile" } else { method };
            let given: Vec<String> =
                call.arguments.iter().filter_map(Argument::number).map(|number| number.to_string()).collect();
            let given = if call.method == "median" { vec!["0.5".to_owned()] } else { given };
            // Each parameter makes a column.
            let each: Vec<Vec<String>> =
                if given.is_empty() { vec![Vec::new()] } else { given.into_iter().map(|one| vec![one]).collect() };
            let timed: Vec<(i64, Histogram<u64>)> = slots
                .into_iter()
                .enumerate()
                .filter_map(|(at, slot)| Some((grid.start_ms + grid.period_ms * at as i64, slot?)))
                .collect();
            each.iter().map(|params| transform(Data::Histograms(&timed), grid, method, params)).collect()
        }
    }
}

/// The histogram of each slot's window: a rolling one ends with the slot, any other begins at a multiple of its length.
pub(super) fn windowed(call: &Call, slots: &Slots, grid: Grid, rolls: bool) -> Result<Slots, String> {
    let length = functions::slots(call, grid)?;
    let merged = |range: &[Option<Histogram<u64>>]| {
        let mut all: Option<Histogram<u64>> = None;
        for one in range.iter().flatten() {
            match &mut all {
                None => all = Some(one.clone()),
                Some(all) => all.merge(one).map_err(|_| "the histograms have different bins".to_owned())?,
            }
        }
        Ok(all)
    };
    (0..slots.len()).map(|at| merged(&slots[functions::window(at, length, grid, rolls)])).collect()
}
