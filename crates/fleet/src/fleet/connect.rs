//! The server's side of connections through brokers: whom to ask, and who answers.

use super::{Fleet, no_broker, now_ms};
use crate::dials::{Arrival, Connection, Dialing, Refusal};
use crate::error::Error;
use crate::secret::sha256;
use crate::target::Target;
use crate::watch::Watch;
use crate::wire::Connect;

impl Fleet {
    /// Asks `broker` for a connection to `target` in the name of `by`, and waits for it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, broker: &str, target: &Target, by: &str) -> Result<Connection, Refusal> {
        self.connection(broker, Connect::from_target(target, by)).await
    }

    /// Asks `broker` to show what comes to it in the name of `by`, and waits for the connection that carries it: lines
    /// of [`WatchColumn`](crate::WatchColumn).
    ///
    /// # Errors
    /// Why there is none.
    pub async fn watch(&self, broker: &str, watch: Watch, by: &str) -> Result<Connection, Refusal> {
        self.connection(broker, Connect::from_watch(watch, by)).await
    }

    async fn connection(&self, broker: &str, request: Connect) -> Result<Connection, Refusal> {
        let connection = match self.dial(broker, request) {
            Ok(dialing) => dialing.wait().await,
            Err(refusal) => Err(refusal),
        };
        connection.inspect_err(|refusal| {
            self.counters.fleet.count("ogive_fleet_connections_refused_total", ("reason", refusal.reason));
        })
    }

    fn dial(&self, broker: &str, request: Connect) -> Result<Dialing, Refusal> {
        let state = self.state();
        let member = state.members.get(broker);
        let member = member.ok_or_else(|| Refusal::new("unknown", no_broker(broker).to_string()))?;
        if member.enrolment.revoked.is_some() {
            return Err(Refusal::new("revoked", format!("the broker {broker:?} was revoked")));
        }
        if !member.is_coming(now_ms(self.clock)) {
            let message = format!("the broker {broker:?} is not connected; `ogive fleet brokers` shows since when");
            return Err(Refusal::new("away", message));
        }
        let dialing = self.dials.add(broker, request)?;
        member.wake.notify_one();
        Ok(dialing)
    }

    /// The broker that shows `token` answers the request `id`: its name, and to whom the answer goes.
    ///
    /// # Errors
    /// The token is not accepted, or nobody waits for the answer any more.
    pub fn arrive(&self, token: &str, id: &str, now_ms: i64) -> Result<(String, Arrival), Error> {
        let name = self.state().admitted(&sha256(token), now_ms).map(|member| member.enrolment.name.clone());
        let name = name.inspect_err(|error| self.count(error))?;
        let arrival = self.dials.arrive(&name, id);
        let arrival = arrival.ok_or_else(|| Error::Unknown("nobody waits for this connection any more".into()))?;
        Ok((name, arrival))
    }

    /// When the broker enrolled; none when it was revoked or is not there. A connection through it ends when this
    /// changes.
    pub fn enrolled_ms(&self, broker: &str) -> Option<i64> {
        let state = self.state();
        let enrolment = state.members.get(broker).map(|member| &member.enrolment);
        enrolment.filter(|enrolment| enrolment.revoked.is_none()).map(|enrolment| enrolment.enrolled_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ogive_journal::{Disk as _, SimulatedDisk};
    use ogive_probe::Clock;

    use super::*;
    use crate::credential::NewTicket;
    use crate::spread::Spread;
    use crate::wire::{Enrol, Poll};

    const TOKEN: &str = "ogb_secret";

    /// A fleet with a broker `a` that has not polled.
    fn fleet() -> Fleet {
        let disk = Arc::new(SimulatedDisk::new(1));
        disk.create_dir_all(std::path::Path::new("/one")).unwrap();
        let clock = Clock::manual(1_000_000_000, 1_700_000_000_000_000_000);
        let fleet =
            Fleet::open(disk, vec!["/one/fleet".into()], |_| Ok(()), |_| Ok(Spread::default()), Arc::default(), clock);
        let fleet = fleet.unwrap();
        let wanted: NewTicket = serde_json::from_str(r#"{"group":"edge"}"#).unwrap();
        let (_, ticket) = fleet.ticket(&wanted, "amy", now_ms(clock)).unwrap();
        let enrol = Enrol { ticket, name: "a".into(), token_sha256: sha256(TOKEN) };
        fleet.enrol(&serde_json::to_vec(&enrol).unwrap(), now_ms(clock)).unwrap();
        fleet
    }

    #[tokio::test]
    async fn a_poll_brings_the_request_and_the_answer_the_connection() {
        let fleet = Arc::new(fleet());
        let (clock, target) = (fleet.clock, Target::parse("db:5432").unwrap());
        let refused = async |broker: &str| fleet.connect(broker, &target, "amy").await.err().unwrap().reason;
        assert_eq!((refused("b").await, refused("a").await), ("unknown", "away"));
        let poll = async || {
            let poll = Poll { at_once: true, ..Poll::default() };
            fleet.poll(TOKEN, poll, String::new(), false, clock).await.unwrap()
        };
        assert!(poll().await.connects.is_empty());
        let asking = fleet.clone();
        let connecting = tokio::spawn(async move {
            let target = Target::parse("db:5432").unwrap();
            asking.connect("a", &target, "amy").await.map(|connection| connection.place)
        });
        let connects = loop {
            tokio::task::yield_now().await;
            let connects = poll().await.connects;
            if !connects.is_empty() {
                break connects;
            }
        };
        assert_eq!((&*connects[0].target, &*connects[0].by, connects.len()), ("db:5432", "amy", 1));
        assert!(poll().await.connects.is_empty());
        let id = &connects[0].id;
        assert!(matches!(fleet.arrive("ogb_other", id, now_ms(clock)), Err(Error::Denied { .. })));
        let (name, arrival) = fleet.arrive(TOKEN, id, now_ms(clock)).ok().unwrap();
        assert_eq!(name, "a");
        arrival.connected(Box::new(tokio::io::duplex(1).0));
        assert!(connecting.await.unwrap().is_ok());
        assert!(matches!(fleet.arrive(TOKEN, id, now_ms(clock)), Err(Error::Unknown(_))));
        assert!(fleet.enrolled_ms("a").is_some() && fleet.enrolled_ms("b").is_none());
        fleet.revoke("a", "amy", now_ms(clock)).unwrap();
        assert_eq!((fleet.enrolled_ms("a"), refused("a").await), (None, "revoked"));
    }
}
