//! What continuous queries read, kept between two seconds: each second the samples that came are added and those that
//! left dropped, instead of the whole window being read again. All streams of one selector share one window.
//!
//! Invariants: a window answers what the store would: every sample that came behind its newest was reported to it
//! ([`Changing`]), and reads again from the oldest of them on. What it cannot answer the same way the store is asked:
//! older times, longer ranges, rollups, texts, and series beyond those that are watched.
//! Threads: one lock a window; who needs the same samples waits for whoever reads them. Limits: [`SPAN_MAX`],
//! [`AGO_MAX`] and [`BYTES_MAX`]; windows nobody read for [`IDLE`] go with the next one that is made, all with the last
//! [`RecentLease`].
//! Failure: an error of the store is the caller's, and the window begins anew.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{
    Labels, Matcher, MonoNs, Ms, Ns, Opening, Partial, Reader, Resolution, Select, SelectError, Selection, SeriesData,
    SeriesSet, Tenant, TimeRange, WallMs, WallNs,
};
use ogive_probe::Clock;

use super::changes::{Changes, Changing};
use super::window::Window;

/// 20 minutes: ranges of five minutes and what corrections look back on; longer ones are for recording rules.
const SPAN_MAX: Ms = Ms::from_secs(20 * 60);
/// Two minutes: a range that ended longer ago does not belong to a second that just closed.
const AGO_MAX: Ms = Ms::from_secs(120);
/// 256 MiB for all windows: 2,500 histogram series of 100 bins over a minute with the data kept beside them, or a
/// million numbers ten times over.
const BYTES_MAX: usize = 256 << 20;
/// A little more than a minute: corrections of sent seconds begin that much earlier.
const SLACK: Ms = Ms::from_secs(70);
/// A minute.
const IDLE: Ns = Ns::from_secs(60);

/// See the module.
pub struct Recent {
    changes: Arc<Changes>,
    clock: Clock,
    state: Mutex<State>,
    /// Memory of all windows.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    users: usize,
    entries: HashMap<(Tenant, String), Arc<Entry>>,
}

struct Entry {
    changing: Changing,
    kept: Mutex<RecentEntry>,
}

#[derive(Default)]
struct RecentEntry {
    window: Option<Window>,
    /// The longest requested range.
    span: Ms,
    used: MonoNs,
    /// Too many bytes: the store is queried until then.
    barred_until: MonoNs,
}

/// Held by a stream; windows are dropped with the last one.
pub struct RecentLease(Arc<Recent>);

impl Drop for RecentLease {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.users -= 1;
        let entries = if state.users == 0 { std::mem::take(&mut state.entries) } else { HashMap::new() };
        drop(state);
        self.0.drop_all(entries);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recent {
    pub(super) fn new(changes: Arc<Changes>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { changes, clock, state: Mutex::default(), bytes: AtomicUsize::new(0) })
    }

    /// Keeps windows for as long as this lives.
    #[must_use]
    pub fn using(self: &Arc<Self>) -> RecentLease {
        lock(&self.state).users += 1;
        RecentLease(Arc::clone(self))
    }

    /// Forgets all windows: something was deleted.
    pub fn forget(&self) {
        let entries = std::mem::take(&mut lock(&self.state).entries);
        self.drop_all(entries);
    }

    /// Memory of all windows.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // ORDERING: Relaxed; a figure.
        self.bytes.load(Ordering::Relaxed)
    }

    fn drop_all(&self, entries: HashMap<(Tenant, String), Arc<Entry>>) {
        for entry in entries.into_values() {
            self.set(&mut lock(&entry.kept), None);
        }
    }

    /// The window is this from now on.
    fn set(&self, kept: &mut RecentEntry, window: Option<Window>) {
        let (before, after) = (kept.window.as_ref().map_or(0, Window::bytes), window.as_ref().map_or(0, Window::bytes));
        // ORDERING: Relaxed; a sum that guards no other memory.
        self.bytes.fetch_add(after, Ordering::Relaxed);
        // ORDERING: Relaxed; as above.
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        kept.window = window;
    }

    /// The window of a selector; its watch is made if there is none.
    fn entry(&self, tenant: &Tenant, matchers: &[Matcher]) -> Option<Arc<Entry>> {
        let mut key = String::new();
        for matcher in matchers {
            let _ = write!(key, " {:?}{:?}{:?}", matcher.name, matcher.op, matcher.value);
        }
        let mut state = lock(&self.state);
        if state.users == 0 {
            return None;
        }
        let key = (tenant.clone(), key);
        if let Some(entry) = state.entries.get(&key) {
            return Some(Arc::clone(entry));
        }
        let now = MonoNs(self.clock.now());
        let (idle, others) = std::mem::take(&mut state.entries)
            .into_iter()
            .partition(|(_, entry)| entry.kept.try_lock().is_ok_and(|kept| now.since(kept.used) > IDLE));
        state.entries = others;
        let changing = self.changes.watch(tenant, vec![matchers.to_vec()], false);
        let kept = Mutex::new(RecentEntry { used: now, ..RecentEntry::default() });
        let entry = changing.map(|changing| Arc::new(Entry { changing, kept }));
        if let Some(entry) = &entry {
            state.entries.insert(key, Arc::clone(entry));
        }
        drop(state);
        self.drop_all(idle);
        entry
    }

    /// The result that the store would return; None when the store has to be queried.
    fn read(
        &self,
        store: &dyn Select,
        tenant: &Tenant,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Option<super::window::Slice>, SelectError> {
        let range = selection.range;
        let span = range.length();
        let now = WallNs(self.clock.wall()).to_ms();
        let is_recent = range.end > now - AGO_MAX && range.end <= now + AGO_MAX;
        let is_raw = matches!(selection.resolution, Resolution::Finest | Resolution::Aligned { .. });
        if selection.labels_only || !is_raw || !is_recent || span <= Ms::ZERO || span > SPAN_MAX {
            return Ok(None);
        }
        let Some(entry) = self.entry(tenant, &selection.matchers) else { return Ok(None) };
        let mut kept = lock(&entry.kept);
        kept.used = MonoNs(self.clock.now());
        if kept.barred_until > kept.used {
            return Ok(None);
        }
        kept.span = kept.span.max(span);
        let window = kept.window.take();
        // ORDERING: Relaxed; a sum: the window is counted again when it is put back.
        self.bytes.fetch_sub(window.as_ref().map_or(0, Window::bytes), Ordering::Relaxed);
        // Changes from here on are reported by the next call.
        let window = match entry.changing.take() {
            // More series than are watched.
            Some(WallMs::MIN) => return Ok(None),
            changed => window.map(|mut window| {
                window.cut_behind(changed.map_or(WallMs::MAX, |oldest| oldest.saturating_sub(Ms(1))));
                window
            }),
        };
        let Some(mut window) = brought_to(window, store, selection, opening, kept.span)? else { return Ok(None) };
        window.cut_to(window.end().max(range.end) - kept.span - SLACK * 2);
        let slice = window.slice(range);
        let is_too_large = self.bytes() + window.bytes() > BYTES_MAX;
        if is_too_large {
            kept.barred_until = kept.used.saturating_add(IDLE);
        }
        self.set(&mut kept, (!is_too_large).then_some(window));
        drop(kept);
        // If it is too large, the store reports that.
        Ok(slice.filter(|slice| slice.samples() <= selection.samples_max && slice.count() <= opening.series_max))
    }
}

/// The window with everything up to the end of the selection; None when it cannot be extended to it.
fn brought_to(
    window: Option<Window>,
    store: &dyn Select,
    selection: &Selection,
    opening: &Opening<'_>,
    span: Ms,
) -> Result<Option<Window>, SelectError> {
    let TimeRange { start, end } = selection.range;
    let read = |range: TimeRange| {
        let wanted = Selection { range, resolution: Resolution::Finest, ..selection.clone() };
        read_all(&*store.open(&wanted, opening)?)
    };
    if let Some(mut window) = window {
        if end <= window.end() {
            return Ok(Some(window));
        }
        if start >= window.start() {
            let range = TimeRange { start: window.end(), end };
            // Not with a new series, or with data that cannot be kept.
            if read(range)?.is_some_and(|newer| window.append(newer, end)) {
                return Ok(Some(window));
            }
        }
    }
    let range = TimeRange { start: end.saturating_sub(span + SLACK), end };
    Ok(read(range)?.map(|series| Window::new(range, series)))
}

/// All series; None when some do not consist of original samples.
fn read_all(set: &dyn SeriesSet) -> Result<Option<Vec<SeriesData>>, SelectError> {
    let mut all = Vec::with_capacity(set.count());
    for number in 0..set.count() {
        all.extend(set.take(number)?);
    }
    let is_plain =
        |one: &SeriesData| one.rollup_ms == 0 && one.floats.aggregates.is_empty() && one.texts.times.is_empty();
    Ok((all.iter().all(is_plain) && set.warnings().is_empty()).then_some(all))
}

/// A tenant's store through its windows.
pub struct RecentReader<'a> {
    inner: Box<dyn Reader + 'a>,
    recent: Option<&'a Recent>,
    tenant: &'a Tenant,
}

impl<'a> RecentReader<'a> {
    /// `inner` is the store behind the windows; without windows it is read directly.
    #[must_use]
    pub const fn new(inner: Box<dyn Reader + 'a>, recent: Option<&'a Recent>, tenant: &'a Tenant) -> Self {
        Self { inner, recent, tenant }
    }
}

impl Select for RecentReader<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.inner.select(selection)
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        self.inner.select_partial(selection)
    }

    fn open<'s>(
        &'s self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 's>, SelectError> {
        let kept = self.recent.map(|recent| recent.read(&*self.inner, self.tenant, selection, opening)).transpose()?;
        match kept.flatten() {
            Some(slice) => Ok(Box::new(slice)),
            None => self.inner.open(selection, opening),
        }
    }

    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        self.inner.label_sets(matchers, range, limit, opening)
    }

    fn histogram_names(&self, range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        self.inner.histogram_names(range)
    }
}

impl Reader for RecentReader<'_> {
    fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        self.inner.label_names(matchers, range, opening)
    }

    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        self.inner.label_values(name, matchers, range, limit, opening)
    }
}
