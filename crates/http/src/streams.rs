//! Places of live streams: who comes when all are taken gets the oldest one of whoever has most.
//!
//! Whether a stream is read cannot be told: minutes of it find room on the way. So nobody can keep others out by opening streams and
//! leaving them, and who has most loses first. A stream that had to go says after what time its reader may come back
//! ([`AGAIN_MS`]), which browsers keep to, so that too many readers take turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use ogive_model::Tenant;
use tokio::sync::{Notify, mpsc};

use super::App;
use super::peer::Asker;
use crate::web::{Denied, Evicted, LoginFailure, Need};

/// 15 s: with 65 readers of 64 places one of them misses a quarter of a minute.
const AGAIN_MS: u64 = 15_000;
/// 1 s: a token that was revoked reads no longer than that.
const JUDGE_AGAIN: Duration = Duration::from_secs(1);

/// Holds a stream to its place and to the login that began it.
pub(super) struct Guard {
    app: App,
    login: HeaderMap,
    tenant: Tenant,
    place: StreamPlace,
}

impl Guard {
    /// Of a stream that was let in.
    pub(super) fn new(app: &App, asker: Option<Extension<Asker>>, headers: &HeaderMap, tenant: &Tenant) -> Self {
        let (place, is_evicting) = app.limits.streams.take(asker.map(|Extension(asker)| asker).unwrap_or_default());
        if is_evicting {
            app.web.evicted(Evicted::Stream);
        }
        let given = headers.get_all(header::AUTHORIZATION).iter();
        let login = given.map(|value| (header::AUTHORIZATION, value.clone())).collect();
        Self { app: app.clone(), login, tenant: tenant.clone(), place }
    }

    /// Does `work` until it is over, another needs the place, or the login ends; then says so as the last event.
    pub(super) async fn run(self, sender: mpsc::Sender<Bytes>, work: impl Future<Output = ()>) {
        let last = tokio::select! {
            () = work => return,
            why = self.ended() => last_words(&why),
            () = self.place.evicted() => {
                format!("retry: {AGAIN_MS}\n{}", last_words("others needed the place of this stream"))
            }
        };
        // Who does not read hears nothing.
        let _ = sender.try_send(format!("\n{last}").into());
    }

    /// Returns when whoever began the stream may not go on: their token has expired or is not known any more, or may do less.
    async fn ended(&self) -> String {
        loop {
            tokio::time::sleep(JUDGE_AGAIN).await;
            match self.app.web.who(&self.login, self.app.clock.wall() / 1_000_000).await {
                Ok(Some(grant))
                    if !grant.allow.has(Need::Read)
                        || grant.tenant.as_ref().is_some_and(|bound| *bound != self.tenant) =>
                {
                    return format!("{:?} may not read this any more", grant.name);
                }
                Ok(_) | Err(Denied { why: LoginFailure::Busy, .. }) => {}
                Err(Denied { why, message }) => {
                    self.app.web.turned_away(why);
                    return message;
                }
            }
        }
    }
}

fn last_words(error: &str) -> String {
    format!("event: error\ndata: {}\n\n", serde_json::json!({"error": error}))
}

/// See the module.
pub(super) struct Streams {
    most: usize,
    /// The oldest first.
    all: Mutex<Vec<Arc<Stream>>>,
}

struct Stream {
    asker: Asker,
    evicted: Notify,
}

/// The place of a stream, until it is dropped.
pub(super) struct StreamPlace {
    streams: Arc<Streams>,
    stream: Arc<Stream>,
}

impl Streams {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, all: Mutex::default() })
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Stream>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for `asker`, and whether another stream had to go.
    pub(super) fn take(self: &Arc<Self>, asker: Asker) -> (StreamPlace, bool) {
        let mut all = self.all();
        let is_full = all.len() >= self.most;
        if is_full {
            let mut of_asker: HashMap<&Asker, usize> = HashMap::new();
            all.iter().for_each(|stream| *of_asker.entry(&stream.asker).or_default() += 1);
            // Where others have as many, who comes gives of their own.
            let weight = |stream: &Arc<Stream>| (of_asker[&stream.asker], stream.asker == asker);
            let most = all.iter().map(weight).max();
            let at = all.iter().position(|stream| Some(weight(stream)) == most).expect("all places are taken");
            all.remove(at).evicted.notify_one();
        }
        let stream = Arc::new(Stream { asker, evicted: Notify::new() });
        all.push(stream.clone());
        assert!(all.len() <= self.most, "{} streams", all.len());
        (StreamPlace { streams: self.clone(), stream }, is_full)
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.all().len()
    }
}

impl StreamPlace {
    /// Returns when another needs the place.
    pub(super) async fn evicted(&self) {
        self.stream.evicted.notified().await;
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.streams.all().retain(|stream| !Arc::ptr_eq(stream, &self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_most_gives_the_oldest() {
        let streams = Streams::new(4);
        let take = |name: &str| streams.take(Asker { name: Some(name.into()), ..Asker::default() });
        let (many, few): (Vec<_>, Vec<_>) = ((0..3).map(|_| take("many").0).collect(), vec![take("few").0]);
        let (second, is_evicting) = take("few");
        assert!(is_evicting);
        many[0].evicted().await;
        // Two and two: who comes gives of their own.
        let (third, _) = take("few");
        few[0].evicted().await;
        assert_eq!(streams.taken(), 4);
        drop((many, few, second, third));
        assert_eq!(streams.taken(), 0);
    }
}
