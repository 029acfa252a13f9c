//! The crashing side: signal handlers, the panic hook, and the socket to the writer.
//!
//! *Invariants*: `on_signal` calls only what POSIX allows in a signal handler (gettid, prctl, sendmsg, open, read,
//! close, poll, recv, sigaction, tgkill), touches no heap and takes no lock. The first thread that crashes reports;
//! others wait for it to end the process. The handler that was there before (the standard library's, which names a
//! stack overflow) runs afterwards. *Threads*: any. *Failure*: a writer that is gone or does not answer within
//! [`ANSWER_MS`] is left alone.

use std::cell::UnsafeCell;
use std::ffi::{OsString, c_int, c_void};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::panic::PanicHookInfo;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::time::TimeVal;

use ogive_probe::{Clock, each_in_flight};

use crate::Error;
use crate::activity;
use crate::message::{self, Registers};
use crate::report::{Panic, Start};

/// Signals that mean that the program is broken.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// 10 s for unwinding, the file and the webhook; a restart waits for it.
pub const ANSWER_MS: i32 = 10_000;
/// 16 panics of one process are reported; further ones are in the log alone. A panic at each request would stop the
/// server.
pub const PANICS_MAX: u32 = 16;
/// 256 KiB from the stack pointer upwards: some thousand frames. A recursion without end is cut.
pub const STACK_BYTES_MAX: usize = 256 << 10;
/// 16 pages: 64 KiB, as kernels have below the stack of a first thread on some machines; our threads have one.
const GUARD_PAGES_MAX: usize = 16;
/// The smallest page.
const PAGE: usize = 4096;

/// The socket to the writer; -1 without one.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// The thread that reports a signal; 0 while there is none.
static CRASHING: AtomicI32 = AtomicI32::new(0);
/// Reports there are of this role, earlier starts included.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// Panics so far.
static PANICS: AtomicU32 = AtomicU32::new(0);
/// What handled each of [`SIGNALS`] before.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
/// The writer; nobody waits for it before this process ends.
static WRITER: Mutex<Option<Child>> = Mutex::new(None);

/// A page for parts of the memory map: the signal stack is too small for it.
struct Page(UnsafeCell<[u8; PAGE]>);
// SAFETY: only the thread that won `CRASHING`, or holds `REPORTING`, reads or writes it; see `send_maps`.
unsafe impl Sync for Page {}
static SIGNAL_PAGE: Page = Page(UnsafeCell::new([0; PAGE]));
static PANIC_PAGE: Page = Page(UnsafeCell::new([0; PAGE]));
/// Held while a panic is reported.
static REPORTING: Mutex<()> = Mutex::new(());

/// How many crash reports this role has stored, earlier starts included.
#[must_use]
pub fn total() -> u64 {
    // ORDERING: Relaxed; a figure that guards nothing.
    TOTAL.load(Ordering::Relaxed)
}

/// Starts the writer and reports crashes from now on. `arguments` make the same binary call [`crate::writer::run`].
/// `known` is how many reports there are already.
///
/// # Errors
/// When the writer does not start; the process is then as it was.
pub fn start(start: &Start, arguments: &[OsString], known: u64) -> Result<(), Error> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    // A writer that hangs must not hang the crash.
    setsockopt(&ours, sockopt::SendTimeout, &TimeVal::new(5, 0))?;
    setsockopt(&ours, sockopt::SndBuf, &(1 << 20))?;
    let program = std::env::current_exe().map_err(Error::Writer)?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(Error::Writer)?;
    // Read once: the handler must not be the first to look for the machine's counter.
    let _ = Clock::global().now();
    let text = serde_json::to_vec(start).unwrap_or_default();
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    install(ours, &text, known)
}

fn install(socket: OwnedFd, start: &[u8], known: u64) -> Result<(), Error> {
    send(socket.as_raw_fd(), &message::head(message::START, thread()), start, MsgFlags::empty());
    // Kept until the process ends: its end is what lets the writer end.
    // ORDERING: Release; pairs with the Acquire of `socket`, and publishes a socket that is ready.
    SOCKET.store(socket.into_raw_fd(), Ordering::Release);
    // ORDERING: Relaxed; a figure that guards nothing.
    TOTAL.store(known, Ordering::Relaxed);
    let mut before = [EMPTY; SIGNALS.len()];
    for (signal, before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: no new action; the old one is written into this frame.
        nix::Error::result(unsafe { libc::sigaction(*signal, std::ptr::null(), before) })?;
    }
    let _ = BEFORE.set(before);
    for signal in SIGNALS {
        handle(signal)?;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        on_panic(info);
    }));
    Ok(())
}

// SAFETY: sigaction is plain data for which zero is a value: the default action, no flags.
const EMPTY: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };

/// Sets our handler.
fn handle(signal: c_int) -> Result<(), Error> {
    let mut action = EMPTY;
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` lives in this frame, and `on_signal` has the signature that SA_SIGINFO demands.
    nix::Error::result(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// Gives the writer a log record. One that it has no room for is left out.
pub fn log(record: &str) {
    let socket = socket();
    if socket >= 0 {
        let text = &record.as_bytes()[..record.len().min(message::PACKET_BYTES_MAX / 2)];
        send(socket, &message::head(message::LOG, thread()), text, MsgFlags::MSG_DONTWAIT);
    }
}

fn socket() -> c_int {
    // ORDERING: Acquire; pairs with the Release in `install`.
    SOCKET.load(Ordering::Acquire)
}

fn thread() -> u32 {
    // SAFETY: it has no preconditions.
    (unsafe { libc::gettid() }) as u32
}

/// One packet. Whether it was sent.
fn send(socket: c_int, head: &[u8], rest: &[u8], flags: MsgFlags) -> bool {
    let parts = [IoSlice::new(head), IoSlice::new(rest)];
    // SAFETY: both parts are borrowed until the call returns.
    unsafe { send_parts(socket, parts.as_ptr().cast(), parts.len(), flags) }
}

/// # Safety
/// `parts` must point to `count` iovecs. Memory that they point to and that is not there makes the call fail, and
/// nothing else.
unsafe fn send_parts(socket: c_int, parts: *const libc::iovec, count: usize, flags: MsgFlags) -> bool {
    // SAFETY: msghdr is plain data for which zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts.cast_mut();
    message.msg_iovlen = count as _;
    // SAFETY: the header lives in this frame; the kernel checks every address that the iovecs hold and answers EFAULT.
    unsafe { libc::sendmsg(socket, &raw const message, flags.bits() | libc::MSG_NOSIGNAL) >= 0 }
}

/// The handler of [`SIGNALS`].
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = thread();
    // ORDERING: AcqRel; the winner alone uses `SIGNAL_PAGE`.
    match CRASHING.compare_exchange(0, thread as i32, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: the kernel hands a handler with SA_SIGINFO both pointers, valid until it returns.
            let (registers, code) = unsafe { registers(signal, &*info, &*context.cast()) };
            report(&registers, &SIGNAL_PAGE);
            if code > 0 {
                // The processor's: the instruction is tried again when this returns.
                back_to(signal, before(signal));
            } else {
                again(signal);
            }
        }
        Err(other) if other == thread as i32 => back_to(signal, before(signal)),
        // SAFETY: no descriptors: it only waits for the other thread to end the process.
        Err(_) => drop(unsafe { libc::poll(std::ptr::null_mut(), 0, ANSWER_MS) }),
    }
}

/// What handled the signal before us.
fn before(signal: c_int) -> &'static libc::sigaction {
    SIGNALS.iter().position(|one| *one == signal).and_then(|at| Some(&BEFORE.get()?[at])).unwrap_or(&EMPTY)
}

fn back_to(signal: c_int, action: &libc::sigaction) {
    // SAFETY: the action is one that sigaction gave, or the default.
    unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
}

/// Sends a signal that somebody sent once more, to its default action: the standard library's handler would wait for
/// the instruction to fail again, and it does not.
fn again(signal: c_int) {
    back_to(signal, &EMPTY);
    // SAFETY: a signal to this very thread; it is delivered when the handler returns.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}

/// # Safety
/// Both must be what the kernel handed to a handler, or what `getcontext` made.
#[cfg(target_arch = "x86_64")]
unsafe fn context_registers(context: &libc::ucontext_t) -> Registers {
    let register = |at: c_int| context.uc_mcontext.gregs[at as usize] as u64;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        ..Registers::default()
    }
}

/// # Safety
/// Both must be what the kernel handed to a handler, or what `getcontext` made.
#[cfg(target_arch = "aarch64")]
unsafe fn context_registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        instruction: machine.pc,
        stack: machine.sp,
        frame: machine.regs[29],
        link: machine.regs[30],
        ..Registers::default()
    }
}

/// # Safety
/// Both must be what the kernel handed to a handler.
unsafe fn registers(signal: c_int, info: &libc::siginfo_t, context: &libc::ucontext_t) -> (Registers, c_int) {
    // SAFETY: as the caller's; si_addr is in the union's form for these signals, and any bits are a pointer's.
    unsafe {
        let address = info.si_addr() as u64;
        let registers = Registers { signal, code: info.si_code, address, ..context_registers(context) };
        (registers, info.si_code)
    }
}

/// Sends everything and waits for the answer. Nothing in here allocates.
fn report(registers: &Registers, page: &Page) {
    let socket = socket();
    if socket < 0 {
        return;
    }
    let thread = thread();
    let (length, activity) = activity::current();
    const FIXED: usize = message::REGISTERS_BYTES + message::NAME_BYTES;
    let mut fixed = [0; FIXED + activity::BYTES_MAX];
    fixed[..message::REGISTERS_BYTES].copy_from_slice(&registers.to_bytes());
    // SAFETY: the kernel writes at most the 16 bytes that are there.
    unsafe { libc::prctl(libc::PR_GET_NAME, fixed[message::REGISTERS_BYTES..FIXED].as_mut_ptr()) };
    fixed[FIXED..].copy_from_slice(&activity);
    let fixed = &fixed[..FIXED + length];
    if !send(socket, &message::head(message::REGISTERS, thread), fixed, MsgFlags::empty()) {
        return;
    }
    send_traces(socket, thread);
    send_maps(socket, thread, page);
    send_stack(socket, thread, registers.stack);
    if send(socket, &message::head(message::END, thread), &[], MsgFlags::empty()) {
        wait(socket, thread);
    }
}

/// Sends the messages that are in flight. The clock is one that [`start`] has read, so that this is loads and
/// arithmetic.
fn send_traces(socket: c_int, thread: u32) {
    let clock = Clock::global();
    let now = clock.ticks();
    each_in_flight(|message| {
        let Some(began) = message.began() else { return };
        let mut trace = message::Trace::new(message.is_of_thread, clock.ns_between(began, now), message.path);
        message.points().for_each(|(name, ticks)| trace.point(clock.ns_between(began, ticks), name));
        send(socket, &message::head(message::TRACE, thread), trace.bytes(), MsgFlags::empty());
    });
}

/// Sends /proc/self/maps in parts.
fn send_maps(socket: c_int, thread: u32, page: &Page) {
    // SAFETY: a constant C string; the descriptor is closed below.
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    loop {
        // SAFETY: the caller has this page alone: a signal's as the winner of `CRASHING`, a panic's under `REPORTING`.
        let buffer = unsafe { &mut *page.0.get() };
        // SAFETY: the buffer is as long as it says.
        let count = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(part) = usize::try_from(count).ok().filter(|count| *count > 0).and_then(|count| buffer.get(..count))
        else {
            break;
        };
        if !send(socket, &message::head(message::MAPS, thread), part, MsgFlags::empty()) {
            break;
        }
    }
    // SAFETY: it was opened above.
    unsafe { libc::close(file) };
}

/// Sends the memory from the stack pointer upwards, page by page, to its end or [`STACK_BYTES_MAX`]. After an overflow
/// the pointer is in the guard pages, which are left out.
fn send_stack(socket: c_int, thread: u32, stack: u64) {
    let mut guard_pages_left = GUARD_PAGES_MAX;
    let mut from = stack & !7;
    let end = from.saturating_add(STACK_BYTES_MAX as u64);
    while from < end {
        let length = PAGE as u64 - from % PAGE as u64;
        let (head, address) = (message::head(message::MEMORY, thread), from.to_le_bytes());
        let parts = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: address.as_ptr().cast_mut().cast(), iov_len: address.len() },
            libc::iovec { iov_base: from as *mut c_void, iov_len: length as usize },
        ];
        // SAFETY: three iovecs. The last may name memory that is not there: the kernel answers EFAULT, and the stack
        // has ended.
        if unsafe { send_parts(socket, parts.as_ptr(), parts.len(), MsgFlags::empty()) } {
            guard_pages_left = 0;
        } else if guard_pages_left == 0 {
            return;
        } else {
            guard_pages_left -= 1;
        }
        from += length;
    }
}

/// Waits for the writer's answer to this thread.
fn wait(socket: c_int, thread: u32) {
    let mut answer = [0u8; message::HEAD_BYTES + 8];
    loop {
        let mut one = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, in this frame.
        if unsafe { libc::poll(&raw mut one, 1, ANSWER_MS) } <= 0 {
            return;
        }
        // SAFETY: the buffer is as long as it says.
        let count = unsafe { libc::recv(socket, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) };
        if count != answer.len() as isize {
            return;
        }
        if let Some((message::STORED, of, number)) = message::parse(&answer) {
            let number = number.try_into().map_or(0, u64::from_le_bytes);
            // ORDERING: Relaxed; a figure that guards nothing.
            TOTAL.fetch_max(number, Ordering::Relaxed);
            if of == thread {
                return;
            }
        }
    }
}

/// The panic hook.
fn on_panic(info: &PanicHookInfo<'_>) {
    let socket = socket();
    // ORDERING: Relaxed; a bound that guards no memory.
    if socket < 0 || PANICS.fetch_add(1, Ordering::Relaxed) >= PANICS_MAX {
        return;
    }
    let _reporting = REPORTING.lock().unwrap_or_else(PoisonError::into_inner);
    let payload = info.payload();
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    let message = payload.downcast_ref::<&str>().copied().or(owned).unwrap_or("(no message)");
    let panic = Panic {
        message: message.chars().take(1_000).collect(),
        location: info.location().map(ToString::to_string).unwrap_or_default(),
    };
    let text = serde_json::to_vec(&panic).unwrap_or_default();
    send(socket, &message::head(message::PANIC, thread()), &text, MsgFlags::empty());
    let mut context = MaybeUninit::<libc::ucontext_t>::zeroed();
    // SAFETY: getcontext fills the structure with the registers of this frame, which lives until the report is stored.
    let registers = unsafe {
        if libc::getcontext(context.as_mut_ptr()) != 0 {
            return;
        }
        context_registers(context.assume_init_ref())
    };
    report(&registers, &PANIC_PAGE);
}

/// The writer outlives what ends its role by a signal to all: it goes when the role's end of the socket is closed.
pub(crate) fn outlive_the_role() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: to ignore a signal installs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// How `ogive crash test` ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reads an address that is not there: SIGSEGV.
    BadAddress,
    /// Recursion without end: SIGSEGV on the guard page.
    StackOverflow,
    /// `abort`: SIGABRT.
    Abort,
    /// A panic, which ends the process with code 101.
    Panic,
}

/// Crashes this process.
///
/// # Panics
/// For [`Fault::Panic`].
pub fn crash(fault: Fault) {
    match fault {
        // SAFETY: it is not: that is what it is for. A volatile read of address 8 faults and reads nothing.
        Fault::BadAddress => drop(unsafe { std::ptr::without_provenance::<u64>(8).read_volatile() }),
        Fault::StackOverflow => drop(deeper(1)),
        Fault::Abort => std::process::abort(),
        Fault::Panic => panic!("a panic for a test of crash reports"),
    }
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if frame[0] == 0 { depth } else { deeper(depth + 1).wrapping_add(std::hint::black_box(frame)[1]) }
}
