//! Each exchange as a JSON object a line.

use std::io::{self, Write};

use ogive_wire::{Exchange, Finding, Output, Path, Reason, Span, Summary, Unanswered};
use serde_json::{Map, Value, json};

/// Writes exchanges as they are reported.
pub(super) struct Exchanges<W: Write> {
    out: W,
    t0: i64,
    failed: Option<io::Error>,
}

impl<W: Write> Exchanges<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, t0: 0, failed: None }
    }

    /// Times count from the first frame.
    pub(super) fn start(&mut self, at: i64) {
        self.t0 = at;
    }

    /// Flushes; the first error of writing, unless the reader had enough.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match self.failed.map_or_else(|| self.out.flush(), Err) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Writes what is buffered; returns whether the reader is still there.
    pub(super) fn flush(&mut self) -> bool {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        self.failed.is_none()
    }

    fn row(&self, path: &Path, exchange: &Exchange) -> Map<String, Value> {
        let mut row = Map::new();
        row.insert("conn".to_owned(), json!(path.to_string()));
        row.insert("proto".to_owned(), json!(exchange.protocol));
        row.insert("op".to_owned(), json!(exchange.op));
        self.add("req", exchange.request, &mut row);
        row
    }

    fn add(&self, name: &str, span: Span, row: &mut Map<String, Value>) {
        row.insert(format!("{name}_bytes"), json!(span.bytes));
        row.insert(format!("t_{name}_first"), json!(span.first.map(|at| at - self.t0)));
        row.insert(format!("t_{name}_last"), json!(span.last.map(|at| at - self.t0)));
    }

    fn write(&mut self, row: Map<String, Value>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{}", Value::Object(row)).err();
        }
    }
}

impl<W: Write> Output for Exchanges<W> {
    fn answered(&mut self, path: &Path, exchange: &Exchange) {
        let mut row = self.row(path, exchange);
        self.add("rsp", exchange.response, &mut row);
        row.insert("status".to_owned(), json!(exchange.status));
        row.insert("n".to_owned(), json!(exchange.number));
        self.write(row);
    }

    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        let mut row = self.row(path, exchange);
        row.insert("unanswered".to_owned(), json!(true));
        row.insert("why".to_owned(), json!(why.name()));
        self.write(row);
    }

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, _reason: Reason) {}

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, _finding: &Finding) {}

    fn closed(&mut self, _summary: &Summary) {}
}
