//! The embedded storage engine: immutable blocks with a label index, and the manifest that names the live ones.
#![forbid(unsafe_code)]

mod bytes;
mod error;

pub mod block;
pub mod manifest;

pub use block::{BlockId, BlockMeta};
pub use error::Error;
pub use manifest::Manifest;
