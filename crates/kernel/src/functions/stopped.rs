//! A command that stops when its program is in memory and has not begun, so that nothing of it is missed.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Error;

/// A child that waits at its beginning. The thread that started it lets it go on; dropped, it goes on as well.
#[derive(Debug)]
pub struct Stopped {
    child: Pid,
}

impl Stopped {
    /// Has the command stop after its exec, once it is started.
    pub fn prepare(command: &mut Command) {
        // SAFETY: between fork and exec this makes one system call, and neither takes a lock nor memory.
        unsafe { command.pre_exec(be_traced) };
    }

    /// Waits until the child of a prepared command has stopped.
    ///
    /// # Errors
    /// When it has ended instead.
    pub fn wait(child: &Child) -> Result<Self, Error> {
        let pid = Pid::from_raw(child.id().cast_signed());
        match waitpid(pid, None) {
            Ok(WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..)) => Ok(Self { child: pid }),
            Ok(status) => Err(Error::Input(format!("the command ended at its beginning: {status:?}"))),
            Err(error) => Err(Error::Input(format!("the command could not be stopped at its beginning: {error}"))),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: a system call about a child of this thread; its last two arguments are numbers here. One that was
        // killed meanwhile is refused, and needs no permission to go on.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.child.as_raw(), 0_usize, 0_usize) };
    }
}

fn be_traced() -> std::io::Result<()> {
    // SAFETY: a system call about this process; its other arguments are not used.
    let outcome = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0_usize, 0_usize) };
    if outcome < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
