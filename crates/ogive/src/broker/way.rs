//! The ways to a destination: HTTP, a request at a time and connection; or AMQP, many batches at once over each.

use std::path::Path;
use std::sync::Arc;

use ogive_broker::{Most, Target};
use ogive_export::Outcome;
use ogive_model::MonoNs;

use super::config::Destination;
use super::link::Link;

/// 1,000,000 bytes of frames in a request, before compression: below the MiB that proxies accept by default, and a
/// second on a link of 8 Mbit/s.
const REQUEST_BYTES_MAX: usize = 1_000_000;

/// See the module.
pub(super) enum Route {
    Http(Box<Link>),
    #[cfg(feature = "amqp")]
    Amqp(Box<ogive_amqp::Sender>),
}

/// 1,024 batches: half of what a server confirms at once, so that two senders keep it busy.
#[cfg(feature = "amqp")]
const GROUP: usize = 1_024;
/// 8 MiB of them.
#[cfg(feature = "amqp")]
const GROUP_BYTES_MAX: usize = 8 << 20;

impl Route {
    /// Reads the files that the destination names.
    pub(super) fn open(destination: &Destination, read: fn(&Path) -> std::io::Result<Vec<u8>>) -> anyhow::Result<Self> {
        #[cfg(feature = "amqp")]
        if let Some(output) = destination.queue() {
            let sender = ogive_amqp::Sender::new(output, crate::cli::files::FILES, destination.timeout())?;
            return Ok(Self::Amqp(Box::new(sender)));
        }
        Link::open(destination, read).map(|link| Self::Http(Box::new(link)))
    }

    /// How much is sent together at most: `now` of the `most` batches of a request, depending on earlier results.
    pub(super) const fn most(&self, now: usize, most: usize) -> Most {
        match self {
            Self::Http(_) => Most { jobs: if now < most { now } else { most }, bytes: REQUEST_BYTES_MAX },
            // A batch that the server never accepts is isolated, as over HTTP.
            #[cfg(feature = "amqp")]
            Self::Amqp(_) => Most { jobs: if now < most { now } else { GROUP }, bytes: GROUP_BYTES_MAX },
        }
    }

    /// Whether each address of a name is a separate endpoint.
    pub(super) const fn spreads(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// Closes the connections to addresses that no target has.
    pub(super) fn keep(&self, targets: &[Target]) {
        match self {
            Self::Http(link) => link.keep(targets),
            #[cfg(feature = "amqp")]
            Self::Amqp(_) => {}
        }
    }

    /// Sends frames to an endpoint; returns the answer for each, and the bytes of the bodies.
    pub(super) fn send(
        &self,
        target: &Target,
        frames: &[Arc<[u8]>],
        now: MonoNs,
        tell: &(dyn Fn(&str) + Sync),
    ) -> (Vec<Outcome>, usize) {
        match self {
            Self::Http(link) => {
                let _ = tell;
                link.send(target, frames, now)
            }
            #[cfg(feature = "amqp")]
            Self::Amqp(sender) => {
                let url = &target.url;
                let (confirmed, why) = sender.send(url, frames, tell);
                let why = why.unwrap_or_else(|| "not confirmed".into());
                let said = |at: usize| match at < confirmed {
                    true => Outcome::Answered(ogive_export::Answer::default()),
                    false => Outcome::Later { after: None, in_doubt: true, detail: format!("{url}: {why}") },
                };
                ((0..frames.len()).map(said).collect(), frames.iter().map(|frame| frame.len()).sum())
            }
        }
    }
}
