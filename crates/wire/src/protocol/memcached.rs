//! Memcached: text and meta commands, and the binary protocol.
//!
//! Answers come in order. Commands that say `noreply`, and `quit`, have none by design. A quiet command is answered
//! only when there is news: an answer is its when it carries its opaque or key; quiet ones that an answer passes by had
//! none by design; and an answer that could be any quiet one's loses the place, rather than being given to one of them.
//!
//! A value whose length is wrong is read as the server reads it: the declared length and two bytes more, and what
//! follows is a command.

mod binary;
mod text;

use self::binary::Binary;
use self::text::Text;
use super::framed::Framed;
use crate::decoder::{Context, Decoder, Detection, Protocol, Side, Step};
use crate::exchange::Exchanges;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "memcached", ports: &[11_211], detect, new: || Box::<Memcached>::default() };

/// The variant that a connection uses, known from its first byte.
#[derive(Default)]
enum Memcached {
    #[default]
    Unknown,
    Text(Text),
    Binary(Framed<Binary>),
}

impl Decoder for Memcached {
    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        loop {
            match self {
                Self::Text(text) => return text.step(side, view, cx),
                Self::Binary(binary) => return binary.step(side, view, cx),
                Self::Unknown => match view.first() {
                    None => return Step::Need(1),
                    Some(0x80 | 0x81) => *self = Self::Binary(Framed::new(Binary::default())),
                    Some(_) => *self = Self::Text(Text::default()),
                },
            }
        }
    }

    fn closed(&mut self, side: Side, clean: bool, cx: &mut Context<'_>) {
        match self {
            Self::Text(text) => text.closed(side, cx),
            Self::Binary(binary) => binary.closed(side, clean, cx),
            Self::Unknown => {}
        }
    }

    fn lost(&mut self, _side: Side, _exchanges: &mut Exchanges) {
        *self = Self::Unknown;
    }

    fn said_goodbye(&self) -> bool {
        matches!(self, Self::Text(text) if text.has_quit())
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        match self {
            Self::Unknown => binary::is_message(side, bytes) || text::is_message(side, bytes),
            Self::Text(_) => text::is_message(side, bytes),
            Self::Binary(_) => binary::is_message(side, bytes),
        }
    }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match bytes[0] {
        0x80 | 0x81 if bytes.len() < binary::HEADER => Detection::More,
        0x80 | 0x81 if binary::is_message(side, bytes) => Detection::Likely,
        0x80 | 0x81 => Detection::No,
        _ => text::detect(side, bytes),
    }
}
