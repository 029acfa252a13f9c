//! HTTP in steps: consecutive requests with the cookies of earlier ones, and with values extracted from their
//! responses.
//!
//! Format: `${name}` in `target`, `body`, `form` and `headers` is replaced by a value that an earlier step extracted,
//! or by the check's `user` or `password`. `ogive_check_step_seconds{step}` is the duration of a step.
//! Invariants: what a check sends with every step (headers, token) goes only to the server of its target; cookies only
//! where they apply.
//! Limits: [`STEPS_MAX`] steps, [`KEPT_BYTES_MAX`] bytes per value.
//! Failure: the first step that fails ends the run; its message begins with the step's name.

use std::collections::{BTreeMap, BTreeSet};

use hyper::Uri;
use ogive_model::WallNs;
use ogive_outgoing::{Origin, Secret, redirected};
use ogive_probe::Clock;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::cookies::Jar;
use super::extract::{Answer, Source, report};
use super::http::{fetch, judged};
use super::net::Network;
use super::raw::{Raw, StepTable, secret};
use super::request::{Http, RequestKeys, url};
use super::run::{Failure, Reason, Run};
use super::target::trust;

/// 20 steps: a purchase from the first page to the last.
const STEPS_MAX: usize = 20;
/// 16 KiB of a word: four times a cookie.
const KEPT_BYTES_MAX: usize = 16 << 10;
const FORM: &str = "application/x-www-form-urlencoded";

/// The requests of a check.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    user: Option<String>,
    password: Option<Secret>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    name: String,
    target: String,
    /// As it is sent to the server of the check's target.
    http: Http,
    /// What is sent to other servers.
    own_headers: Vec<(String, String)>,
    form: Vec<(String, String)>,
    keep: Vec<(String, Source)>,
}

type Words = BTreeMap<String, String>;

impl Steps {
    /// What a table with `[[check.step]]` tables says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let (url, tables) = (url(raw)?, raw.step.take().unwrap_or_default());
        if tables.is_empty() || tables.len() > STEPS_MAX {
            return Err(format!("there are {} steps, and may be 1 to {STEPS_MAX}", tables.len()));
        }
        let common = raw.headers.take().unwrap_or_default();
        let (token, trust, redirects) = (raw.token_file.take(), trust(raw), raw.redirects.take());
        let user = raw.user.take();
        let password = secret("password", raw.password.take(), raw.password_file.take())?;
        let mut known: BTreeSet<String> = BTreeSet::new();
        known.extend(user.is_some().then(|| "user".to_owned()));
        known.extend(password.is_some().then(|| "password".to_owned()));
        let mut steps: Vec<Step> = Vec::new();
        for table in tables {
            let name = table.name.clone();
            let of = |sentence: String| format!("step {name:?}: {sentence}");
            if name.is_empty() || steps.iter().any(|step| step.name == name) {
                return Err(of("give each step a name of its own".into()));
            }
            let mut step = Step::from_table(table, &url, &common, redirects).map_err(of)?;
            (step.http.token, step.http.trust) = (token.clone(), trust.clone());
            step.check_words(&known).map_err(of)?;
            if let Some((twice, _)) = step.keep.iter().find(|(kept, _)| matches!(kept.as_str(), "user" | "password")) {
                return Err(of(format!("keep {twice:?}: that is the check's own")));
            }
            known.extend(step.keep.iter().map(|(kept, _)| kept.clone()));
            steps.push(step);
        }
        Ok(Self { user, password, steps })
    }
}

impl Step {
    fn from_table(
        table: StepTable,
        url: &Uri,
        common: &BTreeMap<String, String>,
        redirects: Option<u32>,
    ) -> Result<Self, String> {
        let StepTable { name, target, method, headers, body, form, status, body_regex, redirects: own, extract, keep } =
            table;
        if form.is_some() && body.is_some() {
            return Err("give body or form, not both".into());
        }
        let mut own_headers = headers.unwrap_or_default();
        if form.is_some() && !own_headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            own_headers.insert("content-type".into(), FORM.into());
        }
        let method = method.or_else(|| (form.is_some() || body.is_some()).then(|| "POST".into()));
        let mut headers = common.clone();
        headers.extend(own_headers.clone());
        let keys = RequestKeys {
            method,
            headers: Some(headers),
            body,
            status,
            body_regex,
            redirects: own.or(redirects),
            extract,
        };
        let http = Http::to(url.clone(), keys)?;
        let keep = keep.into_iter().map(|(name, kept)| {
            let source = Source::new(kept.regex, kept.json).map_err(|sentence| format!("keep {name:?}: {sentence}"))?;
            Ok::<_, String>((name, source))
        });
        let keep = keep.collect::<Result<_, _>>()?;
        let (own_headers, form) = (own_headers.into_iter().collect(), form.unwrap_or_default().into_iter().collect());
        Ok(Self { name, target, http, own_headers, form, keep })
    }

    /// Whether every word that it needs is there by then.
    fn check_words(&self, known: &BTreeSet<String>) -> Result<(), String> {
        let pairs = self.http.headers.iter().chain(&self.form).map(|(_, value)| value);
        for text in pairs.chain([&self.target, &self.http.body]) {
            filled(text, |name| known.contains(name).then(String::new))?;
        }
        Ok(())
    }

    /// The request with all its words.
    fn request(&self, words: &Words) -> Result<Http, String> {
        let plain = |name: &str| words.get(name).cloned();
        let in_address = |name: &str| plain(name).map(|word| utf8_percent_encode(&word, NON_ALPHANUMERIC).to_string());
        let mut http = self.http.clone();
        let address = filled(&self.target, in_address)?;
        http.url = redirected(&self.http.url, &address).map_err(|_| format!("target {address:?} is no address"))?;
        if Origin::from_url(&http.url)? != Origin::from_url(&self.http.url)? {
            (http.token, http.headers) = (None, self.own_headers.clone());
        }
        for (_, value) in &mut http.headers {
            *value = filled(value, plain)?;
        }
        http.body = filled(&http.body, plain)?;
        if !self.form.is_empty() {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in &self.form {
                form.append_pair(name, &filled(value, plain)?);
            }
            http.body = form.finish();
        }
        Ok(http)
    }
}

/// A text with its words in place of their names.
fn filled(text: &str, word: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut left) = (String::new(), text);
    while let Some((before, behind)) = left.split_once("${") {
        let (name, rest) = behind.split_once('}').ok_or_else(|| format!("{text:?} has ${{ without }}"))?;
        out.push_str(before);
        out.push_str(&word(name).ok_or_else(|| format!("${{{name}}} is nothing that an earlier step keeps"))?);
        left = rest;
    }
    Ok(out + left)
}

/// Makes the requests, one after the other.
pub(super) async fn run(network: &Network, run: &mut Run, steps: &Steps, clock: Clock) -> Result<(), Failure> {
    let mut words = Words::new();
    words.extend(steps.user.clone().map(|user| ("user".to_owned(), user)));
    if let Some(password) = &steps.password {
        words.insert("password".into(), network.words(password).await?);
    }
    let mut jar = Jar::new(WallNs(clock.wall()));
    for step in &steps.steps {
        let from = clock.now();
        run.step(&step.name);
        let done = one(network, run, step, &mut words, &mut jar).await;
        // A step without an answer has no latency, as a run has none.
        if done.as_ref().err().is_none_or(|failure| failure.reason.is_answer()) {
            run.step_seconds(&step.name, clock.now().saturating_sub(from));
        }
        done.map_err(|failure| Failure::new(failure.reason, format!("step {}: {}", step.name, failure.sentence)))?;
    }
    Ok(())
}

async fn one(network: &Network, run: &mut Run, step: &Step, words: &mut Words, jar: &mut Jar) -> Result<(), Failure> {
    let content = |sentence: String| Failure::new(Reason::Content, sentence);
    let http = step.request(words).map_err(content)?;
    let (status, body) = fetch(network, run, &http, Some(jar)).await?;
    let labels = [("step", step.name.as_str())];
    run.labelled("ogive_check_http_status", "", &labels, f64::from(status.as_u16()));
    run.labelled("ogive_check_body_bytes", "By", &labels, body.bytes.len() as f64);
    judged(&http, status, &body)?;
    let text = String::from_utf8_lossy(&body.bytes);
    let answer = Answer::new(&text);
    for (name, source) in &step.keep {
        let word = answer.word(source).map_err(|sentence| content(format!("keep {name:?}: {sentence}")))?;
        if word.len() > KEPT_BYTES_MAX {
            return Err(Failure::new(
                Reason::Limit,
                format!("keep {name:?}: there are more than {KEPT_BYTES_MAX} bytes"),
            ));
        }
        words.insert(name.clone(), word);
    }
    report(run, &http.extract, &answer, &labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Probe};

    const HEAD: &str = "[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'http://a.example/x/'\nuser = 'u'\npassword = 'p w'\n\
                        headers = {x-key = 'k'}\n";

    fn steps(tables: &str) -> Result<Steps, String> {
        match Config::parse(&format!("{HEAD}{tables}"))?.check.remove(0).ask {
            Probe::Steps(steps) => Ok(*steps),
            other => panic!("{other:?}"),
        }
    }

    fn step(name: &str, keys: &str) -> String {
        format!("[[check.step]]\nname = '{name}'\n{keys}\n")
    }

    #[test]
    fn words_stand_in_requests_as_each_place_needs_them() {
        let first = step("one", "target = 'login'\nkeep.csrf = {regex = 'csrf=(\\S+)'}\nkeep.id = {json = '$.id'}");
        let second =
            "target = '/in/${id}?u=${user}'\nform = {p = '${password}', c = '${csrf}'}\nheaders = {x-c = '${csrf}'}";
        let steps = steps(&(first + &step("two", second) + &step("three", "target = 'https://b.example/'"))).unwrap();
        let words = [("user", "u"), ("password", "p w"), ("csrf", "a+b"), ("id", "7/8")];
        let words = words.into_iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect();
        let [one, two, three] = [0, 1, 2].map(|at| steps.steps[at].request(&words).unwrap());
        assert_eq!((one.url.to_string().as_str(), one.method.as_str()), ("http://a.example/x/login", "GET"));
        assert_eq!((two.url.to_string().as_str(), two.method.as_str()), ("http://a.example/in/7%2F8?u=u", "POST"));
        assert_eq!(two.body, "c=a%2Bb&p=p+w");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(two.headers, [pair("content-type", FORM), pair("x-c", "a+b"), pair("x-key", "k")]);
        assert!(three.headers.is_empty(), "another server is sent the headers of the check");
    }

    #[test]
    fn mistakes_are_refused() {
        let good = step("one", "target = '/'");
        for (tables, sentence) in [
            (good.clone() + &good, "give each step a name of its own"),
            (step("one", "target = '/${x}'"), "${x} is nothing that an earlier step keeps"),
            (step("one", "target = '/${x'"), "without }"),
            (step("one", "target = '/'\nbody = 'a'\nform = {a = 'b'}"), "give body or form"),
            (step("one", "target = '/'\nkeep.user = {json = '$'}"), "the check's own"),
            (step("one", "target = '/'\nkeep.x = {regex = 'a'}"), "has no group"),
            (step("one", "target = '/'\nextract = [{name = 'x'}]"), "give either regex or json"),
        ] {
            let found = steps(&tables).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let body = format!("{HEAD}body = 'x'\n{good}");
        assert!(Config::parse(&body).unwrap_err().contains("body means nothing to the kind http with steps"));
        let many =
            |count: usize| steps(&(0..count).map(|at| step(&at.to_string(), "target = '/'")).collect::<String>());
        assert_eq!(many(STEPS_MAX).unwrap().steps.len(), STEPS_MAX);
        assert!(many(STEPS_MAX + 1).unwrap_err().contains("1 to 20"));
    }
}
