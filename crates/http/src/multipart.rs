//! Forms as browsers and many HTTP libraries send them when they are asked for `multipart/form-data`.
//!
//! Format: RFC 7578. Parts that are files are passed over, as parameters are none.

/// The names and values of a form, in their order. `kind` is its content type.
///
/// # Errors
/// What is wrong with it, and what to send.
pub(super) fn fields(kind: &str, form: &[u8]) -> Result<Vec<(String, String)>, String> {
    let boundary = parameter(kind, "boundary").filter(|boundary| !boundary.is_empty());
    let boundary = boundary.ok_or("a multipart form needs a boundary in its content type")?;
    let delimiter = format!("--{boundary}").into_bytes();
    let cut = || "the multipart form is cut off: its last boundary is missing".to_owned();
    // A boundary begins a line.
    let mut rest = match form.starts_with(&delimiter) {
        true => &form[delimiter.len()..],
        false => after(form, &[b"\r\n", &delimiter[..]].concat()).ok_or_else(cut)?.1,
    };
    let between = [b"\r\n", &delimiter[..]].concat();
    let mut out = Vec::new();
    while !rest.starts_with(b"--") {
        let (_, part) = after(rest, b"\r\n").ok_or_else(cut)?;
        let (part, next) = after(part, &between).ok_or_else(cut)?;
        rest = next;
        // A part without headers begins with the empty line.
        let (head, value) = match part.strip_prefix(b"\r\n") {
            Some(value) => (&b""[..], value),
            None => {
                after(part, b"\r\n\r\n").ok_or("a part of the multipart form has no empty line behind its headers")?
            }
        };
        let head = String::from_utf8_lossy(head);
        let disposition = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("content-disposition").then(|| value.trim().to_owned())
        });
        let name = disposition.as_deref().and_then(|text| parameter(text, "name"));
        let name = name.ok_or("a part of the multipart form has no name in its Content-Disposition")?;
        if disposition.as_deref().and_then(|text| parameter(text, "filename")).is_none() {
            out.push((name, String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(out)
}

/// The bytes before and after the first `mark`.
fn after<'b>(bytes: &'b [u8], mark: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|byte| *byte == mark[0])?;
        if bytes[at..].starts_with(mark) {
            return Some((&bytes[..at], &bytes[at + mark.len()..]));
        }
        from = at + 1;
    }
}

/// The value of `;name=value` or `;name="value"` in a header's value.
fn parameter(header: &str, name: &str) -> Option<String> {
    let mut rest = header;
    while let Some((_, behind)) = rest.split_once(';') {
        let (key, value) = behind.split_once('=')?;
        let wanted = key.trim().eq_ignore_ascii_case(name);
        let value = value.trim_start();
        let Some(quoted) = value.strip_prefix('"') else {
            let end = value.find(';').unwrap_or(value.len());
            if wanted {
                return Some(value[..end].trim_end().to_owned());
            }
            rest = &value[end..];
            continue;
        };
        let (mut text, mut escaped, mut end) = (String::new(), false, quoted.len());
        for (at, c) in quoted.char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    end = at + 1;
                    break;
                }
                c => {
                    text.push(c);
                    escaped = false;
                }
            }
        }
        if wanted {
            return Some(text);
        }
        rest = &quoted[end..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; charset=utf-8; boundary=\"x y\"";

    fn read(form: &str) -> Result<Vec<(String, String)>, String> {
        fields(KIND, form.replace('\n', "\r\n").as_bytes())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn fields_are_read_and_files_passed_over() {
        let form = "--x y\nContent-Disposition: form-data; name=\"query\"\n\nup{a=\"b\"}\n--x\n\
                    --x y\ncontent-type: text/plain\ncontent-disposition: form-data; filename=\"q;name=z\"; name=\"f\"\n\nx\n\
                    --x y  \nContent-Disposition: form-data; name=a\\\"b\n\n\n--x y\n\
                    Content-Disposition: form-data; name=\"a\\\"b\"\n\n1\n--x y--\n";
        let expected = [pair("query", "up{a=\"b\"}\r\n--x"), pair("a\\\"b", ""), pair("a\"b", "1")];
        assert_eq!(read(form).unwrap(), expected);
        assert_eq!(read(&format!("preamble\n{form}")).unwrap(), expected);
        assert_eq!(read("--x y--").unwrap(), []);
    }

    #[test]
    fn wrong_forms_say_what_is_wrong() {
        let check = |form: &str, message: &str| assert!(read(form).unwrap_err().contains(message), "{form}");
        check("", "cut off");
        check("--x y\nContent-Disposition: form-data; name=\"a\"\n\nb", "cut off");
        check("--x y\nContent-Disposition: form-data; name=\"a\"\n--x y--", "no empty line");
        check("--x y\nContent-Disposition: form-data\n\nb\n--x y--", "no name");
        check("--x y\n\nb\n--x y--", "no name");
        assert!(fields("multipart/form-data", b"").unwrap_err().contains("boundary"));
    }
}
