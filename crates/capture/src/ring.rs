//! A `TPACKET_V3` ring: the kernel fills blocks of packets, the reader walks them where they lie and gives them back.
//!
//! Invariants: a block is read only while its status says that it is the reader's, and given back after the last frame
//! of it was visited; every offset in it is checked against the block. See packet(7) and
//! Documentation/networking/packet_mmap.rst.
#![allow(unsafe_code, reason = "the fence: sockets, their options and a mapping shared with the kernel")]

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::filter::{Filter, Instruction};

/// How a ring is divided: this determines the cost of reading it, and how long a pause of its reader it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block: a power of two of at least 128 KiB, so that the largest packet of loopback fits.
    pub block_bytes: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// A block that is not full is handed over after this many milliseconds.
    pub retire_ms: u32,
}

impl Default for Shape {
    /// 64 MiB, which held 1,000 connections at full speed without a drop, in blocks of 256 KiB. A block that is handed
    /// over after 20 ms is used up however little it contains: with few packets, 256 blocks survive a reader's pause of
    /// 5 s, and 64 of 1 MiB one of 1.3 s.
    fn default() -> Self {
        Self { block_bytes: 256 << 10, blocks: 256, retire_ms: 20 }
    }
}

impl Shape {
    /// Bytes of the whole ring.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.block_bytes as usize * self.blocks as usize
    }
}

/// The least block: the largest packet of loopback, 64 KiB and its headers, fits.
const BLOCK_LEAST: u32 = 1 << 17;

const FRAME_BYTES: u32 = 2_048;
const STATUS_USER: u32 = 1;
const OUTGOING: u8 = 4;

/// Offsets in `struct tpacket_block_desc` and `struct tpacket3_hdr`, which `linux/if_packet.h` fixes.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
const HEADER_BYTES: usize = 48;
const ADDRESS_BYTES: usize = 20;

const _: () = assert!(size_of::<libc::tpacket3_hdr>() == HEADER_BYTES);
const _: () = assert!(size_of::<libc::sockaddr_ll>() == ADDRESS_BYTES);
const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
const _: () = assert!(BLOCK_LEAST.is_multiple_of(FRAME_BYTES));

/// Why a ring cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not capture.
    #[error(
        "capturing needs the capability CAP_NET_RAW: run as root, or once `sudo setcap cap_net_raw+ep \"$(command -v ogive)\"`; \
         or capture elsewhere: `sudo tcpdump -w - | ogive wire --pcap -`"
    )]
    Permission,
    /// There is no such interface.
    #[error("there is no interface {0:?}; `ip link` lists them")]
    Interface(String),
    /// The system refuses something else.
    #[error("{what} on {interface}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// Where.
        interface: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The link-layer header of an interface's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hardware {
    /// An Ethernet header; loopback as well.
    Ethernet,
    /// The IP packet (tunnels).
    Ip,
}

/// Rings that share an interface: each connection goes to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fanout {
    /// The same for all of them, and for no others on the machine.
    pub group: u16,
}

/// A packet in the ring.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When the kernel saw it: nanoseconds since 1970.
    pub at: i64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The original length on the wire.
    pub length: usize,
}

/// The kernel's counters since the ring was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed the filter, dropped ones included.
    pub packets: u64,
    /// Packets that found no room.
    pub drops: u64,
    /// Times the ring was full.
    pub freezes: u64,
    /// Second sights of loopback packets that were passed over.
    pub copies: u64,
    /// Blocks with impossible offsets: none was ever seen.
    pub damaged: u64,
}

/// The ring of one interface.
#[derive(Debug)]
pub struct Ring {
    shape: Shape,
    socket: OwnedFd,
    map: NonNull<u8>,
    next: usize,
    interface: String,
    hardware: Hardware,
    is_loopback: bool,
    counts: Counts,
}

// SAFETY: the mapping belongs to this ring alone, and nothing in it is bound to the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring on an interface.
    ///
    /// # Errors
    /// [`Error::Permission`], [`Error::Interface`], or the system's error.
    pub fn open(interface: &str, filter: Option<&Filter>, fanout: Option<Fanout>) -> Result<Self, Error> {
        Self::with_shape(interface, filter, fanout, Shape::default())
    }

    /// Opens a ring of another shape.
    ///
    /// # Errors
    /// As [`Ring::open`].
    ///
    /// # Panics
    /// When a block is no power of two, or below 128 KiB.
    pub fn with_shape(
        interface: &str,
        filter: Option<&Filter>,
        fanout: Option<Fanout>,
        shape: Shape,
    ) -> Result<Self, Error> {
        let block = shape.block_bytes;
        assert!(block.is_power_of_two() && block >= BLOCK_LEAST, "{block} bytes are no block");
        let fail = |what: &'static str| Error::System {
            what,
            interface: interface.to_owned(),
            source: io::Error::last_os_error(),
        };
        let index = index_of(interface)?;
        let socket = open_socket(interface)?;
        let version: c_int = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version).map_err(|()| fail("asking for TPACKET_V3"))?;
        let request = libc::tpacket_req3 {
            tp_block_size: shape.block_bytes,
            tp_block_nr: shape.blocks,
            tp_frame_size: FRAME_BYTES,
            tp_frame_nr: shape.block_bytes / FRAME_BYTES * shape.blocks,
            tp_retire_blk_tov: shape.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(|()| fail("asking for a ring"))?;
        if let Some(filter) = filter {
            attach(&socket, filter).map_err(|()| fail("attaching the filter"))?;
        }
        let map = map(&socket, shape.bytes()).map_err(|()| fail("mapping the ring"))?;
        let mut ring = Self {
            shape,
            socket,
            map,
            next: 0,
            interface: interface.to_owned(),
            hardware: Hardware::Ethernet,
            is_loopback: false,
            counts: Counts::default(),
        };
        ring.bind(index).map_err(|()| fail("binding"))?;
        if ring.is_loopback {
            // Each loopback packet is seen outgoing and incoming. Older kernels lack the option; frames are then
            // filtered here.
            let yes: c_int = 1;
            let _ = set(&ring.socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes);
        }
        if let Some(fanout) = fanout {
            let argument = c_int::from(fanout.group)
                | (libc::PACKET_FANOUT_HASH as c_int | libc::PACKET_FANOUT_FLAG_DEFRAG as c_int) << 16;
            set(&ring.socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)
                .map_err(|()| fail("joining the fan-out group"))?;
        }
        Ok(ring)
    }

    fn bind(&mut self, index: u32) -> Result<(), ()> {
        // SAFETY: all zeros is a valid address of this plain type.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = c_int::try_from(index).map_err(|_| ())?;
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let pointer = (&raw mut address).cast::<libc::sockaddr>();
        // SAFETY: `pointer` and `length` describe `address`, which outlives both calls; the second one writes no more
        // than `length`.
        let outcome = unsafe {
            if libc::bind(self.socket.as_raw_fd(), pointer, length) != 0 {
                return Err(());
            }
            libc::getsockname(self.socket.as_raw_fd(), pointer, &raw mut length)
        };
        if outcome != 0 {
            return Err(());
        }
        self.is_loopback = address.sll_hatype == libc::ARPHRD_LOOPBACK;
        self.hardware = match address.sll_hatype {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Hardware::Ethernet,
            _ => Hardware::Ip,
        };
        Ok(())
    }

    /// How it is divided.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The interface's name.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The link-layer header of its frames.
    #[must_use]
    pub fn hardware(&self) -> Hardware {
        self.hardware
    }

    /// Waits until a block is ready, or for `milliseconds`.
    ///
    /// # Errors
    /// When the interface is gone, or the system refuses.
    pub fn wait(&self, milliseconds: u16) -> Result<bool, Error> {
        if self.is_ready() {
            return Ok(true);
        }
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN | libc::POLLERR, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        let outcome = unsafe { libc::poll(&raw mut poll, 1, c_int::from(milliseconds)) };
        let fail = |what, source| Error::System { what, interface: self.interface.clone(), source };
        if outcome < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(false)
            } else {
                Err(fail("waiting for packets", error))
            };
        }
        if poll.revents & libc::POLLERR != 0 {
            return Err(fail("the interface went down", io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        Ok(self.is_ready())
    }

    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is below the number of blocks, so the block lies within the mapping of all of them.
        unsafe { self.map.add(self.next * self.shape.block_bytes as usize) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is a u32 at a multiple of 4 in a page-aligned block; the kernel accesses it as one word
        // too.
        unsafe { self.block().add(BLOCK_STATUS).cast::<AtomicU32>().as_ref() }
    }

    fn is_ready(&self) -> bool {
        // ORDERING: Acquire; pairs with the kernel's barrier before it sets the status; what it wrote to the block is
        // visible then.
        self.status().load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// Visits the frames of the next block, if one is ready, and releases it; returns their number.
    pub fn read_block(&mut self, mut visit: impl FnMut(Frame<'_>)) -> Option<usize> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: the block is the reader's until the status is reset below, so nobody writes to it while the slice
        // lives.
        let block = unsafe { std::slice::from_raw_parts(self.block().as_ptr(), self.shape.block_bytes as usize) };
        let walked = walk(block, self.is_loopback, &mut visit);
        // ORDERING: Release; pairs with the kernel's read of the status; the frames were visited before it may write
        // again.
        self.status().store(0, Ordering::Release);
        self.next = (self.next + 1) % self.shape.blocks as usize;
        self.counts.copies += walked.copies;
        self.counts.damaged += u64::from(walked.is_damaged);
        Some(walked.frames)
    }

    /// The kernel's counters so far.
    pub fn counts(&mut self) -> Counts {
        // SAFETY: all zeros is a valid value of this plain type.
        let mut fresh: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: pointer and length describe `fresh`.
        let outcome = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut fresh).cast::<c_void>(),
                &raw mut length,
            )
        };
        if outcome == 0 {
            // The kernel resets its counters after each reading.
            self.counts.packets += u64::from(fresh.tp_packets);
            self.counts.drops += u64::from(fresh.tp_drops);
            self.counts.freezes += u64::from(fresh.tp_freeze_q_cnt);
        }
        self.counts
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and is used by nobody after this.
        unsafe { libc::munmap(self.map.as_ptr().cast::<c_void>(), self.shape.bytes()) };
    }
}

#[derive(Debug, Default)]
struct BlockWalk {
    frames: usize,
    copies: u64,
    is_damaged: bool,
}

/// Visits the frames of a block. Offsets that point outside end the walk.
fn walk(block: &[u8], is_loopback: bool, visit: &mut impl FnMut(Frame<'_>)) -> BlockWalk {
    let word = |at: usize| -> Option<usize> {
        let bytes = block.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let mut walked = BlockWalk::default();
    let count = word(BLOCK_PACKETS).unwrap_or(0);
    let mut at = word(BLOCK_FIRST).unwrap_or(usize::MAX);
    for _ in 0..count {
        let header = at.checked_add(HEADER_BYTES + ADDRESS_BYTES).and_then(|end| block.get(at..end));
        let Some(header) = header else {
            walked.is_damaged = true;
            return walked;
        };
        let field = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (next, captured, length) = (field(0) as usize, field(12) as usize, field(16) as usize);
        let start = at + usize::from(u16::from_ne_bytes([header[24], header[25]]));
        let Some(bytes) = start.checked_add(captured).and_then(|end| block.get(start..end)) else {
            walked.is_damaged = true;
            return walked;
        };
        // `sll_pkttype` of the address behind the header.
        if is_loopback && header[HEADER_BYTES + 10] == OUTGOING {
            walked.copies += 1;
        } else {
            walked.frames += 1;
            visit(Frame {
                at: i64::from(field(4)) * 1_000_000_000 + i64::from(field(8)),
                bytes,
                length: length.max(captured),
            });
        }
        if next == 0 {
            break;
        }
        at = at.saturating_add(next);
    }
    walked
}

/// A packet socket that receives nothing until it is bound.
fn open_socket(interface: &str) -> Result<OwnedFd, Error> {
    // SAFETY: plain call; protocol 0 receives nothing.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission,
            _ => Error::System { what: "opening a packet socket", interface: interface.to_owned(), source },
        });
    }
    // SAFETY: the descriptor was opened above and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The number of an interface.
fn index_of(interface: &str) -> Result<u32, Error> {
    let unknown = || Error::Interface(interface.to_owned());
    let name = CString::new(interface).map_err(|_| unknown())?;
    // SAFETY: `name` is a string with an end, read during the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(unknown()),
        index => Ok(index),
    }
}

fn set<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> Result<(), ()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which outlives the call.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast::<c_void>(), length)
    };
    if outcome == 0 { Ok(()) } else { Err(()) }
}

fn attach(socket: &OwnedFd, filter: &Filter) -> Result<(), ()> {
    let instructions = filter.instructions();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(|_| ())?,
        // The kernel only reads them; `Instruction` has the layout of `sock_filter`, as asserted above.
        filter: instructions.as_ptr().cast_mut().cast::<libc::sock_filter>(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn map(socket: &OwnedFd, length: usize) -> Result<NonNull<u8>, ()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of the socket's ring, of the size that was asked for.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED { Err(()) } else { NonNull::new(address.cast::<u8>()).ok_or(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frames: &[(u8, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; 4_096];
        block[BLOCK_PACKETS..BLOCK_PACKETS + 4].copy_from_slice(&u32::try_from(frames.len()).unwrap().to_ne_bytes());
        block[BLOCK_FIRST..BLOCK_FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        let mut at = 48;
        for (kind, bytes) in frames {
            let mut put =
                |offset: usize, value: u32| block[at + offset..at + offset + 4].copy_from_slice(&value.to_ne_bytes());
            put(0, 256);
            put(4, 7);
            put(8, 9);
            put(12, u32::try_from(bytes.len()).unwrap());
            put(16, 1_500);
            block[at + 24..at + 26].copy_from_slice(&82_u16.to_ne_bytes());
            block[at + HEADER_BYTES + 10] = *kind;
            block[at + 82..at + 82 + bytes.len()].copy_from_slice(bytes);
            at += 256;
        }
        block
    }

    #[test]
    fn a_block_is_walked_and_copies_are_passed_over() {
        let block = block(&[(0, b"in"), (OUTGOING, b"out"), (0, b"again")]);
        let mut seen = Vec::new();
        let walked =
            walk(&block, true, &mut |frame: Frame<'_>| seen.push((frame.at, frame.bytes.to_vec(), frame.length)));
        assert_eq!(seen, [(7_000_000_009, b"in".to_vec(), 1_500), (7_000_000_009, b"again".to_vec(), 1_500)]);
        assert_eq!((walked.frames, walked.copies, walked.is_damaged), (2, 1, false));
    }

    #[test]
    fn offsets_out_of_the_block_end_the_walk() {
        let good = block(&[(0, b"in"), (0, b"two")]);
        for at in 0..good.len().min(400) {
            for value in [0xff, 0x80, 0x7f] {
                let mut bad = good.clone();
                bad[at] = value;
                let walked = walk(&bad, false, &mut |frame: Frame<'_>| assert!(frame.bytes.len() <= bad.len()));
                assert!(walked.frames <= bad.len() / HEADER_BYTES * 256);
            }
        }
    }
}
