//! The prose of documents: lines that are not too long, and words that it avoids. The glossary lists those, each with
//! what to write instead.

/// The heading in the glossary below which the table stands.
const HEADING: &str = "## Words to avoid";
/// As of lines of code.
pub const LINE_MAX: usize = 120;

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

/// The lines of `text` that are not in a block of code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && !line.starts_with("    ")
    })
}

/// The lines of prose in `text` with more than [`LINE_MAX`] characters, as `line: length`. Tables and headings cannot
/// be broken.
#[must_use]
pub fn long_lines(text: &str) -> Vec<String> {
    let breakable = prose(text).filter(|(_, line)| !line.trim_start().starts_with(['|', '#']));
    let long = breakable.map(|(at, line)| (at, line.chars().count())).filter(|(_, length)| *length > LINE_MAX);
    long.map(|(at, length)| format!("{at}: {length} characters")).collect()
}

/// Each avoided word in the prose of `text`, as `line: word`; code between backticks and in blocks is left out.
#[must_use]
pub fn findings(text: &str, avoided: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
        let words: Vec<&str> =
            prose.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let prose = format!(" {} ", words.join(" "));
        found.extend(
            avoided.iter().filter(|word| prose.contains(&format!(" {word} "))).map(|word| format!("{at}: {word}")),
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

    #[test]
    fn lines_of_prose_are_long_above_the_limit() {
        let (fits, long) = ("µ".repeat(LINE_MAX), "µ".repeat(LINE_MAX + 1));
        let text = format!("{fits}\n{long}\n    {long}\n| {long} |\n# {long}\n```\n{long}\n```\n- {fits}\n");
        assert_eq!(long_lines(&text), ["2: 121 characters", "9: 122 characters"]);
    }
}
