//! The wall clock in words.
//!
//! A recording tells its start in seconds since 1970; a header tells it to people. One date does
//! not justify a calendar library.

/// `seconds` and `nanos` since 1970-01-01 UTC as RFC 3339 says it.
pub(super) fn rfc3339(seconds: i64, nanos: u32) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos == 0 { format!("{date}Z") } else { format!("{date}.{nanos:09}Z") }
}

/// Year, month and day of a day counted from 1970-01-01, after Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms" (<https://howardhinnant.github.io/date_algorithms.html>,
/// `civil_from_days`): years begin in March, so that the leap day is the last of the year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // 0000-03-01 is day 0 from here on
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_read_as_they_should() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400, 0), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000, 5), "2023-11-14T22:13:20.000000005Z");
        assert_eq!(rfc3339(4_107_542_399, 0), "2100-02-28T23:59:59Z");
        assert_eq!(rfc3339(-1, 0), "1969-12-31T23:59:59Z");
    }
}
