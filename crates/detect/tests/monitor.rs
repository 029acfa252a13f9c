//! All detectors together, over many series and sources.

use ogive_detect::detectors::FindingKind;
use ogive_detect::detectors::monitor::{Content, Monitor, Options, Reported, SeriesProfile};
use ogive_hist::Histogram;
use ogive_model::{Labels, Ms, SeriesId, WallMs};

/// 2026-11-23 12:00:00 UTC.
const NOON: WallMs = WallMs(1_795_435_200_000);

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().copied()).expect("labels are valid")
}

fn arrive(monitor: &mut Monitor, id: u128, labels: &Labels, at: WallMs) {
    monitor.sample(SeriesId(id), SeriesProfile { labels, unit: "", width_ms: 0 }, at, Content::Arrival);
}

fn sentences(found: &[Reported]) -> Vec<String> {
    found
        .iter()
        .map(|one| format!("{} {}: {}", one.finding.kind, one.finding.is_active, one.finding.sentence))
        .collect()
}

/// `count` operations of around 10 ms.
fn cell(count: u32) -> Histogram {
    let mut cell = Histogram::log_linear();
    (0..count).for_each(|at| cell.record(0.008 + 0.004 * f64::from(at) / f64::from(count)));
    cell
}

#[test]
fn a_crash_loop_that_cuts_a_second_and_a_half_each_minute_is_found_within_six_cycles() {
    // What happened elsewhere: a crash loop cut the stream for 1.5 s each minute. Checks that fell into the hole were
    // taken as missing for 31 minutes, and operators found the reason, not a detector.
    let mut monitor = Monitor::new(Options::default());
    let series = labels(&[("__name__", "request_seconds"), ("instance", "a")]);
    let about = SeriesProfile { labels: &series, unit: "s", width_ms: 1_000 };
    let (whole, half) = (cell(100), cell(50));
    let mut found = Vec::new();
    let begin = 300;
    for second in 1..=1_000_i64 {
        let phase = if second > begin { second % 60 } else { 0 };
        // The hole is from :17.0 to :18.5, in the cells that end at :18 and :19.
        match phase {
            18 => {}
            19 => monitor.sample(SeriesId(1), about, NOON + Ms::from_secs(second), Content::Cell(&half)),
            _ => monitor.sample(SeriesId(1), about, NOON + Ms::from_secs(second), Content::Cell(&whole)),
        }
        found.extend(monitor.advance(NOON + Ms::from_secs(second)));
    }
    let texts = sentences(&found);
    assert_eq!(found.len(), 1, "{texts:?}");
    assert_eq!(found[0].finding.kind, FindingKind::Instability);
    let text = &found[0].finding.sentence;
    assert!(text.contains("every 60 s at :17, 1.5 s, next 12:1"), "{text}");
    let cycles = (found[0].finding.at - NOON - Ms::from_secs(317)) / Ms::from_secs(60);
    assert!(cycles <= 6, "{cycles} cycles: {text}");
}

/// A broker with `lost` series of ten hosts that go, and others of another broker that stay.
fn broker(lost: u32, others: u32, outage_s: std::ops::Range<i64>, until_s: i64) -> (Monitor, Vec<Reported>) {
    let mut monitor = Monitor::new(Options { series_max: 200_000, ..Options::default() });
    let name = |broker: &str, at: u32| {
        let (host, metric) = (format!("{broker}-{}", at % 10), format!("metric_{}", at / 10 % 100));
        labels(&[("__name__", &metric), ("broker", broker), ("host", &host), ("part", &format!("{}", at / 1_000))])
    };
    let series: Vec<Labels> = (0..lost).map(|at| name("b7", at)).chain((0..others).map(|at| name("b8", at))).collect();
    let mut found = Vec::new();
    for second in 1..=until_s {
        for (at, labels) in series.iter().enumerate() {
            let is_lost = at < lost as usize && outage_s.contains(&second);
            // Each comes every 10 s, at a second of its own.
            if !is_lost && (second + at as i64) % 10 == 0 {
                arrive(&mut monitor, at as u128, labels, NOON + Ms::from_secs(second));
            }
        }
        found.extend(monitor.advance(NOON + Ms::from_secs(second)));
    }
    (monitor, found)
}

#[test]
fn a_lost_broker_is_one_notification_and_its_return_one_more() {
    let (monitor, found) = broker(2_000, 1_000, 300..420, 600);
    let texts = sentences(&found);
    assert_eq!(found.len(), 2, "{texts:#?}");
    let (lost, back) = (&found[0], &found[1]);
    assert_eq!((lost.finding.kind, lost.finding.is_active), (FindingKind::LostParent, true), "{texts:#?}");
    assert!(lost.finding.sentence.starts_with("broker=\"b7\" is lost: 2000 of its 2000 series"), "{texts:#?}");
    let latest = NOON + Ms::from_secs(300 + 3 * 10 + 3);
    assert!(lost.finding.at <= latest, "three cadences and the lateness: {texts:#?}");
    assert_eq!(lost.labels, labels(&[("broker", "b7")]));
    assert_eq!((back.finding.kind, back.finding.is_active), (FindingKind::LostParent, false), "{texts:#?}");
    assert_eq!(monitor.suppressed(), 2_000);
}

#[test]
fn what_is_lost_beside_a_broker_is_still_reported_alone() {
    let mut monitor = Monitor::new(Options::default());
    let series: Vec<Labels> = (0..400)
        .map(|at| {
            let broker = if at < 200 { "b7" } else { "b8" };
            labels(&[
                ("__name__", "up"),
                ("broker", broker),
                ("host", &format!("h{}", at / 20)),
                ("unit", &at.to_string()),
            ])
        })
        .collect();
    let mut found = Vec::new();
    for second in 1..=300_i64 {
        for (at, labels) in series.iter().enumerate() {
            let is_lost = second > 150 && (at < 200 || at == 333);
            if !is_lost {
                arrive(&mut monitor, at as u128, labels, NOON + Ms::from_secs(second));
            }
        }
        found.extend(monitor.advance(NOON + Ms::from_secs(second)));
    }
    let texts = sentences(&found);
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(texts.iter().any(|text| text.starts_with("lost_parent true: broker=\"b7\"")), "{texts:#?}");
    assert!(
        texts.iter().any(|text| text.starts_with("absence true: up{broker=\"b8\"") && text.contains("unit=\"333\"")),
        "{texts:#?}"
    );
}

#[test]
fn a_source_that_was_cut_and_replays_gives_no_finding_of_its_series() {
    // The stream is cut for 60 s; then everything comes, in order, and the series had no gap at all.
    let run = |is_cut: bool| {
        let mut monitor = Monitor::new(Options::default());
        let series: Vec<Labels> =
            (0..3).map(|at| labels(&[("__name__", "up"), ("instance", "a"), ("n", &at.to_string())])).collect();
        let mut found = Vec::new();
        let mut backlog = Vec::new();
        for second in 1..=600_i64 {
            backlog.push(second);
            if !(is_cut && (200..260).contains(&second)) {
                for one in backlog.drain(..) {
                    for (at, labels) in series.iter().enumerate() {
                        arrive(&mut monitor, at as u128, labels, NOON + Ms::from_secs(one));
                    }
                }
            }
            found.extend(monitor.advance(NOON + Ms::from_secs(second)));
        }
        sentences(&found)
    };
    assert_eq!(run(false), [""; 0]);
    let texts = run(true);
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(texts[0].starts_with("lost_parent true: {instance=\"a\"} did not come for"), "{texts:#?}");
    assert!(texts[1].starts_with("lost_parent false: {instance=\"a\"} is back"), "{texts:#?}");
}

#[test]
fn a_change_of_shape_of_many_series_of_a_source_is_one_finding() {
    let mut monitor = Monitor::new(Options::default());
    let series: Vec<Labels> = (0..8)
        .map(|at| labels(&[("__name__", "request_seconds"), ("instance", "a"), ("path", &at.to_string())]))
        .collect();
    let usual = cell(200);
    let mut slow = cell(190);
    slow.record_n(0.5, 10);
    let mut found = Vec::new();
    for second in 1..=7_500_i64 {
        for (at, labels) in series.iter().enumerate() {
            let about = SeriesProfile { labels, unit: "s", width_ms: 1_000 };
            let now = if second > 7_300 { &slow } else { &usual };
            monitor.sample(SeriesId(at as u128), about, NOON + Ms::from_secs(second), Content::Cell(now));
        }
        found.extend(monitor.advance(NOON + Ms::from_secs(second)));
    }
    let texts = sentences(&found);
    assert_eq!(texts.len(), 1, "{texts:#?}");
    assert!(texts[0].starts_with("shape true: 8 series of {instance=\"a\"}; request_seconds{"), "{texts:#?}");
    assert!(texts[0].contains("since 14:01:41"), "{texts:#?}");
    assert_eq!(found[0].labels, labels(&[("instance", "a")]));
    let each = monitor.memory_bytes() / series.len();
    println!("{each} bytes a series");
}

#[test]
fn series_beyond_the_limit_are_counted_and_others_go_on() {
    let mut monitor = Monitor::new(Options { series_max: 10, ..Options::default() });
    for at in 0..12 {
        arrive(&mut monitor, at, &labels(&[("__name__", "up"), ("n", &at.to_string())]), NOON);
    }
    assert_eq!((monitor.series(), monitor.refused()), (10, 2));
    // A day later those are forgotten, and there is room again.
    monitor.advance(NOON + Ms(90_000_000));
    assert_eq!(monitor.series(), 0);
    arrive(&mut monitor, 11, &labels(&[("__name__", "up")]), NOON + Ms(90_000_000));
    assert_eq!(monitor.series(), 1);
}
