//! Keys of rows that are not those of a series.

/// What a node wrote within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManifestKey {
    /// Minutes since 1970.
    pub(crate) minute: i32,
    pub(crate) writer: u128,
}

/// A part of a day's label index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardKey {
    /// Days since 1970.
    pub(crate) day: i32,
    pub(crate) shard: i16,
}
