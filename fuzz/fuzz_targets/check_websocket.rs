//! Any bytes as frames of WebSocket.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::websocket(bytes));
