//! Any bytes as a conversation in memcached, whole, cut and with holes.
#![no_main]

#[path = "../wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wire::play("memcached", bytes);
});
