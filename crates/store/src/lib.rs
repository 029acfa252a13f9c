//! The embedded storage engine: immutable blocks with a label index, and the manifest that names the live ones.
#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod error;

#[cfg(test)]
mod testing;

pub mod block;
pub mod blocks;
pub mod manifest;
pub mod merge;

pub use block::{Block, BlockId, BlockMeta, Budget};
pub use blocks::Blocks;
pub use error::Error;
pub use manifest::Manifest;
pub use merge::merge;
