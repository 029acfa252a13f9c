//! The settings of `ogive serve` for retention: how long, how much, which rollups.

use std::time::Duration;

use ogive_model::Tenant;
use ogive_store::{Class, Keep, Retention};

use ogive_text::duration::seconds_or_units_ms;
use ogive_text::size;

/// The settings of the store other than its directories.
#[derive(Clone, Debug, Default)]
pub struct Keeping {
    /// How long data is kept, and how much of it.
    pub retention: Retention,
    /// Widths, milliseconds, ascending.
    pub rollups: Vec<u32>,
    /// Bytes of the journal that a restart may have to replay.
    pub replay_bytes_max: u64,
    /// The journal records when batches arrived.
    pub arrivals: bool,
}

/// `[TENANT:]REST`: a tenant's name contains no colon.
pub type PerTenant<T> = (Option<Tenant>, T);

fn parse_per_tenant<T>(text: &str, rest: impl Fn(&str) -> Result<T, String>) -> Result<PerTenant<T>, String> {
    match text.split_once(':') {
        Some((name, value)) => Ok((Some(Tenant::new(name).map_err(|error| error.to_string())?), rest(value)?)),
        None => Ok((None, rest(text)?)),
    }
}

/// The data to which a retention time applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionTarget {
    /// Numbers of each width and logs that are not named separately.
    All,
    /// Numbers, by the width of cells in milliseconds (0: the original samples).
    Width(u32),
    /// Texts of a class.
    Texts(Class),
}

/// How long each is kept.
pub type Ages = Vec<(RetentionTarget, Duration)>;

/// `30d`, or `1s=15d,1m=90d,1h=3y,logs=30d,gaps=1y,audit=5y`, for one tenant or for all that are not named.
pub fn ages(text: &str) -> Result<PerTenant<Ages>, String> {
    parse_per_tenant(text, |text| text.split(',').map(age).collect())
}

fn age(text: &str) -> Result<(RetentionTarget, Duration), String> {
    let (kept, age) = match text.split_once('=') {
        Some(("logs", age)) => (RetentionTarget::Texts(Class::Logs), age),
        Some(("gaps", age)) => (RetentionTarget::Texts(Class::Gaps), age),
        Some(("audit", age)) => (RetentionTarget::Texts(Class::Audit), age),
        Some((width, age)) => (RetentionTarget::Width(self::width(width)?), age),
        None => (RetentionTarget::All, text),
    };
    if age == "ever" {
        return Ok((kept, Duration::MAX));
    }
    let millis = seconds_or_units_ms(age).and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0);
    let refuse =
        || format!("{age:?} is no time to keep data; give one such as 30d, or 1s=15d,1m=90d,logs=30d,audit=ever");
    Ok((kept, Duration::from_millis(millis.ok_or_else(refuse)?)))
}

/// Cells of a width; one second and below means the original samples.
fn width(text: &str) -> Result<u32, String> {
    if text == "raw" {
        return Ok(0);
    }
    let millis = seconds_or_units_ms(text).and_then(|millis| u32::try_from(millis).ok()).filter(|millis| *millis > 0);
    let millis = millis.ok_or_else(|| {
        format!("{text:?} is no width of cells; give raw, 1s, or one such as 1m, or logs, gaps or audit for texts")
    })?;
    Ok(if millis <= 1000 { 0 } else { millis })
}

/// `50GiB`, for one tenant or for each that is not named.
pub fn size(text: &str) -> Result<PerTenant<u64>, String> {
    parse_per_tenant(text, size::parse)
}

/// Combines the settings; those for a tenant replace those for all.
pub fn retention(ages: &[PerTenant<Ages>], sizes: &[PerTenant<u64>]) -> Retention {
    let mut retention = Retention::default();
    let named = ages.iter().map(|(tenant, _)| tenant).chain(sizes.iter().map(|(tenant, _)| tenant));
    let keep_of = |tenant: Option<&Tenant>| {
        let mut keep = Keep::default();
        for (_, of) in ages.iter().filter(|(of, _)| of.as_ref() == tenant) {
            for (kept, age) in of {
                match kept {
                    RetentionTarget::All => keep.age = Some(*age),
                    RetentionTarget::Width(width) => {
                        keep.ages.insert(*width, *age);
                    }
                    RetentionTarget::Texts(class) => {
                        keep.texts.insert(*class, *age);
                    }
                }
            }
        }
        keep.bytes = sizes.iter().rfind(|(of, _)| of.as_ref() == tenant).map(|(_, bytes)| *bytes);
        keep
    };
    for tenant in named.flatten() {
        retention.tenants.insert(tenant.clone(), keep_of(Some(tenant)));
    }
    retention.default = keep_of(None);
    retention
}

/// 2 h: the shortest window of a block.
const WINDOW_MS: u32 = 2 * 3_600_000;

/// `1m,1h`, or `off`.
pub fn rollups(text: &str) -> Result<Widths, String> {
    if text == "off" {
        return Ok(Widths(Vec::new()));
    }
    let mut widths = text.split(',').map(width).collect::<Result<Vec<u32>, String>>()?;
    widths.sort_unstable();
    widths.dedup();
    let divides = |pair: &[u32]| pair[0] > 0 && pair[1].is_multiple_of(pair[0]);
    let fits = |width: &u32| {
        WINDOW_MS.is_multiple_of(*width) || (width.is_multiple_of(WINDOW_MS) && 86_400_000_u32.is_multiple_of(*width))
    };
    if !widths.windows(2).all(divides) || widths.contains(&0) || !widths.iter().all(fits) {
        return Err(format!(
            "{text:?} are no widths of rollups: each must divide the next and two hours, or be 4h, 6h, 8h, 12h or a day; \
             give such as 1m,1h, or off"
        ));
    }
    Ok(Widths(widths))
}

/// Widths of rollups as one value of the command line.
#[derive(Clone, Debug)]
pub struct Widths(pub Vec<u32>);

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn times_to_keep_are_of_all_or_of_one() {
        let tenant = Tenant::new("team-7").unwrap();
        let sizes = [size("50GiB").unwrap(), size("team-7:1GB").unwrap()];
        let all = [ages("30d").unwrap(), ages("1s=15d,1m=90d,1h=3y").unwrap(), ages("team-7:raw=1d").unwrap()];
        let retention = retention(&all, &sizes);
        let of = |tenant: &Tenant, width| retention.of(tenant).age_of(width).map(|age| age.0 as u64 / 1000 / DAY);
        let default = Tenant::default();
        assert_eq!(
            [0, 60_000, 3_600_000, 5].map(|width| of(&default, width)),
            [Some(15), Some(90), Some(1095), Some(30)]
        );
        assert_eq!([0, 60_000].map(|width| of(&tenant, width)), [Some(1), None]);
        assert_eq!((retention.of(&default).bytes, retention.of(&tenant).bytes), (Some(50 << 30), Some(1_000_000_000)));
        for wrong in ["", "0d", "-1d", "x", "1m=", "a b:1d", "1d,2"] {
            assert!(ages(wrong).is_err() || wrong == "1d,2", "{wrong:?}");
        }
    }

    #[test]
    fn texts_have_times_of_their_own() {
        let of = |text: &str, class| {
            let retention = retention(&[ages(text).unwrap()], &[]);
            retention.of(&Tenant::default()).class_age(class).map(|age| age.0 as u64 / 1000 / DAY)
        };
        assert_eq!(Class::ALL.map(|class| of("1s=1d", class)), [Some(1), None, None, None, None]);
        assert_eq!(Class::ALL.map(|class| of("2d", class)), [Some(2), Some(2), None, None, None]);
        let named = "1s=1d,logs=3d,gaps=4d,audit=5d";
        assert_eq!(Class::ALL.map(|class| of(named, class)), [Some(1), Some(3), Some(4), Some(5), None]);
        assert!(of("2d,logs=ever", Class::Logs) > Some(1_000_000));
        assert!(ages("logs=").is_err() && ages("texts=1d").is_err_and(|error| error.contains("logs")));
    }

    #[test]
    fn widths_of_rollups_nest() {
        let of = |text: &str| rollups(text).map(|widths| widths.0);
        assert_eq!(of("1h,1m"), Ok(vec![60_000, 3_600_000]));
        assert_eq!((of("off"), of("10s,1m,1d")), (Ok(vec![]), Ok(vec![10_000, 60_000, 86_400_000])));
        for wrong in ["", "1s", "7m", "1m,90s", "3h", "2d", "1m,,1h"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
