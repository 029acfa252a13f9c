//! The kernel's clock source: asked for, and switched with a way back.
//!
//! *Format*: two files of sysfs, `current_clocksource` (a name; writing one switches) and `available_clocksource`
//! (names with blanks between them), written by the Linux kernel's kernel/time/clocksource.c. *Failure*: where the
//! files cannot be read, nothing is known. A [`Switch`] puts the first source back when it is dropped, which a panic
//! does too; only SIGKILL and a power cut are left, and the message before the first switch says how to go back by
//! hand.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use ogive_probe::{Clock, Policy};

use super::kernel_log::KernelLog;
use ogive_observe::clock::{AskKernel, Kernel};

const CURRENT: &str = "current_clocksource";
const AVAILABLE: &str = "available_clocksource";

/// Directory where the kernel lists its clock sources.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Directory {
    /// Directory of the kernel's clock source, for tests.
    #[arg(
        long = "clocksource-dir",
        value_name = "DIR",
        hide = true,
        default_value = "/sys/devices/system/clocksource/clocksource0"
    )]
    path: PathBuf,
    /// When to use the processor's counter: while it is found to keep time, or always (force).
    #[arg(long = "clock", value_name = "WHEN", default_value = "auto", env = "OGIVE_CLOCK")]
    policy: Trust,
}

/// When the processor's counter is read.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Trust {
    /// Use the counter while the kernel does, and after that for as long as cross-checks hold: its rate against a
    /// clock that is never slewed, and the counters of all CPUs against each other.
    Auto,
    /// Always use the counter, whatever the kernel and the cross-checks report.
    Force,
}

impl Directory {
    /// A way to query the kernel for the server's own series, including what the kernel logs from now on.
    pub(crate) fn asker(&self) -> AskKernel {
        let (directory, log) = (self.clone(), RefCell::new(KernelLog::open()));
        Box::new(move || Kernel { messages: log.borrow_mut().read(), ..directory.ask() })
    }

    /// Sets when `clock` reads the counter.
    pub(crate) fn apply(&self, clock: Clock) {
        clock.set_policy(match self.policy {
            Trust::Auto => Policy::Auto,
            Trust::Force => Policy::Force,
        });
    }

    /// The kernel's current state; two files, some 30 us.
    pub(crate) fn ask(&self) -> Kernel {
        let read = |name: &str| std::fs::read_to_string(self.path.join(name)).ok();
        let current = read(CURRENT).map(|text| text.trim().to_owned()).filter(|name| !name.is_empty());
        let available = read(AVAILABLE).unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        Kernel { current, available, messages: Vec::new() }
    }
}

/// A right to switch the kernel's clock source; dropped, it puts back the one that it found.
#[derive(Debug)]
pub(super) struct Switch {
    file: PathBuf,
    /// The source that was in use, to be restored.
    first: String,
    /// Whether it may still be switched; held during a write, so that nothing is written after the restoration.
    open: Mutex<bool>,
}

impl Switch {
    /// Remembers the source in use.
    pub(super) fn new(directory: &Directory) -> anyhow::Result<Self> {
        let first = directory.ask().current.context("the kernel does not say which clock source it uses")?;
        let switch = Self { file: directory.path.join(CURRENT), first, open: Mutex::new(true) };
        // Writing the source that is in use changes nothing, and shows whether writing is permitted.
        switch.to(&switch.first)?;
        Ok(switch)
    }

    /// Switches to `name`.
    pub(super) fn to(&self, name: &str) -> anyhow::Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(*open, "the clock source was put back already");
        write(&self.file, name).with_context(|| format!("cannot switch the kernel's clock source to {name}; be root"))
    }

    /// Puts the first source back, once; nothing is switched after this.
    pub(super) fn close(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *open)
            && let Err(error) = write(&self.file, &self.first)
        {
            eprintln!("ogive: cannot put the clock source back ({error}): {}", self.by_hand());
        }
    }

    /// How to go back by hand.
    pub(super) fn by_hand(&self) -> String {
        format!("echo {} > {}", self.first, self.file.display())
    }
}

/// Writes the whole name to the existing file with one call.
fn write(file: &Path, name: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(file)?;
    std::io::Write::write_all(&mut file, format!("{name}\n").as_bytes())
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let held = tempfile::tempdir().unwrap();
        std::fs::write(held.path().join(CURRENT), "tsc\n").unwrap();
        std::fs::write(held.path().join(AVAILABLE), "tsc kvm-clock \n").unwrap();
        let directory = Directory { path: held.path().to_owned(), policy: Trust::Auto };
        (held, directory)
    }

    #[test]
    fn the_kernel_is_read_as_it_writes() {
        let (held, directory) = directory();
        let kernel = Kernel {
            current: Some("tsc".into()),
            available: vec!["tsc".into(), "kvm-clock".into()],
            ..Kernel::default()
        };
        assert_eq!(directory.ask(), kernel);
        assert_eq!((kernel.name(), kernel.is_slow()), ("tsc", Some(false)));
        std::fs::write(held.path().join(CURRENT), "hpet\n").unwrap();
        assert_eq!(directory.ask().is_slow(), Some(true));
        drop(held);
        assert_eq!(directory.ask(), Kernel::default());
        assert_eq!((directory.ask().name(), directory.ask().is_slow()), ("unknown", None));
    }

    #[test]
    fn a_switch_goes_back_also_when_what_it_was_for_panics() {
        let (_held, directory) = directory();
        let run = || {
            let switch = Switch::new(&directory).unwrap();
            switch.to("kvm-clock").unwrap();
            assert_eq!(directory.ask().name(), "kvm-clock");
            panic!("what a bench may do");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        assert_eq!(directory.ask().name(), "tsc");
    }

    #[test]
    fn nothing_is_switched_after_the_way_back() {
        let (held, directory) = directory();
        let switch = Switch::new(&directory).unwrap();
        switch.to("kvm-clock").unwrap();
        switch.close();
        assert!(switch.to("kvm-clock").is_err());
        assert_eq!(directory.ask().name(), "tsc");
        // What somebody else does later stays.
        std::fs::write(held.path().join(CURRENT), "hpet\n").unwrap();
        drop(switch);
        assert_eq!(directory.ask().name(), "hpet");
    }

    #[test]
    fn without_the_file_there_is_no_right_to_switch() {
        let (held, directory) = directory();
        drop(held);
        assert!(Switch::new(&directory).unwrap_err().to_string().contains("does not say"));
    }
}
