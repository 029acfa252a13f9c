//! What the kernel dropped of a socket because nobody read it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// The option SO_MEMINFO of socket(7), which the `libc` crate does not name (asm-generic/socket.h).
const SO_MEMINFO: libc::c_int = 55;
/// Words that the option gives (SK_MEMINFO_VARS of linux/sock_diag.h).
const WORDS: usize = 9;
/// The word that counts drops (SK_MEMINFO_DROPS).
const DROPS: usize = 8;

/// How many datagrams the kernel has dropped for this socket so far, modulo 2^32: the counter that SO_RXQ_OVFL sends
/// along with datagrams, without waiting for the next one. `None` where the kernel does not report it.
#[must_use]
#[allow(unsafe_code)]
pub fn socket_drops(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut words = [0_u32; WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the buffer is valid for the length that the kernel is given,
    // and it writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast::<libc::c_void>(),
            &mut length,
        )
    };
    (result == 0 && length as usize > DROPS * size_of::<u32>()).then_some(words[DROPS])
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets")]
    fn what_does_not_fit_is_counted_though_nothing_comes_after_it() {
        let (receiver, sender) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        assert_eq!(socket_drops(receiver.as_fd()), Some(0));
        let to = receiver.local_addr().unwrap();
        // The default receive buffer is some 200 KiB.
        const SENT: u32 = 5_000;
        (0..SENT).for_each(|_| assert_eq!(sender.send_to(&[7; 1_000], to).unwrap(), 1_000));
        receiver.set_nonblocking(true).unwrap();
        let taken = std::iter::from_fn(|| receiver.recv(&mut [0; 1_000]).ok()).count() as u32;
        assert_eq!(socket_drops(receiver.as_fd()), Some(SENT - taken));
        assert!(taken > 0 && taken < SENT, "{taken}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such files")]
    fn what_is_no_socket_has_no_count() {
        assert_eq!(socket_drops(std::io::stdin().as_fd()), None);
    }
}
