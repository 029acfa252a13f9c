//! Any bytes as an answer of the health service of gRPC.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::grpc(bytes));
