//! What a live observation fills: the measures always, and what is printed instead of their table.

use std::io::{self, BufWriter, Stdout};

use ogive_wire::operation::Namer;
use ogive_wire::{Exchange, Finding, Output, Path, Reason, Summary as Connection, TcpEvent, TlsEvent, Unanswered};

use super::exchanges::Exchanges;
use super::measures::Measures;
use super::summary::Summary;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// Nothing: a role has no terminal.
    Nothing,
    /// The table, redrawn in a terminal, and at the end.
    Table,
    /// Each exchange once it is certain.
    Exchanges,
    /// At the end, totals and a list by connection.
    Summary { as_json: bool },
}

/// Receives what the observers report.
pub(super) struct Sinks {
    pub(super) measures: Measures,
    exchanges: Option<Exchanges<BufWriter<Stdout>>>,
    pub(super) summary: Option<Summary>,
    has_begun: bool,
}

impl std::fmt::Debug for Sinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sinks").field("measures", &self.measures).finish_non_exhaustive()
    }
}

impl Sinks {
    pub(super) fn new(namer: Namer, exemplars: usize, show: OutputMode) -> Self {
        Self {
            measures: Measures::new(namer, exemplars),
            exchanges: (show == OutputMode::Exchanges).then(|| Exchanges::new(BufWriter::new(io::stdout()))),
            summary: matches!(show, OutputMode::Summary { .. }).then(Summary::default),
            has_begun: false,
        }
    }

    /// A frame arrived at `at`: times of exchanges count from the first.
    pub(super) fn frame(&mut self, at: i64) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(exchanges) = &mut self.exchanges
        {
            exchanges.start(at);
        }
    }

    /// Writes the output so far; returns whether the reader is still there.
    pub(super) fn flush(&mut self) -> bool {
        self.exchanges.as_mut().is_none_or(Exchanges::flush)
    }

    /// Completes what is printed while the observation runs.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.exchanges.take().map_or(Ok(()), Exchanges::finish)
    }

    fn each(&mut self, mut tell: impl FnMut(&mut dyn Output)) {
        tell(&mut self.measures);
        if let Some(exchanges) = &mut self.exchanges {
            tell(exchanges);
        }
        if let Some(summary) = &mut self.summary {
            tell(summary);
        }
    }
}

impl Output for Sinks {
    fn answered(&mut self, path: &Path, exchange: &Exchange) {
        self.each(|output| output.answered(path, exchange));
    }

    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        self.each(|output| output.unanswered(path, exchange, why));
    }

    fn discarded(&mut self, path: &Path, exchange: &Exchange, reason: Reason) {
        self.each(|output| output.discarded(path, exchange, reason));
    }

    fn connected(&mut self, path: &Path, took: i64, at: i64) {
        self.each(|output| output.connected(path, took, at));
    }

    fn finding(&mut self, finding: &Finding) {
        self.each(|output| output.finding(finding));
    }

    fn closed(&mut self, summary: &Connection) {
        self.each(|output| output.closed(summary));
    }

    fn tls(&mut self, path: &Path, event: &TlsEvent<'_>) {
        self.each(|output| output.tls(path, event));
    }

    fn tcp(&mut self, path: &Path, protocol: Option<&'static str>, event: TcpEvent) {
        self.each(|output| output.tcp(path, protocol, event));
    }
}
