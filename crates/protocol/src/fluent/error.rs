//! Why a connection of the Forward protocol makes no sense any more.

use crate::msgpack::MsgpackError;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// No value of MessagePack begins like this.
    #[error("the bytes are not MessagePack")]
    Msgpack,
    /// Lists and maps inside each other beyond the limit.
    #[error("lists and maps are nested more than 128 deep")]
    Depth,
    /// A value that is no message of the protocol.
    #[error("a value is no message: give [tag, time, record], [tag, entries] or [tag, bytes], and an option")]
    Form,
    /// A message beyond the limit.
    #[error("a message has more than 33554432 bytes; send smaller chunks (chunk_limit_size)")]
    TooLarge,
    /// Entries that are compressed in a way that is not known.
    #[error("the entries are neither text nor gzip")]
    CompressionUnknown,
    /// Compressed entries that are cut or damaged.
    #[error("the compressed entries are cut or damaged")]
    Compression,
    /// Compressed entries beyond the limit.
    #[error("the compressed entries expand to more than 268435456 bytes")]
    Expanded,
    /// The entries end inside one of them.
    #[error("the entries end inside an entry")]
    Cut,
    /// More entries than a message may have.
    #[error("a message has more than 1048576 entries")]
    Entries,
    /// A client that does not know the shared key.
    #[error("the client did not log in with the shared key")]
    Login,
}

impl MessageError {
    /// The reason that is counted.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Msgpack => "msgpack_invalid",
            Self::Depth => "depth_limit",
            Self::Form => "message_invalid",
            Self::TooLarge => "message_too_large",
            Self::CompressionUnknown => "compression_unknown",
            Self::Compression => "compression_invalid",
            Self::Expanded => "expanded_too_large",
            Self::Cut => "entry_cut",
            Self::Entries => "entries_limit",
            Self::Login => "login_failed",
        }
    }
}

impl From<MsgpackError> for MessageError {
    fn from(error: MsgpackError) -> Self {
        match error {
            MsgpackError::Reserved => Self::Msgpack,
            MsgpackError::Depth => Self::Depth,
            MsgpackError::Cut => Self::Cut,
        }
    }
}
