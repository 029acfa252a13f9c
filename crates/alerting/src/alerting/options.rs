//! Options of rules and alerts.

use std::path::PathBuf;
use std::time::Duration;

/// What is to be evaluated, and who hears of it.
#[derive(clap::Args, Clone, Debug)]
pub struct AlertingOptions {
    /// Rule files as Prometheus 3 has them; may be named several times and hold asterisks in the last part. SIGHUP and POST /-/reload read them again.
    #[arg(long = "rules", value_name = "FILE", env = "OGIVE_RULES")]
    pub rules: Vec<PathBuf>,
    /// Between evaluations of groups that name no interval.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_INTERVAL", value_parser = span)]
    pub alerting_interval: Duration,
    /// How long an evaluation waits at most for senders whose data has not come up to its time.
    #[arg(long, value_name = "TIME", default_value = "2s", env = "OGIVE_ALERTING_WAIT", value_parser = span)]
    pub alerting_wait: Duration,
    /// A firing alert is sent again after this time, so that its receiver does not take it as resolved.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_RESEND", value_parser = span)]
    pub alerting_resend: Duration,
    /// An Alertmanager (API v2), such as http://localhost:9093; may be named several times, each gets every alert.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_ALERTMANAGER", value_delimiter = ',')]
    pub alerting_alertmanager: Vec<String>,
    /// An address that gets changes of alerts as an Alertmanager's webhook does; may be named several times.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_WEBHOOK", value_delimiter = ',')]
    pub alerting_webhook: Vec<String>,
    /// The address under which people reach this server, for links in alerts.
    #[arg(long, value_name = "URL", default_value = "", env = "OGIVE_ALERTING_EXTERNAL_URL")]
    pub alerting_external_url: String,
    /// A label of every alert that leaves, unless the alert has it; may be named several times.
    #[arg(long, value_name = "NAME=VALUE", env = "OGIVE_ALERTING_LABEL", value_delimiter = ',', value_parser = pair)]
    pub alerting_label: Vec<(String, String)>,
}

fn span(text: &str) -> Result<Duration, String> {
    let ms = ogive_detect::rules::duration::parse_ms(text)?;
    // A day: longer intervals see nothing of what they are for.
    u64::try_from(ms)
        .ok()
        .filter(|ms| *ms <= 86_400_000)
        .map(Duration::from_millis)
        .ok_or_else(|| "give 1d or less".into())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".into()) } else { Ok((name.to_owned(), value.to_owned())) }
}
