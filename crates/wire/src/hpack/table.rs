//! The names and tables of HPACK: which headers are read, the static table, and a dynamic table that keeps no more than
//! those.
//!
//! *Limits*: an entry counts with its full size, as the standard says, but only a wanted value is stored, and of it
//! [`VALUE_KEPT`] octets. A table of [`CAPACITY_MAX`] octets has at most 2,048 entries of 40 octets each, so a peer
//! that announces gigabytes costs nothing.

use std::collections::VecDeque;

/// The fields of a header block that are used; all other names are treated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `:method`.
    Method,
    /// `:path`.
    Path,
    /// `:status`.
    Status,
    /// `content-type`: `application/grpc` marks a call.
    ContentType,
    /// `grpc-status`, in the trailers.
    GrpcStatus,
    /// Any other name.
    Other,
}

impl Field {
    /// The field that `name` names.
    pub(crate) fn from_name(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":path" => Self::Path,
            b":status" => Self::Status,
            b"content-type" => Self::ContentType,
            b"grpc-status" => Self::GrpcStatus,
            _ => Self::Other,
        }
    }
}

/// Octets kept of a value: a longer path would be truncated anyway.
pub(super) const VALUE_KEPT: usize = 512;

/// The largest supported dynamic table: sixteen times the default, the maximum that gRPC and browsers announce.
pub(super) const CAPACITY_MAX: usize = 64 << 10;

/// The size of an entry in addition to its name and value (RFC 7541, section 4.1).
const OVERHEAD: usize = 32;

/// An entry of either table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Which header it is.
    pub(super) field: Field,
    /// Octets of its name.
    pub(super) name_length: usize,
    /// Its value, truncated to [`VALUE_KEPT`], and empty for [`Field::Other`].
    pub(super) value: Box<[u8]>,
    /// Octets of its value.
    pub(super) value_length: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.name_length.saturating_add(self.value_length).saturating_add(OVERHEAD)
    }
}

/// Entries of the static table (RFC 7541, appendix A).
pub(super) const STATIC: usize = 61;

/// The wanted entries of the static table, by index.
const WANTED: [(usize, Field, &[u8]); 12] = [
    (2, Field::Method, b"GET"),
    (3, Field::Method, b"POST"),
    (4, Field::Path, b"/"),
    (5, Field::Path, b"/index.html"),
    (8, Field::Status, b"200"),
    (9, Field::Status, b"204"),
    (10, Field::Status, b"206"),
    (11, Field::Status, b"304"),
    (12, Field::Status, b"400"),
    (13, Field::Status, b"404"),
    (14, Field::Status, b"500"),
    (31, Field::ContentType, b""),
];

/// Octets of each name in the static table: an entry made from one of them counts with it.
const NAME_LENGTHS: [u8; STATIC] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4,
    4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

/// The entry of `index` (1 to 61) in the static table.
pub(super) fn static_entry(index: usize) -> Option<(Field, usize, &'static [u8])> {
    let length = usize::from(*NAME_LENGTHS.get(index.checked_sub(1)?)?);
    let wanted = WANTED.iter().find(|(at, ..)| *at == index);
    Some(wanted.map_or((Field::Other, length, b""), |&(_, field, value)| (field, length, value)))
}

/// The dynamic table of one direction.
#[derive(Debug)]
pub(super) struct Dynamic {
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
}

impl Dynamic {
    /// An empty table of the default capacity.
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, capacity: 4_096 }
    }

    /// The entry at `index`, 0 being the newest.
    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Adds `entry`, and evicts the oldest for it; one larger than the table empties it (RFC 7541, section 4.4).
    pub(super) fn insert(&mut self, entry: Entry) {
        let size = entry.size();
        self.evict(self.capacity.saturating_sub(size));
        if size <= self.capacity {
            self.size += size;
            self.entries.push_front(entry);
        }
        assert!(self.size <= self.capacity, "{} octets in a table of {}", self.size, self.capacity);
    }

    /// Changes the capacity, which must be at most [`CAPACITY_MAX`].
    pub(super) fn resize(&mut self, capacity: usize) {
        assert!(capacity <= CAPACITY_MAX, "{capacity} octets");
        self.capacity = capacity;
        self.evict(capacity);
    }

    fn evict(&mut self, target: usize) {
        while self.size > target {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size();
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}
