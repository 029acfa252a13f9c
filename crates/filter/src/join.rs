//! Lines that belong together: those that go on, and the pieces of a container's message.
//!
//! Invariants: lines are joined within their batch and series alone. A line that waited for the next batch would be
//! acknowledged before it is durable.
//! Limits: [`EVENT_BYTES_MAX`] of lines that are joined.

use std::collections::HashMap;

use ogive_search::{Line, Query};
use regex::Regex;

use crate::event::{EVENT_BYTES_MAX, Event};
use crate::parse::{Piece, PieceShape};
use crate::tally::{Outcome, Tally};

/// Which lines are joined.
#[derive(Debug)]
pub(crate) enum Join {
    /// Those that match go on with the line before them.
    Following(Regex),
    /// Pieces of a message that a container runtime has split.
    Pieces,
}

/// Pieces with the same one go together.
#[derive(PartialEq, Eq, Hash)]
struct PieceKey {
    series: usize,
    shape: PieceShape,
    is_stderr: bool,
}

/// The first piece of a message.
struct Head {
    at: usize,
    piece: Piece,
}

impl Join {
    /// Joins lines with the first of them, if that is `wanted`.
    pub(crate) fn apply(&self, events: &mut [Event], wanted: &Query, tally: &Tally) {
        match self {
            Self::Following(expression) => following(expression, events, wanted, tally),
            Self::Pieces => pieces(events, wanted, tally),
        }
    }
}

fn following(expression: &Regex, events: &mut [Event], wanted: &Query, tally: &Tally) {
    let mut heads: HashMap<usize, usize> = HashMap::new();
    for at in 0..events.len() {
        let event = &events[at];
        if event.is_joined {
            continue;
        }
        let head = heads.get(&event.series).copied();
        if let Some(head) = head
            && expression.is_match(&event.text)
            && events[head].text.len() + event.text.len() < EVENT_BYTES_MAX
        {
            let more = std::mem::take(&mut events[at].text);
            events[at].is_joined = true;
            events[head].text.push('\n');
            events[head].text.push_str(&more);
            tally.add(Outcome::Joined, 1);
        } else if wanted.matches(&Line::new(&event.labels, &event.text)) {
            heads.insert(event.series, at);
        } else {
            heads.remove(&event.series);
        }
    }
}

fn pieces(events: &mut [Event], wanted: &Query, tally: &Tally) {
    let mut heads: HashMap<PieceKey, Head> = HashMap::new();
    for at in 0..events.len() {
        let event = &events[at];
        let Some(piece) = Piece::parse(&event.text).filter(|_| !event.is_joined) else { continue };
        let key = PieceKey { series: event.series, shape: piece.shape, is_stderr: piece.is_stderr };
        let head = heads.remove(&key);
        if let Some(mut head) = head
            && events[head.at].text.len() + piece.len() <= EVENT_BYTES_MAX
        {
            let more = std::mem::take(&mut events[at].text);
            events[at].is_joined = true;
            head.piece.append(&mut events[head.at].text, &piece, &more);
            tally.add(Outcome::Joined, 1);
            if !piece.is_last {
                heads.insert(key, head);
            }
        } else if !piece.is_last && wanted.matches(&Line::new(&events[at].labels, &events[at].text)) {
            heads.insert(key, Head { at, piece });
        }
    }
}
