//! Dates and timestamps in text.

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// How many digits of a second's fraction are kept; the rest is finer than a microsecond.
const MICRO_DIGITS: usize = 6;

/// How the text of a timestamp names its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// Not at all: the text is local time.
    Missing,
    /// `Z`, or an offset with seconds: the instant is exact.
    Exact,
    /// An offset of hours and minutes, which some writers cut from one with seconds.
    WholeMinutes,
}

/// Reads `year-month-day` as days since 1970-01-01. The year has 4 to 7 digits and may have a sign.
#[must_use]
pub fn date(text: &str) -> Option<i32> {
    let mut reader = Reader { rest: text.as_bytes() };
    let days = reader.date()?;
    reader.rest.is_empty().then_some(days).and_then(|days| i32::try_from(days).ok())
}

/// Reads `date`, `date time` or `date time zone`, with `T` or a blank between date and time, as
/// microseconds since 1970-01-01 00:00:00: in UTC if there is a zone, otherwise in local time.
#[must_use]
pub fn timestamp(text: &str) -> Option<(i64, Offset)> {
    let mut reader = Reader { rest: text.as_bytes() };
    // The time and the zone may bring a day that is out of range back into it.
    let mut seconds = reader.date()?.checked_mul(SECONDS_PER_DAY)?;
    let (mut micros, mut kind) = (0, Offset::Missing);
    if !reader.rest.is_empty() {
        if !reader.accept(b'T') && !reader.accept(b' ') {
            return None;
        }
        micros = reader.time()?;
        let (offset, found) = reader.zone()?;
        seconds = seconds.checked_sub(offset)?;
        kind = found;
    }
    let micros = i128::from(seconds).checked_mul(MICROS_PER_SECOND.into())?.checked_add(micros.into())?;
    reader.rest.is_empty().then_some((i64::try_from(micros).ok()?, kind))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn accept(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.rest.iter().take(most.saturating_add(1)).take_while(|byte| byte.is_ascii_digit()).count();
        if digits < least || digits > most {
            return None;
        }
        let (number, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        number
            .iter()
            .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit.checked_sub(b'0')?)))
    }

    fn date(&mut self) -> Option<i64> {
        let negative = self.accept(b'-');
        if !negative {
            self.accept(b'+');
        }
        let year = self.number(4, 7)?;
        let year = if negative { year.checked_neg()? } else { year };
        let month = self.accept(b'-').then(|| self.number(1, 2))??;
        let day = self.accept(b'-').then(|| self.number(1, 2))??;
        let valid = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
        valid.then(|| days_from_civil(year, month, day))?
    }

    /// Microseconds of the day.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(1, 2).filter(|hour| *hour < 24)?;
        let minute = self.accept(b':').then(|| self.number(1, 2))?.filter(|minute| *minute < 60)?;
        let (mut second, mut fraction) = (0, 0);
        if self.accept(b':') {
            second = self.number(1, 2).filter(|second| *second < 60)?;
            if self.accept(b'.') {
                fraction = self.fraction()?;
            }
        }
        let seconds = hour.checked_mul(60)?.checked_add(minute)?.checked_mul(60)?.checked_add(second)?;
        seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(fraction)
    }

    fn fraction(&mut self) -> Option<i64> {
        let digits = self.rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 9 {
            return None;
        }
        let (fraction, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        let padded = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(MICRO_DIGITS);
        Some(padded.fold(0, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit.saturating_sub(b'0')))))
    }

    /// Seconds east of UTC, and how the text says so.
    fn zone(&mut self) -> Option<(i64, Offset)> {
        if self.rest.is_empty() {
            return Some((0, Offset::Missing));
        }
        if self.accept(b'Z') {
            return Some((0, Offset::Exact));
        }
        let negative = self.accept(b'-');
        if !negative && !self.accept(b'+') {
            return None;
        }
        let hours = self.number(2, 2).filter(|hours| *hours <= 18)?;
        let (mut minutes, mut seconds, mut kind) = (0, 0, Offset::WholeMinutes);
        if self.accept(b':') {
            minutes = self.number(2, 2).filter(|minutes| *minutes < 60)?;
            if self.accept(b':') {
                seconds = self.number(2, 2).filter(|seconds| *seconds < 60)?;
                kind = Offset::Exact;
            }
        }
        let offset = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60)?.checked_add(seconds)?;
        Some((if negative { offset.checked_neg()? } else { offset }, kind))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar; the year begins in March, so that the
/// leap day is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = month.checked_add(9)?.rem_euclid(12);
    let day_of_year =
        month_from_march.checked_mul(153)?.checked_add(2)?.div_euclid(5).checked_add(day)?.checked_sub(1)?;
    let leap_days = year_of_era.div_euclid(4).checked_sub(year_of_era.div_euclid(100))?;
    let day_of_era = year_of_era.checked_mul(365)?.checked_add(leap_days)?.checked_add(day_of_year)?;
    era.checked_mul(146_097)?.checked_add(day_of_era)?.checked_sub(719_468)
}
