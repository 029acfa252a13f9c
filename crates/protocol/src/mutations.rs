//! Seeded changes to good input, for the smoke test of each decoder.

// Each crate that has this file uses a part of it.
#![allow(dead_code)]

/// What files and answers are made of.
pub(crate) const TEXT: &[u8] = b" -:[]{},.'\"#&*!|>=\n\tax0e\xff";

/// Gives `read` the good input and `rounds` changed copies of it, of up to six changes each.
pub(crate) fn smoke(read: fn(&[u8]), good: &[u8], rounds: u32, alphabet: &[u8]) {
    read(good);
    mutations(good, rounds, 5, alphabet, read);
}

/// Calls `each` with `rounds` changed copies of `good`. Each has one to `changes` changes: its end cut off, or a byte
/// put in or replaced by one of `alphabet`, or by any when that is empty.
pub(crate) fn mutations(good: &[u8], rounds: u32, changes: usize, alphabet: &[u8], mut each: impl FnMut(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut changed = Vec::new();
    for _ in 0..rounds {
        changed.clear();
        changed.extend_from_slice(good);
        for _ in 0..=random(changes) {
            let at = random(changed.len() + 1);
            let byte = if alphabet.is_empty() { random(256) as u8 } else { alphabet[random(alphabet.len())] };
            match random(3) {
                0 => changed.truncate(at),
                1 => changed.insert(at, byte),
                _ => {
                    if let Some(old) = changed.get_mut(at) {
                        *old = byte;
                    }
                }
            }
        }
        each(&changed);
    }
}
