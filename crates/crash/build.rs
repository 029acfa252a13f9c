//! Gives the tests of this crate a build id, by which reports and debug information find each other.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-tests=-Wl,--build-id=sha1");
}
