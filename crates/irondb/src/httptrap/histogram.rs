//! The forms that a histogram has in HTTPTrap.

use ogive_hist::openhistogram::{bin_of_label, decode_base64};
use ogive_hist::{DecimalBin, Histogram};
use ogive_protocol::lines::Fault;

use super::metric::{Scalar, number};

/// A histogram of all `values`: base64, `H[edge]=count`, or numbers that count once each.
///
/// # Errors
/// [`Fault::Value`] when one of them is none of these.
pub(super) fn read(values: &[Scalar<'_>]) -> Result<Histogram<u64>, Fault> {
    let mut all = Histogram::log_linear();
    for value in values {
        match value {
            Scalar::Null => {}
            Scalar::Number(number) => record(&mut all, DecimalBin::from_value(*number), 1)?,
            Scalar::Text(text) => match text.strip_prefix("H[") {
                Some(rest) => {
                    let (edge, count) = rest.split_once("]=").ok_or(Fault::Value)?;
                    let bin = bin_of_label(edge.trim()).map_err(|_| Fault::Value)?;
                    record(&mut all, bin, count.trim().parse().map_err(|_| Fault::Value)?)?;
                }
                None => match number(text) {
                    Ok(number) => record(&mut all, DecimalBin::from_value(number), 1)?,
                    Err(_) => {
                        let (histogram, repairs) = decode_base64(text).map_err(|_| Fault::Value)?;
                        if repairs.invalid_bins + repairs.missing_bins + repairs.trailing_bytes > 0 {
                            return Err(Fault::Value);
                        }
                        all.merge(&histogram).map_err(|_| Fault::Value)?;
                    }
                },
            },
        }
    }
    Ok(all)
}

/// Adds `count` values to a bin, unless the histogram's total would not fit.
fn record(all: &mut Histogram<u64>, bin: DecimalBin, count: u64) -> Result<(), Fault> {
    if all.total().checked_add(count).is_none() || !bin.is_valid() {
        return Err(Fault::Value);
    }
    all.record_bin(bin, count);
    Ok(())
}
