//! `ogive token new`: a secret, shown once, and the lines by which the server knows it.

use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ogive_model::Tenant;
use ogive_probe::Clock;
use ring::rand::{SecureRandom, SystemRandom};

use ogive_http::web::{Allow, token_hash};
use ogive_text::calendar::rfc3339;
use ogive_text::duration;

/// 32 bytes cannot be guessed, so that one round of a quick hash protects them.
const SECRET_BYTES: usize = 32;

/// Creates access tokens for senders and readers.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Token {
    /// Creates a token and shows it once; its hash goes into the server's web configuration.
    New(New),
}

/// See [`Token::New`].
#[derive(clap::Args, Debug)]
pub(crate) struct New {
    /// Name for logs and messages; default: the beginning of the hash.
    #[arg(long)]
    name: Option<String>,
    /// The only tenant it can access; default: any.
    #[arg(long, value_parser = tenant)]
    tenant: Option<Tenant>,
    /// Permissions: read, write, admin, vend, separated by commas.
    #[arg(long, value_name = "WHAT", value_parser = allow)]
    allow: Allow,
    /// Validity, such as 90d; default: unlimited.
    #[arg(long, value_name = "TIME", value_parser = age)]
    expires: Option<i64>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|error| error.to_string())
}

fn allow(text: &str) -> Result<Allow, String> {
    Allow::parse(text.split(','))
}

fn age(text: &str) -> Result<i64, String> {
    // 100 years: later ones are typing errors.
    let longest = 100 * 365 * 86_400_000;
    let ms = duration::seconds_or_units_ms(text).filter(|ms| (1..=longest).contains(ms));
    ms.ok_or_else(|| "give a time such as 90d or 12h, at most 100y".into())
}

/// Runs the command.
pub(crate) fn run(command: &Token) -> anyhow::Result<ExitCode> {
    let Token::New(new) = command;
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
    let token = format!("ogive_{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    let sha256 = token_hash(&token);
    let name = new.name.clone().unwrap_or_else(|| format!("token-{}", &sha256[..8]));
    let expires = new.expires.map(|age| rfc3339(Clock::global().wall() / 1_000_000 + age));
    let allow = new.allow.words();
    if new.json {
        let tenant = new.tenant.as_ref().map(Tenant::as_str);
        let entry =
            serde_json::json!({"name": name, "sha256": sha256, "tenant": tenant, "allow": allow, "expires": expires});
        println!("{}", serde_json::json!({"token": token, "entry": entry}));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{token}\n");
    println!("It is shown this once. The server knows it by this entry of its --web-config:\n");
    println!("tokens:\n  - name: {}\n    sha256: {sha256}", serde_json::Value::from(name));
    if let Some(tenant) = &new.tenant {
        println!("    tenant: {}", serde_json::Value::from(tenant.as_str()));
    }
    println!("    allow: [{}]", allow.join(", "));
    if let Some(expires) = expires {
        println!("    expires: {expires}");
    }
    Ok(ExitCode::SUCCESS)
}
