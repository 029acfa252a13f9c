//! An object of programs in the kernel: loaded with its configuration, attached, and its maps read.

use std::cell::{Ref, RefCell};
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, ProgramMut, RingBufferBuilder};

use perf_event::events::Software;
use perf_event::{Builder, Counter};

use crate::Error;
use crate::error::errno_of;
use crate::filter::CONFIG_BYTES;
use crate::run_time::RunTime;

/// What is loaded, and how.
pub(crate) struct Plan<'a> {
    pub(crate) object: &'static [u8],
    pub(crate) config: [u8; CONFIG_BYTES],
    /// Programs that are left out.
    pub(crate) without: &'a [&'a str],
    /// Maps that get so many entries.
    pub(crate) sizes: &'a [(&'a str, u32)],
}

/// Loaded and attached programs; dropped, they are out of the kernel.
pub(crate) struct Loaded {
    // Before the object: what is attached goes first.
    links: RefCell<Vec<(String, Link)>>,
    object: Object,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("links", &self.links.borrow().len()).finish_non_exhaustive()
    }
}

/// What libbpf warned of last: the verifier's words are there, and in no error.
static WARNING: Mutex<String> = Mutex::new(String::new());

/// A verifier's log is shown by its end.
const WARNING_LINES: usize = 8;

fn keep_warning(_: PrintLevel, text: String) {
    let is_log = text.contains("BEGIN PROG LOAD LOG");
    if is_log {
        *WARNING.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// Nothing of libbpf reaches the terminal from here on.
pub(crate) fn be_quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_warning)));
    WARNING.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

pub(crate) fn refused(what: &str, error: &libbpf_rs::Error) -> Error {
    let mut reason = format!("{error:#}");
    let errno = errno_of(&reason);
    let log = std::mem::take(&mut *WARNING.lock().unwrap_or_else(PoisonError::into_inner));
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("PROG LOAD LOG")).collect();
    for line in &lines[lines.len().saturating_sub(WARNING_LINES)..] {
        reason += "\n  ";
        reason += line;
    }
    Error::Refused { what: what.to_owned(), errno, reason, is_verifier: !lines.is_empty() }
}

/// How often a clock ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many times a second.
    PerSecond(u32),
    /// Once in so many nanoseconds.
    EveryNs(u64),
}

impl Loaded {
    /// Loads, and attaches nothing yet.
    pub(crate) fn load(plan: &Plan<'_>) -> Result<Self, Error> {
        Self::load_with(plan, &[], None)
    }

    /// With more constants, by the ends of their sections' names, and the tracepoint of one program.
    pub(crate) fn load_with(
        plan: &Plan<'_>,
        constants: &[(&str, &[u8])],
        point: Option<(&str, &str)>,
    ) -> Result<Self, Error> {
        be_quiet();
        let in_load = |error| refused("loading programs into the kernel", &error);
        let mut open = ObjectBuilder::default().open_memory(plan.object).map_err(in_load)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".config") {
                map.set_initial_value(&plan.config).map_err(in_load)?;
            }
            if let Some((_, bytes)) = constants.iter().find(|(section, _)| name.ends_with(section)) {
                map.set_initial_value(bytes).map_err(in_load)?;
            }
            if let Some((_, entries)) = plan.sizes.iter().find(|(sized, _)| *sized == name) {
                map.set_max_entries(*entries).map_err(in_load)?;
            }
        }
        for mut program in open.progs_mut() {
            let is_wanted = !plan.without.iter().any(|name| *name == program.name());
            program.set_autoload(is_wanted);
            if let Some((_, target)) = point.filter(|(name, _)| *name == program.name()) {
                program.set_attach_target(0, Some(target.to_owned())).map_err(in_load)?;
            }
        }
        Ok(Self { links: RefCell::default(), object: open.load().map_err(in_load)? })
    }

    /// Attaches everything that was loaded and is not yet.
    pub(crate) fn attach(&self, without: &[&str]) -> Result<(), Error> {
        for program in self.object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let is_attached = self.links.borrow().iter().any(|(attached, _)| *attached == name);
            if is_attached || !program.autoload() || without.contains(&name.as_str()) {
                continue;
            }
            let link = program.attach().map_err(|error| refused(&format!("attaching {name}"), &error))?;
            self.links.borrow_mut().push((name, link));
        }
        Ok(())
    }

    /// Takes programs out of the kernel's way; [`Loaded::attach`] puts them back.
    pub(crate) fn detach(&self, names: &[&str]) {
        self.links.borrow_mut().retain(|(name, _)| !names.contains(&name.as_str()));
    }

    /// What the kernel counted of the programs, by name.
    pub(crate) fn run_times(&self) -> Vec<(String, RunTime)> {
        let run_time = |program: ProgramMut<'_>| {
            let name = program.name().to_string_lossy().into_owned();
            let loaded = program.autoload().then(|| RunTime::from_program(program.as_fd()));
            loaded.flatten().map(|run_time| (name, run_time))
        };
        self.object.progs_mut().filter_map(run_time).collect()
    }

    /// Attaches a program to a clock of a CPU.
    pub(crate) fn attach_tick(&self, name: &str, cpu: usize, pace: Pace) -> Result<(), Error> {
        let mut clock = Builder::new(Software::CPU_CLOCK);
        match pace {
            Pace::PerSecond(rate) => clock.sample_frequency(rate.into()),
            Pace::EveryNs(ns) => clock.sample_period(ns),
        };
        self.attach_event(name, name, clock.include_kernel(), cpu)
    }

    /// Attaches a program to the end of each page fault of user code on a CPU; [`Loaded::detach`] knows it as `key`.
    pub(crate) fn attach_fault_ends(&self, key: &str, name: &str, cpu: usize) -> Result<(), Error> {
        for kind in [Software::PAGE_FAULTS_MIN, Software::PAGE_FAULTS_MAJ] {
            // A builder leaves out what happens in the kernel's own code unless it is configured otherwise.
            self.attach_event(key, name, Builder::new(kind).sample_period(1), cpu)?;
        }
        Ok(())
    }

    fn attach_event(&self, key: &str, name: &str, event: &mut Builder<'_>, cpu: usize) -> Result<(), Error> {
        let counter = counter_of(event, cpu)?;
        self.attach_as(key, name, &format!("attaching {name}"), |program| attach_counter(program, counter))
    }

    /// Attaches a program in a way of its own.
    pub(crate) fn attach_by(
        &self,
        name: &str,
        what: &str,
        attach: impl FnOnce(&ProgramMut<'_>) -> Result<Link, libbpf_rs::Error>,
    ) -> Result<(), Error> {
        self.attach_as(name, name, what, attach)
    }

    fn attach_as(
        &self,
        key: &str,
        name: &str,
        what: &str,
        attach: impl FnOnce(&ProgramMut<'_>) -> Result<Link, libbpf_rs::Error>,
    ) -> Result<(), Error> {
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let link = attach(&program.expect("a program of our own object"));
        let link = link.map_err(|error| refused(what, &error))?;
        self.links.borrow_mut().push((key.to_owned(), link));
        Ok(())
    }

    /// A map that the object has.
    pub(crate) fn map(&self, name: &str) -> impl MapCore + '_ {
        self.object.maps().find(|map| map.name() == name).expect("a map of our own object")
    }

    /// Offers a slot to the next that needs one.
    ///
    /// # Errors
    /// [`Error::Read`] when the queue of free slots takes none.
    pub(crate) fn offer(&self, free_slots: &str, slot: u32) -> Result<(), Error> {
        self.map(free_slots).update(&[], &slot.to_ne_bytes(), MapFlags::ANY).map_err(failed("free slots"))
    }

    /// What came in a ring since the last time, each record as `parse` reads it.
    ///
    /// # Errors
    /// [`Error::Read`] of `what` when the ring cannot be read.
    pub(crate) fn records<T: 'static>(
        &self,
        ring: &str,
        what: &'static str,
        parse: fn(&[u8]) -> T,
    ) -> Result<Vec<T>, Error> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let into = records.clone();
        let map = self.map(ring);
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            into.borrow_mut().push(parse(bytes));
            0
        };
        builder.add(&map, take).map_err(failed(what))?;
        let ring = builder.build().map_err(failed(what))?;
        ring.consume().map_err(failed(what))?;
        Ok(records.take())
    }

    /// The link of an attached program.
    pub(crate) fn link(&self, name: &str) -> Ref<'_, Link> {
        let is_named = |(attached, _): &&(String, Link)| attached == name;
        Ref::map(self.links.borrow(), |links| &links.iter().find(is_named).expect("a program that was attached").1)
    }
}

/// The error of a map that cannot be read or written: `what` is in it.
pub(crate) fn failed(what: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |error| Error::Read { what, reason: format!("{error:#}") }
}

/// Opens an event of every task on a CPU.
pub(crate) fn counter_of(event: &mut Builder<'_>, cpu: usize) -> Result<Counter, Error> {
    event.any_pid().one_cpu(cpu).build().map_err(|error| Error::Refused {
        what: format!("events of CPU {cpu}"),
        errno: error.raw_os_error(),
        reason: format!("perf_event_open: {error}"),
        is_verifier: false,
    })
}

/// Attaches a program to an event. The link closes the event's descriptor; where there is none, it is closed here.
pub(crate) fn attach_counter(program: &ProgramMut<'_>, counter: Counter) -> Result<Link, libbpf_rs::Error> {
    let link = program.attach_perf_event(counter.as_raw_fd())?;
    let _ = counter.into_raw_fd();
    Ok(link)
}

/// One value of an array.
pub(crate) fn value(map: &impl MapCore, index: u32, what: &'static str) -> Result<Vec<u8>, Error> {
    let read = map.lookup(&index.to_ne_bytes(), MapFlags::ANY);
    let value = read.map_err(failed(what))?;
    value.ok_or_else(|| Error::Read { what, reason: format!("there is no entry {index}") })
}

/// One value of an array for each CPU.
pub(crate) fn values_of_cpus(map: &impl MapCore, index: u32, what: &'static str) -> Result<Vec<Vec<u8>>, Error> {
    let read = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let values = read.map_err(failed(what))?;
    values.ok_or_else(|| Error::Read { what, reason: format!("there is no entry {index}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verifier_refuses_does_not_ask_for_capabilities() {
        let error = || libbpf_rs::Error::from_raw_os_error(13);
        assert!(refused("loading", &error()).to_string().contains("CAP_BPF"));
        let log = "prog 'a': -- BEGIN PROG LOAD LOG --\nR1 type=ctx expected=fp\n-- END PROG LOAD LOG --\n";
        keep_warning(PrintLevel::Warn, log.to_owned());
        let text = refused("loading", &error()).to_string();
        assert!(text.contains("R1 type=ctx") && !text.contains("CAP_BPF"), "{text}");
    }
}
