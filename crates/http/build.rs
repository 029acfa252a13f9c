//! Embeds the built page and the book: `ui/dist` becomes a table of files, and `ui/book/dist` the same below `docs/`.
//! Without them the page says how to build it, and `docs/` says where the documentation is, so that the binary and its
//! tests need no Node and no mdbook. Text of 1 KiB and more is embedded compressed by gzip, the one encoding that every
//! browser accepts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// 1 KiB: less fits into one packet with its head, whatever it is compressed to.
const COMPRESSED_BYTES_MIN: usize = 1024;

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's directory"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the output directory"));
    let ui = here.join("../../ui");
    let (dist, book) = (ui.join("dist"), ui.join("book/dist"));
    for built in [&dist, &book] {
        // Until it is built the directory above: that is there, and a change in it is seen.
        let watched = if built.join("index.html").is_file() { built } else { &ui };
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let mut pages = Vec::new();
    if dist.join("index.html").is_file() {
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
    let mut chapters = Vec::new();
    if book.join("index.html").is_file() {
        collect(&book, &mut chapters);
    } else {
        chapters.push(here.join("assets/docs.html"));
    }
    files.extend(chapters.into_iter().map(|file| (format!("docs/{}", name(&book, "index.html", &file)), file)));
    files.sort();
    let mut table = String::from("&[\n");
    for (at, (name, file)) in files.iter().enumerate() {
        let bytes = std::fs::read(file).expect("a file of the page is readable");
        let hash = fnv(&bytes);
        let is_compressed = bytes.len() >= COMPRESSED_BYTES_MIN && is_text(name);
        let embedded = if is_compressed {
            let compressed = out.join(format!("page-{at}.gz"));
            std::fs::write(&compressed, gzip(&bytes)).expect("the output directory is writable");
            compressed
        } else {
            file.canonicalize().expect("a file of the page has a path")
        };
        let size = bytes.len();
        writeln!(
            table,
            "    File {{ name: {name:?}, hash: \"{hash:016x}\", size: {size}, is_compressed: {is_compressed}, \
             bytes: include_bytes!({embedded:?}) }},"
        )
        .expect("writes to memory");
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

/// Whether compression makes the file smaller: pictures and fonts are compressed already.
fn is_text(name: &str) -> bool {
    let ending = Path::new(name).extension().unwrap_or_default().to_string_lossy();
    matches!(&*ending, "css" | "html" | "js" | "json" | "map" | "svg" | "txt")
}

/// At the level that makes it smallest. The header holds no name and no time: the same page gives the same binary.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("writes to memory");
    encoder.finish().expect("writes to memory")
}

/// FNV-1a: distinguishes one build's files from another's.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
