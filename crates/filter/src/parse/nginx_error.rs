//! The error log of nginx: `DATE TIME [LEVEL] PID#TID: *CONNECTION MESSAGE, client: A, server: B, request: "C",
//! upstream: "D", host: "E"`.
//!
//! Fields: `time`, `level`, `pid`, `connection`, `message`, those behind the message by their names, and of the request
//! what an access log has.

use super::access::{put_request, quoted};
use crate::fields::Fields;

/// The names with which the pairs begin.
const NAMES: [&str; 8] = ["client", "server", "request", "subrequest", "upstream", "host", "referrer", "login"];

pub(super) fn read(line: &str, fields: &mut Fields) -> Option<()> {
    let (time, rest) = line.split_once(" [")?;
    let is_time = time.len() == 19 && time.bytes().all(|byte| byte.is_ascii_digit() || b"/: ".contains(&byte));
    let (level, rest) = rest.split_once("] ").filter(|_| is_time)?;
    let (process, rest) = rest.split_once(": ")?;
    let (pid, _) = process.split_once('#')?;
    fields.push("time", time);
    fields.push("level", level);
    fields.push("pid", pid);
    let rest = match rest.strip_prefix('*').and_then(|rest| rest.split_once(' ')) {
        Some((connection, rest)) => {
            fields.push("connection", connection);
            rest
        }
        None => rest,
    };
    let end = rest.find(", client: ").or_else(|| rest.find(", server: ")).unwrap_or(rest.len());
    fields.push("message", &rest[..end]);
    put_pairs(&rest[end..], fields);
    Some(())
}

fn put_pairs(mut rest: &str, fields: &mut Fields) {
    while let Some((name, after)) = rest.strip_prefix(", ").and_then(|rest| rest.split_once(": ")) {
        if !NAMES.contains(&name) {
            return;
        }
        let (value, after) = match quoted(after) {
            Some(found) => found,
            None => after.split_at(after.find(", ").unwrap_or(after.len())),
        };
        match name {
            "request" => put_request(value, fields),
            _ => fields.push(name, value),
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_follow_the_message() {
        let line = r#"2026/11/24 02:03:04 [error] 12#13: *7 open() "/x, y" failed (2: No such file), client: 10.0.0.7, server: _, request: "GET /x?a=b HTTP/1.1", host: "h""#;
        let mut fields = Fields::default();
        read(line, &mut fields).unwrap();
        let found: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            found.join("|"),
            r#"time=2026/11/24 02:03:04|level=error|pid=12|connection=7|message=open() "/x, y" failed (2: No such file)|client=10.0.0.7|server=_|request=GET /x?a=b HTTP/1.1|method=GET|path=/x|query=a=b|protocol=HTTP/1.1|host=h"#
        );
        fields.clear();
        read("2026/11/24 02:03:04 [notice] 1#1: start worker process 9", &mut fields).unwrap();
        assert_eq!(fields.get("message"), Some("start worker process 9"));
        for other in ["", "x [error] 1#1: y", "2026/11/24 02:03:04 error 1#1: y", "2026/11/24 02:03:04 [error] 1: y"] {
            assert!(read(other, &mut Fields::default()).is_none(), "{other}");
        }
    }
}
