//! A seeded smoke of every decoder: conversations with bytes changed, pieces lost, and talk of other protocols in
//! between. None may panic, and what a decoder opens must be reported once. The fuzz targets `wire_*` play the same
//! scripts, with coverage.

mod common;

#[path = "../../../fuzz/wire.rs"]
#[allow(dead_code, reason = "fuzz targets use the rest")]
mod wire;

use common::conversations::conversation;
use ogive_wire::{Side, protocol};

/// Scripts for each protocol; `OGIVE_WIRE_SCRIPTS` sets another number.
const TRIES: u64 = 3_000;

fn tries() -> u64 {
    std::env::var("OGIVE_WIRE_SCRIPTS").map_or(TRIES, |text| text.parse().expect("a number of scripts"))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("53 bits") % limit.max(1)
    }
}

/// The steps of a conversation, in the form that [`wire::play`] reads.
fn steps(name: &str) -> Vec<Vec<u8>> {
    let mut steps = Vec::new();
    for (side, bytes) in conversation(name) {
        for part in bytes.chunks(256) {
            let head =
                [if side == Side::Client { 0x3e } else { 0x3f }, u8::try_from(part.len() - 1).expect("256 at most")];
            steps.push([&head[..], part].concat());
        }
    }
    steps
}

fn mutated(steps: &[Vec<u8>], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut script = vec![u8::try_from(random.below(4)).expect("below 4")];
    for _ in 0..=random.below(3) {
        for step in steps {
            match random.below(16) {
                0 => {}
                1 => script.extend([
                    u8::try_from(random.below(6)).expect("small"),
                    u8::try_from(random.below(64)).expect("small"),
                ]),
                2 => script.extend(&others[random.below(others.len())]),
                _ => script.extend(step),
            }
        }
    }
    for _ in 0..random.below(6) {
        let at = random.below(script.len());
        match random.below(3) {
            0 => script[at] ^= 1 << random.below(8),
            1 => script[at] = [0, 0xff, 0x7f, 0x80, b'\n', b' '][random.below(6)],
            _ => {
                script.remove(at);
                script.push(0);
            }
        }
    }
    script
}

#[test]
fn conversations_are_answered_before_they_are_mutated() {
    for protocol in protocol::TABLE {
        let script = [&[0][..], &steps(protocol.name).concat()].concat();
        let counted = wire::play(protocol.name, &script);
        assert!(counted.answered > 0 && counted.discarded == 0, "{}: {counted:?}", protocol.name);
    }
}

#[test]
fn mutated_conversations_panic_no_decoder() {
    let all: Vec<Vec<u8>> = protocol::TABLE.iter().flat_map(|protocol| steps(protocol.name)).collect();
    for protocol in protocol::TABLE {
        let steps = steps(protocol.name);
        let mut answered = 0;
        for seed in 1..=tries() {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let script = mutated(&steps, &all, &mut random);
            let outcome = std::panic::catch_unwind(|| wire::play(protocol.name, &script));
            match outcome {
                Ok(counted) => answered += counted.answered,
                Err(_) => panic!("{} with seed {seed}: {script:02x?}", protocol.name),
            }
        }
        println!("{}: {} scripts, {answered} exchanges answered", protocol.name, tries());
        assert!(answered > tries() / 20, "{}: the mutations leave too little", protocol.name);
    }
}
