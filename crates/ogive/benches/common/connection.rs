//! A connection to the server that stays open for one request after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// See the module.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Sends a request, of which `headers` are whole lines; status and body of the answer.
    ///
    /// # Errors
    /// When the connection breaks, or the answer is not one of HTTP with a length.
    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> io::Result<(u16, String)> {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the connection was closed"))?;
        let mut length = 0_usize;
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>().map_err(io::Error::other)?;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer)?;
        Ok((status, String::from_utf8_lossy(&answer).into_owned()))
    }
}
