//! Instructions that evaluate an event, in the form that the kernel programs read.
//!
//! Format: `struct question` of `bpf/ask.bpf.c`, in the machine's byte order.

use super::syntax::Verb;

/// Instructions of one question, at most.
pub(super) const INSTRUCTIONS: usize = 128;

/// Registers of 64 bits.
pub(super) const REGISTERS: u8 = 16;

/// A text is in so many registers: 31 bytes and the zero at their end.
pub(super) const TEXT_REGISTERS: u8 = 4;

/// Longest text that is distinguished from others.
pub(super) const TEXT_BYTES: usize = 31;

/// Arguments that a tracepoint has, at most.
pub(super) const ARGUMENTS: usize = 12;

/// Ways to pass the arguments of a USDT probe, which differ by where the compiler had them.
pub(super) const LAYOUTS: usize = 64;

/// Bytes of `struct place`.
pub(super) const PLACE_BYTES: usize = 16;

/// Arguments of functions and system calls.
pub(super) const CALL_ARGUMENTS: usize = 6;

/// Bytes of `struct key`: what of each of the keys is compared.
#[cfg(feature = "bpf")]
pub(super) const KEY_BYTES: usize = TEXT_REGISTERS as usize * 8;

/// In the order of `enum op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Constant,
    Argument,
    Context,
    Load,
    Text,
    CommText,
    SameText,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    Less,
    And,
    Or,
    Require,
    Key,
    Value,
}

/// In the order of `enum context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Context {
    Pid,
    Tid,
    Cpu,
    UserId,
    CgroupId,
    Task,
    Result,
    Latency,
    Call,
}

/// Flags of a reading.
pub(super) const FROM_USER: u8 = 1;
pub(super) const SIGNED: u8 = 2;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) op: Op,
    pub(super) to: u8,
    pub(super) a: u8,
    pub(super) b: u8,
    pub(super) size: u32,
    pub(super) number: i64,
}

/// `struct question`.
pub(super) struct Header {
    pub(super) arguments: u32,
    pub(super) verb: Verb,
    pub(super) needs_call: bool,
    /// A system call's number, or below zero.
    pub(super) call: i64,
}

impl Header {
    /// With the code behind it, as the programs read it.
    pub(super) fn bytes(&self, code: &[Instruction]) -> Vec<u8> {
        assert!(code.len() <= INSTRUCTIONS, "the compiler counts them");
        let verb = match self.verb {
            Verb::Count => 0_u32,
            Verb::Sum => 1,
            Verb::Histogram => 2,
        };
        let mut bytes = Vec::new();
        for number in [code.len() as u32, self.arguments, verb, u32::from(self.needs_call)] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.call.to_ne_bytes());
        for step in code {
            bytes.extend([step.op as u8, step.to, step.a, step.b]);
            bytes.extend(step.size.to_ne_bytes());
            bytes.extend(step.number.to_ne_bytes());
        }
        bytes.resize(24 + INSTRUCTIONS * 16, 0);
        bytes
    }
}
