//! URL templates: a path with its changing parts folded, so that `/users/17/orders/9c1e…` is
//! `/users/{n}/orders/{uuid}`.

/// Bytes of a template.
pub(crate) const LENGTH_MAX: usize = 160;

/// Segments that are kept; the rest becomes `…`.
const SEGMENTS_MAX: usize = 12;

/// The template of a request target: its path without query and fragment; ids, numbers and UUIDs folded.
pub(crate) fn template(target: &str) -> String {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    // The absolute form, as proxies are sent it.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let mut out = String::new();
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        let folded = fold(segment);
        if at > SEGMENTS_MAX || out.len() + folded.len() > LENGTH_MAX {
            out.push('…');
            break;
        }
        out.push_str(folded);
    }
    out
}

/// A segment, or a placeholder for its contents.
pub(crate) fn fold(segment: &str) -> &str {
    let bytes = segment.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        // Base64 and the like, without a digit by chance: nothing else is this long.
        return if bytes.len() > 64 { "{id}" } else { segment };
    }
    if digits == bytes.len() {
        "{n}"
    } else if is_uuid(bytes) {
        "{uuid}"
    } else if bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_hexdigit) {
        "{hex}"
    } else if is_number(bytes) {
        "{n}"
    } else if bytes.len() > 64 || is_id(bytes, digits) {
        "{id}"
    } else {
        segment
    }
}

/// Whether `bytes` is a UUID in its usual form.
pub(crate) fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Signed, decimal, dates and times: digits with points, signs, colons and commas.
fn is_number(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b':' | b',' | b'_'))
}

/// Random or counted names: `order-12345`, `5f3b…Zk`, but not `v1`, `index2.html` or `oauth2`.
fn is_id(bytes: &[u8], digits: usize) -> bool {
    let run = bytes.split(|byte| !byte.is_ascii_digit()).map(<[u8]>::len).max().unwrap_or(0);
    let turns = bytes.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    run >= 4 || (bytes.len() >= 12 && digits >= 4 && turns >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, expected: &str) {
        assert_eq!(template(target), expected, "{target}");
    }

    #[test]
    fn changing_parts_are_folded_and_others_stay() {
        check("/", "/");
        check("*", "*");
        check("/api/v1/users/1234?x=1#y", "/api/v1/users/{n}");
        check("/o/7c9e6679-7425-40de-944b-e07fc1f90ae7/items", "/o/{uuid}/items");
        check("/commit/deadbeef01", "/commit/{hex}");
        check("/2026-11-23/a", "/{n}/a");
        check("/order-123456", "/{id}");
        check("/f/dQw4w9WgXcQ_7k2", "/f/{id}");
        check("http://host:80/a/1", "/a/{n}");
        check("http://host", "/");
        for same in ["/index2.html", "/oauth2/token", "/t.S/Echo", "/h264", "/deadbeef", "/small.txt"] {
            check(same, same);
        }
    }

    #[test]
    fn a_long_target_is_cut() {
        let long = template(&"/abc".repeat(1_000));
        assert!(long.len() <= LENGTH_MAX + 4 && long.ends_with('…'), "{long}");
        check(&format!("/{}", "x".repeat(100)), "/{id}");
    }
}
