//! The text of a query.

use super::{Argument, BYTES_MAX, Call, DEPTH_MAX, Pipeline, STAGES_MAX, Stage};

/// Reads a query.
///
/// # Errors
/// A sentence with the place.
pub fn parse(text: &str) -> Result<Pipeline, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("the query is longer than {BYTES_MAX} bytes"));
    }
    let mut parser = Parser { text, at: 0, stages: 0 };
    let pipeline = parser.pipeline(0)?;
    parser.blanks();
    if parser.rest().is_empty() { Ok(pipeline) } else { parser.wrong("nothing may follow here") }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    stages: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("the query is wrong at character {}: {what}", self.at))
    }

    /// Skips blanks, and lines that begin with `#`.
    fn blanks(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if !self.rest().starts_with('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn take(&mut self, token: char) -> bool {
        self.blanks();
        let is_here = self.rest().starts_with(token);
        if is_here {
            self.at += token.len_utf8();
        }
        is_here
    }

    fn word(&mut self) -> &'t str {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn pipeline(&mut self, depth: usize) -> Result<Pipeline, String> {
        let mut out = Vec::new();
        loop {
            out.push(self.stage(depth)?);
            if !self.take('|') {
                return Ok(out);
            }
        }
    }

    fn stage(&mut self, depth: usize) -> Result<Stage, String> {
        self.stages += 1;
        if self.stages > STAGES_MAX {
            return self.wrong(&format!("it has more than {STAGES_MAX} functions"));
        }
        if !self.take('{') {
            return self.call().map(Stage::Call);
        }
        if depth == DEPTH_MAX {
            return self.wrong(&format!("braces are nested deeper than {DEPTH_MAX}"));
        }
        let mut all = Vec::new();
        loop {
            all.push(self.pipeline(depth + 1)?);
            if self.take('}') {
                return Ok(Stage::Beside(all));
            }
            if !self.take(';') {
                return self.wrong("a semicolon or a closing brace is missing");
            }
            if self.take('}') {
                return Ok(Stage::Beside(all));
            }
        }
    }

    fn call(&mut self) -> Result<Call, String> {
        let name = self.word().to_owned();
        if name.is_empty() {
            return self.wrong("the name of a function is missing");
        }
        let method = if self.take(':') { self.word().to_owned() } else { String::new() };
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        if self.take('(') && !self.take(')') {
            loop {
                match self.name_of_argument() {
                    Some(name) => named.push((name, self.argument()?)),
                    None => arguments.push(self.argument()?),
                }
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return self.wrong("a comma or a closing parenthesis is missing");
                }
            }
        }
        Ok(Call { name, method, arguments, named })
    }

    /// The name before `=`, if any.
    fn name_of_argument(&mut self) -> Option<String> {
        let from = self.at;
        let name = self.word();
        if !name.is_empty() && self.take('=') {
            return Some(name.to_owned());
        }
        self.at = from;
        None
    }

    fn argument(&mut self) -> Result<Argument, String> {
        self.blanks();
        if let Some(quote) = self.rest().chars().next().filter(|c| matches!(c, '"' | '\'')) {
            return self.quoted(quote).map(Argument::Text);
        }
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '+' | '_'))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let value = word.parse().map(Argument::Number).ok().or_else(|| duration_ms(word).map(Argument::Duration));
        let Some(value) = value.filter(|value| !matches!(value, Argument::Number(number) if !number.is_finite()))
        else {
            return self.wrong("a text in quotes, a number or a duration such as 5M is missing");
        };
        self.at += end;
        Ok(value)
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut out = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                c if is_escaped => {
                    if c != quote && c != '\\' {
                        out.push('\\');
                    }
                    out.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                c if c == quote => {
                    self.at += at + 1;
                    return Ok(out);
                }
                c => out.push(c),
            }
        }
        self.wrong("a quotation mark is missing")
    }
}

fn duration_ms(word: &str) -> Option<i64> {
    let (number, unit) = word.split_at_checked(word.find(|c: char| c.is_ascii_alphabetic())?)?;
    let unit = match unit {
        "ms" => 1.0,
        "s" => 1_000.0,
        "M" | "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        "w" => 604_800_000.0,
        _ => return None,
    };
    let ms = number.parse::<f64>().ok()? * unit;
    (ms > 0.0 && ms < 9e15).then_some(ms as i64)
}
