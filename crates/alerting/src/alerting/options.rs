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
    /// Prometheus 3 rule file. Repeatable; the last part of the path may contain asterisks. Reread on SIGHUP and
    /// POST /-/reload.
    #[arg(long = "rules", value_name = "FILE", env = "OGIVE_RULES")]
    pub rules: Vec<PathBuf>,
    /// Rule file of another tenant: its rules see only that tenant's series, and store their results there.
    /// Repeatable.
    #[arg(long, value_name = "TENANT=FILE", env = "OGIVE_TENANT_RULES", value_parser = tenant_files)]
    pub tenant_rules: Vec<TenantFiles>,
    /// Evaluation interval of groups that do not set one.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_INTERVAL", value_parser = span)]
    pub alerting_interval: Duration,
    /// Longest time an evaluation waits for senders whose data lags behind.
    #[arg(long, value_name = "TIME", default_value = "2s", env = "OGIVE_ALERTING_WAIT", value_parser = span)]
    pub alerting_wait: Duration,
    /// How often a firing alert is sent again, so that its receiver does not consider it resolved.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_RESEND", value_parser = span)]
    pub alerting_resend: Duration,
    /// URL of an Alertmanager (API v2), such as http://localhost:9093. Repeatable; each one receives every alert.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_ALERTMANAGER", value_delimiter = ',')]
    pub alerting_alertmanager: Vec<String>,
    /// URL to send groups of alerts to, in the format of Alertmanager's webhook. Repeatable.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_WEBHOOK", value_delimiter = ',')]
    pub alerting_webhook: Vec<String>,
    /// File with a token to send to the webhooks as `Authorization: Bearer`.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_WEBHOOK_TOKEN_FILE", requires = "alerting_webhook")]
    pub(crate) alerting_webhook_token_file: Option<PathBuf>,
    /// File with the URL of a Slack incoming webhook, or a compatible one. Repeatable.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SLACK_URL_FILE", value_delimiter = ',')]
    pub(crate) alerting_slack_url_file: Vec<PathBuf>,
    /// Slack channel, where the webhook allows a choice.
    #[arg(long, value_name = "NAME", env = "OGIVE_ALERTING_SLACK_CHANNEL", requires = "alerting_slack_url_file")]
    pub(crate) alerting_slack_channel: Option<String>,
    /// Mail server: smtp://[USER@]HOST[:587] for STARTTLS, smtps:// for TLS, smtp+plain:// for an unencrypted
    /// connection.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_SMTP")]
    pub(crate) alerting_smtp: Option<String>,
    /// File with the password for the user in --alerting-smtp.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SMTP_PASSWORD_FILE", requires = "alerting_smtp")]
    pub(crate) alerting_smtp_password_file: Option<PathBuf>,
    /// File (PEM) with the certificate authorities to trust for the mail server, instead of the system's.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_SMTP_CA_FILE", requires = "alerting_smtp")]
    pub(crate) alerting_smtp_ca_file: Option<PathBuf>,
    /// Sender address of mails.
    #[arg(long, value_name = "ADDRESS", default_value = "Ogive <ogive@localhost>", env = "OGIVE_ALERTING_EMAIL_FROM")]
    pub(crate) alerting_email_from: String,
    /// Mail address to send groups of alerts to. Repeatable.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_ALERTING_EMAIL_TO", value_delimiter = ',')]
    pub(crate) alerting_email_to: Vec<String>,
    /// Label by which alerts are grouped for webhooks, Slack and mail. Repeatable. A single empty value puts all
    /// alerts into one group.
    #[arg(
        long,
        value_name = "LABEL",
        default_value = "alertname",
        env = "OGIVE_ALERTING_GROUP_BY",
        value_delimiter = ','
    )]
    pub(crate) alerting_group_by: Vec<String>,
    /// How long to wait before the first notification for a new group.
    #[arg(long, value_name = "TIME", default_value = "30s", env = "OGIVE_ALERTING_GROUP_WAIT", value_parser = span)]
    pub(crate) alerting_group_wait: Duration,
    /// How long to wait before notifying about a group that has changed.
    #[arg(long, value_name = "TIME", default_value = "5m", env = "OGIVE_ALERTING_GROUP_INTERVAL", value_parser = span)]
    pub(crate) alerting_group_interval: Duration,
    /// How long to wait before repeating a notification for a group that is still firing and unchanged.
    #[arg(long, value_name = "TIME", default_value = "4h", env = "OGIVE_ALERTING_REPEAT", value_parser = span)]
    pub(crate) alerting_repeat: Duration,
    /// File with [[maintenance]] tables: times during which notifications for some alerts are muted. Reread on
    /// SIGHUP and POST /-/reload.
    #[arg(long, value_name = "FILE", env = "OGIVE_ALERTING_MAINTENANCE")]
    pub(crate) alerting_maintenance: Option<PathBuf>,
    /// URL to POST to while rules are evaluated on time and alerts are delivered (a dead man's switch).
    /// Repeatable.
    #[arg(long, value_name = "URL", env = "OGIVE_ALERTING_HEARTBEAT", value_delimiter = ',')]
    pub(crate) alerting_heartbeat: Vec<String>,
    /// How often to POST to --alerting-heartbeat.
    #[arg(long, value_name = "TIME", default_value = "1m", env = "OGIVE_ALERTING_HEARTBEAT_INTERVAL", value_parser = beat)]
    pub(crate) alerting_heartbeat_interval: Duration,
    /// URL under which people reach this server, for links in alerts.
    #[arg(long, value_name = "URL", default_value = "", env = "OGIVE_ALERTING_EXTERNAL_URL")]
    pub alerting_external_url: String,
    /// Label to add to every outgoing alert that does not have it. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", env = "OGIVE_ALERTING_LABEL", value_delimiter = ',', value_parser = pair)]
    pub alerting_label: Vec<(String, String)>,
}

fn span(text: &str) -> Result<Duration, String> {
    let ms = ogive_detect::rules::duration::parse_ms(text)?;
    // A day: longer intervals defeat their purpose.
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
