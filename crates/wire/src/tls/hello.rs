//! ClientHello and ServerHello: RFC 8446, 4.1, which is also the form of earlier versions.

use super::version::TlsVersion;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// A host name is at most 253 bytes long (RFC 1035).
const MAX_NAME: usize = 253;

/// ALPN protocols that are kept: browsers offer two.
const MAX_PROTOCOLS: usize = 4;

/// The contents of a ClientHello.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) server_name: String,
    /// The offered protocols, separated by commas.
    pub(super) alpn: String,
}

/// The contents of a ServerHello.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub(super) version: Option<TlsVersion>,
    pub(super) alpn: String,
}

/// Reads fields one after another.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<usize> {
        Some(usize::from(self.take(1)?[0]))
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A field with its length in one byte.
    fn short(&mut self) -> Option<Self> {
        let length = self.u8()?;
        self.take(length).map(Fields)
    }

    /// A field with its length in two bytes.
    fn long(&mut self) -> Option<Self> {
        let length = self.u16()?;
        self.take(usize::from(length)).map(Fields)
    }
}

impl ClientHello {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        fields.take(2 + 32)?;
        fields.short()?;
        fields.long()?;
        fields.short()?;
        let mut hello = Self::default();
        each_extension(&mut fields, |kind, mut value| {
            match kind {
                SERVER_NAME => hello.server_name = server_name(&mut value).unwrap_or_default(),
                ALPN => hello.alpn = protocols(&mut value).unwrap_or_default(),
                _ => {}
            }
            Some(())
        });
        Some(hello)
    }
}

impl ServerHello {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let mut version = TlsVersion::parse(fields.u16()?);
        fields.take(32)?;
        fields.short()?;
        fields.take(2 + 1)?;
        let mut alpn = String::new();
        each_extension(&mut fields, |kind, mut value| {
            match kind {
                SUPPORTED_VERSIONS => version = TlsVersion::parse(value.u16()?),
                ALPN => alpn = protocols(&mut value).unwrap_or_default(),
                _ => {}
            }
            Some(())
        });
        Some(Self { version, alpn })
    }
}

/// Calls `read` with each complete extension; old hellos have none.
fn each_extension(fields: &mut Fields<'_>, mut read: impl FnMut(u16, Fields<'_>) -> Option<()>) {
    let Some(mut extensions) = fields.long() else { return };
    while let Some(kind) = extensions.u16() {
        let Some(value) = extensions.long() else { return };
        if read(kind, value).is_none() {
            return;
        }
    }
}

/// The host name of the extension (RFC 6066, 3). Anything but a host name is dropped: it becomes a label.
fn server_name(value: &mut Fields<'_>) -> Option<String> {
    const HOST: usize = 0;
    let mut list = value.long()?;
    while let Some(kind) = list.u8() {
        let name = list.long()?.0;
        if kind == HOST {
            return (name.len() <= MAX_NAME && name.iter().all(|byte| is_of_name(*byte)))
                .then(|| String::from_utf8_lossy(name).to_ascii_lowercase());
        }
    }
    None
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// The protocols of ALPN (RFC 7301, 3.1), with commas between.
fn protocols(value: &mut Fields<'_>) -> Option<String> {
    let mut list = value.long()?;
    let mut out = String::new();
    for _ in 0..MAX_PROTOCOLS {
        let Some(name) = list.short() else { break };
        // Browsers put nonsense in between, so that servers bear it (RFC 8701).
        let is_name = !name.0.is_empty() && name.0.iter().all(|byte| is_of_name(*byte) || *byte == b'/');
        if is_name {
            if !out.is_empty() {
                out.push(',');
            }
            out.push_str(&String::from_utf8_lossy(name.0));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
    }

    fn client(extensions: &[u8]) -> Vec<u8> {
        let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
        [&[3, 3], &[0; 32][..], &[2, 9, 9], &[0, 2, 0x13, 1], &[1, 0], &length, extensions].concat()
    }

    #[test]
    fn names_and_protocols_are_found() {
        let name = extension(SERVER_NAME, b"\x00\x0b\x00\x00\x08Shop.EXA");
        let alpn = extension(ALPN, b"\x00\x0f\x02\x0a\xfa\x02h2\x08http/1.1");
        let hello = ClientHello::parse(&client(&[name.clone(), extension(99, b"x"), alpn].concat())).unwrap();
        assert_eq!((hello.server_name.as_str(), hello.alpn.as_str()), ("shop.exa", "h2,http/1.1"));
        let whole = client(&name);
        for cut in 0..whole.len() {
            let _ = ClientHello::parse(&whole[..cut]);
        }
        let strange = extension(SERVER_NAME, b"\x00\x06\x00\x00\x03a\nb");
        assert_eq!(ClientHello::parse(&client(&strange)).unwrap().server_name, "");
    }

    #[test]
    fn the_version_of_13_is_in_an_extension() {
        let server = |extensions: &[u8]| {
            let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
            let body = [&[3, 3], &[0; 32][..], &[0], &[0x13, 1, 0], &length, extensions].concat();
            ServerHello::parse(&body).unwrap().version
        };
        assert_eq!(server(&[]), Some(TlsVersion::Tls12));
        assert_eq!(server(&extension(SUPPORTED_VERSIONS, &[3, 4])), Some(TlsVersion::Tls13));
        assert_eq!(ServerHello::parse(&[3]), None);
    }
}
