//! Delivery of alerts: what waits for each destination, when it is due, and the requests and messages that carry it.
//!
//! - [`Outbox`]: what waits for one destination, to be kept over restarts; pure, with the time as an argument.
//! - [`Sender`]: sends what is due. Files with secrets are read for each message, by the function that is given.
//!
//! Invariants: nothing is handed out before the state that it is of is saved; what was not taken is handed out again.
//! Limits: [`ALERTS_MAX`] alerts a destination, beyond which the oldest goes and is counted; [`BATCH`] a request;
//! [`TIMEOUT`] for an answer.
#![forbid(unsafe_code)]

mod answer;
mod body;
mod destination;
mod email;
mod grouping;
mod heartbeat;
mod http;
mod mute;
mod notice;
mod outbox;
mod queue;
mod send;
mod text;

pub use answer::{Answer, TIMEOUT};
pub use destination::{Destination, DestinationError, Email, ReadFile, Security};
pub use grouping::{Grouping, Groups, Notification};
pub use heartbeat::{Heartbeat, Pulse};
pub use mute::{Maintenance, Matchers, SILENCES_MAX, Silence, Silences, exactly};
pub use notice::{Notice, TENANT_LABEL};
pub use outbox::{Batch, Counts, Outbox, PersistedOutbox};
pub use queue::{ALERTS_MAX, BATCH};
pub use send::Sender;
