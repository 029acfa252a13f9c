//! Times by a layout, as Go writes them: the layout is the reference time, Monday 2 January 2006 15:04:05, in the
//! wanted form.

use super::time::{Civil, MONTHS, WEEKDAYS};

/// Elements of layouts, longer ones before their prefixes.
const ELEMENTS: &[&str] = &[
    "January",
    "Monday",
    "-07:00:00",
    "Z07:00:00",
    "-070000",
    "Z070000",
    "-07:00",
    "Z07:00",
    "-0700",
    "Z0700",
    "2006",
    "002",
    "__2",
    "Jan",
    "Mon",
    "MST",
    "-07",
    "Z07",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
];

/// The time by `layout`, in UTC.
pub(crate) fn format_time(ns: i128, layout: &str) -> String {
    let civil = Civil::from_ns(ns);
    let (mut out, mut rest) = (String::with_capacity(layout.len()), layout);
    while let Some(first) = rest.chars().next() {
        if let Some((digits, keeps_zeros)) = fraction(rest) {
            out.push_str(&fraction_text(civil.nanosecond, digits, keeps_zeros, first));
            rest = &rest[1 + digits..];
            continue;
        }
        // `Jan` followed by a small letter is another word, and so is `Mon`; `_2006` is an underscore and a year.
        let element = ELEMENTS.iter().find(|element| {
            let is_word = ["Jan", "Mon"].contains(*element);
            rest.strip_prefix(**element).is_some_and(|behind| match **element {
                "_2" => !behind.starts_with("006"),
                _ => !is_word || !behind.starts_with(|c: char| c.is_ascii_lowercase()),
            })
        });
        match element {
            Some(element) => {
                out.push_str(&text_of(element, &civil));
                rest = &rest[element.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Digits of a fraction that begins here, and whether it keeps its zeros: `.000`, `,999`.
fn fraction(rest: &str) -> Option<(usize, bool)> {
    let digits = rest.strip_prefix(['.', ','])?;
    let digit = digits.chars().next().filter(|digit| ['0', '9'].contains(digit))?;
    let count = digits.chars().take_while(|other| *other == digit).count();
    // Followed by another digit it is no fraction.
    let is_whole = !digits[count..].starts_with(|c: char| c.is_ascii_digit());
    is_whole.then_some((count, digit == '0'))
}

fn fraction_text(nanosecond: i128, digits: usize, keeps_zeros: bool, point: char) -> String {
    let all = format!("{nanosecond:09}");
    let shown = &all[..digits.min(9)];
    if keeps_zeros {
        return format!("{point}{shown:0<digits$}");
    }
    let shown = shown.trim_end_matches('0');
    if shown.is_empty() { String::new() } else { format!("{point}{shown}") }
}

fn text_of(element: &str, civil: &Civil) -> String {
    let twelve = if civil.hour % 12 == 0 { 12 } else { civil.hour % 12 };
    match element {
        "January" => MONTHS[civil.month - 1].to_owned(),
        "Jan" => MONTHS[civil.month - 1][..3].to_owned(),
        "Monday" => WEEKDAYS[civil.weekday].to_owned(),
        "Mon" => WEEKDAYS[civil.weekday][..3].to_owned(),
        "2006" => format!("{:04}", civil.year),
        "06" => format!("{:02}", civil.year.rem_euclid(100)),
        "01" => format!("{:02}", civil.month),
        "1" => civil.month.to_string(),
        "002" => format!("{:03}", civil.year_day),
        "__2" => format!("{:>3}", civil.year_day),
        "02" => format!("{:02}", civil.day),
        "_2" => format!("{:>2}", civil.day),
        "2" => civil.day.to_string(),
        "15" => format!("{:02}", civil.hour),
        "03" => format!("{twelve:02}"),
        "3" => twelve.to_string(),
        "04" => format!("{:02}", civil.minute),
        "4" => civil.minute.to_string(),
        "05" => format!("{:02}", civil.second),
        "5" => civil.second.to_string(),
        "PM" => if civil.hour < 12 { "AM" } else { "PM" }.to_owned(),
        "pm" => if civil.hour < 12 { "am" } else { "pm" }.to_owned(),
        "MST" => "UTC".to_owned(),
        zone if zone.starts_with('Z') => "Z".to_owned(),
        // Every time here is of UTC: `-07:00` is `+00:00`.
        zone => zone.replace('-', "+").replace('7', "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_go_give_what_go_gives() {
        // 2012-11-24 11:14:12.0405 UTC, a Saturday.
        let ns = 1_353_755_652_040_500_000;
        for (layout, expected) in [
            ("Mon Jan _2 15:04:05 2006", "Sat Nov 24 11:14:12 2012"),
            ("2006-01-02T15:04:05Z07:00", "2012-11-24T11:14:12Z"),
            ("2006-01-02T15:04:05.999999999Z07:00", "2012-11-24T11:14:12.0405Z"),
            ("Monday, 02-Jan-06 15:04:05 MST", "Saturday, 24-Nov-12 11:14:12 UTC"),
            ("Mon, 02 Jan 2006 15:04:05 -0700", "Sat, 24 Nov 2012 11:14:12 +0000"),
            ("3:04PM 03pm", "11:14AM 11am"),
            ("15:04:05.000", "11:14:12.040"),
            ("05,000000 .99", "12,040500 .04"),
            ("January 1 __2 002 5 4", "November 11 329 329 12 14"),
            ("Month _2006", "Month _2012"),
            ("-07:00 -07 .0x", "+00:00 +00 .0x"),
            ("", ""),
        ] {
            assert_eq!(format_time(ns, layout), expected, "{layout}");
        }
        assert_eq!(format_time(-1, "2006-01-02 15:04:05.000000000"), "1969-12-31 23:59:59.999999999");
        assert_eq!(format_time(0, "15:04:05.999 3PM"), "00:00:00 12AM");
    }
}
