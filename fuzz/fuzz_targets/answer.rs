//! Any bytes for an answer to a batch, or to several in one body: no panic, a verdict speaks of as many samples as it says, and each batch
//! has an outcome.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_export::{Answer, Reply};

fuzz_target!(|body: &[u8]| {
    if let Some(answer) = Answer::read(body) {
        let refused = answer.rejected.len() as u64;
        let taken = answer.accepted.zip(answer.duplicate).and_then(|(new, old)| new.checked_add(old));
        let all = taken.and_then(|taken| taken.checked_add(refused));
        assert!(all.is_none_or(|all| answer.is_verdict_on(all)));
    }
    for status in [200, 400, 429, 503] {
        let reply = Reply { status, after: None, body: body.to_vec() };
        for count in [1, 2, 3] {
            assert_eq!(reply.outcomes(count).len(), count);
        }
    }
});
