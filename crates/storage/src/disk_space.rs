//! How much room the disks have left that a server or a broker writes to, as series for alarms.

use std::path::Path;

use ogive_journal::Space;

use ogive_door::own_value::OwnValue;

const FREE: &str = "ogive_disk_free_bytes";
const SIZE: &str = "ogive_disk_size_bytes";
const FILES: &str = "ogive_disk_free_files";

/// The series and their help texts.
pub const HELP: [(&str, &str); 3] = [
    (FREE, "Bytes that can still be written to the file system of a directory."),
    (SIZE, "Bytes of the file system of a directory."),
    (FILES, "Files that can still be made in the file system of a directory."),
];

/// The series of directories; one whose file system cannot be queried has none.
pub fn own_values<'a>(directories: impl IntoIterator<Item = (&'a Path, Option<Space>)>) -> Vec<OwnValue> {
    let known: Vec<(String, Space)> = directories
        .into_iter()
        .filter_map(|(directory, space)| Some((directory.display().to_string(), space?)))
        .collect();
    let of = |name, unit, value: fn(&Space) -> u64| {
        known
            .iter()
            .map(move |(directory, space)| OwnValue::gauge(name, &[("dir", directory)], unit, value(space) as f64))
    };
    let mut out: Vec<OwnValue> = of(FREE, "By", |space| space.free_bytes).collect();
    out.extend(of(SIZE, "By", |space| space.size_bytes));
    out.extend(of(FILES, "", |space| space.free_files));
    out
}
