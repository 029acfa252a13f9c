//! Any bytes for an answer to a batch: no panic, and a verdict speaks of as many samples as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_export::Answer;

fuzz_target!(|body: &[u8]| {
    if let Some(answer) = Answer::read(body) {
        let refused = answer.rejected.len() as u64;
        let taken = answer.accepted.zip(answer.duplicate).and_then(|(new, old)| new.checked_add(old));
        let all = taken.and_then(|taken| taken.checked_add(refused));
        assert!(all.is_none_or(|all| answer.is_verdict_on(all)));
    }
});
