//! Binary operators.
//!
//! The "one" side of a match may have several rows with one signature as long as no two of them have a value at the
//! same instant; two that do are an error, whether or not the operator would keep the result.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_hist::CounterReset;
use ogive_model::{Charge, Labels, Memory};

use super::annotate::{self, Operation};
use super::evaluator::Evaluator;
use super::functions::with_label;
use super::histogram::{Hist, Keep, add, divide, equal, scale, subtract, trim};
use super::invariant::is_invariant;
use super::matching::{Signatures, Steps, signature};
use super::memory::Numbers;
use super::rows::{Grid, Output, Row, SAME_LABELSET, merged, without_metadata};
use crate::ast::{Binary, BinaryOp, Cardinality, Chain, Expr, Matching, Span};
use crate::value::Point;
use crate::{Annotation, Error};

/// The header of a list of flags, one for each instant, and its entry in a map.
const FLAGS_BYTES: usize = 64;

impl Evaluator<'_> {
    /// The value of a binary expression: of the chain of operators that ends in it, one after the other. The part at
    /// the start of the chain that is the same at every instant is evaluated once.
    pub(crate) fn chain(&mut self, expr: &Expr, grid: Grid) -> Result<Output, Error> {
        let Some(Chain { base, links }) = expr.chain() else {
            return Err(Error::evaluate("no binary expression"));
        };
        let mut once = 0;
        if (grid.count > 1 || self.ranged) && is_invariant(base) {
            once = links.iter().take_while(|(binary, _)| is_invariant(&binary.right)).count();
        }
        let needed = self.bins_needed;
        let outcome = self.run(base, &links, once, grid);
        self.bins_needed = needed;
        outcome
    }

    /// The first `once` links at one instant, the others at all instants.
    fn run(&mut self, base: &Expr, links: &[(&Binary, Span)], once: usize, grid: Grid) -> Result<Output, Error> {
        // A trim operator needs the bins of everything below it.
        let trims = |(binary, _): &(&Binary, Span)| matches!(binary.op, BinaryOp::TrimUpper | BinaryOp::TrimLower);
        let (needed, last_trim) = (self.bins_needed, links.iter().rposition(trims));
        let needs = |at: usize| needed || last_trim.is_some_and(|last| at <= last);
        self.bins_needed = needs(0);
        let mut left = if once > 0 {
            let single = Grid::single(grid.start);
            let ranged = std::mem::replace(&mut self.ranged, false);
            let mut value = self.eval(base, single);
            for (at, (binary, span)) in links[..once].iter().enumerate() {
                self.bins_needed = needs(at);
                value = value.and_then(|left| self.linked(left, binary, *span, single));
            }
            self.ranged = ranged;
            self.repeated(value?, grid.count)?
        } else {
            self.eval(base, grid)?
        };
        for (at, (binary, span)) in links.iter().enumerate().skip(once) {
            self.bins_needed = needs(at);
            left = self.linked(left, binary, *span, grid)?;
        }
        Ok(left)
    }

    /// The result of an operator over the value on its left and its right operand.
    fn linked(&mut self, left: Output, binary: &Binary, span: Span, grid: Grid) -> Result<Output, Error> {
        self.check_cancelled()?;
        let right = self.eval(&binary.right, grid)?;
        self.operated(binary, span, left, right, grid)
    }

    /// The value of one operator over its operands.
    fn operated(
        &mut self,
        binary: &Binary,
        span: Span,
        left: Output,
        right: Output,
        grid: Grid,
    ) -> Result<Output, Error> {
        match (left, right) {
            (Output::Scalar(left), Output::Scalar(right)) => {
                let apply = |(a, b): (&f64, &f64)| scalar_operation(binary.op, *a, *b);
                let numbers = Numbers::new(&self.memory, grid.count, left.iter().zip(&*right).map(apply))?;
                Ok(Output::Scalar(numbers))
            }
            (Output::Vector(rows), Output::Scalar(numbers)) => self.with_scalar(binary, rows, &numbers, false, span),
            (Output::Scalar(numbers), Output::Vector(rows)) => self.with_scalar(binary, rows, &numbers, true, span),
            (Output::Vector(left), Output::Vector(right)) => {
                let Some(matching) = &binary.matching else {
                    return Err(Error::evaluate("an operator between vectors has no matching"));
                };
                let rows = if binary.op.is_set() {
                    set_operation(&self.memory, binary.op, left, right, matching, grid.count)?
                } else {
                    self.matched(binary, matching, left, right, span, grid.count)?
                };
                self.check_size(&rows)?;
                Ok(Output::Vector(rows))
            }
            _ => Err(Error::Evaluate { message: "operator not allowed on strings".to_owned(), span: Some(span) }),
        }
    }

    /// A vector and a scalar; `swapped` when the scalar is on the left.
    fn with_scalar(
        &mut self,
        binary: &Binary,
        mut rows: Vec<Row>,
        numbers: &[f64],
        swapped: bool,
        span: Span,
    ) -> Result<Output, Error> {
        let op = binary.op;
        let _notes = self.memory.charge(numbers.len() * size_of::<Option<Annotation>>())?;
        let mut reported = vec![None; numbers.len()];
        for row in &mut rows {
            for ((cell, number), reported) in row.cells.iter_mut().zip(numbers).zip(&mut reported) {
                let Some(point) = cell.take() else { continue };
                match operate_scalar(binary, point, *number, swapped, span) {
                    Ok(outcome) => *cell = outcome,
                    Err(note) => *reported = Some(note),
                }
            }
        }
        reported.into_iter().flatten().for_each(|note| self.note(note));
        rows.retain(|row| !row.is_blank());
        if changes_meaning(op) || binary.return_bool {
            rows = self.nameless(rows)?;
        }
        Ok(Output::Vector(rows))
    }

    fn matched(
        &mut self,
        binary: &Binary,
        matching: &Matching,
        left: Vec<Row>,
        right: Vec<Row>,
        span: Span,
        steps: usize,
    ) -> Result<Vec<Row>, Error> {
        let swapped = matching.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let memory = Arc::clone(&self.memory);
        let mut signatures = Signatures::new(&memory)?;
        let many_numbers = signatures.of(&many, matching)?;
        let one_numbers = signatures.of(&one, matching)?;
        // Flags of each row or signature at each instant, three times; and an annotation for each instant.
        let flags = (many.len() + one.len()).saturating_mul(3 * FLAGS_BYTES + steps / 2);
        let held = memory.charge(flags.saturating_add(steps * size_of::<Option<Annotation>>()))?;
        let mut join = Join {
            held,
            memory: &memory,
            binary,
            matching,
            swapped,
            span,
            steps,
            out: Vec::new(),
            at: HashMap::new(),
            matched: vec![Steps::none(steps); signatures.count()],
            inserted: HashMap::new(),
            notes: vec![None; steps],
            delayed: self.options.delayed_name_removal,
        };
        join.check_one_side(&many, &one, &one_numbers)?;
        let mut groups = vec![Vec::new(); signatures.count()];
        for (row, number) in one.iter().zip(&one_numbers) {
            groups[*number].push(row);
        }
        let fills = (matching.fill_left, matching.fill_right);
        let (fill_many, fill_one) = if swapped { (fills.1, fills.0) } else { fills };
        for (row, number) in many.iter().zip(&many_numbers) {
            self.check_cancelled()?;
            join.many_row(row, &groups[*number], *number, fill_one)?;
        }
        if let Some(fill) = fill_many {
            for (row, number) in one.iter().zip(&one_numbers) {
                join.unmatched_one(row, *number, fill)?;
            }
        }
        let Join { out, notes, .. } = join;
        notes.into_iter().flatten().for_each(|note| self.note(note));
        Ok(out.into_iter().filter(|row| !row.is_blank()).collect())
    }
}

/// One join of two vectors. "one" is the side whose signatures are unique, "many" the other.
struct Join<'a> {
    held: Charge,
    memory: &'a Arc<Memory>,
    binary: &'a Binary,
    matching: &'a Matching,
    /// The "one" side is on the left.
    swapped: bool,
    span: Span,
    steps: usize,
    out: Vec<Row>,
    at: HashMap<Labels, usize>,
    /// For each signature the instants at which a pair was found.
    matched: Vec<Steps>,
    /// For many-to-one: the instants at which a signature has produced a result row.
    inserted: HashMap<(usize, usize), Steps>,
    /// The annotation of the last pair at each instant: one is enough, as in Prometheus.
    notes: Vec<Option<Annotation>>,
    delayed: bool,
}

impl Join<'_> {
    /// Two rows of one signature at one instant on the "one" side are an error. Of all such pairs the first of the
    /// earliest instant is reported, as by an engine that evaluates instant by instant.
    fn check_one_side(&self, many: &[Row], one: &[Row], numbers: &[usize]) -> Result<(), Error> {
        let fills = self.matching.fill_left.is_some() || self.matching.fill_right.is_some();
        let mut relevant = Steps::none(self.steps);
        many.iter().for_each(|row| relevant.fill(row));
        let mut seen: HashMap<usize, (Steps, Vec<&Row>)> = HashMap::new();
        let mut first: Option<(usize, &Row, &Row)> = None;
        for (row, number) in one.iter().zip(numbers) {
            let (held, rows) = seen.entry(*number).or_insert_with(|| (Steps::none(self.steps), Vec::new()));
            let before = first.map_or(self.steps, |(step, ..)| step);
            let clash = (0..before)
                .find(|step| row.cells[*step].is_some() && held.get(*step) && (fills || relevant.get(*step)));
            if let Some(step) = clash {
                let other = rows.iter().find(|other| other.cells[step].is_some()).map_or(row, |other| *other);
                first = Some((step, row, other));
            }
            held.fill(row);
            rows.push(row);
        }
        let Some((_, row, other)) = first else { return Ok(()) };
        let side = if self.swapped { "left" } else { "right" };
        let group = signature(&row.labels, self.matching);
        let (row, other) = (row.labels.braced(), other.labels.braced());
        Err(Error::evaluate(format!(
            "found duplicate series for the match group {} on the {side} hand-side of the operation: \
             [{row}, {other}];many-to-many matching not allowed: matching labels must be unique on one side",
            group.braced()
        )))
    }

    fn many_row(&mut self, row: &Row, ones: &[&Row], number: usize, fill: Option<f64>) -> Result<(), Error> {
        let mut found = Steps::none(self.steps);
        for other in ones {
            let target = self.target(&row.labels, &other.labels)?;
            for step in 0..self.steps {
                if let (Some(many), Some(one)) = (&row.cells[step], &other.cells[step]) {
                    self.pair(many, one, number, target, step)?;
                }
            }
            found.union(&Steps::filled(other));
        }
        if let Some(fill) = fill {
            let labels = signature(&row.labels, self.matching);
            let target = self.target(&row.labels, &labels)?;
            for step in 0..self.steps {
                if let (Some(many), false) = (&row.cells[step], found.get(step)) {
                    self.pair(many, &Point::Float(fill), number, target, step)?;
                }
            }
        }
        Ok(())
    }

    /// Pairs the instants at which a "one" row found no match with a number.
    fn unmatched_one(&mut self, row: &Row, number: usize, fill: f64) -> Result<(), Error> {
        let labels = signature(&row.labels, self.matching);
        let target = self.target(&labels, &row.labels)?;
        for step in 0..self.steps {
            if let (Some(one), false) = (&row.cells[step], self.matched[number].get(step)) {
                self.pair(&Point::Float(fill), one, number, target, step)?;
            }
        }
        Ok(())
    }

    /// Index of the result row of a pair of rows. A comparison that filters keeps a name that an operator below it had
    /// marked for removal, as Prometheus does with delayed name removal.
    fn target(&mut self, many: &Labels, one: &Labels) -> Result<usize, Error> {
        let labels = result_labels(many, one, self.binary, self.matching, self.delayed)?;
        let drop_name = self.binary.return_bool;
        if let Some(target) = self.at.get(&labels) {
            return Ok(*target);
        }
        self.out.push(Row::blank(self.memory, labels.clone(), drop_name, self.steps)?);
        self.at.insert(labels, self.out.len() - 1);
        Ok(self.out.len() - 1)
    }

    fn pair(&mut self, many: &Point, one: &Point, number: usize, target: usize, step: usize) -> Result<(), Error> {
        let (left, right) = if self.swapped { (one, many) } else { (many, one) };
        let (value, keep) = match operate(self.binary.op, left, right, self.span) {
            Outcome::Refused(note) => {
                self.notes[step] = Some(note);
                return Ok(());
            }
            Outcome::Done { value, keep, notes } => {
                if let Some(note) = notes.into_iter().next() {
                    self.notes[step] = Some(note);
                }
                (value, keep)
            }
        };
        let again = self.matched[number].replace(step);
        if self.matching.cardinality == Cardinality::OneToOne {
            if again {
                let message =
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)";
                return Err(Error::evaluate(message));
            }
        } else {
            if !self.inserted.contains_key(&(number, target)) {
                self.held.grow(FLAGS_BYTES + self.steps / 8)?;
            }
            let inserted = self.inserted.entry((number, target)).or_insert_with(|| Steps::none(self.steps));
            if inserted.replace(step) {
                let message = "multiple matches for labels: grouping labels must ensure unique matches";
                return Err(Error::evaluate(message));
            }
        }
        let cell = match (self.binary.return_bool, keep) {
            (true, keep) => Point::Float(f64::from(u8::from(keep))),
            (false, true) => value,
            (false, false) => return Ok(()),
        };
        let row = &mut self.out[target];
        if row.cells[step].is_some() {
            return Err(Error::evaluate(SAME_LABELSET));
        }
        row.put(step, Some(cell))
    }
}

fn result_labels(
    many: &Labels,
    one: &Labels,
    binary: &Binary,
    matching: &Matching,
    delayed: bool,
) -> Result<Labels, Error> {
    let mut labels = if changes_meaning(binary.op) || (binary.return_bool && !delayed) {
        without_metadata(many)
    } else {
        many.clone()
    };
    if matching.cardinality == Cardinality::OneToOne {
        labels = labels.filtered(|name| matching.labels.iter().any(|label| label == name) == matching.on);
    }
    for name in &matching.include {
        labels = with_label(&labels, name, one.get(name))?;
    }
    Ok(labels)
}

/// Whether the result is no longer the metric of the operand.
const fn changes_meaning(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Atan2, Divide, Modulo, Multiply, Power, Subtract};
    matches!(op, Add | Subtract | Multiply | Divide | Modulo | Power | Atan2)
}

fn set_operation(
    memory: &Arc<Memory>,
    op: BinaryOp,
    left: Vec<Row>,
    right: Vec<Row>,
    matching: &Matching,
    steps: usize,
) -> Result<Vec<Row>, Error> {
    let mut signatures = Signatures::new(memory)?;
    let left_numbers = signatures.of(&left, matching)?;
    let right_numbers = signatures.of(&right, matching)?;
    let _flags = memory.charge(signatures.count().saturating_mul(FLAGS_BYTES + steps / 8))?;
    let present = |rows: &[Row], numbers: &[usize]| {
        let mut present = vec![Steps::none(steps); signatures.count()];
        rows.iter().zip(numbers).for_each(|(row, number)| present[*number].fill(row));
        present
    };
    let masked = |rows: Vec<Row>, numbers: &[usize], flags: &[Steps], keep: bool| -> Vec<Row> {
        let mut rows = rows;
        for (row, number) in rows.iter_mut().zip(numbers) {
            for (step, cell) in row.cells.iter_mut().enumerate() {
                if flags[*number].get(step) != keep {
                    *cell = None;
                }
            }
        }
        rows.retain(|row| !row.is_blank());
        rows
    };
    Ok(match op {
        BinaryOp::And => masked(left, &left_numbers, &present(&right, &right_numbers), true),
        BinaryOp::Unless => masked(left, &left_numbers, &present(&right, &right_numbers), false),
        _ => {
            let others = masked(right, &right_numbers, &present(&left, &left_numbers), false);
            merged(left.into_iter().chain(others).collect())?
        }
    })
}

/// The result of an operator for two points.
enum Outcome {
    /// The operator does not support these kinds: no result, and an annotation.
    Refused(Annotation),
    /// A value, and whether a comparison holds.
    Done { value: Point, keep: bool, notes: Vec<Annotation> },
}

/// The result of an operator between a vector's element and a number; an annotation when it does not support the two.
fn operate_scalar(
    binary: &Binary,
    point: Point,
    number: f64,
    swapped: bool,
    span: Span,
) -> Result<Option<Point>, Annotation> {
    let op = binary.op;
    let number = Point::Float(number);
    let outcome = if swapped { operate(op, &number, &point, span) } else { operate(op, &point, &number, span) };
    match outcome {
        Outcome::Refused(note) => Err(note),
        Outcome::Done { value, keep, .. } => Ok(match (binary.return_bool, keep) {
            (true, keep) => Some(Point::Float(f64::from(u8::from(keep)))),
            // A comparison keeps the vector's element, on whichever side it is.
            (false, true) if op.is_comparison() => Some(point),
            (false, true) => Some(value),
            (false, false) => None,
        }),
    }
}

fn done(value: f64) -> Outcome {
    Outcome::Done { value: Point::Float(value), keep: true, notes: Vec::new() }
}

fn done_histogram(value: Hist) -> Outcome {
    Outcome::Done { value: Point::Histogram(Arc::new(value)), keep: true, notes: Vec::new() }
}

fn operate(op: BinaryOp, left: &Point, right: &Point, span: Span) -> Outcome {
    let name = |point: &Point| if matches!(point, Point::Float(_)) { "float" } else { "histogram" };
    let refused = || Outcome::Refused(annotate::incompatible_types(span, name(left), op, name(right)));
    match (left, right) {
        (Point::Float(a), Point::Float(b)) => match op {
            BinaryOp::TrimUpper | BinaryOp::TrimLower => refused(),
            _ if op.is_comparison() => {
                Outcome::Done { value: left.clone(), keep: compare(op, *a, *b), notes: Vec::new() }
            }
            _ => done(arithmetic(op, *a, *b)),
        },
        (Point::Float(a), Point::Histogram(b)) if op == BinaryOp::Multiply => {
            done_histogram(changed(b, |b| scale(b, *a)))
        }
        (Point::Histogram(a), Point::Float(b)) => match op {
            BinaryOp::Multiply => done_histogram(changed(a, |a| scale(a, *b))),
            BinaryOp::Divide => done_histogram(changed(a, |a| divide(a, *b))),
            BinaryOp::TrimUpper => done_histogram(changed(a, |a| trim(a, *b, Keep::Below))),
            BinaryOp::TrimLower => done_histogram(changed(a, |a| trim(a, *b, Keep::Above))),
            _ => refused(),
        },
        (Point::Histogram(a), Point::Histogram(b)) => match op {
            BinaryOp::Add | BinaryOp::Subtract => combine(op, a, b, span),
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let keep = equal(a, b) == (op == BinaryOp::Equal);
                Outcome::Done { value: left.clone(), keep, notes: Vec::new() }
            }
            _ => refused(),
        },
        _ => refused(),
    }
}

fn changed(histogram: &Hist, change: impl Fn(&mut Hist)) -> Hist {
    let mut out = histogram.clone();
    change(&mut out);
    out.compact();
    out
}

fn combine(op: BinaryOp, left: &Hist, right: &Hist, span: Span) -> Outcome {
    let mut value = left.clone();
    let (outcome, operation) = if op == BinaryOp::Add {
        (add(&mut value, right), Operation::Addition)
    } else {
        (subtract(&mut value, right), Operation::Subtraction)
    };
    let Ok(combined) = outcome else { return Outcome::Refused(annotate::incompatible_layout(span, op)) };
    if op == BinaryOp::Subtract {
        value.reset = CounterReset::Gauge;
    }
    value.compact();
    let mut notes = Vec::new();
    if combined.collision {
        notes.push(annotate::reset_collision(span, operation));
    }
    if combined.reconciled {
        notes.push(annotate::reconciled_bounds(span, operation));
    }
    Outcome::Done { value: Point::Histogram(Arc::new(value)), keep: true, notes }
}

fn arithmetic(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo => a % b,
        BinaryOp::Power => a.powf(b),
        BinaryOp::Atan2 => a.atan2(b),
        // The parser allows no other operator between numbers.
        _ => f64::NAN,
    }
}

const fn compare(op: BinaryOp, a: f64, b: f64) -> bool {
    match op {
        BinaryOp::Equal => a == b,
        BinaryOp::NotEqual => a != b,
        BinaryOp::Less => a < b,
        BinaryOp::LessOrEqual => a <= b,
        BinaryOp::Greater => a > b,
        _ => a >= b,
    }
}

fn scalar_operation(op: BinaryOp, a: f64, b: f64) -> f64 {
    if op.is_comparison() { f64::from(u8::from(compare(op, a, b))) } else { arithmetic(op, a, b) }
}
