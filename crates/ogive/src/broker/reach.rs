//! Connections through this broker: to targets that its own file permits, relayed over a connection to the server that
//! the broker opens.
//!
//! Invariants: nothing is resolved or connected to before the list of the file has permitted it; the list comes from
//! the file alone. Every request is answered, with a connection or with the reason why there is none, and logged.
//! Threads: a task of the runtime for each connection.
//! Limits: [`BROKER_CONNECTIONS_MAX`], [`DIAL`] until the target is connected, and those of [`Callback`].

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ogive_door::counters::Counters;
use ogive_fleet::{BROKER_CONNECTIONS_MAX, Connect, DIAL, Home, Host, Reachable, Relayed, Target};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::callback::{Callback, asker};
use crate::tunnel;

/// See the module.
pub(super) struct Reach {
    /// The broker.
    name: String,
    /// Its own file.
    file: String,
    permitted: Reachable,
    places: Arc<Semaphore>,
    counters: Arc<Counters>,
    runtime: Handle,
}

impl Reach {
    pub(super) fn new(name: &str, file: &Path, list: &[String], counters: Arc<Counters>, runtime: Handle) -> Self {
        // The file was read with this function; a list that is wrong would permit nothing.
        let permitted = Reachable::parse(list).unwrap_or_default();
        let places = Arc::new(Semaphore::new(BROKER_CONNECTIONS_MAX));
        Self { name: name.to_owned(), file: file.display().to_string(), permitted, places, counters, runtime }
    }

    /// Begins to open a connection.
    pub(super) fn begin(self: &Arc<Self>, request: Connect, home: Home) {
        let this = self.clone();
        self.runtime.spawn(async move { this.serve(request, home).await });
    }

    async fn serve(&self, request: Connect, home: Home) {
        let by = asker(&request);
        let Connect { id, mut target, .. } = request;
        let back = match Callback::new(&home, &id) {
            Ok(back) => back,
            Err(why) => return tracing::error!("fleet: no connection for {by:?}: {why}"),
        };
        let opened = match Target::parse(&target) {
            Ok(parsed) => {
                target = parsed.to_string();
                self.open(&parsed).await
            }
            Err(why) => Err(("not_allowed", why)),
        };
        match opened {
            Ok((stream, place)) => self.carry(stream, place, &back, &format!("{target} for {by:?}")).await,
            Err((reason, text)) => {
                tracing::warn!("fleet: no connection to {target:?} for {by:?}: {text}");
                self.show();
                self.counters.fleet.count("ogive_fleet_connections_refused_total", ("reason", reason));
                back.decline(reason, text).await;
            }
        }
    }

    /// Connects to a target that the list permits; a reason and a sentence otherwise.
    async fn open(&self, target: &Target) -> Result<(TcpStream, OwnedSemaphorePermit), (&'static str, String)> {
        let Self { name, file, .. } = self;
        if !self.permitted.permits(target) {
            let text = format!(
                "the broker {name:?} permits no connection to {target}; it does once {:?} is in connect of [fleet] in its own \
                 file {file}, and it was restarted",
                target.to_string()
            );
            return Err(("not_allowed", text));
        }
        let full = |_| ("limit", format!("the broker {name:?} has {BROKER_CONNECTIONS_MAX} connections; close some"));
        let place = self.places.clone().try_acquire_owned().map_err(full)?;
        let late =
            |_| ("timeout", format!("{target} has not answered the broker {name:?} within {} s", DIAL.as_secs()));
        let stream = tokio::time::timeout(DIAL, dial(target)).await.map_err(late)?;
        let stream = stream.map_err(|(reason, why)| (reason, format!("the broker {name:?} cannot connect: {why}")))?;
        Ok((stream, place))
    }

    /// Relays between the target and the server.
    async fn carry(&self, target: TcpStream, place: OwnedSemaphorePermit, back: &Callback, what: &str) {
        let stream = match back.open().await {
            Ok(stream) => stream,
            Err(why) => {
                drop((target, place));
                self.show();
                return tracing::warn!("fleet: no connection to {what}: {why}");
            }
        };
        tracing::info!("fleet: a connection to {what} is open");
        self.show();
        let Relayed { end, sent, received } = tunnel::relayed(target, "the target", stream).await;
        drop(place);
        self.show();
        tracing::info!("fleet: the connection to {what} is {end}; {received} bytes to it, {sent} bytes from it");
    }

    fn show(&self) {
        let open = BROKER_CONNECTIONS_MAX - self.places.available_permits();
        self.counters.fleet.set("ogive_fleet_connections", ("", ""), open as f64);
    }
}

async fn dial(target: &Target) -> Result<TcpStream, (&'static str, String)> {
    let addresses: Vec<SocketAddr> = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => {
            let found = lookup_host((name.as_str(), target.port)).await;
            found.map_err(|error| ("name", format!("it cannot resolve {name:?}: {error}")))?.collect()
        }
    };
    let stream = TcpStream::connect(&addresses[..]).await.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => ("refused", format!("{target} refuses")),
        _ => ("unreachable", format!("{target}: {error}")),
    })?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_the_file_lists_is_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let list = [address.to_string(), "127.0.0.0/8:1".to_owned()];
        let reach = Reach::new("edge", Path::new("/etc/broker.toml"), &list, Arc::default(), Handle::current());
        let reason = async |target: &str| {
            let target = Target::parse(target).unwrap();
            reach.open(&target).await.map(drop).err().unwrap_or_default()
        };
        assert_eq!(reason(&address.to_string()).await.0, "");
        let (word, text) = reason(&format!("localhost:{}", address.port())).await;
        assert!(
            word == "not_allowed" && text.contains("connect of [fleet]") && text.contains("/etc/broker.toml"),
            "{text}"
        );
        // A port that only root may listen at, of an address that nobody uses.
        assert_eq!(reason("127.9.9.9:1").await.0, "refused");
        // All places are taken.
        let places = reach.places.clone().try_acquire_many_owned(BROKER_CONNECTIONS_MAX as u32).unwrap();
        assert_eq!(reason(&address.to_string()).await.0, "limit");
        drop(places);
        assert_eq!(reason(&address.to_string()).await.0, "");
    }
}
