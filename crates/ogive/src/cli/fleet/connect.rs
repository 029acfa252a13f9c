//! `ogive fleet connect`: connections through a broker to a target that only the broker reaches.
//!
//! Threads: one, for all connections. Failure: a connection that is refused or breaks is reported and closed; the
//! others, and further ones, go on.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ogive_fleet::{End, Target};
use ogive_outgoing::{Reply, Upgrader};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::super::client::Server;
use super::super::exit::EXIT_USAGE;
use super::brokers::no_name;
use crate::tunnel;

/// 20 s for the server's answer, which takes 10 s at most.
const ANSWER: Duration = Duration::from_secs(20);
/// 50 ms until the next attempt when no connection could be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Where connections go.
struct Way {
    server: Upgrader,
    /// What is asked for.
    path: String,
}

/// Runs the command until it is interrupted.
pub(super) fn run(broker: &str, target: &str, listen: SocketAddr, server: &Server) -> anyhow::Result<ExitCode> {
    if let Some(code) = no_name(broker) {
        return Ok(code);
    }
    let target = match Target::parse(target) {
        Ok(target) => target,
        Err(why) => {
            eprintln!("ogive: {why}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    if !listen.ip().is_loopback() {
        eprintln!(
            "ogive: {listen} is an address that others can reach, and they would connect in your name; listen on 127.0.0.1"
        );
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    // Whether the server is there, knows the broker, and lets us ask it: before somebody connects.
    if let Err(failure) = server.get(&format!("/v1/fleet/brokers/{broker}/requests"), &[]) {
        return Ok(failure.report());
    }
    let query: String = form_urlencoded::byte_serialize(target.to_string().as_bytes()).collect();
    let path = format!("/v1/fleet/brokers/{broker}/connect?target={query}");
    let way = match server.upgrader() {
        Ok(server) => Way { server, path },
        Err(failure) => return Ok(failure.report()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen at {listen}"))?;
        println!("listening at {}: connections go through {broker} to {target}", listener.local_addr()?);
        accept(&listener, &Arc::new(way)).await
    })
}

async fn accept(listener: &TcpListener, way: &Arc<Way>) -> anyhow::Result<ExitCode> {
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                let way = way.clone();
                tokio::spawn(async move {
                    if let Err(why) = way.carry(client).await {
                        eprintln!("ogive: the connection from {from}: {why}");
                    }
                });
            }
            // The client has disconnected already, or there are no file descriptors.
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

impl Way {
    /// Relays one connection; a sentence when there is none to the target, or it ends early.
    async fn carry(&self, client: TcpStream) -> Result<(), String> {
        let _ = client.set_nodelay(true);
        let request = self.server.post(&self.path, Some("ogive-stream"), Vec::new());
        let late = |_| format!("the server has not answered within {} s", ANSWER.as_secs());
        let stream = match tokio::time::timeout(ANSWER, request).await.map_err(late)?? {
            Reply::Upgraded(stream) => stream,
            Reply::Answered { status, body } => return Err(refusal(status, &body)),
        };
        match tunnel::relayed(client, "the client", stream).await.end {
            End::Whole => Ok(()),
            end => Err(end.to_string()),
        }
    }
}

/// What a server says of a refusal.
fn refusal(status: u16, body: &[u8]) -> String {
    let envelope: Value = serde_json::from_slice(body).unwrap_or_default();
    format!("refused ({status}): {}", envelope["error"].as_str().unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_with_its_reason() {
        assert_eq!(refusal(403, br#"{"error":"not permitted"}"#), "refused (403): not permitted");
        assert_eq!(refusal(502, b"<html>"), "refused (502): no reason given");
    }
}
