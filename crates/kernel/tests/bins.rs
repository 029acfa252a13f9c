//! The C rule of the programs gives the bins of `ogive-hist`, as the C compiler and as the kernel see it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use ogive_hist::NanosecondIndex;

/// Every edge with its neighbours, and random numbers of every length.
fn numbers() -> Vec<u64> {
    let mut numbers = vec![0, u64::MAX, u64::MAX - 1];
    let mut power = 1_u64;
    for _ in 0..20 {
        for digits in 10..100_u64 {
            let edge = (u128::from(digits) * u128::from(power) / 10).min(u128::from(u64::MAX)) as u64;
            numbers.extend([edge.saturating_sub(1), edge, edge.saturating_add(1)]);
        }
        power = power.saturating_mul(10);
    }
    let mut state = 88_172_645_463_325_252_u64;
    for at in 0..60_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.push(state >> (at % 64));
    }
    numbers
}

fn check(numbers: &[u64], bins: impl IntoIterator<Item = usize>) {
    let mut count = 0;
    for (number, bin) in numbers.iter().zip(bins) {
        assert_eq!(bin, NanosecondIndex::bin(*number), "{number} ns");
        count += 1;
    }
    assert_eq!(count, numbers.len());
}

#[test]
fn the_rule_in_c_gives_the_bins_of_the_histogram() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("bins.c"), directory.path().join("bins"));
    let text = format!(
        "#include <stdio.h>\ntypedef unsigned int u32;\ntypedef unsigned long long u64;\n\
         #define INLINE static inline\n#include \"{}/bpf/bins.h\"\n\
         int main(void) {{ u64 n; while (scanf(\"%llu\", &n) == 1) printf(\"%u\\n\", bin_of(n)); return 0; }}\n",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::write(&source, text).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-fsanitize=undefined", "-fno-sanitize-recover", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(status.expect("cc is needed: apt-get install build-essential").success());
    let numbers = numbers();
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = numbers.iter().fold(String::new(), |mut text, number| {
        writeln!(text, "{number}").unwrap();
        text
    });
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&numbers, String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()));
}

#[cfg(feature = "bpf")]
#[test]
fn the_rule_in_the_kernel_gives_the_bins_of_the_histogram() {
    let numbers = numbers();
    match ogive_kernel::doctor::bins_in_kernel(&numbers) {
        Ok(bins) => check(&numbers, bins),
        Err(error) => eprintln!("SKIPPED: raw_tp: {error}"),
    }
}
