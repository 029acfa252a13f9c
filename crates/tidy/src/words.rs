//! Words that documents avoid: the glossary lists them, each with what to write instead.

/// The heading in the glossary below which the table stands.
const HEADING: &str = "## Words to avoid";

/// The first column of the table of words to avoid, in lower case.
///
/// # Panics
/// When the glossary has no such table: a check without words would find nothing.
#[must_use]
pub fn avoided(glossary: &str) -> Vec<String> {
    let (_, section) = glossary.split_once(HEADING).expect("the glossary lists words to avoid");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words: Vec<String> = cells.filter(|cell| *cell != "avoid").map(str::to_lowercase).collect();
    assert!(!words.is_empty(), "the table of words to avoid is empty");
    words
}

/// Each avoided word in the prose of `text`, as `line: word`; code between backticks and in blocks is left out.
#[must_use]
pub fn findings(text: &str, avoided: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || line.starts_with("    ") {
            continue;
        }
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
        let words: Vec<&str> =
            prose.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let prose = format!(" {} ", words.join(" "));
        found.extend(
            avoided
                .iter()
                .filter(|word| prose.contains(&format!(" {word} ")))
                .map(|word| format!("{}: {word}", at + 1)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "# Glossary\n\n| word | meaning |\n|---|---|\n| sample | one value |\n\n\
        ## Words to avoid\n\n| avoid | write |\n|---|---|\n| told | reported |\n| under way | in flight |\n";

    #[test]
    fn words_are_found_as_words_in_prose_alone() {
        let avoided = avoided(GLOSSARY);
        assert_eq!(avoided, ["told", "under way"]);
        let text = "It was Told.\n\n    told in a block\n`told` and untold\nrequests under\nrequests, under way.\n```\ntold\n```\n";
        assert_eq!(findings(text, &avoided), ["1: told", "6: under way"]);
    }
}
