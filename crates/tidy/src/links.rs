//! Links of the documents: a relative link names a file that is there, and an anchor a heading in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Links of a text in Markdown that are no URLs, code left out, with their lines.
#[must_use]
pub fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("    ") {
            continue;
        }
        // What stands between backticks is code: every second part.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in prose.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((at + 1, target.to_owned()));
            }
        }
    }
    found
}

/// Anchors of the headings of a text, as the forges make them.
#[must_use]
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-' | '_'));
        found.insert(kept.map(|one| if one == ' ' { '-' } else { one }).collect());
    }
    found
}

/// Whether a link of the document called `name` leads out of the book, which has the files below `docs` alone.
#[must_use]
pub fn leaves_the_book(name: &str, target: &str) -> bool {
    let Some(within) = name.strip_prefix("docs/") else { return false };
    let mut depth = within.matches('/').count();
    for part in target.split('#').next().unwrap_or_default().split('/') {
        match part {
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            "." | "" => {}
            _ => depth += 1,
        }
    }
    false
}

/// Every link of `path` below `root` that leads nowhere, as a sentence.
#[must_use]
pub fn findings(root: &Path, path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut findings = Vec::new();
    for (line, target) in relative_links(&text) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let to: PathBuf = if file.is_empty() { path.to_owned() } else { path.parent().unwrap_or(root).join(file) };
        let name = crate::source::relative(root, path);
        let place = format!("{name}:{line}: {target}");
        if leaves_the_book(&name, &target) {
            findings.push(format!(
                "{place}: the book, which the server shows, has only docs: name the file without a link"
            ));
        } else if !to.exists() {
            findings.push(format!("{place}: there is no such file"));
        } else if !anchor.is_empty() && to.extension().is_some_and(|ending| ending == "md") {
            let there = std::fs::read_to_string(&to).unwrap_or_default();
            if !anchors(&there).contains(anchor) {
                findings.push(format!("{place}: there is no such heading"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text =
            "[a](b.md#c) and [d](https://e)\n    [f](g)\n`[h](i)` [j](#k)\n```\n[l](m)\n```\n![n](o.png \"p\")\n";
        let links: Vec<String> = relative_links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(links, ["b.md#c", "#k", "o.png"]);
    }

    #[test]
    fn a_link_of_the_book_stays_in_it() {
        for (name, target, leaves) in [
            ("docs/http.md", "../schema/openapi.yaml", true),
            ("docs/http.md", "../docs/a.md", true),
            ("docs/http.md", "formats/../a.md#b", false),
            ("docs/http.md", "#b", false),
            ("docs/decisions/a.md", "../formats/b.md", false),
            ("docs/decisions/a.md", "../../README.md#c", true),
            ("crates/hist/README.md", "../../docs/a.md", false),
            ("README.md", "docs/a.md", false),
        ] {
            assert_eq!(leaves_the_book(name, target), leaves, "{name}: {target}");
        }
    }

    #[test]
    fn headings_have_their_anchors() {
        let found = anchors("# One `two`: three\n```\n# no\n```\n## A_b-c, d?\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a_b-c-d", "one-two-three"]);
    }
}
