//! USDT probes: the notes that `sys/sdt.h` leaves in a program, and where their arguments are.
//!
//! Format: ELF notes of owner `stapsdt` and type 3 in `.note.stapsdt`. Each has three words (the probe's address, that
//! of `.stapsdt.base`, that of a semaphore or 0), then provider, name and arguments, each up to a zero byte. An
//! argument is `SIZE@OPERAND` in the assembler's grammar; a negative size is a number with a sign.
//! Failure: what is cut off or of another owner is skipped; an operand that programs cannot read is
//! [`Operand::Unknown`], a mistake only for a question that uses it.

/// Notes of one program, at most: the largest known programs have some thousands.
const NOTES_MAX: usize = 1 << 16;

/// The type of a note that is a probe.
const PROBE_NOTE: u32 = 3;

/// In place of a register that is not used.
const NO_REGISTER: u8 = 255;

/// One place of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note<'a> {
    pub(super) location: u64,
    pub(super) base: u64,
    pub(super) semaphore: u64,
    pub(super) provider: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// The probes in the bytes of `.note.stapsdt`, of a program with words of 64 bits, lowest byte first.
pub(super) fn notes(mut section: &[u8]) -> Vec<Note<'_>> {
    let mut notes = Vec::new();
    while notes.len() < NOTES_MAX {
        let Some((owner, kind, content)) = next_note(&mut section) else { break };
        if owner == b"stapsdt\0" && kind == PROBE_NOTE {
            notes.extend(probe(content));
        }
    }
    notes
}

/// Owner, type and content; what is behind it is left.
fn next_note<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], u32, &'a [u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    let (owner_size, content_size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let owner_end = owner_size.checked_add(12)?;
    let content_at = owner_end.checked_next_multiple_of(4)?;
    let content_end = content_at.checked_add(content_size)?;
    let (owner, content) = (rest.get(12..owner_end)?, rest.get(content_at..content_end)?);
    // The last one may end without its padding.
    *rest = rest.get(content_end.checked_next_multiple_of(4)?..).unwrap_or_default();
    Some((owner, kind, content))
}

fn probe(content: &[u8]) -> Option<Note<'_>> {
    let word = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    let (location, base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let mut texts = content.get(24..)?.split(|byte| *byte == 0).map(std::str::from_utf8);
    let mut text = || texts.next()?.ok();
    Some(Note { location, base, semaphore, provider: text()?, name: text()?, arguments: text()? })
}

/// Whose registers a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`.
    X86,
    /// `aarch64`.
    Arm,
}

/// Where an argument is when its probe is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number that the compiler knew, or the value of a register.
    Value {
        /// The register, by its place among those that the kernel saves.
        register: Option<u8>,
        /// What is added.
        number: i64,
    },
    /// Memory of the program.
    Memory {
        /// The register with its address.
        base: Option<u8>,
        /// A register that is added, shifted to the left by so many bits.
        index: Option<(u8, u8)>,
        /// What is added.
        number: i64,
    },
    /// One that programs in the kernel cannot read, with its text: a number with a point, or a symbol.
    Unknown(String),
}

/// An argument of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether its highest bit is a sign.
    pub is_signed: bool,
    /// Where it is.
    pub operand: Operand,
}

impl Argument {
    /// As the programs read it: `struct place` of `bpf/usdt.h`.
    pub(super) fn constant(&self) -> [u8; 16] {
        let none = |register: Option<u8>| register.unwrap_or(NO_REGISTER);
        let (is_memory, base, (index, shift), number) = match self.operand {
            Operand::Value { register, number } => (0, none(register), (NO_REGISTER, 0), number),
            Operand::Memory { base, index, number } => (1, none(base), index.unwrap_or((NO_REGISTER, 0)), number),
            // No question uses it.
            Operand::Unknown(_) => (0, NO_REGISTER, (NO_REGISTER, 0), 0),
        };
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&[is_memory, base, index, shift, self.bytes, u8::from(self.is_signed)]);
        bytes[8..].copy_from_slice(&number.to_ne_bytes());
        bytes
    }
}

/// The arguments of a probe, by their text in its note.
pub(super) fn arguments(text: &str, machine: Machine) -> Vec<Argument> {
    let mut depth = 0_i32;
    let words = text.split(move |letter: char| {
        // aarch64 has blanks within brackets.
        depth += match letter {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        letter.is_whitespace() && depth <= 0
    });
    words.filter(|word| !word.is_empty()).map(|word| argument(word, machine)).collect()
}

fn argument(text: &str, machine: Machine) -> Argument {
    let parsed = text.split_once('@').and_then(|(size, operand)| {
        let size: i8 = size.parse().ok()?;
        let bytes = size.unsigned_abs();
        let operand = match machine {
            Machine::X86 => x86_operand(operand),
            Machine::Arm => arm_operand(operand),
        };
        matches!(bytes, 1 | 2 | 4 | 8).then_some(Argument { bytes, is_signed: size < 0, operand: operand? })
    });
    parsed.unwrap_or_else(|| Argument { bytes: 8, is_signed: false, operand: Operand::Unknown(text.to_owned()) })
}

/// Decimal or hexadecimal, with a sign; above half of the range too, as the assembler writes both.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1_i64, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(size.cast_signed().wrapping_mul(sign))
}

/// `$5`, `%rax`, `-8(%rbp)`, `(%rax,%rcx,8)`.
fn x86_operand(text: &str) -> Option<Operand> {
    if let Some(constant) = text.strip_prefix('$') {
        return Some(Operand::Value { register: None, number: number(constant)? });
    }
    if text.starts_with('%') {
        return Some(Operand::Value { register: Some(x86_register(text)?), number: 0 });
    }
    let (before, inside) = text.strip_suffix(')')?.split_once('(')?;
    let offset = if before.is_empty() { 0 } else { number(before)? };
    let mut parts = inside.split(',').map(str::trim);
    let base = parts.next().filter(|base| !base.is_empty()).map(x86_register);
    let index = parts.next().map(x86_register);
    let scale = parts.next().map_or(Some(1), |scale| scale.parse().ok())?;
    let shift = [1_u8, 2, 4, 8].iter().position(|known| *known == scale)? as u8;
    if parts.next().is_some() || (base.is_none() && index.is_none()) {
        return None;
    }
    let (base, index) = (base.map_or(Some(None), |base| base.map(Some))?, index.map_or(Some(None), |it| it.map(Some))?);
    Some(Operand::Memory { base, index: index.map(|index| (index, shift)), number: offset })
}

/// By its place in `struct pt_regs`; parts of a register are cut by the argument's size.
fn x86_register(text: &str) -> Option<u8> {
    /// In the order of the kernel, each with its names of 64, 32, 16 and 8 bits; the gaps are no registers of
    /// arguments.
    const REGISTERS: [(u8, [&str; 4]); 9] = [
        (4, ["rbp", "ebp", "bp", "bpl"]),
        (5, ["rbx", "ebx", "bx", "bl"]),
        (10, ["rax", "eax", "ax", "al"]),
        (11, ["rcx", "ecx", "cx", "cl"]),
        (12, ["rdx", "edx", "dx", "dl"]),
        (13, ["rsi", "esi", "si", "sil"]),
        (14, ["rdi", "edi", "di", "dil"]),
        (16, ["rip", "eip", "ip", "ip"]),
        (19, ["rsp", "esp", "sp", "spl"]),
    ];
    /// r8 to r15.
    const NUMBERED: [u8; 8] = [9, 8, 7, 6, 3, 2, 1, 0];
    let name = text.strip_prefix('%')?;
    if let Some((place, _)) = REGISTERS.iter().find(|(_, names)| names.contains(&name)) {
        return Some(*place);
    }
    let numbered: usize = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']).parse().ok()?;
    NUMBERED.get(numbered.checked_sub(8)?).copied()
}

/// `5`, `x0`, `w3`, `sp`, `[x0]`, `[sp, 16]`.
fn arm_operand(text: &str) -> Option<Operand> {
    if let Some(inside) = text.strip_prefix('[') {
        let mut parts = inside.strip_suffix(']')?.split(',').map(str::trim);
        let base = Some(arm_register(parts.next()?)?);
        let offset = parts.next().map_or(Some(0), |offset| number(offset.trim_start_matches('#')))?;
        return parts.next().is_none().then_some(Operand::Memory { base, index: None, number: offset });
    }
    match arm_register(text) {
        Some(register) => Some(Operand::Value { register: Some(register), number: 0 }),
        None => Some(Operand::Value { register: None, number: number(text)? }),
    }
}

/// By its place in `struct user_pt_regs`.
fn arm_register(text: &str) -> Option<u8> {
    if text == "sp" {
        return Some(31);
    }
    let place = text.strip_prefix(['x', 'w'])?.parse().ok()?;
    (place <= 30).then_some(place)
}

#[cfg(test)]
#[path = "usdt_tests.rs"]
mod tests;
