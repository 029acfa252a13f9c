//! Binary operators: their precedence and what may stand between operator and right operand.

use super::{Node, OPERATORS_MAX, Parser, named_number};
use crate::ParseError;
use crate::ast::{Binary, BinaryOp, Cardinality, ExprKind, Matching, Span, ValueType};
use crate::lexer::{Symbol, TokenKind};

const POWER_STRENGTH: u8 = 6;

fn strength(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => 1,
        BinaryOp::And | BinaryOp::Unless => 2,
        BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessOrEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterOrEqual
        | BinaryOp::TrimUpper
        | BinaryOp::TrimLower => 3,
        BinaryOp::Add | BinaryOp::Subtract => 4,
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo | BinaryOp::Atan2 => 5,
        BinaryOp::Power => POWER_STRENGTH,
    }
}

fn symbol_op(symbol: Symbol) -> Option<BinaryOp> {
    Some(match symbol {
        Symbol::Equal => BinaryOp::Equal,
        Symbol::NotEqual => BinaryOp::NotEqual,
        Symbol::Less => BinaryOp::Less,
        Symbol::LessOrEqual => BinaryOp::LessOrEqual,
        Symbol::Greater => BinaryOp::Greater,
        Symbol::GreaterOrEqual => BinaryOp::GreaterOrEqual,
        Symbol::TrimUpper => BinaryOp::TrimUpper,
        Symbol::TrimLower => BinaryOp::TrimLower,
        Symbol::Plus => BinaryOp::Add,
        Symbol::Minus => BinaryOp::Subtract,
        Symbol::Star => BinaryOp::Multiply,
        Symbol::Slash => BinaryOp::Divide,
        Symbol::Percent => BinaryOp::Modulo,
        Symbol::Caret => BinaryOp::Power,
        _ => return None,
    })
}

/// What was written between the operator and its right operand.
struct Modifiers {
    return_bool: bool,
    matching: Matching,
    /// Whether there was anything.
    any: bool,
}

impl Parser<'_> {
    /// The operator at this place, when there is one that binds at least as strongly as `least`.
    pub(super) fn binary_op(&self, least: u8) -> Option<BinaryOp> {
        let token = self.peek();
        let op = match token.kind {
            TokenKind::Symbol(symbol) => symbol_op(symbol)?,
            TokenKind::Identifier => {
                let word = self.word(token.span);
                let words = [BinaryOp::And, BinaryOp::Or, BinaryOp::Unless, BinaryOp::Atan2];
                *words.iter().find(|op| word.eq_ignore_ascii_case(op.text()))?
            }
            _ => return None,
        };
        (strength(op) >= least).then_some(op)
    }

    /// The operation of `left` with what follows the operator at this position.
    pub(super) fn binary(&mut self, left: Node, op: BinaryOp) -> Result<Node, ParseError> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let message = format!("the query has more than {OPERATORS_MAX} binary operators");
            return Err(self.error(self.peek().span, message));
        }
        let op_span = self.take().span;
        let modifiers = self.modifiers()?;
        let right = self.expression(if op == BinaryOp::Power { POWER_STRENGTH } else { strength(op) + 1 })?;
        let vectors = [&left.expr, &right.expr].iter().all(|side| side.value_type() == ValueType::Vector);
        self.check_modifiers(op, op_span, left.expr.span, &modifiers, vectors)?;
        let mut matching = modifiers.matching;
        if op.is_set() {
            matching.cardinality = Cardinality::ManyToMany;
        }
        let binary = Binary {
            op,
            return_bool: modifiers.return_bool,
            matching: vectors.then_some(matching),
            left: left.expr,
            right: right.expr,
        };
        let span = binary.left.span.to(binary.right.span);
        // The continuation of a chain is no deeper than the chain.
        let run = matches!(binary.left.kind, ExprKind::Binary(_));
        let below = if run { (left.height - 1).max(right.height) } else { left.height.max(right.height) };
        self.node(below, ExprKind::Binary(Box::new(binary)), span)
    }

    fn modifiers(&mut self) -> Result<Modifiers, ParseError> {
        let start = self.at;
        let return_bool = self.took_keyword("bool");
        let mut matching = Matching {
            cardinality: Cardinality::OneToOne,
            on: false,
            labels: Vec::new(),
            include: Vec::new(),
            fill_left: None,
            fill_right: None,
        };
        let on = self.at_open_keyword("on");
        if on || self.at_open_keyword("ignoring") {
            self.at += 1;
            matching.on = on;
            matching.labels = self.label_list()?;
            self.grouping(&mut matching)?;
        }
        self.fills(&mut matching)?;
        Ok(Modifiers { return_bool, matching, any: self.at > start })
    }

    fn grouping(&mut self, matching: &mut Matching) -> Result<(), ParseError> {
        if self.took_keyword("group_left") {
            matching.cardinality = Cardinality::ManyToOne;
        } else if self.took_keyword("group_right") {
            matching.cardinality = Cardinality::OneToMany;
        } else {
            return Ok(());
        }
        if self.peek().kind == TokenKind::Symbol(Symbol::ParenOpen) {
            matching.include = self.label_list()?;
        }
        Ok(())
    }

    fn fills(&mut self, matching: &mut Matching) -> Result<(), ParseError> {
        loop {
            let span = self.peek().span;
            let (left, right) = if self.at_open_keyword("fill") {
                (true, true)
            } else if self.at_open_keyword("fill_left") {
                (true, false)
            } else if self.at_open_keyword("fill_right") {
                (false, true)
            } else {
                return Ok(());
            };
            self.at += 1;
            let value = self.fill_value()?;
            if (left && matching.fill_left.is_some()) || (right && matching.fill_right.is_some()) {
                return Err(self.error(span, "a side may not be filled twice"));
            }
            if left {
                matching.fill_left = Some(value);
            }
            if right {
                matching.fill_right = Some(value);
            }
        }
    }

    fn fill_value(&mut self) -> Result<f64, ParseError> {
        self.expect(Symbol::ParenOpen)?;
        let value = self.signed_number("fill", "number")?;
        self.expect(Symbol::ParenClose)?;
        Ok(value)
    }

    /// A number with at most one sign; durations count in seconds.
    pub(super) fn signed_number(&mut self, place: &str, expected: &str) -> Result<f64, ParseError> {
        let negative = self.took(Symbol::Minus);
        if !negative {
            self.took(Symbol::Plus);
        }
        let token = self.peek().clone();
        let value = match token.kind {
            TokenKind::Number(value) | TokenKind::Duration(value) => value,
            TokenKind::Identifier => {
                named_number(self.word(token.span)).ok_or_else(|| self.unexpected(place, expected))?
            }
            _ => return Err(self.unexpected(place, expected)),
        };
        self.at += 1;
        Ok(if negative { -value } else { value })
    }

    /// Whether the next tokens are the keyword and an opening parenthesis: alone it may be a metric's name.
    fn at_open_keyword(&self, keyword: &str) -> bool {
        self.at_keyword(keyword) && self.peek_after(1) == &TokenKind::Symbol(Symbol::ParenOpen)
    }

    fn check_modifiers(
        &self,
        op: BinaryOp,
        op_span: Span,
        span: Span,
        found: &Modifiers,
        vectors: bool,
    ) -> Result<(), ParseError> {
        if !found.any {
            return Ok(());
        }
        let matching = &found.matching;
        let filled = matching.fill_left.is_some() || matching.fill_right.is_some();
        let grouped = matching.cardinality != Cardinality::OneToOne;
        if found.return_bool && !op.is_comparison() {
            return Err(self.error(op_span, "bool modifier can only be used on comparison operators"));
        }
        if matching.on
            && let Some(label) = matching.labels.iter().find(|label| matching.include.contains(label))
        {
            let message = format!("label {label:?} must not occur in ON and GROUP clause at once");
            return Err(self.error(op_span, message));
        }
        if !vectors && (!matching.labels.is_empty() || matching.on || grouped) {
            return Err(self.error(span, "vector matching only allowed between instant vectors"));
        }
        if !vectors && filled {
            return Err(self.error(span, "filling in missing series only allowed between instant vectors"));
        }
        if op.is_set() && grouped {
            return Err(self.error(span, format!("no grouping allowed for {:?} operation", op.text())));
        }
        if op.is_set() && filled {
            return Err(self.error(span, "filling in missing series not allowed for set operators"));
        }
        Ok(())
    }
}
