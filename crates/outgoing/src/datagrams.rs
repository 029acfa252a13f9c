//! What one server is asked in datagrams, and how DNS asks where an answer does not fit into one.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// A socket that takes datagrams of this server alone, and hears its refusal.
///
/// # Errors
/// There is no socket, or no way to the server.
pub async fn datagrams(server: SocketAddr) -> io::Result<UdpSocket> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// The answer to a message of DNS over TCP (RFC 1035, section 4.2.2): each has its length in front, 64 KiB at most.
///
/// # Errors
/// The server cannot be reached, or the connection breaks.
pub async fn dns_over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
