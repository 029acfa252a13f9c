//! `ogive kernel doctor`: what this kernel lets in.

use std::process::ExitCode;

use ogive_kernel::doctor;
use ogive_kernel::proc::{DELAY_ACCOUNTING, DelayAccounting};
use serde_json::json;

use crate::cli::config_file;

/// Tries each family of kernel programs that the observer can use: loads and attaches one, and reports the result.
#[derive(clap::Args, Debug)]
pub(crate) struct Doctor {
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Doctor) -> anyhow::Result<ExitCode> {
    let text = |path: &str| config_file::text(std::path::Path::new(path)).ok();
    let maps = text("/proc/self/maps").unwrap_or_default();
    let delays = DelayAccounting::parse(text(DELAY_ACCOUNTING).as_deref());
    let verdicts = doctor::examine(doctor::c_library(&maps));
    if options.json {
        let families: Vec<_> = verdicts
            .iter()
            .map(|verdict| {
                let family = verdict.family;
                json!({
                    "family": family.name, "works": verdict.works, "errno": verdict.errno, "reason": verdict.reason,
                    "used_for": family.used_for, "needs": family.needs, "fallback": family.fallback,
                })
            })
            .collect();
        let delays = json!({ "works": delays == DelayAccounting::On, "needs": needed(delays) });
        println!("{}", json!({ "families": families, "delay_accounting": delays }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{:<13} {:<6} {:<31} what it would need, and what there is instead", "family", "works", "used for");
    for verdict in &verdicts {
        let family = verdict.family;
        let rest = if verdict.works {
            String::new()
        } else {
            format!("{} [{}]; instead: {}", family.needs, verdict.reason.lines().next().unwrap_or(""), family.fallback)
        };
        let works = if verdict.works { "yes" } else { "no" };
        println!("{}", format!("{:<13} {works:<6} {:<31} {rest}", family.name, family.used_for).trim_end());
    }
    let works = if delays == DelayAccounting::On { "yes" } else { "no" };
    let rest = needed(delays).unwrap_or_default();
    println!("{}", format!("{:<13} {works:<6} {:<31} {rest}", "task delays", "export without programs").trim_end());
    Ok(ExitCode::SUCCESS)
}

/// What the kernel's accounting of delays would need; None when it is on.
fn needed(delays: DelayAccounting) -> Option<&'static str> {
    match delays {
        DelayAccounting::On => None,
        DelayAccounting::Off => {
            Some("sysctl kernel.task_delayacct=1, then a restart of what is observed; instead: none")
        }
        DelayAccounting::Missing => Some("Linux 5.14, CONFIG_TASK_DELAY_ACCT; instead: none"),
    }
}
