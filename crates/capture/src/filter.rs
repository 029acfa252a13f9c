//! A classic BPF program that passes the TCP and UDP packets of some ports.
//!
//! It sees Ethernet frames: IPv4, IPv6, and VLAN tags that the card left in place. What it cannot distinguish it
//! passes: fragments, tagged frames and IPv6 with extension headers.

/// Ports of one filter: a jump reaches 255 instructions, and a port takes two.
pub const MAX_PORTS: usize = 48;

/// One instruction of classic BPF, as the kernel reads it (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if so.
    pub yes: u8,
    /// Instructions to skip if not.
    pub no: u8,
    /// The operand.
    pub operand: u32,
}

const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

/// A program for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    instructions: Vec<Instruction>,
}

/// The target of a jump before the program's length is known.
#[derive(Debug, Clone, Copy)]
enum Target {
    Next,
    Pass,
    Drop,
}

impl Filter {
    /// Passes packets from or to any of these ports; `None` when there are more than [`MAX_PORTS`].
    #[must_use]
    pub fn from_ports(ports: &[u16]) -> Option<Self> {
        if ports.len() > MAX_PORTS {
            return None;
        }
        let version_6 = body_6(ports);
        let version_4 = body_4(ports);
        // IPv4 comes before IPv6, after five instructions that choose.
        let head = [
            step(LOAD_HALF, 12, Target::Next, Target::Next),
            step(JUMP_EQUAL, 0x8100, Target::Pass, Target::Next),
            step(JUMP_EQUAL, 0x88a8, Target::Pass, Target::Next),
            step(JUMP_EQUAL, 0x0800, Target::Next, Target::Next),
            step(JUMP_EQUAL, 0x86dd, Target::Next, Target::Drop),
        ];
        let mut steps: Vec<_> = head.into_iter().collect();
        steps.extend(version_6.iter().copied());
        steps.push(step(RETURN, 0, Target::Next, Target::Next));
        let start_4 = steps.len();
        steps.extend(version_4.iter().copied());
        let drop = steps.len();
        let pass = drop + 1;
        let mut instructions: Vec<Instruction> = Vec::with_capacity(steps.len() + 2);
        for (index, (code, operand, yes, no)) in steps.iter().enumerate() {
            let reach = |target: Target| match target {
                Target::Next => Some(0),
                Target::Pass => u8::try_from(pass - index - 1).ok(),
                Target::Drop => u8::try_from(drop - index - 1).ok(),
            };
            instructions.push(Instruction { code: *code, yes: reach(*yes)?, no: reach(*no)?, operand: *operand });
        }
        instructions[3].yes = u8::try_from(start_4 - 4).ok()?;
        instructions.push(Instruction { code: RETURN, yes: 0, no: 0, operand: 0 });
        instructions.push(Instruction { code: RETURN, yes: 0, no: 0, operand: u32::MAX });
        Some(Self { instructions })
    }

    /// The program.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether the kernel would pass a frame.
    #[must_use]
    pub fn passes(&self, frame: &[u8]) -> bool {
        let half = |at: usize| Some(u32::from(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?])));
        let (mut accumulator, mut index_register, mut at) = (0, 0, 0);
        loop {
            let Some(instruction) = self.instructions.get(at) else { return false };
            let operand = instruction.operand as usize;
            at += 1;
            let loaded = match instruction.code {
                LOAD_HALF => half(operand),
                LOAD_BYTE => frame.get(operand).map(|byte| u32::from(*byte)),
                LOAD_HALF_INDEXED => half(operand + index_register),
                LOAD_HEADER_LENGTH => {
                    let Some(byte) = frame.get(operand) else { return false };
                    index_register = usize::from(byte & 15) * 4;
                    continue;
                }
                JUMP_EQUAL | JUMP_SET => {
                    let is = if instruction.code == JUMP_EQUAL {
                        accumulator == instruction.operand
                    } else {
                        accumulator & instruction.operand != 0
                    };
                    at += usize::from(if is { instruction.yes } else { instruction.no });
                    continue;
                }
                _ => return instruction.operand != 0,
            };
            // Beyond the frame's end the kernel drops it.
            let Some(loaded) = loaded else { return false };
            accumulator = loaded;
        }
    }
}

type Raw = (u16, u32, Target, Target);

fn step(code: u16, operand: u32, yes: Target, no: Target) -> Raw {
    (code, operand, yes, no)
}

/// The checks of an IPv4 packet.
fn body_4(ports: &[u16]) -> Vec<Raw> {
    let mut steps = vec![
        step(LOAD_HALF, 20, Target::Next, Target::Next),
        step(JUMP_SET, 0x1fff, Target::Pass, Target::Next),
        step(LOAD_HEADER_LENGTH, 14, Target::Next, Target::Next),
    ];
    for at in [14, 16] {
        steps.push(step(LOAD_HALF_INDEXED, at, Target::Next, Target::Next));
        steps.extend(ports.iter().map(|port| step(JUMP_EQUAL, u32::from(*port), Target::Pass, Target::Next)));
    }
    steps
}

/// The checks of an IPv6 packet: anything but TCP and UDP may be an extension header.
fn body_6(ports: &[u16]) -> Vec<Raw> {
    let mut steps = vec![step(LOAD_BYTE, 20, Target::Next, Target::Next)];
    for extension in [0, 43, 44, 60] {
        steps.push(step(JUMP_EQUAL, extension, Target::Pass, Target::Next));
    }
    for at in [54, 56] {
        steps.push(step(LOAD_HALF, at, Target::Next, Target::Next));
        steps.extend(ports.iter().map(|port| step(JUMP_EQUAL, u32::from(*port), Target::Pass, Target::Next)));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, from: u16, to: u16, fragment: u16, options: usize) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45 + u8::try_from(options).unwrap(), 0, 0, 60, 0, 1]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        frame.extend(vec![1; options * 4]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend([0; 16]);
        frame
    }

    fn ipv6(next: u8, from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, next, 64]);
        frame.extend([0; 32]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend([0; 16]);
        frame
    }

    #[test]
    fn ports_pass_in_either_direction() {
        let filter = Filter::from_ports(&[80, 5432]).unwrap();
        let cases = [
            (ipv4(6, 40_000, 80, 0, 0), true),
            (ipv4(6, 5432, 40_000, 0, 0), true),
            (ipv4(17, 5432, 40_000, 0, 2), true),
            (ipv4(6, 40_000, 81, 0, 0), false),
            (ipv4(6, 40_000, 81, 100, 0), true),
            (ipv6(6, 40_000, 5432), true),
            (ipv6(6, 40_000, 5433), false),
            (ipv6(44, 1, 2), true),
            (vec![0; 60], false),
            (vec![0; 10], false),
        ];
        for (index, (frame, passes)) in cases.iter().enumerate() {
            assert_eq!(filter.passes(frame), *passes, "case {index}");
        }
    }

    #[test]
    fn as_many_ports_as_jumps_reach() {
        let ports: Vec<u16> = (1_000..1_000 + u16::try_from(MAX_PORTS).unwrap()).collect();
        let filter = Filter::from_ports(&ports).expect("the limit can be built");
        assert!(filter.instructions().len() < 4_096, "BPF_MAXINSNS");
        assert!(
            filter.passes(&ipv4(6, 1, 1_000, 0, 0))
                && filter.passes(&ipv6(6, 1_047, 2))
                && !filter.passes(&ipv4(6, 1, 999, 0, 0))
        );
        let more: Vec<u16> = (0..=u16::try_from(MAX_PORTS).unwrap()).collect();
        assert!(Filter::from_ports(&more).is_none());
    }
}
