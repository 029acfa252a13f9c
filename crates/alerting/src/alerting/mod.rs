//! Rules and alerts: `ogive serve --rules FILE…` evaluates rule files over what is stored and delivers alerts.
//!
//! Invariants: a notification leaves only after the state that it is of is on disk, so a kill at any instant neither
//! resolves a firing alert nor sends it as new; rule files are taken whole or not at all.
//! Threads: `WORKERS` that evaluate groups, one that keeps the state on disk, one a destination, one for signs of life,
//! one that hears signals.
//! Failure: at the start a sentence, and no server; at a reload the same sentence, and the old rules stay.

mod beats;
mod delivery;
mod files;
mod heartbeat;
mod options;
mod quiet;
mod schedule;
mod snapshot;
mod storage;
mod work;

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;

use crate::rules_view::Runner;
pub use files::check;
use ogive_notify::Destination;
use ogive_outgoing::Files;
pub use options::{AlertingOptions, TenantFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
pub use work::Context;
use work::Work;

/// Rules that were read at the start.
pub struct Alerting {
    options: AlertingOptions,
    destinations: Vec<Destination>,
    loaded: files::Loaded,
    files: Files,
}

/// The running threads.
pub struct Running {
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
}

impl Alerting {
    /// Reads the rule files of `options`; None when there is nothing to do.
    pub fn open(options: &AlertingOptions, files: Files) -> anyhow::Result<Option<Self>> {
        let destinations = delivery::destinations(options)?;
        if options.rule_files().next().is_none() {
            anyhow::ensure!(
                destinations.is_empty() && options.alerting_heartbeat.is_empty(),
                "alerts are to be delivered, but there are no rules; name files with --rules"
            );
            return Ok(None);
        }
        let loaded = files::load(options, files).map_err(anyhow::Error::msg)?;
        Ok(Some(Self { options: options.clone(), destinations, loaded, files }))
    }

    /// Starts evaluation and delivery. SIGHUP is handled from then on.
    pub fn start(self, context: Context) -> anyhow::Result<Running> {
        let (runtime, view, ending) = (context.runtime.clone(), context.view.clone(), context.door.ending.clone());
        let hangup = {
            let _in_the_runtime = runtime.enter();
            signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?
        };
        let work = Arc::new(Work::new(self.options, self.destinations, self.loaded, self.files, context));
        let runner: Arc<dyn Runner> = work.clone();
        view.run_by(&runner);
        let mut threads = Vec::new();
        for number in 0..schedule::WORKERS {
            let own = Arc::clone(&work);
            let thread = std::thread::Builder::new().name(format!("rules-{number}"));
            threads.push(thread.spawn(move || own.evaluate_until_end()).context("cannot start a thread for rules")?);
        }
        let own = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("rules-state".to_owned());
        threads
            .push(thread.spawn(move || own.keep_until_end()).context("cannot start a thread for the state of alerts")?);
        for number in 0..work.destinations_count() {
            let own = Arc::clone(&work);
            let thread = std::thread::Builder::new().name(format!("alerts-{number}"));
            threads
                .push(thread.spawn(move || own.deliver_until_end(number)).context("cannot start a thread for alerts")?);
        }
        if !work.options().alerting_heartbeat.is_empty() {
            let own = Arc::clone(&work);
            let thread = std::thread::Builder::new().name("alerts-heartbeat".to_owned());
            let spawned = thread.spawn(move || heartbeat::beat_until_end(&own));
            threads.push(spawned.context("cannot start a thread for signs of life")?);
        }
        runtime.spawn(reload_on_signal(Arc::downgrade(&work), ending, hangup));
        Ok(Running { work, threads })
    }
}

impl Running {
    /// Stops evaluation; what is not delivered is delivered after the next start.
    pub fn stop(self) {
        self.work.end();
        for thread in self.threads {
            let _ = thread.join();
        }
        self.work.save();
    }
}

/// Reloads the rule files when the process receives SIGHUP.
async fn reload_on_signal(work: std::sync::Weak<Work>, mut ending: watch::Receiver<bool>, mut hangup: Signal) {
    loop {
        tokio::select! {
            _ = hangup.recv() => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        let Some(work) = work.upgrade() else { return };
        let done = tokio::task::spawn_blocking(move || work.reload("signal HUP")).await;
        if let Ok(Err(error)) = done {
            tracing::warn!("{error}; the rules stay as they were");
        }
    }
}
