//! How tests drive clients of other makers.

use crate::common::clients::{Client, node, python};

/// Echoes lines until there are no more.
const ECHO: &str = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)\nprint('end')";

#[test]
fn a_client_hears_and_is_heard() {
    let mut command = python();
    command.args(["-c", ECHO]);
    let mut client = Client::run("echo", command);
    for word in ["one", "two"] {
        client.say(word);
        client.wait_for(&format!("heard {word}"));
    }
    assert_eq!(client.finish(), ["end"]);
}

#[test]
#[should_panic(expected = "out of paper")]
fn what_a_failing_client_wrote_is_told() {
    let mut command = node();
    command.args(["-e", "throw new Error('out of paper')"]);
    Client::run("printer", command).finish();
}
