//! The rule of a histogram's bins as a text, for tables.
//!
//! Format: `log-linear-10`; `exp2/SCALE`; `custom/BOUND,BOUND`; `log-linear-2/GROUPING/SHIFT/UNIT`;
//! `gamma/GAMMA/OFFSET`. Numbers have the shortest digits that give them back.

use ogive_hist::Scheme;

/// The text of a scheme.
#[must_use]
pub(crate) fn write(scheme: &Scheme) -> String {
    match scheme {
        Scheme::LogLinear10 => "log-linear-10".into(),
        Scheme::Exp2 { scale } => format!("exp2/{scale}"),
        Scheme::Custom { bounds } => {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            format!("custom/{}", bounds.join(","))
        }
        Scheme::LogLinear2 { grouping, shift, unit } => format!("log-linear-2/{grouping}/{shift}/{unit}"),
        Scheme::Gamma { gamma, offset } => format!("gamma/{gamma}/{offset}"),
    }
}

/// The scheme of a text.
#[must_use]
pub(crate) fn parse(text: &str) -> Option<Scheme> {
    let (name, rest) = text.split_once('/').unwrap_or((text, ""));
    let mut parts = rest.split('/');
    let mut number = || parts.next()?.parse::<f64>().ok();
    match name {
        "log-linear-10" => Some(Scheme::LogLinear10),
        "exp2" => Scheme::exp2(rest.parse().ok()?).ok(),
        "custom" => {
            let bounds: Option<Vec<f64>> =
                rest.split(',').filter(|bound| !bound.is_empty()).map(|bound| bound.parse().ok()).collect();
            Scheme::custom(bounds?).ok()
        }
        "log-linear-2" => {
            let (grouping, shift, unit) = (number()?, number()?, number()?);
            Scheme::log_linear2(grouping as u8, shift as u8, unit).ok()
        }
        "gamma" => Scheme::gamma(number()?, number()?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_come_back() {
        for scheme in [
            Scheme::LogLinear10,
            Scheme::exp2(-3).unwrap(),
            Scheme::custom([-0.1, 1.0 / 3.0, 1e300]).unwrap(),
            Scheme::custom([]).unwrap(),
            Scheme::log_linear2(10, 3, 1e-9).unwrap(),
            Scheme::gamma(1.02, 0.5).unwrap(),
        ] {
            assert_eq!(parse(&write(&scheme)), Some(scheme));
        }
        for text in
            ["", "exp2", "exp2/x", "exp2/99", "custom/2,1", "custom/NaN", "log-linear-2/1", "gamma/0/0", "other"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
