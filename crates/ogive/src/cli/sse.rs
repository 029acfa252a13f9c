//! Server-Sent Events as a command reads them.
//!
//! Limits: [`LINE_BYTES_MAX`] a line.

use std::io::{BufRead as _, BufReader, Read};
use std::ops::ControlFlow;
use std::time::Duration;

/// 10 minutes: then the stream is resumed on a new connection, so that a connection that died silently costs no more.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// 250 ms before the next attempt, then twice as long each time.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// 15 s at most.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(15);
/// 1 MiB and the name of its field: a cell of 46,082 bins, or the greatest value of an expression.
const LINE_BYTES_MAX: u64 = (1 << 20) + 64;

/// One event: its name, its id and its data.
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<i64>,
    pub(super) data: String,
}

/// Passes each event of a stream to `each` until that breaks; otherwise returns why the stream ended.
pub(super) fn read<B>(
    stream: impl Read,
    mut each: impl FnMut(Event) -> anyhow::Result<ControlFlow<B>>,
) -> anyhow::Result<ControlFlow<B, String>> {
    let ended = |why: String| Ok(ControlFlow::Continue(why));
    let mut stream = BufReader::new(stream);
    let (mut name, mut id, mut data) = (String::new(), None, String::new());
    loop {
        let mut line = Vec::new();
        match stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return ended("the stream ended".into()),
            Ok(_) if !line.ends_with(b"\n") => return ended("the stream ended within a line".into()),
            Ok(_) => {}
            Err(error) => return ended(format!("the stream broke off: {error}")),
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(text) = line.strip_prefix("event:") {
            text.trim().clone_into(&mut name);
        } else if let Some(text) = line.strip_prefix("id:") {
            id = text.trim().parse().ok();
        } else if let Some(text) = line.strip_prefix("data:") {
            data.push_str(text.trim_start());
        } else if line.is_empty() {
            let (name, id) = (std::mem::take(&mut name), id.take());
            if !data.is_empty()
                && let ControlFlow::Break(over) = each(Event { name, id, data: std::mem::take(&mut data) })?
            {
                return Ok(ControlFlow::Break(over));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> (Vec<String>, String) {
        let mut seen = Vec::new();
        let over = read(text.as_bytes(), |event| {
            seen.push(format!("{} {:?} {}", event.name, event.id, event.data));
            Ok(if event.name == "last" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        let over = match over.unwrap() {
            ControlFlow::Break(()) => "over".to_owned(),
            ControlFlow::Continue(why) => why,
        };
        (seen, over)
    }

    #[test]
    fn events_come_with_their_names_and_ids() {
        let text =
            ":\n\nevent: value\nid: 7\ndata: {}\n\nevent: gap\r\ndata: 1\r\n\r\nevent: last\ndata: 2\n\ndata: 3\n\n";
        let expected = ["value Some(7) {}", "gap None 1", "last None 2"].map(str::to_owned).to_vec();
        assert_eq!(seen(text), (expected, "over".to_owned()));
        assert_eq!(seen("data: 1\n"), (Vec::new(), "the stream ended".to_owned()));
        assert_eq!(seen("data: 1"), (Vec::new(), "the stream ended within a line".to_owned()));
    }
}
