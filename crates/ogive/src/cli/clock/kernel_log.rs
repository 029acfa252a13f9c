//! What the kernel logs about its clocks, such as "tsc: Marking TSC unstable due to clocksource watchdog".
//!
//! *Format*: records of /dev/kmsg (the kernel's Documentation/ABI/testing/dev-kmsg):
//! `priority,sequence,microseconds,flags;message`, one a read, with lines of properties behind the message that begin
//! with a blank. *Limits*: [`MESSAGES_MAX`] a look; what was logged before the log was opened is not read. *Failure*: a
//! host that does not show its log (`dmesg_restrict`, a container) has no messages. A record that was overwritten
//! before it was read is skipped, as the kernel says (EPIPE).

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// 100 messages a second are a fault of their own.
const MESSAGES_MAX: usize = 100;
/// 8 KiB: the kernel cuts a record at 1 KiB, and its properties are few.
const RECORD_BYTES_MAX: usize = 8 << 10;
/// Records read at once: a log that is flooded does not delay the clock's second.
const RECORDS_MAX: usize = 10_000;
/// Words that mark a message about clocks.
const WORDS: [&str; 5] = ["tsc", "clocksource", "timekeeping", "hpet", "clock skew"];

/// The kernel's log from now on.
#[derive(Debug)]
pub(crate) struct KernelLog(Option<File>);

impl KernelLog {
    /// Opens the log at its end.
    pub(crate) fn open() -> Self {
        // Flags of open(2): reads return at the log's end instead of waiting.
        let open = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open("/dev/kmsg").ok()?;
            file.seek(SeekFrom::End(0)).ok()?;
            Some(file)
        };
        Self(open())
    }

    /// The messages about clocks since the last call.
    pub(crate) fn read(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        let Some(file) = &mut self.0 else { return out };
        let mut record = [0; RECORD_BYTES_MAX];
        for _ in 0..RECORDS_MAX {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => out.extend(message(&record[..length])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Overwritten before it was read: the next read returns the oldest remaining record.
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPIPE as i32) => {}
                Err(_) => break,
            }
            if out.len() == MESSAGES_MAX {
                break;
            }
        }
        out
    }
}

/// The message of a record that is about clocks.
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let message = text.split_once(';')?.1.lines().next()?.trim();
    let lower = message.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word)).then(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_clocks_are_found() {
        for (record, expected) in [
            ("4,871,5140900,-;tsc: Marking TSC unstable due to clocksource watchdog\n", true),
            ("5,872,5140901,-,caller=T1;clocksource: Switched to clocksource hpet\n SUBSYSTEM=x\n", true),
            ("4,9,1,-;clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable", true),
            ("6,10,1,-;eth0: link becomes ready\n", false),
            ("6,10,1,-;eth0: link becomes ready\n DEVICE=tsc\n", false),
            ("no record", false),
            ("", false),
        ] {
            let found = message(record.as_bytes());
            assert_eq!(found.is_some(), expected, "{record:?}");
            assert!(found.is_none_or(|found| !found.contains('\n') && !found.contains(';')), "{record:?}");
        }
    }

    #[test]
    fn a_log_that_is_not_shown_has_no_messages() {
        assert_eq!(KernelLog(None).read(), [""; 0]);
    }

    /// Whoever may write to the log of this machine sees what it wrote.
    #[test]
    fn what_is_logged_from_now_on_is_read() {
        use std::io::Write as _;
        let mut log = KernelLog::open();
        let Ok(mut kernel) = std::fs::OpenOptions::new().write(true).open("/dev/kmsg") else {
            println!("NOT TESTED: this user may not write to the kernel's log");
            return;
        };
        let text = format!("ogive test {}: a message that names clocksource", std::process::id());
        // Without the line's end the kernel waits for more of it.
        if log.0.is_none() || kernel.write_all(format!("{text}\n").as_bytes()).is_err() {
            println!("NOT TESTED: the kernel's log is closed");
            return;
        }
        let found = log.read();
        assert!(found.iter().any(|message| message.contains(&text)), "{found:?}");
        assert_eq!(log.read().iter().filter(|message| message.contains(&text)).count(), 0, "once");
    }
}
