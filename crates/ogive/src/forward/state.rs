//! How far a forward is, and what it is sending: a file that is replaced whole.
//!
//! Format: docs/formats/forward.md. Invariants: a request is in the file before it is sent, and goes again with the
//! same bytes and number until it was taken; the file moves on only behind an answer. So each cell is sent at least
//! once, and whoever knows numbers or times again counts it once.
//! Failure: a file that is not what was written is an error; who removes it begins at now.

use ogive_model::{BatchId, SourceId};

use super::config::Form;

const MAGIC: [u8; 8] = *b"ogivefwd";
const VERSION: u32 = 2;
/// Without the form.
const VERSION_BEFORE: u32 = 1;
const HEADER_BYTES: usize = 16;
/// 4,096 requests in one turn: what 60 seconds of a million series need.
pub(super) const REQUESTS_MAX: usize = 4_096;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Under which batches go.
    pub(super) source: SourceId,
    /// The number of the next batch.
    pub(super) sequence: u64,
    /// Everything up to here was delivered, milliseconds.
    pub(super) until_ms: i64,
    /// When all of `requests` are delivered, everything up to here was.
    pub(super) next_ms: i64,
    /// The form of `requests`; unknown in version 1.
    pub(super) form: Option<Form>,
    /// The requests to send, in order.
    pub(super) requests: Vec<Request>,
}

/// A body with its number of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) samples: u32,
    pub(super) body: Vec<u8>,
}

impl State {
    /// The next batch's.
    pub(super) fn next(&self) -> BatchId {
        BatchId { source: self.source, sequence: self.sequence }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut fields = self.source.0.to_le_bytes().to_vec();
        fields.extend_from_slice(&self.sequence.to_le_bytes());
        fields.extend_from_slice(&self.until_ms.to_le_bytes());
        fields.extend_from_slice(&self.next_ms.to_le_bytes());
        fields.extend_from_slice(&number(self.form).to_le_bytes());
        fields.extend_from_slice(&(self.requests.len() as u32).to_le_bytes());
        for Request { samples, body } in &self.requests {
            fields.extend_from_slice(&samples.to_le_bytes());
            fields.extend_from_slice(&(body.len() as u32).to_le_bytes());
            fields.extend_from_slice(body);
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out), &fields);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&fields);
        out
    }

    /// Continues in `form`. Requests of another form are not sent: their cells are read again.
    pub(super) fn becomes(&mut self, form: Form) {
        if self.form.is_some() && number(self.form) != number(Some(form)) {
            self.requests.clear();
            self.next_ms = self.until_ms;
        }
        self.form = Some(form);
    }

    /// # Errors
    /// The reason why they are invalid.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((header, fields)) = bytes.split_at_checked(HEADER_BYTES) else { return Err("it is too short") };
        let version = u32::from_le_bytes(header[8..12].try_into().expect("they are four"));
        if header[..8] != MAGIC || ![VERSION, VERSION_BEFORE].contains(&version) {
            return Err("it does not begin as version 1 or 2 of a forward's file");
        }
        if header[12..] != crc32c::crc32c_append(crc32c::crc32c(&header[..12]), fields).to_le_bytes() {
            return Err("its checksum does not fit its bytes");
        }
        Self::fields(fields, version).ok_or("its fields do not fit together")
    }

    fn fields(mut fields: &[u8], version: u32) -> Option<Self> {
        let mut take = |count: usize| {
            let (taken, rest) = fields.split_at_checked(count)?;
            fields = rest;
            Some(taken)
        };
        let source = SourceId(u128::from_le_bytes(take(16)?.try_into().ok()?));
        let sequence = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let until_ms = i64::from_le_bytes(take(8)?.try_into().ok()?);
        let next_ms = i64::from_le_bytes(take(8)?.try_into().ok()?);
        let form = match version {
            VERSION_BEFORE => None,
            _ => form(u32::from_le_bytes(take(4)?.try_into().ok()?))?,
        };
        let count = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
        if next_ms < until_ms || count > REQUESTS_MAX {
            return None;
        }
        let mut requests = Vec::new();
        for _ in 0..count {
            let samples = u32::from_le_bytes(take(4)?.try_into().ok()?);
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
            requests.push(Request { samples, body: take(length)?.to_vec() });
        }
        fields.is_empty().then_some(Self { source, sequence, until_ms, next_ms, form, requests })
    }
}

/// A form as written in the file; 0 where it is not known.
const fn number(form: Option<Form>) -> u32 {
    match form {
        None => 0,
        Some(Form::RemoteWrite) => 1,
        Some(Form::Batch) => 2,
        // Requests of both are the same messages.
        Some(Form::Otlp | Form::OtlpGrpc) => 3,
    }
}

const fn form(number: u32) -> Option<Option<Form>> {
    Some(match number {
        0 => None,
        1 => Some(Form::RemoteWrite),
        2 => Some(Form::Batch),
        3 => Some(Form::Otlp),
        _ => return None,
    })
}

/// Any bytes as a file, and as the fields of one whose checksum fits.
pub(super) fn read_any(bytes: &[u8]) {
    let _ = State::decode(bytes);
    for version in [VERSION_BEFORE, VERSION] {
        if let Some(state) = State::fields(bytes, version) {
            assert_eq!(State::decode(&state.encode()), Ok(state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(requests: &[&[u8]]) -> State {
        State {
            source: SourceId(7),
            sequence: 9,
            until_ms: 1_000,
            next_ms: 2_000,
            form: Some(Form::Batch),
            requests: requests.iter().map(|body| Request { samples: 3, body: body.to_vec() }).collect(),
        }
    }

    #[test]
    fn a_file_comes_back_and_a_changed_one_does_not() {
        let hex: String = state(&[b"ab"]).encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let page = include_str!("../../../../docs/formats/forward.md");
        assert!(page.replace([' ', '\n'], "").contains(&hex), "{hex}");
        for requests in [&[][..], &[&b"ab"[..], b"", b"c"]] {
            let state = state(requests);
            let bytes = state.encode();
            assert_eq!(State::decode(&bytes).as_ref(), Ok(&state));
            for at in 0..bytes.len() {
                assert!(State::decode(&bytes[..at]).is_err(), "cut at {at}");
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    assert!(State::decode(&changed).is_err(), "bit {bit} of {at}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_version_1_is_read_and_another_form_reads_its_cells_again() {
        let mut fields = state(&[b"ab"]).encode().split_off(HEADER_BYTES);
        fields.drain(40..44);
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION_BEFORE.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&header), &fields);
        header.extend_from_slice(&checksum.to_le_bytes());
        let mut read = State::decode(&[header, fields].concat()).unwrap();
        assert_eq!(read, State { form: None, ..state(&[b"ab"]) });
        read.becomes(Form::Batch);
        assert_eq!(read, state(&[b"ab"]));
        read.becomes(Form::Otlp);
        assert_eq!((read.requests.len(), read.next_ms, read.form), (0, read.until_ms, Some(Form::Otlp)));
    }

    /// Fields that nobody wrote, under a good checksum: read or refused, without a panic or memory that they only
    /// claim.
    #[test]
    fn any_fields_are_read_or_refused() {
        let (mut seed, good) = (0x2545_f491_4f6c_dd1d_u64, state(&[b"ab", b"cde"]).encode());
        for _ in 0..20_000 {
            let mut fields = good[HEADER_BYTES..].to_vec();
            for _ in 0..3 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let at = seed as usize % fields.len();
                fields[at] = (seed >> 32) as u8;
            }
            if let Some(state) = State::fields(&fields, VERSION) {
                assert_eq!(State::decode(&state.encode()), Ok(state));
            }
        }
    }
}
