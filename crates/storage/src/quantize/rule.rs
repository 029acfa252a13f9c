//! A rule of the quantizer as it is written: `SELECTOR[=OPTION=VALUE,..]`.

use std::str::FromStr;

use ogive_model::{Kind, METRIC_NAME, MatchOp, Matcher, Ms, SeriesData, SeriesDef, SeriesMeta, Temporality, Tenant};
use ogive_stream::align::Function;

use ogive_text::duration::seconds_or_units_ms;

/// The label that cells made here have in addition to those of their series: the width, such as `1s`. Series with it
/// are never quantized again.
pub(crate) const CELL_LABEL: &str = "ogive_cell";

/// An hour: windows are aligned to the epoch, and a day consists of whole ones.
const WIDTH_MAX: Ms = Ms::from_secs(3_600);

/// 10 minutes: data dropped sooner may be newer than what senders deliver after an outage.
const RAW_AGE_MIN: Ms = Ms::from_secs(600);

const DAY: Ms = Ms::from_secs(86_400);

/// A day: for a longer delay use a recording rule.
const WAIT_MAX: Ms = DAY;

/// A quantization rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As written; also its name in figures.
    pub text: String,
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) tenant: Tenant,
    pub(crate) width: Ms,
    /// How long after its end a window closes.
    pub lateness: Ms,
    /// How far back the sample before the first one of a counter is looked for.
    pub lookback: Ms,
    /// How numbers are combined; by their temporality when not chosen.
    pub functions: Vec<Function>,
    /// Samples are dropped this long after their time; None: they stay beside their cells.
    pub raw_age: Option<Ms>,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (selector, options) = parts(text)?;
        let mut rule = Self {
            text: text.to_owned(),
            matchers: matchers(selector)?,
            tenant: Tenant::default(),
            width: Ms::from_secs(1),
            // 2 s: for a sender on another network, and for a slow scrape.
            lateness: Ms::from_secs(2),
            // The lookback of PromQL.
            lookback: Ms::from_secs(300),
            functions: Vec::new(),
            raw_age: None,
        };
        let (mut is_instead, mut raw_age) = (false, Ms::from_secs(3_600));
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| format!("{option:?} has no value; {USAGE}"))?;
            match name.trim() {
                "width" => rule.width = width(value)?,
                "lateness" => rule.lateness = within(value, Ms::ZERO, WAIT_MAX)?,
                "lookback" => rule.lookback = within(value, Ms::from_secs(1), WAIT_MAX)?,
                "number" => rule.functions = functions(value)?,
                "tenant" => rule.tenant = Tenant::new(value).map_err(|error| error.to_string())?,
                "keep" => {
                    is_instead = match value {
                        "beside" => false,
                        "instead" => true,
                        _ => return Err(format!("keep={value:?}; give beside or instead")),
                    }
                }
                "raw" => raw_age = within(value, RAW_AGE_MIN, Ms::MAX)?,
                other => return Err(format!("there is no option {other:?}; {USAGE}")),
            }
        }
        let needed = rule.lookback + rule.lateness + rule.width;
        if is_instead && raw_age < needed {
            return Err(format!("raw={raw_age} is shorter than lookback, lateness and width together ({needed})"));
        }
        rule.raw_age = is_instead.then_some(raw_age);
        Ok(rule)
    }
}

const USAGE: &str = "give SELECTOR=width=1s,lateness=2s,number=last,keep=beside|instead,raw=1h,lookback=5m,tenant=NAME, each of them or none";

/// The selector, and the options behind it.
fn parts(text: &str) -> Result<(&str, &str), String> {
    let end = match text.rfind('}') {
        Some(at) => at + 1,
        None => text.find('=').unwrap_or(text.len()),
    };
    let (selector, rest) = text.split_at(end);
    match rest.strip_prefix('=') {
        Some(options) => Ok((selector, options)),
        None if rest.is_empty() => Ok((selector, "")),
        None => Err(format!("{rest:?} follows the selector; {USAGE}")),
    }
}

fn matchers(selector: &str) -> Result<Vec<Matcher>, String> {
    ogive_query::parse_plain_selector(selector).map_err(|error| format!("{selector:?}: {error}"))
}

fn within(text: &str, least: Ms, most: Ms) -> Result<Ms, String> {
    let found = seconds_or_units_ms(text).map(Ms).filter(|found| (least..=most).contains(found));
    found.ok_or_else(|| format!("{text:?} is no duration from {least} to {most}"))
}

fn width(text: &str) -> Result<Ms, String> {
    let second = Ms::from_secs(1);
    let found = within(text, second, WIDTH_MAX)?;
    let divides = found % second == Ms::ZERO && DAY % found == Ms::ZERO;
    if divides { Ok(found) } else { Err(format!("{text:?}: give whole seconds that divide a day")) }
}

fn functions(text: &str) -> Result<Vec<Function>, String> {
    if text == "auto" {
        return Ok(Vec::new());
    }
    let names = || Function::ALL.map(Function::as_str).join(", ");
    let one = |name: &str| {
        let found = Function::ALL.into_iter().find(|function| function.as_str() == name);
        found.ok_or_else(|| format!("number={name:?}; give auto or some of {} with + between", names()))
    };
    let mut out = text.split('+').map(one).collect::<Result<Vec<_>, _>>()?;
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

impl Rule {
    /// Whether it applies to this series: never to cells.
    pub fn accepts(&self, def: &SeriesDef) -> bool {
        def.meta.kind != Kind::Text && def.labels.get(CELL_LABEL).is_empty() && def.labels.match_all(&self.matchers)
    }

    /// The matchers of its samples.
    pub fn raw(&self) -> Vec<Matcher> {
        let mut out = self.matchers.clone();
        out.push(matcher(CELL_LABEL, ""));
        out
    }

    /// The matchers of its cells, and possibly those of other rules.
    pub fn cells(&self) -> Vec<Matcher> {
        let mut out: Vec<Matcher> =
            self.matchers.iter().filter(|matcher| matcher.name != METRIC_NAME).cloned().collect();
        out.push(matcher(CELL_LABEL, &width_text(self.width)));
        out
    }

    /// How numbers of this temporality are combined.
    pub fn functions(&self, temporality: Temporality) -> Vec<Function> {
        if self.functions.is_empty() { vec![Function::from_temporality(temporality)] } else { self.functions.clone() }
    }

    /// The series of the cells of `series`: `NAME:WIDTH_FUNCTION`. None when its labels are at their limit.
    pub fn cell_series(&self, series: &SeriesData, function: Option<Function>) -> Option<SeriesDef> {
        let width = width_text(self.width);
        let what = function.map_or("histogram", Function::as_str);
        let name = format!("{}:{width}_{what}", series.labels.metric_name());
        let own = [(METRIC_NAME, &*name), (CELL_LABEL, &*width)];
        let pairs = series.labels.iter().filter(|(label, _)| *label != METRIC_NAME).chain(own);
        let unit = if function == Some(Function::Count) { String::new() } else { series.meta.unit.clone() };
        let meta = SeriesMeta {
            kind: if function.is_some() { Kind::Float } else { Kind::Histogram },
            temporality: function.map_or(Temporality::Delta, Function::temporality),
            unit,
            width_ms: self.width.0 as u32,
        };
        SeriesDef::new(pairs, meta).ok()
    }
}

pub(crate) fn matcher(name: &str, value: &str) -> Matcher {
    Matcher::new(name, MatchOp::Equal, value).expect("equality has no pattern")
}

/// `1s`, `5m`, `1h`.
fn width_text(width: Ms) -> String {
    let seconds = width / Ms::from_secs(1);
    match seconds {
        _ if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
        _ if seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_with_their_options() {
        let rule: Rule = r#"{__name__=~"a.*",x="}="}=width=5s,lateness=6s,number=last+max,keep=instead,raw=2h,tenant=t"#.parse().unwrap();
        assert_eq!((rule.width, rule.lateness, rule.raw_age), (Ms(5_000), Ms(6_000), Some(Ms(7_200_000))));
        assert_eq!((rule.functions.len(), rule.tenant.as_str(), rule.matchers.len()), (2, "t", 2));
        let plain: Rule = "up".parse().unwrap();
        assert_eq!((plain.width, plain.raw_age, &*plain.text), (Ms(1_000), None, "up"));
        assert_eq!("up=number=mean".parse::<Rule>().unwrap().functions, [Function::Mean]);
        assert_eq!(
            ["1s", "1m", "1h", "90s"].map(|text| width_text(Ms(seconds_or_units_ms(text).unwrap()))),
            ["1s", "1m", "1h", "90s"]
        );
    }

    #[test]
    fn wrong_rules_say_what_to_do() {
        let check = |text: &str, word: &str| {
            let said = text.parse::<Rule>().unwrap_err();
            assert!(said.contains(word), "{text:?}: {said:?}");
        };
        check("up offset 5m", "plain selector");
        check("sum(up)", "plain selector");
        check("up{=x", "up{");
        check("up=width=1500ms", "divide a day");
        check("up=width=7s", "divide a day");
        check("up=width=2h", "duration");
        check("up=widht=1s", "there is no option \"widht\"");
        check("up=number=median", "last");
        check("up=keep=both", "beside or instead");
        check("up=keep=instead,raw=5m", "duration");
        check("up=keep=instead,raw=10m,lookback=20m", "shorter");
        check("up{}x", "follows");
        check("up=width", "no value");
    }
}
