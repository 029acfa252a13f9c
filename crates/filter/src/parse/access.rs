//! Access logs of nginx and Apache: `CLIENT IDENT USER [TIME] "REQUEST" STATUS BYTES`, with a virtual host before it,
//! and behind it referer and user agent (combined), other quoted texts, a bare number (the seconds that the request
//! took) and `name=value` pairs.
//!
//! Fields: `vhost`, `client`, `user`, `time`, `request`, `method`, `path`, `query`, `protocol`, `status`, `bytes`,
//! `referer`, `agent`, `forwarded`, `request_time`, and the pairs by their names. What is `-` is not there.

use std::ops::ControlFlow;

use ogive_search::each_field;

use crate::fields::Fields;

pub(super) fn read(line: &str, fields: &mut Fields) -> Option<()> {
    let (head, rest) = line.split_once(" [")?;
    put_head(head, fields)?;
    let (time, rest) = rest.split_once("] ")?;
    put(fields, "time", time);
    let (request, rest) = quoted(rest)?;
    put_request(request, fields);
    let mut words = rest.trim_start().splitn(3, ' ');
    let status = words.next().filter(|word| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()))?;
    put(fields, "status", status);
    let bytes = words.next()?;
    if bytes != "-" && !bytes.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    put(fields, "bytes", bytes);
    put_rest(words.next().unwrap_or(""), fields);
    Some(())
}

fn put(fields: &mut Fields, name: &str, value: &str) {
    if !value.is_empty() && value != "-" {
        fields.push(name, value);
    }
}

/// `[VHOST ]CLIENT IDENT USER`; the user may have spaces.
fn put_head(head: &str, fields: &mut Fields) -> Option<()> {
    let mut words = head.splitn(4, ' ');
    let (first, second, third, more) = (words.next()?, words.next()?, words.next()?, words.next());
    // The identity is always `-` in practice, so its position shows whether a host precedes the client.
    match more {
        Some(user) if second != "-" && third == "-" => {
            put(fields, "vhost", first);
            put(fields, "client", second);
            put(fields, "user", user);
        }
        _ => {
            put(fields, "client", first);
            put(fields, "user", head[first.len() + 1 + second.len()..].trim_start());
        }
    }
    Some(())
}

/// The contents of the quotes at the beginning of `rest`, and the rest after them; a backslash escapes a quote.
pub(super) fn quoted(rest: &str) -> Option<(&str, &str)> {
    let body = rest.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let at = from + body[from..].find(['"', '\\'])?;
        if body.as_bytes()[at] == b'"' {
            return Some((&body[..at], &body[at + 1..]));
        }
        from = at + 1 + body[at + 1..].chars().next()?.len_utf8();
    }
}

/// `METHOD TARGET PROTOCOL`; anything else (TLS sent to a plain port) becomes only the field `request`.
pub(super) fn put_request(request: &str, fields: &mut Fields) {
    put(fields, "request", request);
    let mut words = request.split(' ');
    let (Some(method), Some(target), protocol, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return;
    };
    let is_method =
        (1..=20).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !is_method || protocol.is_some_and(|protocol| !protocol.starts_with("HTTP/")) {
        return;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    put(fields, "method", method);
    put(fields, "path", path);
    put(fields, "query", query);
    put(fields, "protocol", protocol.unwrap_or(""));
}

fn put_rest(rest: &str, fields: &mut Fields) {
    let mut rest = rest.trim();
    for name in ["referer", "agent", "forwarded"] {
        let Some((text, after)) = quoted(rest) else { break };
        put(fields, name, text);
        rest = after.trim_start();
    }
    let word = rest.split(' ').next().unwrap_or("");
    if word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        put(fields, "request_time", word);
    }
    if rest.contains('=') {
        each_field(rest, &mut |name, value| {
            put(fields, name, value);
            ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let mut fields = Fields::default();
        assert!(read(line, &mut fields).is_some(), "{line}");
        let found: Vec<_> = fields
            .iter()
            .filter(|(name, _)| *name != "request")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(found.join(" "), expected, "{line}");
    }

    #[test]
    fn every_usual_form_is_read() {
        check(
            r#"10.0.0.7 - alice [24/Nov/2026:02:03:04 +0000] "GET /a?x=1 HTTP/1.1" 200 512"#,
            "client=10.0.0.7 user=alice time=24/Nov/2026:02:03:04 +0000 method=GET path=/a query=x=1 protocol=HTTP/1.1 status=200 bytes=512",
        );
        check(
            r#"::1 - - [t] "POST / HTTP/2.0" 499 0 "https://x/" "curl/8 \"q\"""#,
            r#"client=::1 time=t method=POST path=/ protocol=HTTP/2.0 status=499 bytes=0 referer=https://x/ agent=curl/8 \"q\""#,
        );
        check(
            r#"shop.example:443 10.0.0.7 - - [t] "GET / HTTP/1.1" 200 -"#,
            "vhost=shop.example:443 client=10.0.0.7 time=t method=GET path=/ protocol=HTTP/1.1 status=200",
        );
        check(
            r#"10.0.0.7 - Jon Doe [t] "-" 408 0 "-" "-" "10.9.9.9" 0.250 upstream=0.1, cache=HIT"#,
            "client=10.0.0.7 user=Jon Doe time=t status=408 bytes=0 forwarded=10.9.9.9 request_time=0.250 upstream=0.1 cache=HIT",
        );
        check(
            r#"10.0.0.7 - - [t] "\x16\x03\x01" 400 150 "-" "-" rt=1"#,
            "client=10.0.0.7 time=t status=400 bytes=150 rt=1",
        );
    }

    #[test]
    fn other_lines_do_not_fit() {
        for line in [
            "",
            "words",
            "a - - [t] x",
            r#"a - - [t] "GET / HTTP/1.1"#,
            r#"a - - [t] "GET /" 2000 1"#,
            r#"a - - [t] "GET /" 200"#,
            r#"a - - [t] "GET /" 200 x1"#,
            r#"a [t] "GET /" 200 1"#,
        ] {
            assert!(read(line, &mut Fields::default()).is_none(), "{line}");
        }
    }
}
