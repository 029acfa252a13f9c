//! The embedded storage engine: a journal, a head in memory, immutable blocks with a label index, and the manifest that
//! names the live ones. [`Store`] is the whole; `ingest` is its writing side.
#![forbid(unsafe_code)]

mod bell;
mod bytes;
mod class;
mod codec;
mod deletions;
mod error;
mod first;
mod frame;
mod heads;
mod keep;
mod layout;
mod ledger;
mod opened;
mod order;
mod reader;
mod retention_clock;
mod roll;
mod series_request;
mod sway;
mod view;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod keep_tests;
#[cfg(test)]
mod listing_tests;
#[cfg(test)]
mod point_tests;
#[cfg(test)]
mod series_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod time_tests;
#[cfg(test)]
mod upkeep_tests;

pub mod block;
pub mod blocks;
pub mod findings;
pub mod ingest;
pub mod manifest;
mod manifest_files;
pub mod merge;
pub mod offline_audit;
pub mod record;
mod reserve;
pub mod retention;
pub mod rolled;
pub mod scrub;
pub mod snapshot;
pub mod store;
pub mod tombstone;
pub mod transfer;
pub mod window;

pub use block::{Block, BlockId, BlockMeta, Budget};
pub use blocks::Blocks;
pub use class::Class;
pub use deletions::Deletions;
pub use error::Error;
pub use findings::StoredFinding;
pub use ingest::stats::{Recovered, Status};
pub use ingest::{Audience, TenantLimits, Watch};
pub use ingest::{Clock, Followed, Follower, ManualClock, Observer, Options, Refusal, Reply};
pub use manifest::Manifest;
pub use merge::{Clash, merge};
pub use retention::{Keep, Retention};
pub use scrub::{Scrubbed, scrub};
pub use snapshot::SnapshotInfo;
pub use store::{Store, TenantView};
pub use tombstone::{DeletionScope, Tombstone};
pub use window::Window;
