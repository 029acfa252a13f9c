//! Evaluates groups at their slots, and keeps and delivers what comes of it.
//!
//! An evaluation of a slot begins when every sender of the last minute has brought data up to the slot, or when the
//! slot is [`AlertingOptions::alerting_wait`] old.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_detect::rules::{AlertState, EvaluationContext, Group, GroupDefaults};
use ogive_model::{Ms, Tenant, WallMs, WallNs};
use ogive_notify::{
    Answer, Batch, Counts, Destination, Grouping, Maintenance, Matchers, Notice, Outbox, Pulse, Sender, Silence,
    Silences, exactly,
};
use ogive_query::{ClassicViews, Engine};
use ogive_text::duration;
use serde_json::{Value, json};

use super::beats::Beats;
use super::delivery::{grouping, notice};
use super::files::{self, LoadedFile};
use super::options::AlertingOptions;
use super::quiet::{Quiet, short_name};
use super::schedule::{self, Slot};
use super::snapshot::{Snapshot, SnapshotPath, StoredGroup};
use super::storage::ServerStorage;
use crate::rules_view::{Figures, Runner, Setting, SilenceRequest, View};
use ogive_door::Door;
use ogive_door::audit::{Entry, note};
use ogive_door::own_value::OwnValue;
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_outgoing::Files;
use ogive_storage::SourceTimes;
use ogive_storage::upkeep::Upkeep;

/// How often a worker looks for a group that is due.
const TICK: Duration = Duration::from_millis(50);
/// The state is saved at least this often: between saves, only the ends of series change.
const KEEP_EVERY: Ms = Ms::from_secs(30);
/// Figures are reported this often, to a consumer that stores them every ten seconds.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// A group that is three intervals behind its next evaluation is late: heartbeats stop.
const LATE_INTERVALS: i64 = 3;

/// A group that a worker has, for one of its slots.
struct TakenGroup {
    tenant: Tenant,
    group: Arc<Group>,
    time: WallMs,
    /// Of the rules.
    version: u64,
}

struct State {
    slots: Vec<Slot>,
    /// Incremented with each reload.
    version: u64,
    marks: Marks,
    outboxes: Vec<Outbox>,
    beats: Beats,
    silences: Silences,
    maintenance: Vec<Maintenance>,
    /// Incremented with every state that is to be saved.
    generation: u64,
    /// The last one that a thread waits for.
    wanted: u64,
    /// The last one that is on disk.
    saved: u64,
    saved_at: WallMs,
    counts: Evaluations,
    is_ending: bool,
    /// Why the state could not be saved, as last reported.
    problem: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct Evaluations {
    done: u64,
    failed: u64,
    missed: u64,
    transitions: u64,
    rejected: u64,
}

/// What evaluations depend on.
pub struct Context {
    /// Where samples of rules go in.
    pub door: Arc<Door>,
    /// Evaluates expressions.
    pub engine: Engine,
    /// The longest time that an expression may take.
    pub query_timeout: Duration,
    /// Stores the file with the state.
    pub upkeep: Upkeep,
    /// Runs what is submitted.
    pub runtime: tokio::runtime::Handle,
    /// The progress of each sender's data.
    pub sources: Arc<SourceTimes>,
    /// The state that the HTTP API shows.
    pub view: Arc<View>,
}

/// See the module.
pub(super) struct Work {
    options: AlertingOptions,
    destinations: Vec<Destination>,
    grouping: Grouping,
    files: Files,
    context: Context,
    state: Mutex<State>,
    /// Something is to be delivered, or all ends.
    changed: Condvar,
    /// One writes the state at a time.
    saving: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    pub(super) fn new(
        options: AlertingOptions,
        destinations: Vec<Destination>,
        loaded: files::Loaded,
        files: Files,
        context: Context,
    ) -> Self {
        let kept = place(&context.upkeep).read().unwrap_or_else(|error| {
            tracing::warn!("alerts: {error:#}; alerts begin anew");
            Snapshot::default()
        });
        let now = WallNs(context.door.clock.wall()).to_ms();
        let identity = |StoredGroup { tenant, state }| ((tenant, state.file.clone(), state.name.clone()), state);
        let mut before: BTreeMap<(String, String, String), _> = kept.groups.into_iter().map(identity).collect();
        let mut slots = slots(&loaded.files, &options, now);
        for slot in &mut slots {
            let tenant = short_name(&slot.tenant).to_owned();
            if let Some(state) = before.remove(&(tenant, slot.group.file.clone(), slot.group.name.clone())) {
                Arc::make_mut(&mut slot.group).restore(state, now);
            }
        }
        let grouping = grouping(&options);
        let mut outboxes: Vec<Outbox> = destinations.iter().map(|_| Outbox::default()).collect();
        for (name, waiting) in kept.queues {
            if let Some(at) = destinations.iter().position(|one| one.name() == name) {
                outboxes[at] = Outbox::restored(waiting, &grouping);
            }
        }
        let state = State {
            slots,
            version: 0,
            marks: loaded.marks,
            outboxes,
            beats: Beats::default(),
            silences: kept.silences,
            maintenance: loaded.maintenance,
            generation: 0,
            wanted: 0,
            saved: 0,
            saved_at: WallMs(0),
            counts: Evaluations::default(),
            is_ending: false,
            problem: None,
        };
        Self {
            grouping,
            options,
            destinations,
            files,
            context,
            state: Mutex::new(state),
            changed: Condvar::new(),
            saving: Mutex::default(),
        }
    }

    fn now(&self) -> WallMs {
        WallNs(self.context.door.clock.wall()).to_ms()
    }

    /// As delivery and silences take it.
    fn now_ms(&self) -> i64 {
        self.now().0
    }

    pub(super) fn destinations_count(&self) -> usize {
        self.destinations.len()
    }

    pub(super) fn end(&self) {
        lock(&self.state).is_ending = true;
        self.changed.notify_all();
    }

    /// Evaluates one group after the other until the server stops.
    pub(super) fn evaluate_until_end(&self) {
        loop {
            let Some(taken) = self.take() else {
                let state = lock(&self.state);
                if state.is_ending {
                    return;
                }
                drop(self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            self.evaluate(taken);
        }
    }

    /// The group that has waited longest and is due, and its slot.
    fn take(&self) -> Option<TakenGroup> {
        let now = self.now();
        let wait = Ms::from(self.options.alerting_wait);
        let mut state = lock(&self.state);
        if state.is_ending {
            return None;
        }
        let number = schedule::next(&state.slots, |slot| {
            let wants = slot.next - slot.group.query_offset;
            slot.next <= now && (now - slot.next >= wait || self.context.sources.have(wants, now))
        })?;
        let slot = &mut state.slots[number];
        // A group that is behind skips the evaluations that it missed.
        let missed = (now - slot.next) / slot.group.interval;
        let time = slot.next + slot.group.interval * missed;
        slot.is_busy = true;
        let (tenant, group) = (slot.tenant.clone(), Arc::clone(&slot.group));
        state.counts.missed += missed.unsigned_abs();
        Some(TakenGroup { tenant, group, time, version: state.version })
    }

    fn evaluate(&self, taken: TakenGroup) {
        let TakenGroup { tenant, group, time, version } = taken;
        let mut group = Arc::unwrap_or_clone(group);
        let reader = self.context.door.backend.of(&tenant);
        let views = ClassicViews::new(&*reader);
        let storage = ServerStorage {
            tenant: &tenant,
            select: &views,
            door: &self.context.door,
            runtime: &self.context.runtime,
            rejected: RefCell::new(0),
        };
        let labels = self.options.alerting_label.iter().cloned().collect();
        let clock = self.context.door.clock;
        // Not the interval: on a busy machine each evaluation would be cut off, and no alert would ever fire.
        let deadline_ns = clock.now() + self.context.query_timeout.as_nanos() as u64;
        let evaluation = EvaluationContext {
            engine: &self.context.engine,
            external_url: &self.options.alerting_external_url,
            external_labels: &labels,
            elapsed: &|| Duration::from_nanos(clock.now()),
            cancelled: &|| clock.now() > deadline_ns,
        };
        let outcome = group.evaluate(&storage, time, &evaluation);
        let resend = Ms::from(self.options.alerting_resend);
        let due = group.take_due(time, resend);
        let valid_until = group.valid_until(time, resend);
        // Two tenants with the same file do not wait for each other.
        let lane = group.number().wrapping_add(crc32c::crc32c(short_name(&tenant).as_bytes()).into());
        let notices: Vec<Notice> = due
            .iter()
            .map(|one| notice(&tenant, one, &group.rules[one.rule].spec.expr, valid_until, &self.options, lane))
            .collect();
        let is_changed = !notices.is_empty() || !outcome.transitions.is_empty();
        let mut state = lock(&self.state);
        state.counts.done += 1;
        state.counts.failed += outcome.failures as u64;
        state.counts.transitions += outcome.transitions.len() as u64;
        state.counts.rejected += *storage.rejected.borrow();
        state.generation += 1;
        self.hand_over(&mut state, notices);
        put_back(&mut state, &tenant, group, time, version);
        if is_changed || time - state.saved_at >= KEEP_EVERY {
            state.wanted = state.generation;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Hands alerts to every destination; they leave once the state of this generation is on disk.
    fn hand_over(&self, state: &mut State, notices: Vec<Notice>) {
        let now_ms = self.now_ms();
        for mut notice in notices {
            notice.generation = state.generation;
            if notice.is_resolved {
                state.silences.ceased(&notice.tenant, &notice.labels);
            }
            let notice = Arc::new(notice);
            for (outbox, destination) in state.outboxes.iter_mut().zip(&self.destinations) {
                outbox.push(&notice, destination, &self.grouping, now_ms);
            }
        }
    }

    /// Saves the state as it changes, until the server stops; evaluations continue meanwhile. Reports figures once a
    /// second.
    pub(super) fn keep_until_end(&self) {
        loop {
            let state = lock(&self.state);
            if state.is_ending {
                return;
            }
            if state.wanted > state.saved {
                drop(state);
                self.save();
            } else {
                let is_kept = |state: &mut State| !state.is_ending && state.wanted <= state.saved;
                drop(
                    self.changed
                        .wait_timeout_while(state, REPORT_EVERY, is_kept)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
            self.report();
        }
    }

    /// Saves the state, and releases the alerts that it contains.
    pub(super) fn save(&self) {
        let saving = lock(&self.saving);
        let (groups, queues, silences, generation) = {
            let state = lock(&self.state);
            let queues = self.destinations.iter().zip(&state.outboxes).map(|(one, outbox)| (one.name(), outbox.kept()));
            let groups = state.slots.iter().map(|slot| (slot.tenant.clone(), Arc::clone(&slot.group)));
            (groups.collect::<Vec<_>>(), queues.collect(), state.silences.clone(), state.generation)
        };
        // Without the lock: the texts of 50,000 alerts take a while.
        let stored = groups
            .iter()
            .map(|(tenant, group)| StoredGroup { tenant: short_name(tenant).to_owned(), state: group.state() });
        let snapshot = Snapshot::new(stored.collect(), queues, silences);
        let done = snapshot.encode().and_then(|bytes| place(&self.context.upkeep).write(&bytes));
        let now = self.now();
        let mut state = lock(&self.state);
        assert!(state.saved <= generation, "states are kept in their order");
        match done {
            Ok(()) => {
                (state.saved, state.saved_at, state.problem) = (generation, now, None);
            }
            Err(error) => {
                let problem = format!("{error:#}");
                if state.problem.as_ref() != Some(&problem) {
                    tracing::error!("the state of alerts cannot be kept: {problem}; they are sent all the same");
                }
                // An alert that is never delivered is worse than one that is repeated after a restart.
                (state.saved, state.problem) = (generation, Some(problem));
            }
        }
        drop(state);
        drop(saving);
        self.changed.notify_all();
    }

    /// Delivers to one destination until the server stops.
    pub(super) fn deliver_until_end(&self, number: usize) {
        let destination = &self.destinations[number];
        let sender = Sender::new(destination.clone(), self.files.read, &self.options.alerting_external_url);
        loop {
            let (batch, pause) = {
                let now_ms = self.now_ms();
                let mut guard = lock(&self.state);
                if guard.is_ending {
                    return;
                }
                let state = &mut *guard;
                let quiet = Quiet { silences: &state.silences, maintenance: &state.maintenance, now_ms };
                let outbox = &mut state.outboxes[number];
                outbox.mute(&|alert| quiet.of(&alert.tenant, &alert.labels).is_some());
                let saved = state.saved;
                let Some(batch) = outbox.next(destination, &self.grouping, now_ms, saved) else {
                    drop(
                        self.changed
                            .wait_timeout(guard, Duration::from_secs(1))
                            .unwrap_or_else(PoisonError::into_inner),
                    );
                    continue;
                };
                (batch, outbox.pause())
            };
            if self.ends_within(pause) {
                return;
            }
            let answer = sender.send(&batch);
            self.answered(number, &batch, answer);
        }
    }

    /// Waits, and returns whether the server stops meanwhile.
    pub(super) fn ends_within(&self, pause: Duration) -> bool {
        let clock = self.context.door.clock;
        let until_ns = clock.now() + pause.as_nanos() as u64;
        let mut state = lock(&self.state);
        while !state.is_ending && clock.now() < until_ns {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock.now()));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_ending
    }

    fn answered(&self, number: usize, batch: &Batch, answer: Answer) {
        let is_done = !matches!(answer, Answer::Failed(_));
        let now_ms = self.now_ms();
        let mut state = lock(&self.state);
        if let Some(sentence) = state.outboxes[number].answered(batch, answer, now_ms) {
            tracing::warn!("{sentence}");
        }
        // An alert may be sent to an Alertmanager again after a kill; people are notified about a group only once.
        if is_done && (self.destinations[number].is_grouped() || state.outboxes[number].waiting() == 0) {
            state.generation += 1;
            state.wanted = state.generation;
            drop(state);
            self.changed.notify_all();
        }
    }

    pub(super) const fn options(&self) -> &AlertingOptions {
        &self.options
    }

    /// Whether an alert would be evaluated and delivered now.
    pub(super) fn pulse(&self) -> Pulse {
        let now = self.now();
        let state = lock(&self.state);
        let slack = Ms::from(self.options.alerting_wait);
        let late = state.slots.iter().filter(|slot| now - slot.next > slot.group.interval * LATE_INTERVALS + slack);
        let failing = state.outboxes.iter().filter(|outbox| outbox.is_failing());
        Pulse { groups: state.slots.len(), late: late.count(), failing: failing.count() }
    }

    /// Passes the figures to the consumer that stores them every ten seconds.
    fn report(&self) {
        let value = |(name, labels, value): (&'static str, Vec<(&'static str, String)>, f64)| {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, text)| (*name, &**text)).collect();
            match name.ends_with("_total") {
                true => OwnValue::counter(name, &labels, value),
                false => OwnValue::gauge(name, &labels, "", value),
            }
        };
        self.context.door.meters.set_rule_values(self.figures().into_iter().map(value).collect());
    }

    /// Saves the state; an error when it is not on disk.
    fn keep_now(&self) -> Result<(), String> {
        lock(&self.state).generation += 1;
        self.save();
        lock(&self.state).problem.clone().map_or(Ok(()), Err)
    }

    pub(super) fn beats(&self) -> Beats {
        lock(&self.state).beats
    }

    pub(super) fn note_beats(&self, beats: Beats) {
        lock(&self.state).beats = beats;
    }
}

impl Runner for Work {
    fn reload(&self, by: &str) -> Result<(), String> {
        let before = lock(&self.state).marks.clone();
        let named = self.options.rule_files().next().expect("rules are evaluated only where files are named").pattern;
        let read = settled(&before, || {
            let loaded = files::load(&self.options, self.files)?;
            Ok(((loaded.files, loaded.maintenance), loaded.marks))
        });
        self.context.door.counters.reloads.ended(ConfigKind::Rules, read.is_ok());
        let ((loaded, maintenance), marks) = match read {
            Ok(read) => read,
            Err(error) => {
                note(
                    &self.context.door,
                    Entry::config(&named, &(self.files.owner)(&named), "rules_refused", by, &error),
                );
                return Err(error);
            }
        };
        let mut slots = slots(&loaded, &self.options, self.now());
        let mut state = lock(&self.state);
        let mut old: Vec<Slot> = std::mem::take(&mut state.slots);
        for slot in &mut slots {
            if let Some(at) = old.iter().position(|one| one.is_of(&slot.tenant, &slot.group)) {
                let before = old.swap_remove(at);
                slot.is_busy = before.is_busy;
                let evaluated_at = before.group.evaluated_at.unwrap_or(slot.next - slot.group.interval);
                slot.next = slot.group.slot_after(evaluated_at);
                Arc::make_mut(&mut slot.group).take_over(Arc::unwrap_or_clone(before.group));
            }
        }
        let changed = state.marks != marks;
        let count = slots.len();
        (state.slots, state.marks, state.maintenance) = (slots, marks, maintenance);
        state.version += 1;
        drop(state);
        if changed {
            note(
                &self.context.door,
                Entry::config(&named, &(self.files.owner)(&named), "rules", by, &format!("{count} groups\n")),
            );
        }
        tracing::info!("{count} groups of rules are in force");
        self.save();
        Ok(())
    }

    fn groups(&self, tenant: &Tenant) -> Vec<Arc<Group>> {
        groups_of(&lock(&self.state), tenant)
    }

    fn destinations(&self) -> (Vec<String>, Vec<Value>) {
        let state = lock(&self.state);
        let managers = self.destinations.iter().filter_map(|one| match one {
            Destination::Alertmanager { url } => Some(format!("{url}/api/v2/alerts")),
            _ => None,
        });
        let managers = managers.collect();
        let all = self.destinations.iter().zip(&state.outboxes).map(|(one, outbox)| {
            let Counts { sent, dropped, refused, failed_requests } = outbox.counts;
            json!({
                "url": one.name(), "waiting": outbox.waiting(), "sent": sent, "dropped": dropped, "refused": refused,
                "failedRequests": failed_requests, "lastError": outbox.last_error, "retryPause": duration::write(outbox.pause()),
            })
        });
        (managers, all.collect())
    }

    fn alerts(&self, tenant: &Tenant) -> Vec<Value> {
        let now_ms = self.now_ms();
        let (groups, silences, maintenance) = {
            let mut state = lock(&self.state);
            state.silences.end(now_ms);
            (groups_of(&state, tenant), state.silences.clone(), state.maintenance.clone())
        };
        let quiet = Quiet { silences: &silences, maintenance: &maintenance, now_ms };
        super::quiet::alerts(tenant, groups.iter().map(|group| &**group), &quiet, &self.options.alerting_label)
    }

    fn silences(&self, tenant: &Tenant) -> Value {
        let mut state = lock(&self.state);
        state.silences.end(self.now_ms());
        super::quiet::document(tenant, &state.silences, &state.maintenance, self.now_ms())
    }

    fn silence(&self, wish: SilenceRequest) -> Result<u64, String> {
        let now_ms = self.now_ms();
        let matchers = if wish.is_acknowledgement { exactly(&wish.labels) } else { Matchers::try_from(wish.labels)? };
        let silence = Silence {
            id: 0,
            matchers,
            tenant: short_name(&wish.tenant).to_owned(),
            starts_ms: wish.starts_ms.unwrap_or(now_ms),
            ends_ms: wish.ends_ms,
            by: wish.by,
            reason: wish.reason,
            is_acknowledgement: wish.is_acknowledgement,
        };
        let id = lock(&self.state).silences.add(silence, now_ms)?;
        self.keep_now()?;
        Ok(id)
    }

    fn unsilence(&self, tenant: &Tenant, id: u64) -> Result<bool, String> {
        let was_there = lock(&self.state).silences.remove(short_name(tenant), id);
        self.keep_now()?;
        Ok(was_there)
    }

    fn setting(&self) -> Setting {
        Setting {
            interval_ms: self.options.alerting_interval.as_millis() as i64,
            external_url: self.options.alerting_external_url.clone(),
            external_labels: self.options.alerting_label.iter().cloned().collect(),
        }
    }

    fn figures(&self) -> Figures {
        let groups: Vec<_> = lock(&self.state).slots.iter().map(|slot| Arc::clone(&slot.group)).collect();
        let (firing, pending) = active(&groups);
        let state = lock(&self.state);
        let counts = state.counts;
        let mut out = vec![
            ("ogive_rule_group_evaluations_total", Vec::new(), counts.done as f64),
            ("ogive_rule_failures_total", Vec::new(), counts.failed as f64),
            ("ogive_rule_samples_rejected_total", Vec::new(), counts.rejected as f64),
            ("ogive_rule_slots_missed_total", Vec::new(), counts.missed as f64),
            ("ogive_alert_transitions_total", Vec::new(), counts.transitions as f64),
        ];
        if !self.options.alerting_heartbeat.is_empty() {
            let Beats { sent, failed, withheld } = state.beats;
            for (outcome, count) in [("sent", sent), ("failed", failed), ("withheld", withheld)] {
                out.push(("ogive_alert_heartbeats_total", vec![("outcome", outcome.to_owned())], count as f64));
            }
        }
        for (name, count) in [("firing", firing), ("pending", pending)] {
            out.push(("ogive_alerts", vec![("state", name.to_owned())], count as f64));
        }
        let rules: usize = groups.iter().map(|group| group.rules.len()).sum();
        out.push(("ogive_rules", Vec::new(), rules as f64));
        for (one, queue) in self.destinations.iter().zip(&state.outboxes) {
            let labels = || vec![("destination", one.name())];
            out.push(("ogive_alerts_waiting", labels(), queue.waiting() as f64));
            out.push(("ogive_alerts_sent_total", labels(), queue.counts.sent as f64));
            out.push(("ogive_alerts_dropped_total", labels(), queue.counts.dropped as f64));
            out.push(("ogive_alerts_refused_total", labels(), queue.counts.refused as f64));
            out.push(("ogive_alert_requests_failed_total", labels(), queue.counts.failed_requests as f64));
        }
        out
    }
}

fn groups_of(state: &State, tenant: &Tenant) -> Vec<Arc<Group>> {
    state.slots.iter().filter(|slot| slot.tenant == *tenant).map(|slot| Arc::clone(&slot.group)).collect()
}

/// Alerts that fire, and that are pending.
fn active(groups: &[Arc<Group>]) -> (u64, u64) {
    let (mut firing, mut pending) = (0, 0);
    for alert in groups.iter().flat_map(|group| &group.rules).flat_map(|rule| rule.alerts()) {
        firing += u64::from(alert.state == AlertState::Firing);
        pending += u64::from(alert.state == AlertState::Pending);
    }
    (firing, pending)
}

/// Puts a tenant's group back that was evaluated for a slot, with rules of a version.
fn put_back(state: &mut State, tenant: &Tenant, group: Group, time: WallMs, version: u64) {
    let is_reloaded = state.version != version;
    let same = |slot: &&mut Slot| slot.is_busy && slot.is_of(tenant, &group);
    let Some(slot) = state.slots.iter_mut().find(same) else { return };
    slot.is_busy = false;
    if is_reloaded {
        slot.next = slot.group.slot_after(time);
        Arc::make_mut(&mut slot.group).take_over(group);
    } else {
        slot.next = group.slot_after(time);
        slot.group = Arc::new(group);
    }
}

fn place(upkeep: &Upkeep) -> SnapshotPath<'_> {
    SnapshotPath { disk: &upkeep.mirror, directory: upkeep.mirror.root().to_owned() }
}

/// The groups of files, before their first evaluation.
fn slots(files: &[LoadedFile], options: &AlertingOptions, now: WallMs) -> Vec<Slot> {
    let defaults = GroupDefaults { interval: Ms::from(options.alerting_interval), query_offset: Ms::ZERO };
    let of_file = |file: &LoadedFile, spec| {
        let group = Group::new(&file.path, spec, defaults);
        let next = group.slot_after(now);
        Slot { tenant: file.tenant.clone(), group: Arc::new(group), next, is_busy: false }
    };
    files.iter().flat_map(|file| file.rules.groups.iter().map(move |spec| of_file(file, spec))).collect()
}
