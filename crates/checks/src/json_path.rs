//! JSON paths: names, positions, wildcards and conditions on a member, in the syntax of RFC 9535.
//!
//! Format: `$.a.b`, `$['a b']`, `$[0]`, `$[-1]`, `$.*`, `$[*]`, `$[?@.name=='x']`, `$[?@.n!=3]`, `$[?@.name]`.
//! Why not all of RFC 9535: the cost of `..`, and of nested queries that start at the root, is the square of the size
//! of what a foreign server sends. Here each part of a path visits each value once.
//! Limits: [`PARTS_MAX`] parts of a path, [`FOUND_MAX`] values for each part.

use std::fmt::Write as _;

use serde_json::Value;

/// 64 parts: half of what the reader of JSON takes as depth.
const PARTS_MAX: usize = 64;
/// 10,000 values: ten times what a run may report.
const FOUND_MAX: usize = 10_000;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Name(String),
    /// From the end where it is below zero.
    Position(i64),
    All,
    /// Those whose member at this path is there and, if anything is, equal to a value or not.
    Where(Vec<String>, Option<(bool, Value)>),
}

/// A value with its location: a node, as RFC 9535 calls it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node<'a> {
    /// A normalized path: it leads to this value alone.
    pub(super) location: String,
    pub(super) value: &'a Value,
}

impl JsonPath {
    /// Reads a path; a sentence where it is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |left: &str| format!("{text:?} is no path such as $.jobs[0].age or $.queues[*].length, at {left:?}");
        let mut left = text.strip_prefix('$').ok_or_else(|| wrong(text))?;
        let mut parts = Vec::new();
        while !left.is_empty() {
            let (part, rest) = part(left).ok_or_else(|| wrong(left))?;
            parts.push(part);
            left = rest;
            if parts.len() > PARTS_MAX {
                return Err(format!("{text:?} has more than {PARTS_MAX} parts"));
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it leads to one value at most.
    pub(super) fn is_single(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Name(_) | Part::Position(_)))
    }

    /// The values that it leads to, in their order.
    ///
    /// # Errors
    /// When there are more than [`FOUND_MAX`].
    pub(super) fn find<'a>(&self, root: &'a Value) -> Result<Vec<Node<'a>>, String> {
        let mut found = vec![Node { location: "$".to_owned(), value: root }];
        for part in &self.parts {
            let mut next = Vec::new();
            for Node { location, value } in &found {
                for (step, value) in part.values_in(value) {
                    if next.len() == FOUND_MAX {
                        return Err(format!("{} leads to more than {FOUND_MAX} values", self.text));
                    }
                    next.push(Node { location: format!("{location}{step}"), value });
                }
            }
            found = next;
        }
        Ok(found)
    }
}

impl Part {
    /// The values that it leads to from one, each with its step.
    fn values_in<'a: 's, 's>(&'s self, value: &'a Value) -> Box<dyn Iterator<Item = (String, &'a Value)> + 's> {
        match self {
            Self::Name(name) => Box::new(value.get(name).map(|value| (step(name), value)).into_iter()),
            Self::Position(position) => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                let from_end = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
                let at = if *position < 0 { list.len().checked_sub(from_end) } else { Some(from_end) };
                let found = at.and_then(|at| Some((format!("[{at}]"), list.get(at)?)));
                Box::new(found.into_iter())
            }
            Self::All => members(value),
            Self::Where(path, condition) => {
                let holds = move |value: &Value| {
                    let member = path.iter().try_fold(value, |value, name| value.get(name));
                    match (member, condition) {
                        (Some(_), None) => true,
                        (Some(member), Some((is_equal, wanted))) => is_same(member, wanted) == *is_equal,
                        (None, Some((is_equal, _))) => !is_equal,
                        (None, None) => false,
                    }
                };
                Box::new(members(value).filter(move |(_, value)| holds(value)))
            }
        }
    }
}

/// The members of a list or an object, each with its step.
fn members(value: &Value) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter().enumerate().map(|(at, value)| (format!("[{at}]"), value))),
        Value::Object(map) => Box::new(map.iter().map(|(name, value)| (step(name), value))),
        _ => Box::new(std::iter::empty()),
    }
}

/// Numbers are the same when their values are: 1 and 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|one| other.as_f64() == Some(one))
}

/// How RFC 9535 writes a step to a member.
fn step(name: &str) -> String {
    let mut out = String::from("['");
    for letter in name.chars() {
        match letter {
            '\'' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => write!(out, "\\u{:04x}", u32::from(letter)).expect("writes to memory"),
            letter => out.push(letter),
        }
    }
    out + "']"
}

/// The first part of what is left of a path, and the rest.
fn part(text: &str) -> Option<(Part, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        return match rest.strip_prefix('*') {
            Some(rest) => Some((Part::All, rest)),
            None => name(rest).map(|(name, rest)| (Part::Name(name), rest)),
        };
    }
    let inside = text.strip_prefix('[')?.trim_start();
    let (part, rest) = if let Some(rest) = inside.strip_prefix('*') {
        (Part::All, rest)
    } else if let Some(rest) = inside.strip_prefix('?') {
        condition(rest)?
    } else if inside.starts_with(['\'', '"']) {
        let (name, rest) = quoted(inside)?;
        (Part::Name(name), rest)
    } else {
        let end = inside.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(inside.len());
        (Part::Position(inside[..end].parse().ok()?), &inside[end..])
    };
    Some((part, rest.trim_start().strip_prefix(']')?))
}

/// `@.a.b`, `@.a == 'x'` or `@.a != 3`.
fn condition(text: &str) -> Option<(Part, &str)> {
    let mut left = text.trim_start().strip_prefix('@')?;
    let mut path = Vec::new();
    while let Some(rest) = left.strip_prefix('.') {
        let (name, rest) = name(rest)?;
        path.push(name);
        left = rest;
    }
    if path.is_empty() || path.len() > PARTS_MAX {
        return None;
    }
    left = left.trim_start();
    let (is_equal, rest) = match (left.strip_prefix("=="), left.strip_prefix("!=")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Some((Part::Where(path, None), left)),
    };
    let rest = rest.trim_start();
    let (value, rest) = if rest.starts_with(['\'', '"']) {
        let (text, rest) = quoted(rest)?;
        (Value::String(text), rest)
    } else {
        let end = rest.find([']', ' '])?;
        (serde_json::from_str(&rest[..end]).ok()?, &rest[end..])
    };
    Some((Part::Where(path, Some((is_equal, value))), rest))
}

/// A name without quotes.
fn name(text: &str) -> Option<(String, &str)> {
    let is_of = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let end = text.find(|letter| !is_of(letter)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

/// A text between quotes of one kind; a backslash takes what is behind it as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut letters = text.char_indices();
    let (_, quote) = letters.next()?;
    let mut out = String::new();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => out.push(letters.next()?.1),
            letter if letter == quote => return Some((out, &text[at + letter.len_utf8()..])),
            letter => out.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(path: &str, value: &Value) -> Vec<String> {
        let path = JsonPath::parse(path).unwrap();
        let nodes = path.find(value).unwrap().into_iter();
        nodes.map(|Node { location, value }| format!("{location} {value}")).collect()
    }

    #[test]
    fn paths_lead_to_values() {
        let value = json!({"a": [{"n": "x", "v": 1}, {"n": "it's", "v": 2.5}, {"v": 3}], "b c": {"d": true}});
        for (path, expected) in [
            ("$['b c'].d", &["$['b c']['d'] true"][..]),
            ("$.a[0].v", &["$['a'][0]['v'] 1"]),
            ("$.a[-1].v", &["$['a'][2]['v'] 3"]),
            ("$.a[-4].v", &[]),
            ("$.a[3]", &[]),
            ("$.a[*].n", &["$['a'][0]['n'] \"x\"", "$['a'][1]['n'] \"it's\""]),
            ("$.a[?@.n=='it\\'s'].v", &["$['a'][1]['v'] 2.5"]),
            ("$.a[?@.v == 1.0 ].v", &["$['a'][0]['v'] 1"]),
            ("$.a[?@.n != 'x'].v", &["$['a'][1]['v'] 2.5", "$['a'][2]['v'] 3"]),
            ("$.a[?@.n].v", &["$['a'][0]['v'] 1", "$['a'][1]['v'] 2.5"]),
            ("$[\"b c\"].*", &["$['b c']['d'] true"]),
            ("$.a.n", &[]),
        ] {
            assert_eq!(found(path, &value), expected, "{path}");
        }
        assert!(JsonPath::parse("$.a[-1]['b']").unwrap().is_single());
        assert!(!JsonPath::parse("$.a[?@.b]").unwrap().is_single());
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "",
            "a",
            "$a",
            "$.",
            "$..a",
            "$[",
            "$[1",
            "$['a]",
            "$[?@]",
            "$[?@.a==]",
            "$[1:2]",
            "$[99999999999999999999]",
        ] {
            assert!(JsonPath::parse(text).unwrap_err().contains("is no path"), "{text}");
        }
        let long = |parts: usize| JsonPath::parse(&format!("${}", ".a".repeat(parts)));
        assert!(long(PARTS_MAX).is_ok());
        assert!(long(PARTS_MAX + 1).unwrap_err().contains("more than 64 parts"));
    }

    #[test]
    fn too_many_values_are_refused() {
        let list = |count: usize| Value::Array(vec![Value::Null; count]);
        let path = JsonPath::parse("$[*]").unwrap();
        assert_eq!(path.find(&list(FOUND_MAX)).unwrap().len(), FOUND_MAX);
        assert!(path.find(&list(FOUND_MAX + 1)).unwrap_err().contains("more than 10000"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_a_sentence(text in r#"\$?([.\[\]'"?@=!*a1\- \\]|é){0,20}"#) {
            if let Ok(path) = JsonPath::parse(&text) {
                let found = path.find(&Value::Null);
                prop_assert!(found.is_ok());
            }
        }

        #[test]
        fn a_place_leads_back_to_its_value(name in "[a'\\\\é \n]{1,5}") {
            let value = json!({ name.clone(): 7 });
            let all = JsonPath::parse("$.*").unwrap();
            let node = all.find(&value).unwrap().remove(0);
            if !name.contains('\n') {
                prop_assert_eq!(node.value, &json!(7));
                prop_assert_eq!(JsonPath::parse(&node.location).unwrap().find(&value).unwrap(), [node]);
            }
        }
    }
}
