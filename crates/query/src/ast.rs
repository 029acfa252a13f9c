//! The syntax tree.
//!
//! Invariants: every node holds the byte range of the text that it was read from; children lie inside
//! their parents (a selector's modifiers belong to the selector). The parser has checked all types.

mod chain;
mod duration;
mod operator;
mod span;
mod value_type;

use ogive_model::{Matcher, WallMs};

pub use chain::Chain;
pub use duration::{DurationError, DurationExpr, DurationKind, DurationOp, DurationScope};
pub use operator::{AggregateOp, BinaryOp, UnaryOp};
pub use span::Span;
pub use value_type::ValueType;

use crate::functions::Function;

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// The text it was read from.
    pub span: Span,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A number.
    Number(Number),
    /// A text, unescaped.
    String(String),
    /// `name{matchers}` with its modifiers.
    VectorSelector(VectorSelector),
    /// `selector[range]`.
    MatrixSelector(MatrixSelector),
    /// `expr[range:step]`.
    Subquery(Box<Subquery>),
    /// `-expr`, `+expr`.
    Unary(UnaryOp, Box<Expr>),
    /// `left op right`.
    Binary(Box<Binary>),
    /// `sum by (l) (expr)`.
    Aggregate(Box<Aggregate>),
    /// `function(arguments)`.
    Call(Call),
    /// `(expr)`.
    Paren(Box<Expr>),
}

/// A number literal.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its value; for a duration, in seconds.
    pub value: f64,
    /// Whether it was written as a duration (`5m`).
    pub duration: bool,
}

impl PartialEq for Number {
    /// Bit for bit, but one NaN equals another.
    fn eq(&self, other: &Self) -> bool {
        (self.value == other.value || (self.value.is_nan() && other.value.is_nan())) && self.duration == other.duration
    }
}

/// The instant of an `@` modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtModifier {
    /// `@ 12.5`.
    Time(WallMs),
    /// `@ start()`: start of the query.
    Start,
    /// `@ end()`: end of the query.
    End,
}

/// How a selector treats the edges of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edges {
    /// Only the samples inside.
    #[default]
    Plain,
    /// `anchored`: the last sample before the window counts as a sample at its edge.
    Anchored,
    /// `smoothed`: values at the edges are interpolated.
    Smoothed,
}

/// `offset` and `@`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TimeShift {
    /// `offset`, which may be negative.
    pub offset: Option<DurationExpr>,
    /// `@`.
    pub at: Option<AtModifier>,
}

/// Chooses series.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSelector {
    /// The metric's name when it was written in front of the braces or as a quoted string in them. The
    /// matcher for it is in `matchers` too.
    pub name: Option<String>,
    /// All must hold, in the order written; one written as a name comes last.
    pub matchers: Vec<Matcher>,
    /// `offset` and `@`.
    pub shift: TimeShift,
    /// `anchored` or `smoothed`.
    pub edges: Edges,
}

/// Chooses series with their samples in a window. `offset`, `@` and edges are the inner selector's.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixSelector {
    /// Which series.
    pub selector: VectorSelector,
    /// Span of the selector without the range and modifiers.
    pub selector_span: Span,
    /// How far back.
    pub range: DurationExpr,
}

/// An expression evaluated at many instants.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// What to evaluate: an instant vector.
    pub expr: Expr,
    /// How far back.
    pub range: DurationExpr,
    /// Between two evaluations; the engine's default when it is left out.
    pub step: Option<DurationExpr>,
    /// `offset` and `@`.
    pub shift: TimeShift,
}

/// How many elements of one side match one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// Plain.
    OneToOne,
    /// `group_left`.
    ManyToOne,
    /// `group_right`.
    OneToMany,
    /// Set operators.
    ManyToMany,
}

/// How the elements of two vectors are matched.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// How many to how many.
    pub cardinality: Cardinality,
    /// `on(labels)` when true, else `ignoring(labels)`.
    pub on: bool,
    /// The labels of `on` or `ignoring`; none when neither was written.
    pub labels: Vec<String>,
    /// Labels in `group_left(..)` or `group_right(..)`.
    pub include: Vec<String>,
    /// `fill(v)`, `fill_left(v)`: stands for a missing element of the left side.
    pub fill_left: Option<f64>,
    /// `fill(v)`, `fill_right(v)`: stands for a missing element of the right side.
    pub fill_right: Option<f64>,
}

/// `left op right`.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The operator.
    pub op: BinaryOp,
    /// Left operand.
    pub left: Expr,
    /// Right operand.
    pub right: Expr,
    /// `bool`: comparisons give 0 or 1.
    pub return_bool: bool,
    /// Present exactly when both operands are vectors.
    pub matching: Option<Matching>,
}

/// An aggregation over an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Which.
    pub op: AggregateOp,
    /// Over what.
    pub expr: Expr,
    /// The parameter of `topk`, `quantile`, `count_values` and their like.
    pub parameter: Option<Expr>,
    /// `without (labels)` when true, else `by (labels)`.
    pub without: bool,
    /// The labels.
    pub grouping: Vec<String>,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its row in the table.
    pub function: &'static Function,
    /// Span of the name alone.
    pub name_span: Span,
    /// As written; optional ones may be left out.
    pub arguments: Vec<Expr>,
}

impl Expr {
    /// What it evaluates to.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match &self.kind {
            ExprKind::Number(_) => ValueType::Scalar,
            ExprKind::String(_) => ValueType::String,
            ExprKind::VectorSelector(_) | ExprKind::Aggregate(_) => ValueType::Vector,
            ExprKind::MatrixSelector(_) | ExprKind::Subquery(_) => ValueType::Matrix,
            ExprKind::Unary(_, inner) | ExprKind::Paren(inner) => inner.value_type(),
            ExprKind::Binary(binary) => binary.value_type(),
            ExprKind::Call(call) => call.function.returns,
        }
    }

    /// The expression without parentheses around it.
    #[must_use]
    pub fn unparenthesised(&self) -> &Self {
        match &self.kind {
            ExprKind::Paren(inner) => inner.unparenthesised(),
            _ => self,
        }
    }

    /// The matchers of a selector without `offset`, `@` and such; parentheses around it are allowed.
    #[must_use]
    pub fn plain_selector(&self) -> Option<&[Matcher]> {
        match &self.unparenthesised().kind {
            ExprKind::VectorSelector(selector)
                if selector.shift == TimeShift::default() && selector.edges == Edges::Plain =>
            {
                Some(&selector.matchers)
            }
            _ => None,
        }
    }

    /// The direct sub-expressions, in the order of evaluation.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Number(_) | ExprKind::String(_) | ExprKind::VectorSelector(_) | ExprKind::MatrixSelector(_) => {
                Vec::new()
            }
            ExprKind::Subquery(subquery) => vec![&subquery.expr],
            ExprKind::Unary(_, inner) | ExprKind::Paren(inner) => vec![inner],
            ExprKind::Binary(binary) => vec![&binary.left, &binary.right],
            ExprKind::Aggregate(aggregate) => aggregate.parameter.iter().chain([&aggregate.expr]).collect(),
            ExprKind::Call(call) => call.arguments.iter().collect(),
        }
    }
}

impl Expr {
    /// The direct sub-expressions, to change in place.
    pub fn children_mut(&mut self) -> Vec<&mut Self> {
        match &mut self.kind {
            ExprKind::Number(_) | ExprKind::String(_) | ExprKind::VectorSelector(_) | ExprKind::MatrixSelector(_) => {
                Vec::new()
            }
            ExprKind::Subquery(subquery) => vec![&mut subquery.expr],
            ExprKind::Unary(_, inner) | ExprKind::Paren(inner) => vec![inner],
            ExprKind::Binary(binary) => {
                let Binary { left, right, .. } = &mut **binary;
                vec![left, right]
            }
            ExprKind::Aggregate(aggregate) => {
                let Aggregate { parameter, expr, .. } = &mut **aggregate;
                parameter.iter_mut().chain([expr]).collect()
            }
            ExprKind::Call(call) => call.arguments.iter_mut().collect(),
        }
    }

    /// The durations of this node alone, to change in place.
    pub fn durations_mut(&mut self) -> Vec<&mut DurationExpr> {
        match &mut self.kind {
            ExprKind::VectorSelector(selector) => selector.shift.offset.iter_mut().collect(),
            ExprKind::MatrixSelector(matrix) => {
                matrix.selector.shift.offset.iter_mut().chain([&mut matrix.range]).collect()
            }
            ExprKind::Subquery(subquery) => {
                let Subquery { range, step, shift, .. } = &mut **subquery;
                shift.offset.iter_mut().chain([range]).chain(step).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes all positions, so that trees of differently written texts compare equal.
    pub fn erase_spans(&mut self) {
        self.span = Span::default();
        match &mut self.kind {
            ExprKind::MatrixSelector(matrix) => matrix.selector_span = Span::default(),
            ExprKind::Call(call) => call.name_span = Span::default(),
            _ => {}
        }
        self.durations_mut().into_iter().for_each(DurationExpr::erase_spans);
        let mut waiting = self.children_mut();
        while let Some(node) = waiting.pop() {
            node.span = Span::default();
            match &mut node.kind {
                ExprKind::MatrixSelector(matrix) => matrix.selector_span = Span::default(),
                ExprKind::Call(call) => call.name_span = Span::default(),
                _ => {}
            }
            node.durations_mut().into_iter().for_each(DurationExpr::erase_spans);
            waiting.extend(node.children_mut());
        }
    }
}

impl Binary {
    /// Scalar when both operands are, else a vector.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        let mut binary = self;
        loop {
            if binary.matching.is_some() || binary.right.value_type() != ValueType::Scalar {
                return ValueType::Vector;
            }
            match &binary.left.kind {
                ExprKind::Binary(left) => binary = left,
                _ if binary.left.value_type() == ValueType::Scalar => return ValueType::Scalar,
                _ => return ValueType::Vector,
            }
        }
    }
}
