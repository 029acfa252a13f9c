//! The time of an NTP server: its offset from this machine's clock, and what the server reports about itself.
//!
//! Format: RFC 5905, figure 8, as a client of SNTP (section 14). The request carries a random number instead of the
//! time of sending (draft-ietf-ntp-data-minimization), which the response must repeat.
//! offset = ((received - sent) + (answered - arrived)) / 2; its error is at most half of the delay.

use std::net::SocketAddr;

use ogive_model::WallNs;
use ogive_outgoing::datagrams;
use ogive_probe::Clock;

use super::entropy;
use super::net::Network;
use super::run::{Failure, Reason, Run};
use super::target::HostAndPort;

/// A packet without extensions.
const PACKET_BYTES: usize = 48;
/// Seconds from 1900 to 1970.
const UNIX_SECONDS: u64 = 2_208_988_800;
/// Leap indicator 3.
const UNSYNCHRONISED: u8 = 3;

/// What a server answered. Times are 32.32 fixed-point seconds since 1900, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    leap: u8,
    stratum: u8,
    /// 16.16 fixed-point seconds.
    root_delay: i32,
    root_dispersion: u32,
    reference: [u8; 4],
    received: u64,
    answered: u64,
}

pub(super) async fn run(network: &Network, run: &mut Run, place: &HostAndPort, clock: Clock) -> Result<(), Failure> {
    let server = network.resolve(run, &place.host, place.port).await?[0];
    run.phase("answer");
    let nonce = u64::from_ne_bytes(entropy::bytes()?);
    let (answer, sent, arrived) = exchange(server, nonce, clock).await?;
    run.gauge("ogive_check_ntp_stratum", "", f64::from(answer.stratum));
    judged(&answer)?;
    let (offset, delay) = answer.offset_and_delay(sent, arrived);
    run.gauge("ogive_check_ntp_offset_seconds", "s", offset);
    run.gauge("ogive_check_ntp_delay_seconds", "s", delay);
    run.gauge("ogive_check_ntp_root_delay_seconds", "s", f64::from(answer.root_delay) / 65_536.0);
    run.gauge("ogive_check_ntp_root_dispersion_seconds", "s", f64::from(answer.root_dispersion) / 65_536.0);
    Ok(())
}

/// The answer with the times at which the request was sent and the answer arrived.
async fn exchange(server: SocketAddr, nonce: u64, clock: Clock) -> Result<(Answer, u64, u64), Failure> {
    let socket = datagrams(server).await?;
    let sent = fixed(WallNs(clock.wall()));
    socket.send(&request(nonce)).await?;
    let mut bytes = [0; 512];
    loop {
        let length = socket.recv(&mut bytes).await?;
        let arrived = fixed(WallNs(clock.wall()));
        // Anything else is somebody else's, or late: the right one may still come.
        if let Some(answer) = read(&bytes[..length], nonce) {
            return Ok((answer, sent, arrived));
        }
    }
}

/// Version 4, mode client.
fn request(nonce: u64) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[0] = 4 << 3 | 3;
    packet[40..].copy_from_slice(&nonce.to_be_bytes());
    packet
}

/// None when it is no answer to the request with this number.
pub(super) fn read(bytes: &[u8], nonce: u64) -> Option<Answer> {
    let packet: &[u8; PACKET_BYTES] = bytes.first_chunk()?;
    let (head, mode) = (packet[0], packet[0] & 7);
    let number = |at: usize| u64::from_be_bytes(packet[at..at + 8].try_into().expect("8 bytes"));
    let word = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("4 bytes");
    let is_answer = mode == 4 && matches!(head >> 3 & 7, 3 | 4) && number(24) == nonce;
    is_answer.then(|| Answer {
        leap: head >> 6,
        stratum: packet[1],
        root_delay: i32::from_be_bytes(word(4)),
        root_dispersion: u32::from_be_bytes(word(8)),
        reference: word(12),
        received: number(32),
        answered: number(40),
    })
}

/// Whether the server wants its time to be believed.
pub(super) fn judged(answer: &Answer) -> Result<(), Failure> {
    let code = String::from_utf8_lossy(&answer.reference);
    let sentence = match answer.stratum {
        // "Kiss o' death": RFC 5905 section 7.4.
        0 if answer.reference.is_ascii() && answer.reference[0] > 0 => format!("the server refuses: {code}"),
        1..=15 if answer.leap != UNSYNCHRONISED => return Ok(()),
        stratum => format!("the server's clock is not synchronised (stratum {stratum})"),
    };
    Err(Failure::new(Reason::Status, sentence))
}

impl Answer {
    /// In seconds; a positive offset means that the server's clock is ahead.
    pub(super) fn offset_and_delay(&self, sent: u64, arrived: u64) -> (f64, f64) {
        let there = difference(self.received, sent);
        let back = difference(self.answered, arrived);
        let inside = difference(self.answered, self.received);
        ((there + back) / 2.0, difference(arrived, sent) - inside)
    }
}

/// `a - b` in seconds, also across the end of an era of 2^32 s.
fn difference(a: u64, b: u64) -> f64 {
    a.wrapping_sub(b) as i64 as f64 / 2_f64.powi(32)
}

/// Fixed-point seconds since 1900.
fn fixed(WallNs(ns): WallNs) -> u64 {
    let seconds = ns.div_euclid(1_000_000_000) as u64;
    let fraction = ((ns.rem_euclid(1_000_000_000) as u64) << 32) / 1_000_000_000;
    seconds.wrapping_add(UNIX_SECONDS) << 32 | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn packet(nonce: u64, first: u8, stratum: u8, times: [u64; 2]) -> Vec<u8> {
        let mut out = vec![first, stratum, 6, 0xe8];
        out.extend([0, 0, 0x80, 0, 0, 1, 0, 0]);
        out.extend(*b"RATE");
        out.extend([0; 8]);
        [nonce, times[0], times[1]].iter().for_each(|time| out.extend(time.to_be_bytes()));
        out
    }

    #[test]
    fn an_answer_repeats_the_number_of_its_request() {
        let request = request(0x0102_0304_0506_0708);
        assert_eq!((request[0], request[47]), (0x23, 8));
        let good = packet(7, 0x24, 2, [1, 2]);
        let answer = read(&good, 7).unwrap();
        assert_eq!((answer.stratum, answer.root_delay, answer.root_dispersion), (2, 0x8000, 0x1_0000));
        assert_eq!(judged(&answer), Ok(()));
        assert_eq!(read(&good, 8), None, "of another request");
        assert_eq!(read(&packet(7, 0x23, 2, [1, 2]), 7), None, "a request");
        assert_eq!(read(&packet(7, 0x14, 2, [1, 2]), 7), None, "version 2");
        assert_eq!(read(&good[..47], 7), None, "cut");
    }

    #[test]
    fn a_server_without_time_is_not_up() {
        let sentence =
            |first, stratum| judged(&read(&packet(7, first, stratum, [1, 2]), 7).unwrap()).unwrap_err().sentence;
        assert_eq!(sentence(0x24, 0), "the server refuses: RATE");
        assert_eq!(sentence(0xe4, 2), "the server's clock is not synchronised (stratum 2)");
        assert_eq!(sentence(0x24, 16), "the server's clock is not synchronised (stratum 16)");
    }

    #[test]
    fn offset_and_delay_are_those_of_the_format_and_eras_do_not_matter() {
        // The first era ends in February 2036.
        for unix in [1_700_000_000 * SECOND, 2_085_978_496 * SECOND - SECOND / 50] {
            let at = |ms: i64| fixed(WallNs(unix + ms * (SECOND / 1_000)));
            // 10 ms there, 5 ms in the server, 20 ms back; the server is 100 ms ahead.
            let answer = read(&packet(7, 0x24, 2, [at(110), at(115)]), 7).unwrap();
            let (offset, delay) = answer.offset_and_delay(at(0), at(35));
            assert!((offset - 0.095).abs() < 1e-6, "{offset}");
            assert!((delay - 0.030).abs() < 1e-6, "{delay}");
        }
    }
}
