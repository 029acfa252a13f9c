//! Sends prepared requests over a few connections that stay open, each request when the one before was answered.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};

/// A request that is ready to go.
pub struct Request {
    pub path: &'static str,
    pub headers: &'static str,
    pub body: Vec<u8>,
    pub samples: usize,
}

pub const REMOTE_WRITE: &str =
    "content-type: application/x-protobuf\r\ncontent-encoding: snappy\r\nx-prometheus-remote-write-version: 0.1.0\r\n";
pub const BATCH: &str = "content-type: application/x-ogive-batch-flatbuffer\r\n";

/// Sends each lane over a connection of its own; how many samples were acknowledged. Stops early when `stop` is set.
pub fn send(address: &str, lanes: &[Vec<Request>], stop: &AtomicBool) -> anyhow::Result<u64> {
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            lanes.iter().map(|lane| scope.spawn(|| lane_of(address, lane, &acknowledged, stop))).collect();
        for thread in threads {
            let outcome = thread.join().expect("a sender does not panic");
            // ORDERING: Relaxed; a flag that is only looked at.
            if !stop.load(Ordering::Relaxed) {
                outcome?;
            }
        }
        anyhow::Ok(())
    })?;
    Ok(acknowledged.into_inner())
}

fn lane_of(address: &str, lane: &[Request], acknowledged: &AtomicU64, stop: &AtomicBool) -> anyhow::Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    for request in lane {
        // ORDERING: Relaxed, both; a flag and a sum that is read when the threads have ended.
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        loop {
            let Request { path, headers, body, .. } = request;
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {}\r\n\r\n", body.len());
            writer.write_all(head.as_bytes())?;
            writer.write_all(body)?;
            let (status, answer) = answer(&mut reader)?;
            match status {
                200..300 => break,
                429 | 503 => std::thread::sleep(Duration::from_millis(20)),
                _ => bail!("{status}: {answer}"),
            }
        }
        acknowledged.fetch_add(request.samples as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn answer(reader: &mut impl BufRead) -> anyhow::Result<(u16, String)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status: u16 = line.split(' ').nth(1).context("the connection was closed")?.parse()?;
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
