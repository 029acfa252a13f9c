//! Left-deep runs of binary operators: `a or b or c or ..`.
//!
//! Generated queries chain thousands of operands. Such a run does not count as nesting: tree walks iterate over its
//! links, so that stack use depends on real nesting only.

use super::{Binary, Expr, ExprKind, Number, Span};

/// `base op right op right ..` with left-associative operators.
pub struct Chain<'a> {
    /// The first operand, which is not itself a binary expression.
    pub base: &'a Expr,
    /// The operators with their right operands, in the order of evaluation, and the span of everything up to each.
    pub links: Vec<(&'a Binary, Span)>,
}

impl Expr {
    /// The chain of operators that ends in this node; None when it is not a binary expression.
    #[must_use]
    pub fn chain(&self) -> Option<Chain<'_>> {
        let (mut base, mut links) = (self, Vec::new());
        while let ExprKind::Binary(binary) = &base.kind {
            links.push((&**binary, base.span));
            base = &binary.left;
        }
        links.reverse();
        (!links.is_empty()).then_some(Chain { base, links })
    }

    /// This node and all below it; parents come before their children, and siblings in their order.
    pub fn nodes(&self) -> impl Iterator<Item = &Self> {
        let mut waiting = vec![self];
        std::iter::from_fn(move || {
            let next = waiting.pop()?;
            waiting.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// A placeholder for a node that was taken out.
    const fn nothing() -> Self {
        Self { kind: ExprKind::Number(Number { value: 0.0, duration: false }), span: Span { start: 0, end: 0 } }
    }
}

impl Drop for Binary {
    /// Takes a chain apart link by link: recursive drops would need a stack as deep as the chain is long.
    fn drop(&mut self) {
        let mut left = std::mem::replace(&mut self.left, Expr::nothing());
        while let ExprKind::Binary(binary) = &mut left.kind {
            let below = std::mem::replace(&mut binary.left, Expr::nothing());
            left = below;
        }
    }
}
