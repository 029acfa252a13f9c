//! The Forward protocol of Fluentd and Fluent Bit, version 1: messages of entries, each a time and a record.
//!
//! Format: MessagePack. A message is `[tag, time, record, option]`, `[tag, [[time, record]...], option]`, or `[tag,
//! bytes, option]` with the entries behind each other in the bytes, perhaps as gzip; the option may be missing. The
//! stored form is in [`entry`].
//! Invariants: an entry is a sample or one [`Fault`](crate::lines::Fault).
//! Limits: those of [`message`] and [`entry`].
//! Failure: what makes no sense is a [`MessageError`](error::MessageError); the stream is not read further.

pub mod entry;
pub mod error;
pub mod handshake;
pub mod message;
mod record;

#[cfg(test)]
mod tests;
