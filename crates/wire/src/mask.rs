//! The head of an HTTP/1 request without its secrets: what may be shown is named here, everything else is masked.
//!
//! Of the path its template stays; of the query the names of its parameters; of the headers the values of [`SHOWN`]. A
//! name that nobody thought of is thereby masked, not shown.
//! Limits: [`HEAD_MAX`] bytes.

use crate::operation::template;

/// Bytes of a head that are kept: a dozen headers.
const HEAD_MAX: usize = 1_024;

/// Replaces a value that is not shown.
const MASK: &str = "***";

/// Names of parameters and headers are short; a longer one may be a value.
const NAME_MAX: usize = 40;

/// Maximum bytes of a shown value.
const VALUE_MAX: usize = 100;

/// Headers whose values are technical, and never identify anyone or anything.
const SHOWN: [&str; 14] = [
    "accept",
    "accept-encoding",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// The head of a request with this method and target; `head` is all of it, including its first line.
pub(crate) fn http_head(method: &[u8], target: &[u8], head: &[u8]) -> String {
    let mut out = String::with_capacity(128);
    out.push_str(&String::from_utf8_lossy(&method[..method.len().min(NAME_MAX)]));
    out.push(' ');
    let target = String::from_utf8_lossy(target);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    out.push_str(&masked_path(path));
    for (at, parameter) in query.split('&').filter(|part| !part.is_empty()).enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if is_name(name) => {
                out.push_str(name);
                out.push('=');
                out.push_str(MASK);
            }
            _ => out.push_str(MASK),
        }
        if out.len() > HEAD_MAX / 2 {
            out.push_str("&...");
            break;
        }
    }
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        if !is_name(&name) {
            continue;
        }
        let value = if SHOWN.contains(&&*name) { shown(line[colon + 1..].trim_ascii()) } else { MASK.to_owned() };
        if out.len() + name.len() + value.len() + 4 > HEAD_MAX {
            out.push_str("; ...");
            break;
        }
        out.push_str("; ");
        out.push_str(&name);
        out.push_str(": ");
        out.push_str(&value);
    }
    out
}

/// The template of a path, with random-looking segments masked: links to reset a password contain their secret in the
/// path.
fn masked_path(path: &str) -> String {
    let template = template::template(path);
    let is_random = |segment: &str| segment.len() >= 20 && !segment.contains(['-', '_', '.', '{']);
    let segments: Vec<&str> =
        template.split('/').map(|segment| if is_random(segment) { MASK } else { segment }).collect();
    segments.join("/")
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'[' | b']');
    !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(is_of_name)
}

/// A value that may be shown, unless it has a place for a password: `user:secret@host`.
fn shown(value: &[u8]) -> String {
    if value.contains(&b'@') || !value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return MASK.to_owned();
    }
    String::from_utf8_lossy(&value[..value.len().min(VALUE_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(head: &str) -> String {
        let line = head.lines().next().unwrap();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        http_head(method.as_bytes(), target.as_bytes(), head.as_bytes())
    }

    #[test]
    fn names_stay_and_values_go() {
        let head = "POST /users/1234/reset/aZbYcXdWeVfUgThSiRjQ?token=s3cret&s3cret&page=2 HTTP/1.1\r\nHost: shop.example\r\n\
            Authorization: Basic czNjcmV0\r\nCookie: session=s3cret\r\nX-Api-Key: s3cret\r\nContent-Type: text/plain\r\n\r\n";
        assert_eq!(
            masked(head),
            "POST /users/{n}/reset/***?token=***&***&page=***; host: shop.example; authorization: ***; cookie: ***; \
             x-api-key: ***; content-type: text/plain"
        );
    }

    #[test]
    fn passwords_in_hosts_and_overlong_heads_are_masked() {
        assert_eq!(masked("GET / HTTP/1.1\r\nHost: me:s3cret@shop\r\n\r\n"), "GET /; host: ***");
        let many: String = (0..500).map(|number| format!("x-{number}: s3cret\r\n")).collect();
        let long = masked(&format!("GET /?{} HTTP/1.1\r\n{many}\r\n", "s3cret&".repeat(400)));
        assert!(long.len() <= HEAD_MAX + 8 && !long.contains("s3cret"), "{}", long.len());
    }
}
