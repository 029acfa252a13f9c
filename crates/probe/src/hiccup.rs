//! A meter of what the machine itself does to latency: on each CPU a thread sleeps 10 ms and records how late it wakes.
//!
//! A program can only be as punctual as its CPU. Whatever keeps a ready thread from running (other processes, the
//! hypervisor, interrupts, memory reclaim, a stopped machine) shows here as it would show in any request.
//!
//! *Threads*: one per CPU that the process may use, named `ogive-hiccup-N` and bound to it where the system allows.
//! *Limits*: a hundred sleeps a second and CPU. Waking an idle CPU of a virtual machine costs some 20 us, so that is
//! 0.2 % of it; with sleeps of 1 ms it was 2 %, more than the rest of an idle server. A pause of 10 ms or more is
//! always seen, a shorter one in its proportion. [`HiccupMeter::cpu_ns`] says how much it is here. Each thread has a
//! stack of 64 KiB of addresses, of which it touches a page or two. *Failure*: when a thread cannot be made, those
//! already made are stopped and the error says so.

use crate::{Clock, Error, Recorder, threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The duration of each sleep.
pub const SLEEP_NS: u64 = 10_000_000;

/// The thread formats nothing and calls little.
const STACK_BYTES: usize = 64 * 1024;

/// Turns between updates of the thread's own cost: once a second.
const COST_TURNS: u64 = 100;

/// The meter; it stops when it is dropped.
#[derive(Debug)]
pub struct HiccupMeter {
    stop: Arc<AtomicBool>,
    cpus: Vec<CpuMeter>,
}

/// The meter of one CPU.
#[derive(Debug)]
pub struct CpuMeter {
    cpu: usize,
    recorder: Recorder,
    state: Arc<CpuState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct CpuState {
    pinned: AtomicBool,
    cpu_ns: AtomicU64,
}

impl HiccupMeter {
    /// Starts a thread on each CPU that this thread may use.
    ///
    /// # Errors
    /// [`Error::Spawn`] when the system creates no more threads; then none is left running.
    pub fn start(clock: Clock) -> Result<Self, Error> {
        let mut allowed = threads::allowed_cpus();
        if allowed.is_empty() {
            allowed.push(0); // The system cannot say: one thread, wherever it runs.
        }
        let mut meter = Self { stop: Arc::new(AtomicBool::new(false)), cpus: Vec::with_capacity(allowed.len()) };
        for cpu in allowed {
            let one = CpuMeter::start(cpu, clock, meter.stop.clone())?;
            meter.cpus.push(one);
        }
        Ok(meter)
    }

    /// The meters, one per CPU.
    #[must_use]
    pub fn cpus(&self) -> &[CpuMeter] {
        &self.cpus
    }

    /// Nanoseconds of CPU that the meter itself has used, up to the last second.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        // ORDERING: Relaxed; a figure for people.
        self.cpus.iter().map(|cpu| cpu.state.cpu_ns.load(Ordering::Relaxed)).sum()
    }

    /// Stops all threads and waits for them, ten milliseconds or so. The recorders keep their contents.
    pub fn stop(&mut self) {
        // ORDERING: Relaxed; the threads look once a turn, and joining orders the rest.
        self.stop.store(true, Ordering::Relaxed);
        for cpu in &mut self.cpus {
            if let Some(thread) = cpu.thread.take() {
                // A thread that panicked has recorded everything up to then.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for HiccupMeter {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CpuMeter {
    fn start(cpu: usize, clock: Clock, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        let (recorder, state) = (Recorder::new(), Arc::new(CpuState::default()));
        let name = format!("ogive-hiccup-{cpu}");
        let writer = recorder.handle();
        let of_thread = state.clone();
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // ORDERING: Relaxed throughout; flags and figures that publish nothing else.
                of_thread.pinned.store(threads::pin_to_cpu(cpu), Ordering::Relaxed);
                threads::sharpen_timers();
                let mut turns = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    writer.record_ns(overshoot_ns(clock));
                    if turns.is_multiple_of(COST_TURNS) {
                        of_thread.cpu_ns.store(threads::cpu_ns(), Ordering::Relaxed);
                    }
                    turns += 1;
                }
            })
            .map_err(|source| Error::Spawn { name, source })?;
        Ok(Self { cpu, recorder, state, thread: Some(thread) })
    }

    /// The CPU's number.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// The recorder of this CPU: by how many nanoseconds each sleep was too long.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// True when the thread is bound to its CPU.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        // ORDERING: Relaxed; a figure for people.
        self.state.pinned.load(Ordering::Relaxed)
    }
}

/// Sleeps, and returns how much longer than requested it took.
fn overshoot_ns(clock: Clock) -> u64 {
    let start = clock.now();
    std::thread::sleep(Duration::from_nanos(SLEEP_NS));
    clock.now().saturating_sub(start).saturating_sub(SLEEP_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn every_cpu_is_measured_until_the_meter_stops() {
        let mut meter = HiccupMeter::start(Clock::global()).expect("threads are to be had");
        let cpus = threads::allowed_cpus();
        assert_eq!(meter.cpus().iter().map(CpuMeter::cpu).collect::<Vec<_>>(), cpus);
        let mut counts = vec![0; cpus.len()];
        // On a busy machine a sleep may take much longer; wait for the records, not for a time.
        while counts.iter().any(|count| *count < 50) {
            std::thread::sleep(Duration::from_millis(20));
            for (count, cpu) in counts.iter_mut().zip(meter.cpus()) {
                *count += cpu.recorder().snapshot().count;
            }
        }
        assert!(meter.cpus().iter().all(CpuMeter::is_pinned));
        assert!(meter.cpu_ns() > 0);
        meter.stop();
        let rest: u64 = meter.cpus().iter().map(|cpu| cpu.recorder().snapshot().count).sum();
        let again: u64 = meter.cpus().iter().map(|cpu| cpu.recorder().snapshot().count).sum();
        assert_eq!(again, 0, "after the stop ({rest} were left) nothing is recorded");
    }
}
