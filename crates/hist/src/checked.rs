//! Schemes from parameters that are checked.

use std::sync::Arc;

use crate::{Error, Scheme, custom, exp2};

impl Scheme {
    /// An exponential scheme.
    ///
    /// # Errors
    /// [`Error::Scale`] outside -10..=20.
    pub fn exp2(scale: i32) -> Result<Self, Error> {
        let stored = i8::try_from(scale).map_err(|_| Error::Scale(scale))?;
        if (exp2::SCALE_MIN..=exp2::SCALE_MAX).contains(&stored) {
            Ok(Self::Exp2 { scale: stored })
        } else {
            Err(Error::Scale(scale))
        }
    }

    /// A scheme of explicit upper bounds.
    ///
    /// # Errors
    /// [`Error::Bounds`] when a bound is not finite or not above the one before it.
    pub fn custom(bounds: impl Into<Arc<[f64]>>) -> Result<Self, Error> {
        let bounds = bounds.into();
        match custom::first_bad_bound(&bounds) {
            Some(index) => Err(Error::Bounds { index, value: bounds[index] }),
            None => Ok(Self::Custom { bounds }),
        }
    }

    /// A binary log-linear scheme.
    ///
    /// # Errors
    /// [`Error::Parameter`] when a parameter is outside its range.
    pub fn log_linear2(grouping: u8, shift: u8, unit: f64) -> Result<Self, Error> {
        Self::LogLinear2 { grouping, shift, unit }.checked()
    }

    /// A logarithmic scheme.
    ///
    /// # Errors
    /// [`Error::Parameter`] when a parameter is outside its range.
    pub fn gamma(gamma: f64, offset: f64) -> Result<Self, Error> {
        Self::Gamma { gamma, offset }.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(reason) => Err(Error::Parameter(reason)),
        }
    }
}
