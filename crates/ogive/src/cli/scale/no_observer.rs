//! In a binary without the kernel observer: /proc alone.

use std::collections::BTreeSet;

use super::threads::Waits;

/// A placeholder without observation.
pub(super) struct Observer;

impl Observer {
    pub(super) fn start(is_unwanted: bool) -> Result<Option<Self>, String> {
        if is_unwanted { Ok(None) } else { Err("this binary has no kernel observer (feature `kernel`)".to_owned()) }
    }

    pub(super) fn forget(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    pub(super) fn waits(&mut self, _: &BTreeSet<u32>) -> anyhow::Result<Option<Waits>> {
        Ok(None)
    }
}
