//! The programs for the kernel: compiled when clang is there, else the committed objects, if they are of these sources.
//!
//! `bpf/objects/sources` holds the hash of what the committed objects were made of; `scripts/bpf` writes both.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One object each, `bpf/NAME.bpf.c`.
const OBJECTS: &[&str] = &["ask", "doctor", "flame", "functions", "tasks"];

/// Every source, in the order in which they are hashed.
const SOURCES: &[&[u8]] = &[
    include_bytes!("bpf/ask.bpf.c"),
    include_bytes!("bpf/doctor.bpf.c"),
    include_bytes!("bpf/flame.bpf.c"),
    include_bytes!("bpf/functions.bpf.c"),
    include_bytes!("bpf/tasks.bpf.c"),
    include_bytes!("bpf/bins.h"),
    include_bytes!("bpf/calls.h"),
    include_bytes!("bpf/clocks.h"),
    include_bytes!("bpf/herds.h"),
    include_bytes!("bpf/interrupts.h"),
    include_bytes!("bpf/kernel.h"),
    include_bytes!("bpf/locks.h"),
    include_bytes!("bpf/micro.h"),
    include_bytes!("bpf/sched.h"),
    include_bytes!("bpf/slots.h"),
    include_bytes!("bpf/snapshot.h"),
    include_bytes!("bpf/usdt.h"),
    include_bytes!("bpf/watch.h"),
];

/// What the committed objects are of.
const COMMITTED: &str = include_str!("bpf/objects/sources");

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=OGIVE_CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a directory"));
    let clang = std::env::var("OGIVE_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let sources = format!("{:016x}", twox_hash::XxHash3_64::oneshot(&SOURCES.concat()));
    let is_fresh = sources == COMMITTED.trim();
    let is_compiled = OBJECTS.iter().all(|name| compile(&clang, name, &out.join(format!("{name}.bpf.o"))));
    assert!(
        is_compiled || is_fresh,
        "{clang} did not compile crates/kernel/bpf, and the objects there are of other sources: install clang 14 or newer"
    );
    if !is_fresh {
        println!("cargo::warning=bpf/objects is not of these sources: run scripts/bpf");
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/objects");
    println!("cargo::rustc-env=OGIVE_BPF_OBJECTS={}", if is_compiled { out } else { committed }.display());
    println!("cargo::rustc-env=OGIVE_BPF_SOURCES={sources}");
}

/// Whether clang compiled it.
fn compile(clang: &str, name: &str, to: &Path) -> bool {
    let source = format!("{name}.bpf.c");
    let arguments = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fdebug-compilation-dir=.", "-Werror", "-c", &source];
    let compiled = Command::new(clang).args(arguments).arg("-o").arg(to).current_dir("bpf").status();
    let is_compiled = compiled.is_ok_and(|status| status.success());
    if is_compiled {
        // Debug information beside BTF is for nobody; without the program it stays.
        let _ = Command::new("llvm-strip").arg("-g").arg(to).status();
    }
    is_compiled
}
