//! Texts that choose series, and may say nothing else.

use ogive_model::Matcher;

use crate::ast::ExprKind;
use crate::{ParseError, parse};

/// The matchers of a text that is a plain selector, such as `up{job="a"}`; parentheses around it are allowed.
///
/// # Errors
/// Those of [`parse`], and one for any other expression, also for a selector with `offset`, `@`, `anchored` or
/// `smoothed`: whoever reads stored samples has nothing that these could apply to.
pub fn parse_plain_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    let expr = parse(text)?;
    if let Some(matchers) = expr.plain_selector() {
        return Ok(matchers.to_vec());
    }
    let more = match expr.unparenthesised().kind {
        ExprKind::VectorSelector(_) => "; leave out offset, @, anchored and smoothed",
        _ => "",
    };
    let message = format!("it is not a plain selector such as up{{job=\"a\"}}{more}");
    Err(ParseError::new(text, expr.span, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_with_modifiers_is_refused_and_said_to_be_one() {
        for (text, count) in [("up", 1), ("up{a=\"b\",c!=\"d\"}", 3), ("((up))", 1), ("{__name__=~\"a|b\"}", 1)] {
            assert_eq!(parse_plain_selector(text).map(|matchers| matchers.len()), Ok(count), "{text}");
        }
        let plain = "1:1: parse error: it is not a plain selector such as up{job=\"a\"}";
        for text in ["up offset 5m", "up @ 0", "up @ end()", "(up offset -1s)", "up anchored", "up smoothed"] {
            let error = parse_plain_selector(text).unwrap_err().to_string();
            assert_eq!(error, format!("{plain}; leave out offset, @, anchored and smoothed"), "{text}");
        }
        for text in ["sum(up)", "up[5m]", "-up", "1", "\"up\"", "up + up"] {
            assert_eq!(parse_plain_selector(text).unwrap_err().to_string(), plain, "{text}");
        }
        assert!(parse_plain_selector("up{").is_err() && parse_plain_selector("").is_err());
    }
}
