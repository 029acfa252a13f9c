//! FlatBuffers without generated code: a reader that checks each access, and a writer.
//!
//! Format: little-endian; a table begins with a signed offset back to its vtable (`u16` bytes of the vtable, `u16`
//! bytes of the table, then a `u16` a field: where in the table it stands, 0 for one that is not there). Vectors and
//! strings have a `u32` length before them and are reached by a `u32` offset forward.
//! Invariants: no access outside the buffer, none before it was checked; verification and reading are one pass.
//! Limits: offsets may lead to one place many times, so that a small buffer could unfold to gigabytes: what is read is
//! charged to a multiple of the buffer's length.

mod reader;
mod writer;

pub use reader::{Buffer, Malformed, Table, Vector};
pub use writer::{Node, Writer};
