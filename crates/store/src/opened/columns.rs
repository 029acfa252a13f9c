//! Series of histograms whose bins stay columns as they are in the blocks.

use ogive_model::{Kind, Labels, SeriesColumns, has_one_layout};

use super::{BlockPart, Lineup, Opened, Part};
use crate::{Budget, Error, merge};

impl Opened<'_> {
    /// The histograms of a label set as columns; None when it has others too, or when they differ in more than their
    /// counts.
    pub(super) fn columns(
        &self,
        labels: &Labels,
        parts: &[(Kind, Part)],
        budget: &mut Budget,
    ) -> Result<Option<SeriesColumns>, Error> {
        if parts.iter().any(|(kind, _)| *kind != Kind::Histogram) {
            return Ok(None);
        }
        let parts: Vec<&Part> = parts.iter().map(|(_, part)| part).collect();
        let Some(Lineup { order, blank }) = self.lined_up(&parts)? else { return Ok(None) };
        let mut columns = SeriesColumns { series: blank, stretches: Vec::new(), bins: 0 };
        for at in order {
            let whole = match parts[at] {
                Part::Block(BlockPart { number, requested, entry }) => {
                    let block = self.view.blocks.numbered(*number).1?;
                    let range = self.requested[*requested].selection.range;
                    block.append_columns(entry, range, budget, &mut columns)?
                }
                Part::Head(head) => match SeriesColumns::from_series(head.data(self.range, false, budget)?) {
                    Ok(read) => {
                        read.stretches.iter().try_for_each(|stretch| budget.hold_columns(stretch))?;
                        append(&mut columns, read)
                    }
                    Err(_) => false,
                },
            };
            if !whole {
                return Ok(None);
            }
        }
        let histograms = &columns.series.histograms;
        // Points of one time are to be added first.
        let ascends = histograms.times.is_sorted_by(|one, next| one < next);
        if histograms.times.is_empty() || !ascends || !has_one_layout(&histograms.values) {
            return Ok(None);
        }
        columns.series.labels = labels.clone();
        Ok(Some(columns))
    }
}

/// Appends what follows in time; false when it does not.
fn append(columns: &mut SeriesColumns, other: SeriesColumns) -> bool {
    let rows = columns.series.histograms.times.len() + other.series.histograms.times.len();
    let clash = merge::add(&mut columns.series, other.series);
    columns.stretches.extend(other.stretches);
    columns.bins += other.bins;
    clash == merge::Clash::default() && columns.series.histograms.times.len() == rows
}
