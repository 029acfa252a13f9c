//! The record of a tracepoint: its fields, as the kernel describes them in `events/CATEGORY/NAME/format` of tracefs.
//!
//! Format: Documentation/trace/events.rst of the kernel, "Event formats". A line of it is
//! `field:TYPE NAME; offset:BYTES; size:BYTES; signed:0 or 1;`.
//! Limits: [`FIELDS_MAX`] fields; a line of another form is no field.

use super::types::{RecordField, Shape};

/// Most fields of a record; the kernel's largest have about 30.
const FIELDS_MAX: usize = 256;

/// What programs find in place of the first bytes, which hold the event's number: an address.
const HIDDEN_BYTES: u32 = 8;

/// The fields that a description names and a question can use.
#[must_use]
pub fn fields(description: &str) -> Vec<RecordField> {
    description.lines().filter_map(field).filter(|field| field.offset >= HIDDEN_BYTES).take(FIELDS_MAX).collect()
}

fn field(line: &str) -> Option<RecordField> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.parse::<u32>().ok();
    let (offset, size, is_signed) = (number("offset:")?, number("size:")?, number("signed:")? != 0);
    let (kind, name) = declaration.rsplit_once(|letter: char| letter.is_whitespace() || letter == '*')?;
    let (name, is_array) = name.split_once('[').map_or((name, false), |(name, _)| (name, true));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return None;
    }
    let kind = kind.trim();
    let is_letter = |kind: &str| kind.trim_end_matches("[]").rsplit(' ').next() == Some("char");
    let far = kind.strip_prefix("__data_loc ").map(|kind| (kind, false));
    let shape = match far.or_else(|| kind.strip_prefix("__rel_loc ").map(|kind| (kind, true))) {
        Some((kind, is_relative)) if is_letter(kind) && size == 4 => Shape::FarLetters { is_relative },
        Some((kind, _)) => Shape::Other(kind.to_owned()),
        None if is_array && is_letter(kind) => Shape::Letters,
        None if is_array => Shape::Other("an array".to_owned()),
        None if declaration.contains('*') => Shape::Address,
        None => match size {
            1 | 2 | 4 | 8 => Shape::Number { bytes: size, is_signed },
            _ => Shape::Other(kind.to_owned()),
        },
    };
    Some(RecordField { name: name.to_owned(), offset, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_forms_that_the_kernel_describes() {
        let description = "name: sched_process_exec\nID: 365\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:char prev_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
            \tfield:const char * file;\toffset:32;\tsize:8;\tsigned:0;\n\
            \tfield:void *call_site;\toffset:40;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned long args[6];\toffset:48;\tsize:48;\tsigned:0;\n\
            \tfield:__rel_loc char[] comm;\toffset:96;\tsize:4;\tsigned:0;\n\
            \tfield:__data_loc u8[] raw;\toffset:100;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"filename=%s\", REC->pid\n";
        let found: Vec<_> =
            fields(description).into_iter().map(|field| (field.name, field.offset, field.shape)).collect();
        let expected = [
            ("filename", 8, Shape::FarLetters { is_relative: false }),
            ("pid", 12, Shape::Number { bytes: 4, is_signed: true }),
            ("prev_comm", 16, Shape::Letters),
            ("file", 32, Shape::Address),
            ("call_site", 40, Shape::Address),
            ("args", 48, Shape::Other("an array".to_owned())),
            ("comm", 96, Shape::FarLetters { is_relative: true }),
            ("raw", 100, Shape::Other("u8[]".to_owned())),
        ];
        assert_eq!(found, expected.map(|(name, offset, shape)| (name.to_owned(), offset, shape)));
    }

    #[test]
    fn descriptions_that_are_cut_off_or_changed_name_fields_only() {
        let description = "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:char prev_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\tfield:void *at;\toffset:40;\tsize:8;\tsigned:1;\n";
        for at in 0..description.len() {
            for letter in ['\0', ' ', ';', ':', '*', '[', '9', '\n', 'é'] {
                let changed = format!("{}{letter}{}", &description[..at], &description[at + 1..]);
                for text in [&changed, &changed[..at]] {
                    let found = fields(text);
                    assert!(found.iter().all(|field| field.offset >= HIDDEN_BYTES && !field.name.is_empty()), "{text}");
                }
            }
        }
    }
}
