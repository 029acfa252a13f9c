//! How far a forward is, and what it is sending: a file that is replaced whole.
//!
//! Format: docs/formats/forward.md. Invariants: a request is in the file before it is sent, and goes again with the same bytes and number until
//! it was taken; the file moves on only behind an answer. So each cell is sent at least once, and whoever knows numbers or times again counts it once.
//! Failure: a file that is not what was written is an error; who removes it begins at now.

use ogive_model::SourceId;

const MAGIC: [u8; 8] = *b"ogivefwd";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
/// 4,096 requests of one turn: what 60 seconds of a million series need.
pub(super) const REQUESTS_MAX: usize = 4_096;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Under which batches go.
    pub(super) source: SourceId,
    /// The number of the next batch.
    pub(super) sequence: u64,
    /// Everything up to here was taken, milliseconds.
    pub(super) until_ms: i64,
    /// When all of `requests` are taken, everything up to here was.
    pub(super) next_ms: i64,
    /// What is to be sent, in its order.
    pub(super) requests: Vec<Request>,
}

/// A body with so many samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) samples: u32,
    pub(super) body: Vec<u8>,
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut fields = self.source.0.to_le_bytes().to_vec();
        fields.extend_from_slice(&self.sequence.to_le_bytes());
        fields.extend_from_slice(&self.until_ms.to_le_bytes());
        fields.extend_from_slice(&self.next_ms.to_le_bytes());
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

    /// # Errors
    /// A word on what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((header, fields)) = bytes.split_at_checked(HEADER_BYTES) else { return Err("it is too short") };
        if header[..8] != MAGIC || header[8..12] != VERSION.to_le_bytes() {
            return Err("it does not begin as version 1 of a forward's file");
        }
        if header[12..] != crc32c::crc32c_append(crc32c::crc32c(&header[..12]), fields).to_le_bytes() {
            return Err("its checksum does not fit its bytes");
        }
        Self::fields(fields).ok_or("its fields do not fit together")
    }

    fn fields(mut fields: &[u8]) -> Option<Self> {
        let mut take = |count: usize| {
            let (taken, rest) = fields.split_at_checked(count)?;
            fields = rest;
            Some(taken)
        };
        let source = SourceId(u128::from_le_bytes(take(16)?.try_into().ok()?));
        let sequence = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let until_ms = i64::from_le_bytes(take(8)?.try_into().ok()?);
        let next_ms = i64::from_le_bytes(take(8)?.try_into().ok()?);
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
        fields.is_empty().then_some(Self { source, sequence, until_ms, next_ms, requests })
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

    /// Fields that nobody wrote, under a good checksum: read or refused, without a panic or memory that they only claim.
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
            if let Some(state) = State::fields(&fields) {
                assert_eq!(State::decode(&state.encode()), Ok(state));
            }
        }
    }
}
