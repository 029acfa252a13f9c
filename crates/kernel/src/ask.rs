//! Questions written by the user and answered in the kernel: a probe, a filter, an aggregation, and keys.
//!
//! - [`parse`]: the text of a question; [`compile`]: its instructions, using the kernel's [`Types`].
//! - `Observer`: the programs that answer it.
//!
//! Limits: [`KEYS_MAX`] keys of 31 bytes, 128 steps, 16 nested calls of a function. Keys beyond the number of groups
//! requested count as other. Failure: a [`Mistake`] has its position in the text; what the kernel refuses is a
//! [`crate::Error`] with the kernel's reason.

#[cfg(feature = "bpf")]
mod btf;
mod code;
mod compiler;
mod lexer;
mod mistake;
#[cfg(feature = "bpf")]
mod observer;
mod parser;
#[cfg(feature = "bpf")]
mod programs;
mod record;
mod syntax;
#[cfg(feature = "bpf")]
mod tracefs;
mod types;
mod usdt;

pub use compiler::{Compiled, KeyKind, compile};
pub use mistake::Mistake;
#[cfg(feature = "bpf")]
pub use observer::{Group, Key, Losses, Observer, Options, compile_here};
pub use parser::{KEYS_MAX, TEXT_MAX, parse};
#[cfg(feature = "bpf")]
pub use programs::found;
pub use record::fields as record_fields;
pub use syntax::{Probe, Question, Verb};
pub use types::{RecordField, Shape, Site, Types, Usdt};
pub use usdt::{Argument, Machine, Operand};
