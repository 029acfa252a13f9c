//! Places of live streams: who comes when all are taken gets the oldest one of whoever has most.
//!
//! Whether a stream is read cannot be known: minutes of it find room on the way. So nobody can keep others out by
//! opening streams and leaving them, and who has most loses first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::peer::Asker;

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
            // On a tie, the newcomer replaces a stream of its own.
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
