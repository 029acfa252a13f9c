//! The `ogive` binary; see the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    ogive::run()
}
