//! What of the options concerns delivery, and an alert as it is handed to it.

use std::collections::BTreeMap;

use ogive_detect::rules::DueAlert;
use ogive_model::{Tenant, WallMs};
use ogive_notify::{Destination, Email, Grouping, Notice, TENANT_LABEL};

use super::options::AlertingOptions;
use super::quiet::short_name;

/// The destinations of the options.
pub(super) fn destinations(options: &AlertingOptions) -> anyhow::Result<Vec<Destination>> {
    let mut out: Vec<Destination> = Vec::new();
    for url in &options.alerting_alertmanager {
        out.push(Destination::Alertmanager { url: Destination::address(url)? });
    }
    for url in &options.alerting_webhook {
        let token_file = options.alerting_webhook_token_file.clone();
        out.push(Destination::Webhook { url: Destination::address(url)?, token_file });
    }
    for url_file in &options.alerting_slack_url_file {
        let channel = options.alerting_slack_channel.clone();
        out.push(Destination::Slack { url_file: url_file.clone(), channel });
    }
    out.extend(email(options)?.map(Destination::Email));
    let mut names: Vec<String> = out.iter().map(Destination::name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        anyhow::bail!("{} is named twice", twice[0]);
    }
    for url in &options.alerting_heartbeat {
        Destination::address(url)?;
    }
    Ok(out)
}

fn email(options: &AlertingOptions) -> anyhow::Result<Option<Email>> {
    let to = &options.alerting_email_to;
    let Some(server) = &options.alerting_smtp else {
        anyhow::ensure!(
            to.is_empty(),
            "mail is to be sent, but there is no server for it; name one with --alerting-smtp"
        );
        return Ok(None);
    };
    anyhow::ensure!(!to.is_empty(), "{server} gets no mail without a receiver; name one with --alerting-email-to");
    let mut email = Email::new(server, &options.alerting_email_from, to)?;
    anyhow::ensure!(
        email.user.is_some() == options.alerting_smtp_password_file.is_some(),
        "a login to a mail server is a user in --alerting-smtp and a file in --alerting-smtp-password-file"
    );
    email.password_file.clone_from(&options.alerting_smtp_password_file);
    email.ca_file.clone_from(&options.alerting_smtp_ca_file);
    Ok(Some(email))
}

/// How alerts are grouped for people.
pub(super) fn grouping(options: &AlertingOptions) -> Grouping {
    Grouping {
        by: options.alerting_group_by.iter().filter(|label| !label.is_empty()).cloned().collect(),
        wait_ms: options.alerting_group_wait.as_millis() as i64,
        interval_ms: options.alerting_group_interval.as_millis() as i64,
        repeat_ms: options.alerting_repeat.as_millis() as i64,
    }
}

/// A tenant's alert of the expression `expr`, valid until `valid_until` unless it is sent again; `lane` is the number
/// of its group.
pub(super) fn notice(
    tenant: &Tenant,
    due: &DueAlert,
    expr: &str,
    valid_until: WallMs,
    options: &AlertingOptions,
    lane: u64,
) -> Notice {
    let alert = &due.alert;
    let mut labels: BTreeMap<String, String> =
        alert.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, value) in &options.alerting_label {
        labels.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if !tenant.is_default() {
        labels.insert(TENANT_LABEL.to_owned(), tenant.to_string());
    }
    let expr: String = form_urlencoded::byte_serialize(expr.as_bytes()).collect();
    Notice {
        tenant: short_name(tenant).to_owned(),
        labels,
        annotations: alert.annotations.iter().cloned().collect(),
        starts_ms: alert.fired_at.unwrap_or(alert.active_at).0,
        ends_ms: alert.resolved_at.unwrap_or(valid_until).0,
        is_resolved: alert.resolved_at.is_some(),
        generator_url: format!("{}/graph?g0.expr={expr}&g0.tab=1", options.alerting_external_url),
        lane,
        generation: 0,
    }
}
