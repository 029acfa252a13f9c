//! Publishing the global clock as a page that other processes map.

use super::latch::Latch;
use super::page::{Identity, Page};
use super::process::{CHILD, GLOBAL, is_orphaned};
use super::share::{SHARES_MAX, write_figures};
use super::{Clock, service};
use crate::{Error, mapping, os};
use std::path::Path;
use std::sync::atomic::Ordering;

impl Clock {
    /// Publishes the global clock as a file that other processes map read-only: [`crate::SharedClock`],
    /// `sdk/c/ogive_clock.h`, or any language by docs/formats/clock-page.md. An existing file is replaced, and readers
    /// of the old one keep it; the new one has mode 0644. Put it on a file system in memory: `/dev/shm`,
    /// `$XDG_RUNTIME_DIR`.
    ///
    /// The page lives as long as the process; the file remains, and its readers can see that it is no longer updated.
    ///
    /// # Errors
    /// [`Error::Share`] when the file cannot be created, or this process already publishes four pages.
    pub fn share(path: impl AsRef<Path>) -> Result<(), Error> {
        let clock = Self::global();
        // ORDERING: Relaxed; a child of fork sees its own flag.
        if CHILD.load(Ordering::Relaxed) && is_orphaned() {
            service::spawn(&GLOBAL, super::read_costs);
        }
        let path = path.as_ref();
        let fail = |source| Error::Share { path: path.to_owned(), source };
        let full = || fail(std::io::Error::other(format!("this process publishes {SHARES_MAX} clock pages already")));
        if !GLOBAL.shares.has_place() {
            return Err(full());
        }
        let identity =
            Identity { source: clock.inner.source(), process: std::process::id(), made_at_ns: os::monotonic_ns() };
        let page = mapping::create(path, |page: &Page| {
            for (word, value) in page.identity.iter().zip(identity.to_words()) {
                // ORDERING: Relaxed; nobody can open the page before it has its name.
                word.store(value, Ordering::Relaxed);
            }
            let latch: &Latch<_> = &page.latch;
            latch.set_shift(clock.inner.latch.shift());
            latch.publish(&clock.inner.latch.load());
            write_figures(page, &clock.inner.figures, clock.tick_rate());
        })
        .map_err(fail)?;
        if GLOBAL.shares.add(page) { Ok(()) } else { Err(full()) }
    }
}
