//! The blocks of pcapng (draft-ietf-opsawg-pcapng): sections of either byte order, interfaces with their own clocks.

use std::io::Read;

use super::input::{Error, Frame, Input, MAX_FRAME, MAX_INTERFACES, check_frame, u16_at, u32_at};
use crate::frame::Link;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_BIG: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
const BYTE_ORDER_LITTLE: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];

/// A block with its options: a frame, and as much again.
const MAX_BLOCK: usize = 2 * MAX_FRAME;

const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Link,
    snap: usize,
    /// Ticks of its clock a second.
    ticks: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    /// Nanoseconds since 1970 of a time in ticks.
    fn nanos(&self, ticks: u64) -> i64 {
        let seconds =
            i64::try_from(ticks / self.ticks).unwrap_or(i64::MAX / 2_000_000_000).min(i64::MAX / 2_000_000_000);
        let rest = u128::from(ticks % self.ticks) * 1_000_000_000 / u128::from(self.ticks);
        seconds
            .saturating_add(self.offset)
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::try_from(rest).unwrap_or(0))
    }
}

/// The section that is being read.
#[derive(Debug, Default)]
pub(super) struct Section {
    is_big: bool,
    interfaces: Vec<Interface>,
}

/// A packet's place in its block.
struct Packet {
    interface: usize,
    ticks: u64,
    captured: usize,
    length: usize,
    /// Bytes of the block before the frame.
    start: usize,
}

impl Section {
    pub(super) fn next<'a, R: Read>(&mut self, input: &'a mut Input<'_, R>) -> Result<Option<Frame<'a>>, Error> {
        loop {
            let offset = input.offset;
            let available = input.fill(12)?;
            if available == 0 {
                return Ok(None);
            }
            if available < 12 {
                return Err(Error::Truncated { offset });
            }
            let head = input.unread();
            if u32_at(head, 0, true) == SECTION_HEADER {
                self.is_big = match head[8..12] {
                    _ if head[8..12] == BYTE_ORDER_BIG => true,
                    _ if head[8..12] == BYTE_ORDER_LITTLE => false,
                    _ => return Err(corrupt(offset, "a section of no byte order")),
                };
                self.interfaces.clear();
            }
            let (kind, total) = (u32_at(head, 0, self.is_big), u32_at(head, 4, self.is_big) as usize);
            if total < 12 || total % 4 != 0 {
                return Err(corrupt(offset, &format!("a block of {total} bytes")));
            }
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                if !input.pass(total)? {
                    return Err(Error::Truncated { offset });
                }
                continue;
            }
            if total > MAX_BLOCK {
                return Err(corrupt(offset, &format!("a block of {total} bytes; at most {MAX_BLOCK} are read")));
            }
            if input.fill(total)? < total {
                return Err(Error::Truncated { offset });
            }
            if kind == INTERFACE {
                let block = input.take(total)?.ok_or(Error::Truncated { offset })?;
                self.add_interface(&block[8..total - 4], offset)?;
                continue;
            }
            let packet = self.packet(kind, &input.unread()[..total], offset)?;
            let Some(interface) = self.interfaces.get(packet.interface).copied() else {
                return Err(corrupt(
                    offset,
                    &format!("a frame of interface {}, which the section does not name", packet.interface),
                ));
            };
            let block = input.take(total)?.ok_or(Error::Truncated { offset })?;
            return Ok(Some(Frame {
                at: interface.nanos(packet.ticks),
                link: interface.link,
                bytes: &block[packet.start..packet.start + packet.captured],
                length: packet.length.max(packet.captured),
            }));
        }
    }

    fn packet(&self, kind: u32, block: &[u8], offset: u64) -> Result<Packet, Error> {
        let fixed = if kind == SIMPLE_PACKET { 16 } else { 32 };
        if block.len() < fixed {
            return Err(corrupt(offset, "a frame's block is too short"));
        }
        let word = |at| u32_at(block, at, self.is_big);
        let ticks = || u64::from(word(12)) << 32 | u64::from(word(16));
        let packet = match kind {
            SIMPLE_PACKET => {
                let length = word(8) as usize;
                let snap = self.interfaces.first().map_or(0, |interface| interface.snap);
                let captured = length.min(snap).min(block.len() - 16);
                Packet { interface: 0, ticks: 0, captured, length, start: 12 }
            }
            OLD_PACKET => Packet {
                interface: usize::from(u16_at(block, 8, self.is_big)),
                ticks: ticks(),
                captured: word(20) as usize,
                length: word(24) as usize,
                start: 28,
            },
            _ => Packet {
                interface: word(8) as usize,
                ticks: ticks(),
                captured: word(20) as usize,
                length: word(24) as usize,
                start: 28,
            },
        };
        check_frame(packet.captured, offset)?;
        if packet.start + packet.captured > block.len() - 4 {
            return Err(corrupt(
                offset,
                &format!("a frame of {} bytes in a block of {}", packet.captured, block.len()),
            ));
        }
        Ok(packet)
    }

    fn add_interface(&mut self, body: &[u8], offset: u64) -> Result<(), Error> {
        if body.len() < 8 {
            return Err(corrupt(offset, "an interface's block is too short"));
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(corrupt(offset, &format!("more than {MAX_INTERFACES} interfaces")));
        }
        let snap = u32_at(body, 4, self.is_big) as usize;
        let mut interface = Interface {
            link: Link::from_number(u32::from(u16_at(body, 0, self.is_big))),
            snap: if snap == 0 { MAX_FRAME } else { snap },
            ticks: 1_000_000,
            offset: 0,
        };
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, length) = (u16_at(options, 0, self.is_big), usize::from(u16_at(options, 2, self.is_big)));
            let padded = length.div_ceil(4) * 4;
            if code == 0 || options.len() < 4 + padded {
                break;
            }
            let value = &options[4..4 + length];
            match (code, value) {
                (OPTION_RESOLUTION, [resolution]) => interface.ticks = ticks_of(*resolution, offset)?,
                (OPTION_OFFSET, [_, _, _, _, _, _, _, _]) => {
                    let bytes: [u8; 8] = value.try_into().expect("eight bytes by the pattern");
                    let seconds = if self.is_big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                    interface.offset = seconds;
                }
                _ => {}
            }
            options = &options[4 + padded..];
        }
        self.interfaces.push(interface);
        Ok(())
    }
}

/// `if_tsresol`: a negative power of ten, or of two when the highest bit is set.
fn ticks_of(resolution: u8, offset: u64) -> Result<u64, Error> {
    let exponent = u32::from(resolution & 0x7f);
    let ticks = if resolution & 0x80 == 0 { 10_u64.checked_pow(exponent) } else { 1_u64.checked_shl(exponent) };
    ticks.ok_or_else(|| corrupt(offset, &format!("a clock of resolution {resolution:#x}")))
}

fn corrupt(offset: u64, what: &str) -> Error {
    Error::Corrupt { offset, what: what.to_owned() }
}
