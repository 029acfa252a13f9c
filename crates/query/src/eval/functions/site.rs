//! The interface of kernels: their inputs and outputs.

use crate::ast::Span;
use crate::eval::rows::Cell;
use crate::eval::window::Window;
use crate::{Annotation, Annotations, Error};

/// Where annotations about one argument go.
pub(crate) struct Site<'a> {
    pub(crate) span: Span,
    pub(crate) notes: &'a mut Annotations,
}

impl Site<'_> {
    pub(crate) fn note(&mut self, annotation: Annotation) {
        self.notes.add(annotation);
    }
}

/// Evaluates a range function over one window and its other arguments. Windows hold at least one sample.
pub(crate) type RangeKernel = fn(&Window<'_>, &[f64], &mut Site<'_>) -> Result<Cell, Error>;
