//! The same run, measured into a server: each second's cells and each slow order whole go there, and the questions are
//! asked there.

use crate::engine::{self, Fault};
use ogive_export::{Error, Exporter};
use std::time::Duration;

/// What is in flight when the run ends is waited for this long.
const LAST: Duration = Duration::from_secs(10);

/// Runs the engine; gives what was sent.
pub(crate) fn run(server: &str, fault: Fault, time: Duration) -> Result<String, Error> {
    run_and_wait(server, fault, time, LAST)
}

fn run_and_wait(server: &str, fault: Fault, time: Duration, last: Duration) -> Result<String, Error> {
    let exporter = Exporter::builder(server).label("service", "exchange").label("fault", fault.name()).start()?;
    let (source, recorder) = engine::recorder(fault);
    exporter.cells().traces(&[], &recorder)?;
    exporter.cells().clock()?;
    let (orders, trades) = engine::drive(source, &recorder, fault, time, || ());
    let status = exporter.shutdown(last);
    let (sent, dropped) = (status.acknowledged, status.dropped_sum());
    let mut text = format!(
        "{orders} orders, {trades} trades; the server has {} cells with {} times in {} batches",
        sent.cells, sent.records, sent.batches
    );
    if !dropped.is_zero() || !status.waiting.is_zero() {
        let why = status.last_error.unwrap_or_default();
        text += &format!("; not there: {} cells, {} in doubt ({why})", dropped.cells, status.in_doubt.cells);
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_stops_nothing_and_is_named() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = format!("http://{}", nobody.expect("a port is to be had"));
        let some = Duration::from_millis(50);
        let text = run_and_wait(&address, Fault::None, some, some).expect("it runs");
        assert!(text.contains("the server has 0 cells") && text.contains(&address), "{text}");
        assert!(matches!(run("exchange", Fault::None, some), Err(Error::Address { .. })));
    }
}
