//! Embeds the built page and the book: `ui/dist` becomes a table of files, and `ui/book/dist` the same below `docs/`. Without them the
//! page says how to build it, and `docs/` says where the documentation is, so that the binary and its tests need no Node and no mdbook.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's directory"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the output directory"));
    let dist = here.join("../../ui/dist");
    // The directory above: it is there before the page is built, and a change in it is seen.
    println!("cargo::rerun-if-changed={}", here.join("../../ui").display());
    let mut pages = Vec::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", dist.display());
        collect(&dist, &mut pages);
    } else {
        println!("cargo::warning=ui/dist is not built; the page will only say so (make ui)");
        pages.push(here.join("assets/index.html"));
    }
    let name = |root: &Path, missing: &str, file: &PathBuf| {
        file.strip_prefix(root).unwrap_or(Path::new(missing)).to_string_lossy().replace('\\', "/")
    };
    let mut files: Vec<(String, PathBuf)> =
        pages.into_iter().map(|file| (name(&dist, "index.html", &file), file)).collect();
    let (book, mut chapters) = (here.join("../../ui/book/dist"), Vec::new());
    if book.join("index.html").is_file() {
        collect(&book, &mut chapters);
    } else {
        chapters.push(here.join("assets/docs.html"));
    }
    files.extend(chapters.into_iter().map(|file| (format!("docs/{}", name(&book, "index.html", &file)), file)));
    files.sort();
    let mut table = String::from("&[\n");
    for (name, file) in &files {
        let bytes = std::fs::read(file).expect("a file of the page is readable");
        let etag = format!("\"{:016x}\"", fnv(&bytes));
        let file = file.canonicalize().expect("a file of the page has a path");
        writeln!(table, "    ({name:?}, {etag:?}, include_bytes!({file:?})),").expect("writes to memory");
    }
    table.push(']');
    std::fs::write(out.join("page.rs"), table).expect("the output directory is writable");
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("ui/dist is readable") {
        let path = entry.expect("ui/dist is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
}

/// FNV-1a: distinguishes one build's files from another's.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
