//! The answer to a sender, as protobuf.

/// Field 1 of `ExportMetricsServiceResponse` and of `ExportLogsServiceResponse`, which have one shape: how many points or records
/// were rejected, and a sentence. Nothing when there is nothing to say.
#[must_use]
pub fn partial_success(rejected: u64, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if rejected == 0 && message.is_empty() {
        return out;
    }
    let mut inner = Vec::new();
    if rejected > 0 {
        number(&mut inner, 1, rejected);
    }
    bytes(&mut inner, 2, message.as_bytes());
    bytes(&mut out, 1, &inner);
    out
}

/// The type of [`status`]' detail that says when to come back.
pub const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// A `google.rpc.Status`; with `retry_seconds`, when to send again.
#[must_use]
pub fn status(code: u32, message: &str, retry_seconds: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, u64::from(code));
    bytes(&mut out, 2, message.as_bytes());
    if let Some(seconds) = retry_seconds {
        let (mut duration, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut duration, 1, seconds);
        bytes(&mut info, 1, &duration);
        bytes(&mut any, 1, RETRY_INFO.as_bytes());
        bytes(&mut any, 2, &info);
        bytes(&mut out, 3, &any);
    }
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
