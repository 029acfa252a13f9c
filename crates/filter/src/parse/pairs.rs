//! Names and values with signs of one's own between them: `a: 1; b: 2`.

use serde::Deserialize;

use crate::fields::Fields;

/// The signs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pairs {
    /// Between a name and its value.
    separator: String,
    /// Between pairs.
    between: String,
}

impl Pairs {
    pub(super) fn checked(self) -> Result<Self, String> {
        match self.separator.is_empty() || self.between.is_empty() {
            true => Err("key-value needs a separator (between name and value) and a between (between pairs)".into()),
            false => Ok(self),
        }
    }

    /// Adds every pair; false when there is none.
    pub(super) fn read(&self, line: &str, fields: &mut Fields) -> bool {
        let before = fields.len();
        for pair in line.split(&*self.between) {
            let Some((name, value)) = pair.split_once(&*self.separator) else { continue };
            let (name, value) = (name.trim(), value.trim());
            let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            if !name.is_empty() {
                fields.push(name, inner.unwrap_or(value));
            }
        }
        fields.len() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_ones_own() {
        let pairs = Pairs { separator: ":".into(), between: ";".into() }.checked().unwrap();
        let mut fields = Fields::default();
        assert!(pairs.read("a: 1; b :\"x:y\";; : z; c", &mut fields));
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "x:y")]);
        assert!(!pairs.read("nothing", &mut fields));
        assert!(Pairs { separator: String::new(), between: ";".into() }.checked().is_err());
    }
}
