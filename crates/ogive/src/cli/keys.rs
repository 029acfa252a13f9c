//! What a person does at a live table: keys, and a terminal of another size.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// To end: `q`, Escape or Ctrl-C.
    End,
    /// What this key stands for.
    Key(char),
    /// To draw again: the terminal has another size.
    Draw,
}

impl Request {
    /// What an event asks for, if anything.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) => match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Self::End),
                KeyCode::Char('q') | KeyCode::Esc => Some(Self::End),
                KeyCode::Char(pressed) => Some(Self::Key(pressed)),
                _ => None,
            },
            Event::Resize(..) => Some(Self::Draw),
            _ => None,
        }
    }

    /// The next one, if it comes within `wait`.
    pub(crate) fn within(wait: Duration) -> io::Result<Option<Self>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        Ok(Self::from_event(&event::read()?))
    }
}
