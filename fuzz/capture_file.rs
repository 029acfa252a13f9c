//! A whole capture file made of fuzzed bytes, read and observed: `tests/smoke.rs` of `ogive-wire` uses it too.

use ogive_wire::{Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, TlsEvent, Unanswered, file};

/// What came of a file.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) frames: u64,
    pub(crate) connections: u64,
    pub(crate) exchanges: u64,
    pub(crate) handshakes: u64,
}

impl Output for Observed {
    fn answered(&mut self, _: &Path, exchange: &Exchange) {
        assert!(exchange.request.is_timed() && exchange.response.is_timed(), "{exchange:?}");
        self.exchanges += 1;
    }

    fn unanswered(&mut self, _: &Path, _: &Exchange, _: Unanswered) {}

    fn discarded(&mut self, _: &Path, _: &Exchange, _: Reason) {}

    fn connected(&mut self, _: &Path, _: i64, _: i64) {}

    fn finding(&mut self, finding: &Finding) {
        assert!(!finding.kind.title().is_empty());
    }

    fn closed(&mut self, summary: &Summary) {
        assert!(summary.is_conserved(), "{summary:?}");
        self.connections += 1;
    }

    fn tls(&mut self, _: &Path, event: &TlsEvent<'_>) {
        self.handshakes += u64::from(matches!(event, TlsEvent::Handshake(_)));
    }
}

/// Reads `bytes` as a capture file and observes what is in it, as far as it can be read.
///
/// # Panics
/// When the reader or the observer does, or when what it saw does not add up.
pub(crate) fn observe(bytes: &[u8]) -> Observed {
    let mut observed = Observed::default();
    let Ok(mut reader) = file::open(bytes) else { return observed };
    let mut observer = Observer::new(Options::default());
    while let Ok(Some(frame)) = reader.next_frame() {
        observer.frame(&frame, &mut observed);
    }
    observer.finish(&mut observed);
    observed.frames = observer.totals().frames;
    assert_eq!(observer.held_bytes(), 0, "nothing waits at the end");
    observed
}
