//! Options of rules and alerts.

use std::path::PathBuf;
use std::time::Duration;

use ogive_model::Tenant;

/// Rule files of a tenant.
#[derive(Clone, Debug)]
pub struct TenantFiles {
    /// Whose series they see.
    pub tenant: Tenant,
    /// May hold asterisks in the last part.
    pub pattern: PathBuf,
}

fn tenant_files(text: &str) -> Result<TenantFiles, String> {
    let (name, pattern) = text.split_once('=').ok_or("give TENANT=FILE, such as team-b=rules/b/*.yml")?;
    let tenant = Tenant::new(name).map_err(|error| error.to_string())?;
    if pattern.is_empty() {
        return Err(format!("{name}: no file is named"));
    }
    Ok(TenantFiles { tenant, pattern: pattern.into() })
}

impl AlertingOptions {
    /// Every pattern of rule files, and whose they are.
    pub(super) fn rule_files(&self) -> impl Iterator<Item = TenantFiles> {
        let own = self.rules.iter().map(|pattern| TenantFiles { tenant: Tenant::default(), pattern: pattern.clone() });
        own.chain(self.tenant_rules.iter().cloned())
    }
}

/// What is to be evaluated, and who hears of it.
#[derive(clap::Args, Clone, Debug)]
pub struct AlertingOptions {
    /// Rule files as Prometheus 3 has them; may be named several times and hold asterisks in the last part. SIGHUP and POST /-/reload read them again.
    #[arg(long = "rules", value_name = "FILE", env = "OGIVE_RULES")]
    pub rules: Vec<PathBuf>,
    /// Rule files of another tenant: they see its series alone, and store theirs with it. May be named several times.
    #[arg(long, value_name = "TENANT=FILE", env = "OGIVE_TENANT_RULES", value_parser = tenant_files)]
    pub tenant_rules: Vec<TenantFiles>,
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
    /// An address that gets groups of alerts as an Alertmanager's webhook sends them; may be named several times.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_WEBHOOK", value_delimiter = ',')]
    pub alerting_webhook: Vec<String>,
    /// A file with a token for `Authorization: Bearer` at the webhooks.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_WEBHOOK_TOKEN_FILE", requires = "alerting_webhook")]
    pub(crate) alerting_webhook_token_file: Option<PathBuf>,
    /// A file with the address of an incoming webhook of Slack, or of what takes the same; may be named several times.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SLACK_URL_FILE", value_delimiter = ',')]
    pub(crate) alerting_slack_url_file: Vec<PathBuf>,
    /// The channel of messages to Slack, where its address leaves the choice.
    #[arg(long, value_name = "NAME", env = "OGIVE_ALERTING_SLACK_CHANNEL", requires = "alerting_slack_url_file")]
    pub(crate) alerting_slack_channel: Option<String>,
    /// The server that takes mail: smtp://[USER@]HOST[:587] for STARTTLS, smtps:// for TLS, smtp+plain:// for neither.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_SMTP")]
    pub(crate) alerting_smtp: Option<String>,
    /// A file with the password of the user of --alerting-smtp.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SMTP_PASSWORD_FILE", requires = "alerting_smtp")]
    pub(crate) alerting_smtp_password_file: Option<PathBuf>,
    /// Certificates (PEM) of who vouches for the mail server, in place of the usual ones.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SMTP_CA_FILE", requires = "alerting_smtp")]
    pub(crate) alerting_smtp_ca_file: Option<PathBuf>,
    /// The address that mail comes from.
    #[arg(long, value_name = "ADDRESS", default_value = "Ogive <ogive@localhost>", env = "OGIVE_ALERTING_EMAIL_FROM")]
    pub(crate) alerting_email_from: String,
    /// An address that gets groups of alerts by mail; may be named several times.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_ALERTING_EMAIL_TO", value_delimiter = ',')]
    pub(crate) alerting_email_to: Vec<String>,
    /// A label by which webhooks, Slack and mail get alerts together; may be named several times. An empty one alone makes one group of all.
    #[arg(
        long,
        value_name = "LABEL",
        default_value = "alertname",
        env = "OGIVE_ALERTING_GROUP_BY",
        value_delimiter = ','
    )]
    pub(crate) alerting_group_by: Vec<String>,
    /// From the first alert of a group to its first message.
    #[arg(long, value_name = "TIME", default_value = "30s", env = "OGIVE_ALERTING_GROUP_WAIT", value_parser = span)]
    pub(crate) alerting_group_wait: Duration,
    /// From a message of a group to the next when something changed.
    #[arg(long, value_name = "TIME", default_value = "5m", env = "OGIVE_ALERTING_GROUP_INTERVAL", value_parser = span)]
    pub(crate) alerting_group_interval: Duration,
    /// From a message of a group to the next when nothing changed and something fires.
    #[arg(long, value_name = "TIME", default_value = "4h", env = "OGIVE_ALERTING_REPEAT", value_parser = span)]
    pub(crate) alerting_repeat: Duration,
    /// A file with [[maintenance]] tables: times in which people do not hear of some alerts. SIGHUP and POST /-/reload read it again.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_MAINTENANCE")]
    pub(crate) alerting_maintenance: Option<PathBuf>,
    /// An address that gets a POST for as long as rules are evaluated on time and alerts delivered: what misses it raises the alarm. May be named several times.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_HEARTBEAT", value_delimiter = ',')]
    pub(crate) alerting_heartbeat: Vec<String>,
    /// Between two of them.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_HEARTBEAT_INTERVAL", value_parser = beat)]
    pub(crate) alerting_heartbeat_interval: Duration,
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

fn beat(text: &str) -> Result<Duration, String> {
    let span = span(text)?;
    if span < Duration::from_secs(1) { Err("give 1s or more".into()) } else { Ok(span) }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".into()) } else { Ok((name.to_owned(), value.to_owned())) }
}
