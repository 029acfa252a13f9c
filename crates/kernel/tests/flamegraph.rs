//! A flame graph in a browser: what its script does.

use std::path::PathBuf;
use std::process::Command;

use ogive_kernel::flamegraph::{Picture, svg};
use ogive_kernel::folded::Folded;

const STACKS: &str =
    "app;main;parse;read_line 20\napp;main;parse;decode<u8> 30\napp;main;answer;write 40\napp;idle 10\n";

/// The page as it is after its script has run at an address with these parts.
fn page(name: &str, hash: &str) -> String {
    let stacks = Folded::parse(STACKS).unwrap();
    let text = svg(&Picture { title: "app", unit: "samples", stacks: &stacks, before: None }).unwrap();
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("flame-{name}-{}.svg", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}{hash}", path.display()))
        .output()
        .expect("chromium is needed: apt-get install chromium");
    let _ = std::fs::remove_file(&path);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(page.contains("</svg>"), "{page} {}", String::from_utf8_lossy(&output.stderr));
    page
}

/// Whether a frame is shown, found, and its width.
fn frame(page: &str, name: &str) -> (bool, bool, f64) {
    let (before, rest) = page.split_once(&format!("data-n=\"{name}\"")).unwrap_or_else(|| panic!("{name}: {page}"));
    let (tag, rest) = rest.split_once('>').unwrap();
    let tag = format!("{}{tag}", &before[before.rfind("<g").unwrap()..]);
    let width = rest.split_once(" width=\"").unwrap().1.split_once('"').unwrap().0;
    let class = tag.split_once("class=\"").unwrap().1.split_once('"').unwrap().0;
    (!tag.contains("display: none"), class.split(' ').any(|class| class == "m"), width.parse().unwrap())
}

#[test]
fn a_search_marks_what_it_finds_and_adds_it_up() {
    let page = page("search", "#search=PARSE");
    assert_eq!(frame(&page, "parse"), (true, true, 600.0));
    assert_eq!(frame(&page, "answer"), (true, false, 480.0));
    assert!(page.contains("1 frames, 50.00 % of everything"), "{page}");
    // `read_line` is within `parse`, `write` within `answer`, and neither is counted once more.
    let page = self::page("nested", "#search=r");
    assert!(page.contains("4 frames, 90.00 % of everything"), "{page}");
}

#[test]
fn a_zoom_makes_a_frame_as_wide_as_the_picture() {
    // Frames are numbered from the root: all, app, idle, main, answer, write, parse, decode, read_line.
    let page = page("zoom", "#zoom=6");
    assert_eq!(frame(&page, "parse"), (true, false, 1200.0));
    assert_eq!(frame(&page, "read_line"), (true, false, 480.0));
    assert_eq!(frame(&page, "decode&lt;u8&gt;"), (true, false, 720.0));
    assert!(frame(&page, "main").0 && frame(&page, "main").2 == 1200.0, "what calls it stays");
    assert!(!frame(&page, "answer").0 && !frame(&page, "idle").0, "what is beside it goes");
    let whole = self::page("whole", "#zoom=999");
    assert_eq!(frame(&whole, "parse"), (true, false, 600.0), "there is no such frame");
}
