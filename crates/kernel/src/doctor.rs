//! Which families of programs this kernel allows: determined by loading and attaching one of each, never by its version
//! or configuration.

use std::path::Path;

use libbpf_rs::{ObjectBuilder, ProgramMut};
use perf_event::Builder;
use perf_event::events::Software;

use crate::Error;
use crate::error::errno_of;
use crate::object::{attach_counter, be_quiet, counter_of, refused};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/doctor.bpf.o"));

/// A family of programs, or something that programs use.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name in libbpf's sections.
    pub name: &'static str,
    /// The program that tries it.
    program: &'static str,
    /// What the observer does with it.
    pub used_for: &'static str,
    /// What a kernel that lacks it would need.
    pub needs: &'static str,
    /// What is there without it.
    pub fallback: &'static str,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was tried.
    pub family: &'static Family,
    /// Whether it was loaded and attached.
    pub works: bool,
    /// The kernel's number of the error, where there is one.
    pub errno: Option<i32>,
    /// What libbpf and the kernel said, empty when it works.
    pub reason: String,
}

const CAPABILITIES: &str = "CAP_BPF and CAP_PERFMON; CONFIG_DEBUG_INFO_BTF";
const COUNTERS: &str = "/proc: counters without a distribution";

/// Everything that is tried, what the observer cannot do without first.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "tp_btf",
        program: "try_tp_btf",
        used_for: "sched, micro, calls, locks, ask",
        needs: CAPABILITIES,
        fallback: COUNTERS,
    },
    Family {
        name: "task storage",
        program: "try_task_storage",
        used_for: "sched, micro, calls, locks",
        needs: "Linux 5.11; CAP_BPF and CAP_PERFMON",
        fallback: COUNTERS,
    },
    Family {
        name: "ring buffer",
        program: "try_ring",
        used_for: "herds, locks",
        needs: "Linux 5.8; CAP_BPF and CAP_PERFMON",
        fallback: "none",
    },
    Family {
        name: "iter/task",
        program: "try_iter",
        used_for: "micro",
        needs: "Linux 5.8; CAP_BPF and CAP_PERFMON",
        fallback: "/proc/PID/task/TID/schedstat",
    },
    Family {
        name: "page faults",
        program: "try_page_faults",
        used_for: "micro: TFL apart from DFL",
        needs: "the tracepoint exceptions:page_fault_user; CAP_BPF and CAP_PERFMON",
        fallback: "DFL for both",
    },
    Family {
        name: "perf events",
        program: "try_perf_events",
        used_for: "flame, ask profile:, micro: TRP",
        needs: "CONFIG_PERF_EVENTS; CAP_PERFMON",
        fallback: "USR for TRP",
    },
    Family { name: "raw_tp", program: "try_raw_tp", used_for: "nothing yet", needs: CAPABILITIES, fallback: "tp_btf" },
    Family {
        name: "tracepoint",
        program: "try_tracepoint",
        used_for: "ask tracepoint:",
        needs: "tracefs, readable: CONFIG_FTRACE and root",
        fallback: "tp_btf",
    },
    Family {
        name: "uprobe",
        program: "try_uprobe",
        used_for: "ask",
        needs: "CONFIG_UPROBE_EVENTS; CAP_SYS_ADMIN",
        fallback: "none",
    },
    Family {
        name: "uprobe.multi",
        program: "try_uprobe_multi",
        used_for: "calls --functions",
        needs: "Linux 6.6, CONFIG_UPROBE_EVENTS; CAP_BPF and CAP_PERFMON",
        fallback: "none",
    },
    Family {
        name: "kprobe",
        program: "try_kprobe",
        used_for: "nothing: tp_btf is enough",
        needs: "CONFIG_KPROBES; CAP_PERFMON",
        fallback: "tp_btf",
    },
    Family {
        name: "fentry",
        program: "try_fentry",
        used_for: "nothing: tp_btf is enough",
        needs: "CONFIG_FUNCTION_TRACER with direct calls; CAP_BPF and CAP_PERFMON",
        fallback: "tp_btf",
    },
];

/// Tries every family, one after the other; each is out of the kernel again before the next.
///
/// `program` is a file with the function `getpid` to try uprobes on, such as the C library.
#[must_use]
pub fn examine(program: Option<&Path>) -> Vec<Verdict> {
    be_quiet();
    let verdict = |family| {
        let failure = attempt(family, program).err();
        let reason = failure.clone().unwrap_or_default();
        Verdict { family, works: failure.is_none(), errno: errno_of(&reason), reason }
    };
    FAMILIES.iter().map(verdict).collect()
}

/// The C library of this process, by what it has mapped.
#[must_use]
pub fn c_library(maps: &str) -> Option<&Path> {
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths.map(Path::new).find(|path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("libc.") || name.starts_with("libc-"))
    })
}

/// The flat bins of some numbers of nanoseconds, as the kernel's own compilation of the rule finds them: what
/// `ogive_hist::NanosecondIndex` must find too.
///
/// # Errors
/// When the kernel does not run the program.
pub fn bins_in_kernel(nanoseconds: &[u64]) -> Result<Vec<usize>, Error> {
    let refused = |error| refused("running a program", &error);
    let object = open("find_bin").map_err(refused)?.load().map_err(refused)?;
    let program = object.progs_mut().find(|program| program.name() == "find_bin").expect("a program of our own object");
    let mut bins = Vec::with_capacity(nanoseconds.len());
    for number in nanoseconds {
        let mut context = number.to_ne_bytes();
        let input = libbpf_rs::ProgramInput { context_in: Some(&mut context), ..Default::default() };
        bins.push(program.test_run(input).map_err(refused)?.return_value as usize);
    }
    Ok(bins)
}

/// The object with one program, and the maps that it needs.
fn open(tried: &str) -> Result<libbpf_rs::OpenObject, libbpf_rs::Error> {
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut program in open.progs_mut() {
        let is_tried = program.name() == tried;
        program.set_autoload(is_tried);
    }
    for mut map in open.maps_mut() {
        // A kernel that has no such map refuses it for the family that needs it alone.
        let is_needed = match map.name().to_str() {
            Some("storage") => tried == "try_task_storage",
            Some("ring") => tried == "try_ring",
            _ => true,
        };
        map.set_autocreate(is_needed)?;
    }
    Ok(open)
}

fn attempt(family: &Family, library: Option<&Path>) -> Result<(), String> {
    let text = |error: libbpf_rs::Error| format!("{error:#}");
    let object = open(family.program).map_err(text)?.load().map_err(text)?;
    let program = object.progs_mut().find(|program| program.name() == family.program).ok_or("no such program")?;
    attach(&program, family.program, library)
}

fn attach(program: &ProgramMut<'_>, name: &str, library: Option<&Path>) -> Result<(), String> {
    let text = |error: libbpf_rs::Error| format!("{error:#}");
    let library = || library.ok_or_else(|| "no C library to try it on".to_owned());
    let link = match name {
        "try_uprobe" => {
            let options = libbpf_rs::UprobeOpts { func_name: Some("getpid".to_owned()), ..Default::default() };
            program.attach_uprobe_with_opts(-1, library()?, 0, options)
        }
        "try_perf_events" => {
            let mut ends = Builder::new(Software::PAGE_FAULTS_MAJ);
            let counter = counter_of(ends.sample_period(1), 0).map_err(|error| error.to_string())?;
            attach_counter(program, counter)
        }
        "try_uprobe_multi" => program.attach_uprobe_multi(-1, library()?, "getpid", false, false),
        _ => program.attach(),
    };
    link.map(drop).map_err(text)
}
