//! Samples as tables, through the crates of the Arrow project.

use std::fs::File;

use anyhow::Context;
use arrow_ipc::writer::FileWriter;
use ogive_interchange::sample_table::{SCHEMA, rows};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::reading::Reading;

/// 65,536 rows in a batch and in a row group: some tens of MB of histograms, which the writer holds.
const ROWS_MAX: usize = 1 << 16;

/// Counts of rows written, and of rows left out.
pub(super) fn parquet(file: File, reading: &mut Reading<'_>) -> anyhow::Result<(u64, u64)> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_max_row_group_row_count(Some(ROWS_MAX))
        .build();
    let mut writer = ArrowWriter::try_new(file, SCHEMA.clone(), Some(properties))?;
    let mut samples = 0;
    reading.each(&mut |batch| {
        let rows = rows(batch);
        samples += rows.num_rows() as u64;
        writer.write(&rows).context("the table cannot be written")
    })?;
    reading.ended_well()?;
    writer.close()?;
    Ok((samples, 0))
}

/// As [`parquet`].
pub(super) fn arrow(file: File, reading: &mut Reading<'_>) -> anyhow::Result<(u64, u64)> {
    let mut writer = FileWriter::try_new_buffered(file, &SCHEMA)?;
    let mut samples = 0;
    reading.each(&mut |batch| {
        let rows = rows(batch);
        samples += rows.num_rows() as u64;
        for from in (0..rows.num_rows()).step_by(ROWS_MAX) {
            let part = rows.slice(from, ROWS_MAX.min(rows.num_rows() - from));
            writer.write(&part).context("the table cannot be written")?;
        }
        Ok(())
    })?;
    reading.ended_well()?;
    writer.finish()?;
    Ok((samples, 0))
}
