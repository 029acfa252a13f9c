//! memcached: the statistics returned by `stats` of the text protocol; each one that is a number is stored.
//!
//! Format: memcached's doc/protocol.txt, "General-purpose statistics".
//! Limits: [`STATISTICS_MAX`].

use tokio::io::{AsyncWriteExt, BufReader};

use super::lines;
use super::net::{Network, Stream};
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, Trust};

/// 1,000 statistics; memcached 1.6 has about 100.
const STATISTICS_MAX: usize = 1_000;

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    place: &HostAndPort,
    trust: Option<&Trust>,
) -> Result<(), Failure> {
    let mut stream = BufReader::new(network.open(run, place, trust).await?);
    run.phase("query");
    for (name, value) in statistics(&mut stream).await? {
        run.labelled("ogive_check_memcached", "", &[("statistic", &name)], value);
    }
    Ok(())
}

/// The statistics that are numbers.
pub(super) async fn statistics(stream: &mut BufReader<Box<dyn Stream>>) -> Result<Vec<(String, f64)>, Failure> {
    stream.write_all(b"stats\r\n").await?;
    stream.flush().await?;
    let mut out = Vec::new();
    for _ in 0..STATISTICS_MAX {
        let line = lines::next(stream, "memcached's protocol").await?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["END"] => return Ok(out),
            ["STAT", name, ref value @ ..] => {
                if let [value] = value
                    && let Some(value) = value.parse().ok().filter(|value: &f64| value.is_finite())
                {
                    out.push((name.to_owned(), value));
                }
            }
            ["ERROR" | "CLIENT_ERROR" | "SERVER_ERROR", ..] => {
                return Err(Failure::new(Reason::Status, format!("the server says {line:?}")));
            }
            _ => return Err(Failure::new(Reason::Protocol, format!("{line:?} is no statistic"))),
        }
    }
    Err(Failure::new(Reason::Limit, format!("the server has more than {STATISTICS_MAX} statistics")))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn found(text: &str) -> Result<Vec<(String, f64)>, Reason> {
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        let stream: Box<dyn Stream> = Box::new(tokio::io::join(bytes, tokio::io::sink()));
        statistics(&mut BufReader::new(stream)).await.map_err(|failure| failure.reason)
    }

    #[tokio::test]
    async fn numbers_are_taken_and_words_are_not() {
        let text = "STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT rusage_user 0.25\r\nSTAT odd\r\nSTAT nan nan\r\nEND\r\n";
        assert_eq!(found(text).await, Ok(vec![("pid".into(), 7.0), ("rusage_user".into(), 0.25)]));
        for (text, reason) in [
            ("", Reason::Closed),
            ("STAT a 1", Reason::Protocol),
            ("SERVER_ERROR out of memory\r\n", Reason::Status),
            ("+OK\r\n", Reason::Protocol),
            (&"STAT a 1\r\n".repeat(STATISTICS_MAX + 1), Reason::Limit),
            (&"x".repeat(5_000), Reason::Protocol),
        ] {
            assert_eq!(found(text).await, Err(reason), "{text:.20}");
        }
    }
}
