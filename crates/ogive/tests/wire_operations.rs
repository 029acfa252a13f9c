//! `ogive wire --operations`: rules name what templates would.

use std::path::PathBuf;
use std::process::{Command, Output};

fn wire(rules: &str, name: &str) -> Output {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, rules).unwrap();
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/captures/h2_multiplex.pcap.gz");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(["wire", "--pcap", capture, "--operations"]).arg(&path).output().unwrap()
}

#[test]
fn rules_name_the_operations_of_the_table() {
    let output = wire("GET /*.txt text files\n", "wire-rules.txt");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    assert!(row("text files").split_whitespace().any(|word| word == "80"), "two paths of 40: {text}");
    assert!(row("GET /missing").contains("client error"), "{text}");
    assert!(!text.contains("small.txt"), "{text}");
}

#[test]
fn a_file_that_is_no_list_of_rules_is_refused_with_its_line() {
    let output = wire("# fine\nGET users\n", "wire-bad-rules.txt");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("line 2: a pattern begins with /"), "{text}");
}
