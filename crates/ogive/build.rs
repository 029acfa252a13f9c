//! Gives the binary a build id, by which a crash report finds the debug information of its build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--build-id=sha1");
}
