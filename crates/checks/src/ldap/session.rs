//! A connection to a directory server, with one request at a time.
//!
//! Limits: those of `messages`.

use tokio::io::{AsyncWriteExt, BufReader};

use super::messages::{self, ANSWER_BYTES_MAX, EXTENDED_RESPONSE, Message, Outcome, frame};
use crate::greeting::nothing_behind;
use crate::net::Stream;
use crate::run::{Failure, Reason};

/// A connection and what came over it.
pub(super) struct Session {
    stream: BufReader<Box<dyn Stream>>,
    /// The number of the last request.
    id: i32,
    /// How many bytes of answers it may still read.
    left: usize,
    /// The code of the last result.
    pub(super) code: Option<i32>,
}

impl Session {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream), id: 0, left: ANSWER_BYTES_MAX, code: None }
    }

    /// Asks for TLS; whatever follows is its handshake.
    pub(super) async fn start_tls(mut self) -> Result<Box<dyn Stream>, Failure> {
        self.send(&messages::start_tls()).await?;
        let outcome = self.outcome(EXTENDED_RESPONSE).await?;
        if outcome.code != 0 {
            return Err(Failure::new(Reason::Tls, format!("the server refuses StartTLS: {outcome}")));
        }
        nothing_behind(&self.stream)?;
        Ok(self.stream.into_inner())
    }

    pub(super) async fn send(&mut self, operation: &[u8]) -> Result<(), Failure> {
        self.id += 1;
        self.stream.write_all(&messages::request(self.id, operation)).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next message that answers the last request.
    pub(super) async fn next(&mut self) -> Result<Message, Failure> {
        let message = Message::parse(frame(&mut self.stream, &mut self.left).await?)?;
        match message.id {
            0 => Err(message.notice()),
            id if id == self.id => Ok(message),
            id => {
                let sentence = format!("the server answers message {id}, and the request was message {}", self.id);
                Err(Failure::new(Reason::Protocol, sentence))
            }
        }
    }

    /// The result of the last request, which has one message of this tag.
    pub(super) async fn outcome(&mut self, tag: u8) -> Result<Outcome, Failure> {
        let message = self.next().await?;
        if message.tag != tag {
            return Err(message.unexpected());
        }
        self.ended(&message)
    }

    /// The result in a message.
    pub(super) fn ended(&mut self, message: &Message) -> Result<Outcome, Failure> {
        let outcome = message.outcome()?;
        self.code = Some(outcome.code);
        Ok(outcome)
    }
}
