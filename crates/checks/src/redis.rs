//! Redis and compatible servers: login if configured, then `PING`.

use tokio::io::{AsyncWriteExt, BufReader};

use super::lines;
use super::net::{Network, Stream};
use super::run::{Failure, Reason, Run};
use super::target::Login;

pub(super) async fn run(network: &Network, run: &mut Run, login: &Login) -> Result<(), Failure> {
    let mut stream = BufReader::new(network.open(run, &login.place, login.trust.as_ref()).await?);
    if let Some(password) = &login.password {
        run.phase("login");
        let password = network.words(password).await?;
        let mut words = vec!["AUTH"];
        words.extend(login.user.as_deref());
        words.push(&password);
        let answer = ask(&mut stream, &words).await?;
        if answer != "+OK" {
            return Err(Failure::new(Reason::Login, refusal(&answer)));
        }
    }
    run.phase("query");
    let answer = ask(&mut stream, &["PING"]).await?;
    match answer.as_str() {
        "+PONG" => Ok(()),
        no if no.starts_with("-NOAUTH") || no.starts_with("-NOPERM") => Err(Failure::new(Reason::Login, refusal(no))),
        no if no.starts_with('-') => Err(Failure::new(Reason::Status, refusal(no))),
        other => Err(Failure::new(Reason::Protocol, format!("the answer to PING is {other:?}"))),
    }
}

fn refusal(answer: &str) -> String {
    format!("the server says {:?}", answer.trim_start_matches('-'))
}

pub(super) async fn ask(stream: &mut BufReader<Box<dyn Stream>>, words: &[&str]) -> Result<String, Failure> {
    stream.write_all(&command(words)).await?;
    stream.flush().await?;
    lines::next(stream, "the Redis protocol").await
}

/// A command as an array of strings.
fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        assert_eq!(command(&["AUTH", "p\u{e4}"]), "*2\r\n$4\r\nAUTH\r\n$3\r\np\u{e4}\r\n".as_bytes());
    }
}
