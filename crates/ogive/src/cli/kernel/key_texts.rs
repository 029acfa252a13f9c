//! The keys and losses of a question, as its table, its JSON and its series name them.

use ogive_kernel::ask::{Compiled, Group, Key, KeyKind, Losses};

/// The value of a key as people read it, and as a label.
fn key_text(key: &Key, kind: KeyKind) -> String {
    match (key, kind) {
        (Key::Text(text), _) => text.clone(),
        (Key::Number(number), KeyKind::Address) => format!("{:#x}", number.cast_unsigned()),
        (Key::Number(number), _) => number.to_string(),
    }
}

/// The values of a group's keys; `other` for each of what found no place.
pub(super) fn key_texts(question: &Compiled, group: &Group) -> Vec<String> {
    let kinds = question.keys.iter().map(|(_, kind)| *kind);
    match &group.key {
        Some(keys) => keys.iter().zip(kinds).map(|(key, kind)| key_text(key, kind)).collect(),
        None => kinds.map(|_| "other".to_owned()).collect(),
    }
}

/// Events that are not counted, by kind.
pub(super) fn lost(losses: &Losses) -> [(&'static str, u64); 4] {
    [
        ("unreadable", losses.unreadable),
        ("unmatched", losses.unmatched),
        ("untracked", losses.untracked),
        ("missed", losses.missed),
    ]
}
