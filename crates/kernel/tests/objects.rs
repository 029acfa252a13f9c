//! The committed objects are of the committed sources.
#![cfg(feature = "bpf")]

#[test]
fn the_committed_objects_are_of_these_sources() {
    let made_of = include_str!("../bpf/objects/sources").trim();
    let sources = env!("OGIVE_BPF_SOURCES");
    assert_eq!(made_of, sources, "run scripts/bpf and commit what it writes");
}

#[test]
fn the_compiler_here_makes_what_is_committed() {
    // Another clang makes other code of the same sources.
    let version = std::process::Command::new("clang").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !version.contains(include_str!("../bpf/objects/compiler").trim()) {
        eprintln!("SKIPPED: comparing objects: needs {}", include_str!("../bpf/objects/compiler").trim());
        return;
    }
    for (name, built, committed) in [
        (
            "ask",
            &include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/ask.bpf.o"))[..],
            &include_bytes!("../bpf/objects/ask.bpf.o")[..],
        ),
        (
            "doctor",
            include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/doctor.bpf.o")),
            include_bytes!("../bpf/objects/doctor.bpf.o"),
        ),
        (
            "flame",
            include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/flame.bpf.o")),
            include_bytes!("../bpf/objects/flame.bpf.o"),
        ),
        (
            "functions",
            include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/functions.bpf.o")),
            include_bytes!("../bpf/objects/functions.bpf.o"),
        ),
        (
            "tasks",
            include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/tasks.bpf.o")),
            include_bytes!("../bpf/objects/tasks.bpf.o"),
        ),
    ] {
        assert!(
            built == committed,
            "{name}: {} bytes built, {} committed: run scripts/bpf",
            built.len(),
            committed.len()
        );
    }
}
