//! Asking a running server over HTTP, and what to say when it does not answer.

use std::process::ExitCode;
use std::time::Duration;

use super::EXIT_FINDING;

/// No server answered.
const EXIT_UNREACHABLE: u8 = 3;
/// The server does not understand what was asked.
const EXIT_USAGE: u8 = 2;

/// 130 s: the longest that a query may take, and the way there and back.
const TIMEOUT: Duration = Duration::from_secs(130);

/// 1 GiB: more than any answer that the server's limits allow.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Where the server is.
#[derive(clap::Args, Debug)]
pub(crate) struct Server {
    /// Address of the server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:6448", env = "OGIVE_SERVER")]
    server: String,
}

/// Why there is no answer to show.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing answered.
    Unreachable(String),
    /// The server refused.
    Refused { status: u16, message: String },
}

impl Failure {
    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Unreachable(message) => {
                eprintln!("ogive: {message}");
                ExitCode::from(EXIT_UNREACHABLE)
            }
            Self::Refused { status: status @ (400 | 404), message } => {
                eprintln!("ogive: the server refused ({status}): {message}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Refused { status, message } => {
                eprintln!("ogive: the server has no answer ({status}): {message}");
                ExitCode::from(EXIT_FINDING)
            }
        }
    }
}

impl Server {
    /// The body at `path` with `params`.
    pub(crate) fn get(&self, path: &str, params: &[(&str, &str)]) -> Result<String, Failure> {
        let request = agent().get(&self.address(path)).query_pairs(params.iter().copied());
        self.read(request.call())
    }

    /// The answer to `body`, sent to `path`.
    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) -> Result<String, Failure> {
        let request = agent().post(&self.address(path)).content_type("application/json");
        self.read(request.send(body.to_string()))
    }

    /// The answer to a DELETE.
    pub(crate) fn delete(&self, path: &str) -> Result<String, Failure> {
        self.read(agent().delete(&self.address(path)).call())
    }

    /// The answer to nothing but `params`, posted to `path`.
    pub(crate) fn post_empty(&self, path: &str, params: &[(&str, &str)]) -> Result<String, Failure> {
        let request = agent().post(&self.address(path)).query_pairs(params.iter().copied());
        self.read(request.send_empty())
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<String, Failure> {
        let unreachable = |error: &dyn std::fmt::Display| {
            let server = &self.server;
            Failure::Unreachable(format!(
                "no server at {server}: {error}; start one with `ogive serve` or name it with --server"
            ))
        };
        let mut response = answer.map_err(|error| unreachable(&error))?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        if status < 300 {
            return Ok(body);
        }
        let envelope: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let message = envelope["error"].as_str().map_or_else(|| body.trim().to_owned(), str::to_owned);
        Err(Failure::Refused { status, message })
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build().into()
}
