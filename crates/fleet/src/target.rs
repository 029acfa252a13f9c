//! What a broker may be asked to connect to, and the list in its own file that permits it.
//!
//! Format: a target is `NAME:PORT`, `IPV4:PORT` or `[IPV6]:PORT`. An entry of the list is the same, or a network:
//! `10.0.0.0/8:22`, `[fd00::/8]:22`.
//! Invariants: a name is permitted by an entry with the same text alone, an address by an entry with the same address
//! or a network around it; the port is that of the entry. An empty list permits nothing.
//! Limits: [`ENTRIES_MAX`], [`TARGET_BYTES_MAX`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 256 entries: a person writes them.
const ENTRIES_MAX: usize = 256;
/// 253 letters of a name and a port, with room for a network in brackets.
pub(crate) const TARGET_BYTES_MAX: usize = 260;
/// 253 letters, as in DNS.
const NAME_BYTES_MAX: usize = 253;
/// 63 letters between two dots, as in DNS.
const LABEL_BYTES_MAX: usize = 63;

/// A host, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in small letters. The broker resolves it.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Where a connection shall lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Target {
    /// Reads `HOST:PORT`.
    ///
    /// # Errors
    /// A sentence on what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Written { host, is_bracketed, port } = Written::parse(text)?;
        let host = match address(host, is_bracketed) {
            Some(address) => Host::Address(address.to_canonical()),
            None if is_bracketed => return Err(format!("{text:?}: {host:?} is no IPv6 address")),
            None => Host::Name(name(host)?),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(out, "{name}:{}", self.port),
            Host::Address(address) => std::net::SocketAddr::new(*address, self.port).fmt(out),
        }
    }
}

/// The two halves of `HOST:PORT`.
struct Written<'t> {
    /// Without brackets.
    host: &'t str,
    is_bracketed: bool,
    port: u16,
}

impl<'t> Written<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        if text.len() > TARGET_BYTES_MAX {
            return Err(format!("a target has {TARGET_BYTES_MAX} bytes at most, and this one {}", text.len()));
        }
        let wrong = || format!("{text:?} is no target; write HOST:PORT, such as db.internal:5432 or [fd00::1]:22");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = number(port).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let port = port.ok_or_else(|| format!("{text:?} does not end in a port from 1 to 65535"))?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Ok(Self { host: inner.unwrap_or(host), is_bracketed: inner.is_some(), port })
    }
}

/// A number of one to five digits, without a sign or zeros before it.
fn number(text: &str) -> Option<u32> {
    let is_plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

fn address(host: &str, is_bracketed: bool) -> Option<IpAddr> {
    match is_bracketed {
        true => host.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        false => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// A name in small letters. One that resolvers could take for an address (`127.1`) is none.
fn name(host: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(letters)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = |label: &str| {
        let digits = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
        digits.map_or(label.bytes().all(|byte| byte.is_ascii_digit()), |digits| {
            digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    if host.len() > NAME_BYTES_MAX || !host.split('.').all(is_label) || is_number(last) {
        return Err(format!("{host:?} is neither a name nor an address; IPv6 addresses stand in brackets"));
    }
    Ok(host.to_ascii_lowercase())
}

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Name(String, u16),
    Network { network: IpAddr, prefix: u32, port: u16 },
}

/// The address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, String> {
        let Written { host, is_bracketed, port } = Written::parse(text)?;
        let Some((network, prefix)) = host.split_once('/') else {
            return Target::parse(text).map(|Target { host, port }| match host {
                Host::Name(name) => Self::Name(name, port),
                Host::Address(network) => Self::Network { network, prefix: bits(network).1, port },
            });
        };
        let network = address(network, is_bracketed).filter(|network| network.to_canonical() == *network);
        let network = network.ok_or_else(|| format!("{text:?} is no network; write 10.0.0.0/8:22 or [fd00::/8]:22"))?;
        let (value, width) = bits(network);
        let prefix = number(prefix).filter(|prefix| *prefix <= width);
        let prefix = prefix.ok_or_else(|| format!("{text:?} has no prefix length from 0 to {width} behind /"))?;
        if value != masked(value, width, prefix) {
            return Err(format!("{text:?} has bits behind its prefix; write the network's own address"));
        }
        Ok(Self::Network { network, prefix, port })
    }

    fn permits(&self, target: &Target) -> bool {
        match (self, &target.host) {
            (Self::Name(name, port), Host::Name(wanted)) => name == wanted && *port == target.port,
            (Self::Network { network, prefix, port }, Host::Address(wanted)) => {
                let ((value, width), (wanted, wanted_width)) = (bits(*network), bits(*wanted));
                width == wanted_width && *port == target.port && masked(wanted, width, *prefix) == value
            }
            _ => false,
        }
    }
}

/// The first `prefix` of `width` bits.
fn masked(value: u128, width: u32, prefix: u32) -> u128 {
    debug_assert!(prefix <= width && width <= 128, "{prefix} of {width} bits");
    let behind = width - prefix;
    value.checked_shr(behind).and_then(|value| value.checked_shl(behind)).unwrap_or(0)
}

/// The list of a broker: what it may be asked to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachable(Vec<Entry>);

impl Reachable {
    /// Reads the entries of a list.
    ///
    /// # Errors
    /// The entry that is wrong, and a sentence.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, (usize, String)> {
        if entries.len() > ENTRIES_MAX {
            let message = format!("there are {} targets; list {ENTRIES_MAX} at most", entries.len());
            return Err((ENTRIES_MAX, message));
        }
        let all = entries.iter().enumerate();
        let all = all.map(|(index, text)| Entry::parse(text.as_ref()).map_err(|sentence| (index, sentence)));
        all.collect::<Result<_, _>>().map(Self)
    }

    /// Whether the list permits a connection to `target`.
    #[must_use]
    pub fn permits(&self, target: &Target) -> bool {
        self.0.iter().any(|entry| entry.permits(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_or_refused() {
        let check = |text: &str, expected: Option<&str>| {
            let found = Target::parse(text).ok().map(|target| target.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
            if let Some(found) = found {
                assert_eq!(Target::parse(&found), Target::parse(text), "{text:?}");
            }
        };
        check("db.internal:5432", Some("db.internal:5432"));
        check("DB_1.Internal:1", Some("db_1.internal:1"));
        check("localhost:65535", Some("localhost:65535"));
        check("10.0.0.1:22", Some("10.0.0.1:22"));
        check("[fd00::1]:22", Some("[fd00::1]:22"));
        check("[::ffff:10.0.0.1]:22", Some("10.0.0.1:22"));
        check("3com.example:80", Some("3com.example:80"));
        let long = format!("{}:80", ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join("."));
        check(&long, Some(&long));
        check(&format!("e{long}"), None);
        for text in [
            "",
            ":",
            "a",
            "a:",
            ":80",
            "a:0",
            "a:65536",
            "a:080",
            "a:+80",
            "a:-1",
            "a: 80",
            "a b:80",
            "a:80 ",
            "a..b:80",
            ".a:80",
            "a.:80",
            "-a:80",
            "a-:80",
            "fd00::1:22",
            "[fd00::1]",
            "[a]:22",
            "[10.0.0.1]:22",
            "127.1:80",
            "1:80",
            "0x7f.0x1:80",
            "0x7f000001:80",
            "010.0.0.1:80",
            "10.0.0.0/8:22",
            "*.a:80",
            "a/b:80",
            "u@a:80",
            "a:80\n",
            "[fe80::1%1]:22",
            "ä:80",
            "a:99999999999",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_list_permits_what_is_on_it_and_nothing_else() {
        let list =
            ["db.internal:5432", "10.0.0.0/8:22", "192.0.2.7:443", "[fd00::/8]:22", "[::1]:80", "172.16.0.0/12:1"];
        let list = Reachable::parse(&list).unwrap();
        let check = |text: &str, expected: bool| {
            let target = Target::parse(text).unwrap();
            assert_eq!(list.permits(&target), expected, "{text}");
            assert!(!Reachable::default().permits(&target), "{text}");
        };
        for text in [
            "db.internal:5432",
            "DB.internal:5432",
            "10.0.0.0:22",
            "10.255.255.255:22",
            "192.0.2.7:443",
            "[fdff::1]:22",
            "[::1]:80",
            "[::ffff:10.1.2.3]:22",
            "172.31.255.255:1",
        ] {
            check(text, true);
        }
        for text in [
            "db.internal:5433",
            "db:5432",
            "a.db.internal:5432",
            "db.internal.a:5432",
            "9.255.255.255:22",
            "11.0.0.0:22",
            "10.0.0.0:23",
            "192.0.2.6:443",
            "192.0.2.8:443",
            "[fe00::1]:22",
            "[::2]:80",
            "[::1]:81",
            "172.32.0.0:1",
            "[a00::1]:22",
        ] {
            check(text, false);
        }
        let all = Reachable::parse(&["0.0.0.0/0:1", "[::/0]:2"]).unwrap();
        let is_permitted = |text: &str| all.permits(&Target::parse(text).unwrap());
        assert!(is_permitted("1.2.3.4:1") && is_permitted("[1::]:2"));
        // A name is matched as it is written, never by where it leads.
        assert!(!is_permitted("1.2.3.4:2") && !is_permitted("[1::]:1") && !is_permitted("localhost:1"));
    }

    #[test]
    fn a_wrong_entry_is_named() {
        for text in [
            "10.0.0.1/8:22",
            "10.0.0.0/33:22",
            "10.0.0.0/:22",
            "10.0.0.0/08:22",
            "10.0.0.0/8",
            "fd00::/8:22",
            "[fd00::/129]:22",
            "[fd00::1/8]:22",
            "[::ffff:10.0.0.0/104]:22",
            "*.svc.local:443",
            "a/8:22",
            "a:*",
            "*:443",
            "",
        ] {
            let (index, _) = Reachable::parse(&["ok:1", text]).unwrap_err();
            assert_eq!(index, 1, "{text}");
        }
        assert!(Reachable::parse(&["a:1"; ENTRIES_MAX]).is_ok());
        assert_eq!(Reachable::parse(&["a:1"; ENTRIES_MAX + 1]).unwrap_err().0, ENTRIES_MAX);
    }

    /// Compares with a comparison bit by bit.
    #[test]
    fn networks_contain_what_begins_with_their_bits() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 32) as u32
        };
        for _ in 0..5_000 {
            let (prefix, value) = (random() % 33, random());
            let network = u32::try_from(masked(u128::from(value), 32, prefix)).unwrap();
            let near = network ^ (1 << (random() % 32));
            let list = Reachable::parse(&[format!("{}/{prefix}:22", Ipv4Addr::from_bits(network))]).unwrap();
            for wanted in [near, random(), value] {
                let target = Target::parse(&format!("{}:22", Ipv4Addr::from_bits(wanted))).unwrap();
                let is_inside = (0..prefix).all(|at| (wanted >> (31 - at)) & 1 == (network >> (31 - at)) & 1);
                assert_eq!(list.permits(&target), is_inside, "{list:?} {target}");
            }
        }
    }
}
