//! What a server answers to a batch, read without a JSON library: a measured process does not need one for four fields.
//!
//! *Format*: docs/http.md, `POST /v1/batch`: an object with `accepted`, `duplicate` and `rejected`, or with `error`.
//! Fields that are not known are passed over. *Limits*: [`DEPTH_MAX`] levels. *Failure*: `None` for what is not such an
//! object; then nothing was acknowledged.

/// 8 levels: a response has three.
const DEPTH_MAX: usize = 8;

/// The server's response to a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Samples that are durable now.
    pub accepted: Option<u64>,
    /// Samples that were durable before.
    pub duplicate: Option<u64>,
    /// Samples that were refused, and why.
    pub rejected: Vec<(u32, String)>,
    /// The server's message for people.
    pub error: Option<String>,
}

impl Answer {
    /// Parses a response.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: body };
        let (_, answer) = Self::take(&mut reader)?;
        reader.space();
        reader.rest.is_empty().then_some(answer)
    }

    /// Parses the responses to several batches of one body, each with its status (`code`).
    #[must_use]
    pub fn read_each(body: &[u8]) -> Option<Vec<(u16, Self)>> {
        let mut reader = Reader { rest: body };
        let mut all = None;
        reader.object(|reader, key| {
            if key != "batches" {
                return reader.skip(1);
            }
            let mut each = Vec::new();
            reader.array(|reader| {
                let (code, answer) = Self::take(reader)?;
                each.push((code?, answer));
                Some(())
            })?;
            all = Some(each);
            Some(())
        })?;
        reader.space();
        all.filter(|_| reader.rest.is_empty())
    }

    fn take(reader: &mut Reader<'_>) -> Option<(Option<u16>, Self)> {
        let (mut code, mut answer) = (None, Self::default());
        reader.object(|reader, key| {
            match key {
                "code" => code = Some(u16::try_from(reader.number()?).ok()?),
                "accepted" => answer.accepted = Some(reader.number()?),
                "duplicate" => answer.duplicate = Some(reader.number()?),
                "error" => answer.error = Some(reader.string()?),
                "rejected" => reader.array(|reader| {
                    answer.rejected.push(rejected(reader)?);
                    Some(())
                })?,
                _ => reader.skip(1)?,
            }
            Some(())
        })?;
        Some((code, answer))
    }

    /// Whether it covers every sample of a batch of `samples`.
    #[must_use]
    pub fn is_verdict_on(&self, samples: u64) -> bool {
        let taken = self.accepted.zip(self.duplicate).and_then(|(accepted, duplicate)| accepted.checked_add(duplicate));
        taken.and_then(|taken| taken.checked_add(self.rejected.len() as u64)) == Some(samples)
    }
}

fn rejected(reader: &mut Reader<'_>) -> Option<(u32, String)> {
    let (mut sample, mut reason) = (None, None);
    reader.object(|reader, key| {
        match key {
            "sample" => sample = Some(u32::try_from(reader.number()?).ok()?),
            "reason" => reason = Some(reader.string()?),
            _ => reader.skip(3)?,
        }
        Some(())
    })?;
    sample.zip(reason)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Consumes `byte` if it comes next, after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.rest.first() == Some(&byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        if !self.take(b'{') {
            return None;
        }
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let key = self.string()?;
            if !self.take(b':') {
                return None;
            }
            member(self, &key)?;
            if !self.take(b',') {
                return self.take(b'}').then_some(());
            }
        }
    }

    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if !self.take(b'[') {
            return None;
        }
        if self.take(b']') {
            return Some(());
        }
        loop {
            element(self)?;
            if !self.take(b',') {
                return self.take(b']').then_some(());
            }
        }
    }

    /// A non-negative integer.
    fn number(&mut self) -> Option<u64> {
        self.space();
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        if rest.first().is_some_and(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return None;
        }
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    fn string(&mut self) -> Option<String> {
        if !self.take(b'"') {
            return None;
        }
        let mut bytes = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return String::from_utf8(bytes).ok(),
                b'\\' => {
                    let (byte, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    match byte {
                        b'"' | b'\\' | b'/' => bytes.push(*byte),
                        b'n' | b't' | b'r' | b'b' | b'f' => bytes.push(b' '),
                        b'u' => {
                            // Only for people: anything but a plain character becomes a question mark.
                            let (digits, rest) = self.rest.split_first_chunk::<4>()?;
                            self.rest = rest;
                            let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                            let mut utf8 = [0; 4];
                            let character = char::from_u32(code).filter(|character| !character.is_control());
                            bytes.extend_from_slice(character.unwrap_or('?').encode_utf8(&mut utf8).as_bytes());
                        }
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                byte => bytes.push(*byte),
            }
        }
    }

    /// Passes over any value.
    fn skip(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.space();
        match self.rest.first()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.object(|reader, _| reader.skip(depth + 1)),
            b'[' => self.array(|reader| reader.skip(depth + 1)),
            _ => {
                let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                let word = self.rest.iter().take_while(is_word).count();
                self.rest = &self.rest[word..];
                (word > 0).then_some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAKEN: &str =
        r#"{"accepted":3,"duplicate":1,"rejected":[{"sample":4,"reason":"time_too_new","detail":"a \"b\""}]}"#;
    const REFUSED: &str = r#"{ "status" : "error", "errorType":"bad_data","error":"say \u0041 \"more\"\n", "accepted":0,
        "duplicate":0, "rejected":[], "x":[1.5e3,{"y":null}] }"#;

    #[test]
    fn an_answer_is_read_as_the_server_writes_it() {
        let taken = Answer::read(TAKEN.as_bytes()).unwrap();
        assert_eq!((taken.accepted, taken.duplicate, taken.error.clone()), (Some(3), Some(1), None));
        assert_eq!(taken.rejected, [(4, "time_too_new".to_owned())]);
        assert!(taken.is_verdict_on(5) && !taken.is_verdict_on(4));
        let refused = Answer::read(REFUSED.as_bytes()).unwrap();
        assert_eq!(refused.error.as_deref(), Some("say A \"more\" "));
        assert!(refused.is_verdict_on(0));
    }

    #[test]
    fn what_is_no_answer_acknowledges_nothing() {
        for body in ["", "ok", "<html>", "[]", "{", "{\"accepted\":1.5}", "{\"accepted\":-1}", "{} {}"] {
            assert_eq!(Answer::read(body.as_bytes()), None, "{body}");
        }
        assert!(!Answer::read(b"{}").unwrap().is_verdict_on(0));
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Answer::read(deep.as_bytes()), None);
    }

    proptest! {
        /// Whatever comes, and whatever of a good answer comes changed: no panic; a cut answer acknowledges nothing.
        #[test]
        fn changed_answers_are_read_or_not(at: prop::sample::Index, byte: u8, bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for body in [TAKEN, REFUSED] {
                let mut changed = body.as_bytes().to_vec();
                let at = at.index(changed.len());
                prop_assert_eq!(Answer::read(&changed[..at]), None);
                changed[at] = byte;
                let _ = Answer::read(&changed);
            }
            let _ = Answer::read(&bytes);
            let each = format!("{{\"batches\":[{{\"code\":200}},{TAKEN}]}}").replace(r#"{"accepted"#, r#"{"code":7,"accepted"#);
            let mut changed = each.clone().into_bytes();
            prop_assert_eq!(Answer::read_each(&changed).map(|all| (all.len(), all[1].0)), Some((2, 7)));
            let at = at.index(changed.len());
            prop_assert_eq!(Answer::read_each(&changed[..at]), None);
            changed[at] = byte;
            let _ = Answer::read_each(&changed);
        }
    }
}
