//! The clock page: read by this process, by another one, after its publisher died, and from C, C++, Go and Java.
//!
//! CI has `cc`, `c++`, `go` and a JDK; a program that is missing is a failure with its name.

#![cfg(all(target_os = "linux", not(miri)))]

use ogive_probe::{Clock, ClockPage, Error, Mode, SharedClock};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn system_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 120, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page that this process publishes, made once: a process has four.
fn published() -> &'static Path {
    static PAGE: std::sync::OnceLock<(tempfile::TempDir, PathBuf)> = std::sync::OnceLock::new();
    let (_, path) = PAGE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("clock");
        Clock::share(&path).expect("shared");
        let clock = SharedClock::open(&path).expect("a page");
        until("the counter", || clock.status().mode == Mode::Counter || !clock.status().source.is_counter());
        (directory, path)
    });
    path
}

#[test]
fn the_page_is_the_clock_of_its_publisher() {
    let (clock, shared) = (Clock::global(), SharedClock::open(published()).expect("a page"));
    let (mut last, mut falls) = (0, Vec::new());
    for _ in 0..10_000 {
        // Between two readings of the publisher's clock in order, so both are one line.
        let (before, now, after) = (clock.now(), shared.now(), clock.now());
        if !(last <= now && before <= now && now <= after) {
            falls.push([last, before, now, after]);
        }
        last = shared.now_unordered().max(now);
    }
    // A publisher that is kept off the processor for long publishes late; the clock counts how often a reader may see
    // that.
    let backsteps = clock.status().backsteps;
    assert!(falls.len() as u64 <= backsteps, "{falls:?}, and {backsteps} were reported");
    let (before, bounded) = (system_ns(), shared.now_bounded());
    assert!(bounded.ns + bounded.err_ns + 100_000 >= before && bounded.ns <= system_ns() + bounded.err_ns + 100_000);
    let (from, to) = (shared.ticks(), shared.ticks_ordered());
    assert_eq!(shared.ns_between(to, from), 0);
    assert!(shared.ns_between(from, to + 1_000_000) > 100_000);
    assert!(shared.wall().abs_diff(clock.wall()) < 1_000_000_000);
    let status = shared.status();
    assert_eq!((status.process, status.source), (std::process::id(), clock.status().source));
    assert_eq!(status.epoch, shared.epoch());
    assert!(status.source.is_counter() <= (status.frequency_hz > 0 && status.calibrations > 0), "{status:?}");
}

#[test]
fn a_page_is_whole_readable_for_all_and_replaced_by_the_next() {
    let _ = published(); // Before this test takes the other places.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("clock");
    Clock::share(&path).expect("shared");
    let first = SharedClock::open(&path).expect("a page");
    let file = std::fs::metadata(&path).expect("a file");
    assert_eq!((file.permissions().mode() & 0o777, file.len()), (0o644, 4_096));
    let bytes = std::fs::read(&path).expect("readable");
    assert_eq!(ClockPage::parse(&bytes).expect("a page").process(), std::process::id());
    Clock::share(&path).expect("shared again");
    let second = SharedClock::open(&path).expect("a page");
    assert!(first.now() <= second.now() && second.now() <= first.now(), "both are the clock");
    let names: Vec<_> = std::fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(names.len(), 1, "nothing that was begun is left: {names:?}");
    // With the page of the other tests four are published at most; the fifth is refused, and leaves no file.
    let refused: Vec<_> = (0..3).map(|at| Clock::share(directory.path().join(format!("more{at}")))).collect();
    assert!(matches!(&refused[2], Err(Error::Share { .. })), "{refused:?}");
    assert!(!directory.path().join("more2").exists());
}

#[test]
fn what_is_no_page_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("clock");
    assert!(matches!(SharedClock::open(&path), Err(Error::Share { .. })), "no file");
    std::fs::write(&path, [0; 4_095]).expect("written");
    assert!(matches!(SharedClock::open(&path), Err(Error::Share { .. })), "too short");
    std::fs::write(&path, [0; 4_096]).expect("written");
    assert!(matches!(SharedClock::open(&path), Err(Error::Page { what: "magic", found: 0 })), "zeros");
    let mut page = std::fs::read(published()).expect("a page");
    page[8] = 2;
    std::fs::write(&path, page).expect("written");
    assert!(matches!(SharedClock::open(&path), Err(Error::Page { what: "version", found: 2 })));
    assert!(matches!(Clock::share(directory.path().join("no/such")), Err(Error::Share { .. })));
    assert!(matches!(Clock::share("/tmp/\0"), Err(Error::Share { .. })), "no name");
}

/// The publisher is killed: its readers go on, by the system's clock, and no reading falls on the way.
#[test]
fn readers_outlive_their_publisher() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("clock");
    // SAFETY: the child publishes a page, sleeps and is killed.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let shared = Clock::share(&path).is_ok();
        let start = Instant::now();
        while shared && start.elapsed().as_secs() < 300 {
            let _ = Clock::global().now();
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: _exit ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(1) };
    }
    until("the page", || path.exists());
    let clock = SharedClock::open(&path).expect("a page");
    let counter = clock.status().source.is_counter();
    until("the child's counter", || clock.status().mode == Mode::Counter || !counter);
    assert_eq!(clock.status().process, child as u32);
    // SAFETY: `child` is our child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    let mut last = 0;
    until("the end of the segment", || {
        let now = clock.now();
        assert!(now >= last, "{now} after {last}");
        last = now;
        clock.status().mode == Mode::Os
    });
    for _ in 0..1_000 {
        let (before, now) = (system_ns(), clock.now());
        assert!(now >= last && now + 1_000_000_000 > before && now < system_ns() + 1_000_000_000);
        last = now;
    }
    assert!(!counter || clock.status().age_ns > 1_000_000_000);
}

fn run(what: &str, command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{what} is needed here and cannot be run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed with {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

fn compiled(directory: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let program = directory.join(compiler.replace('+', "x"));
    let source = root().join("crates/probe/tests/shared").join(source);
    run(
        compiler,
        Command::new(compiler)
            .args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(options)
            .arg("-I")
            .arg(root().join("sdk/c"))
            .arg(source)
            .arg("-o")
            .arg(&program),
    );
    program
}

/// The page of vectors/clock as a file, and the stamps to convert with what must come out.
fn vector(directory: &Path) -> (PathBuf, Vec<String>, String) {
    let text =
        |name: &str| std::fs::read_to_string(root().join("vectors/clock").join(name)).expect("in the repository");
    let digits: Vec<u8> = text("page.hex").bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
    let mut bytes: Vec<u8> = digits.chunks_exact(2).map(byte).collect();
    bytes.resize(4_096, 0);
    let path = directory.join("vector");
    std::fs::write(&path, &bytes).expect("written");
    let (mut stamps, mut expected) = (Vec::new(), String::new());
    for line in text("conversions.txt").lines().filter(|line| !line.starts_with('#')) {
        let (stamp, result) = line.split_once(' ').expect("a stamp and its time");
        stamps.push(stamp.to_owned());
        expected.push_str(result);
        expected.push('\n');
        let page = ClockPage::parse(&bytes).expect("a page");
        let ticks = stamp.parse().expect("a number");
        let ours = page.ns_at(ticks).map(|ns| format!("{ns} {}", page.wall_at(ticks).expect("inside")));
        assert_eq!(ours.as_deref().unwrap_or("none"), result, "at {ticks}");
    }
    assert!(stamps.len() >= 8);
    (path, stamps, expected)
}

/// Converts the vector's stamps and reads the live page; `program` makes the command that does so.
fn check(language: &str, program: impl Fn() -> Command) {
    let directory = tempfile::tempdir().expect("a directory");
    let (vector, stamps, expected) = vector(directory.path());
    assert_eq!(run(language, program().arg("convert").arg(vector).args(stamps)), expected, "{language}");
    let clock = Clock::global();
    let live = || {
        let before = clock.now();
        let output = run(language, program().arg("live").arg(published()).arg("20000"));
        let after = clock.now();
        let numbers: Vec<u64> = output.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [first, last, fell, beyond, mode, process] = numbers[..] else { panic!("{language} printed {output}") };
        assert!(before <= first && first <= last && last <= after, "{language}: {before} {first} {last} {after}");
        assert_eq!((fell, process), (0, u64::from(std::process::id())), "{language}: {output}");
        // Few of 20,000 readings are beyond their bound, and none is of the system's clock.
        let is_sound = beyond <= 1_000 && (mode == 1) == clock.status().source.is_counter();
        if is_sound { None } else { Some(output) }
    };
    // A time service may begin to slew the clock at any moment, and the bound then lags by a period; a busy machine may
    // give the publisher no CPU for longer than its segment lasts. What is wrong is so each time.
    let found: Vec<String> = (0..5).map_while(|_| live()).collect();
    assert!(found.len() < 5, "{language}: beyond its bound, or of the system's clock (0): {found:#?}");
}

#[test]
fn a_c_program_reads_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compiled(directory.path(), "cc", "reader.c", &["-std=c11"]);
    check("C", || Command::new(&program));
    let output = run("C", Command::new(&program).args(["live", "/nowhere", "1000"]));
    assert!(output.ends_with(" 0 0 0 0\n"), "without a page it is the system's clock: {output}");
}

#[test]
fn the_header_is_cpp_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compiled(directory.path(), "c++", "reader.cpp", &["-std=c++11"]);
    run("C++", &mut Command::new(program));
}

/// Through sdk/go, which a test program uses as a package.
#[test]
fn a_go_program_reads_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("go");
    run(
        "go",
        Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg("./internal/clockreader")
            .env("GOTOOLCHAIN", "local")
            .env("CGO_ENABLED", "0")
            .current_dir(root().join("sdk/go")),
    );
    check("Go", || Command::new(&program));
}

/// Through sdk/java, whose class for the clock needs no other.
#[test]
fn a_java_program_reads_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let sources = ["sdk/java/src/main/java/io/ogive/Clock.java", "crates/probe/tests/shared/Reader.java"];
    run(
        "javac",
        Command::new("javac")
            .args(["--release", "17", "-d"])
            .arg(directory.path())
            .args(sources.map(|source| root().join(source))),
    );
    check("Java", || {
        let mut java = Command::new("java");
        java.arg("-cp").arg(directory.path()).arg("Reader");
        java
    });
}
