//! Any bytes as a capture file: pcap, pcapng, gzip, zstd, and every frame and stream in it.
#![no_main]

#[path = "../capture_file.rs"]
mod capture_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    capture_file::observe(bytes);
});
