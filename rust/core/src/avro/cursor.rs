//! Reading Avro's binary encoding from a block, never past its end.

use crate::error::{Error, ErrorKind};

/// The result of reading a value.
pub type Read<T> = Result<T, Flaw>;

/// An error behind a pointer: it is rare and large, and so it leaves values in registers.
#[derive(Debug)]
pub struct Flaw(Box<Error>);

impl From<Error> for Flaw {
    #[cold]
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<Flaw> for Error {
    fn from(flaw: Flaw) -> Self {
        *flaw.0
    }
}

/// What is left of a block, and of the memory that its values may take.
pub struct Cursor<'a> {
    rest: &'a [u8],
    room: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::within(bytes, usize::MAX)
    }

    /// Reads bytes whose values may take so much memory.
    pub fn within(bytes: &'a [u8], room: usize) -> Self {
        Self { rest: bytes, room }
    }

    /// How much memory further values may take.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Takes memory for values before they are read.
    #[inline]
    pub fn spend(&mut self, bytes: usize) -> Read<()> {
        self.room = self.room.checked_sub(bytes).ok_or_else(takes_too_much)?;
        Ok(())
    }

    /// Reads bytes that their length precedes, and that will be kept.
    #[inline]
    pub fn kept_bytes(&mut self) -> Read<&'a [u8]> {
        let bytes = self.bytes()?;
        self.spend(bytes.len())?;
        Ok(bytes)
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes after the last row.
    pub fn end(&self) -> Read<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(flaw(format!("{left} bytes follow the last row of a block"))),
        }
    }

    /// Reads a zigzag varint of up to 64 bits.
    #[inline]
    pub fn long(&mut self) -> Read<i64> {
        if let Some((first, rest)) = self.rest.split_first()
            && *first < 0x80
        {
            self.rest = rest;
            return Ok(zigzag(u64::from(*first)));
        }
        self.long_varint()
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Read<i64> {
        let mut value = 0_u64;
        for shift in (0_u32..70).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else { return Err(ends()) };
            self.rest = rest;
            let bits = u64::from(*byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if *byte < 0x80 {
                return Ok(zigzag(value));
            }
        }
        Err(flaw("an integer has more than 64 bits"))
    }

    /// Skips a varint without computing its value, yet refuses what [`Self::long`] refuses.
    #[inline]
    pub fn skip_long(&mut self) -> Read<()> {
        if let Some((first, rest)) = self.rest.split_first()
            && *first < 0x80
        {
            self.rest = rest;
            return Ok(());
        }
        self.long_varint().map(|_| ())
    }

    /// Skips several varints, and refuses what [`Self::long`] refuses.
    #[inline]
    pub fn skip_longs(&mut self, count: usize) -> Read<()> {
        let mut left = count;
        // Of eight bytes at once, those below 0x80 end a varint. Whole varints are taken: they have no more than 56 bits.
        while let Some(bytes) = self.rest.first_chunk::<8>() {
            let ends = !u64::from_le_bytes(*bytes) & 0x8080_8080_8080_8080;
            let Some(rest) = left.checked_sub(ends.count_ones() as usize) else { break };
            if ends == 0 {
                break;
            }
            let taken = 8_usize.saturating_sub(ends.leading_zeros() as usize / 8);
            self.rest = self.rest.get(taken..).unwrap_or(&[]);
            left = rest;
        }
        (0..left).try_for_each(|_| self.skip_long())
    }

    /// Skips pairs of an integer and bytes, such as a column's id and its bound, and refuses what [`Self::long`] and
    /// [`Self::bytes`] refuse.
    #[inline]
    pub fn skip_pairs(&mut self, count: usize) -> Read<()> {
        for _ in 0..count {
            // Nearly always, the integer and the length have one byte each; an odd one is negative.
            if let Some(([number, length], rest)) = self.rest.split_first_chunk()
                && *number < 0x80
                && *length < 0x80
                && *length & 1 == 0
                && let Some(rest) = rest.get(usize::from(*length >> 1)..)
            {
                self.rest = rest;
                continue;
            }
            self.skip_long()?;
            self.bytes()?;
        }
        Ok(())
    }

    #[inline]
    pub fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(ends)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(ends)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads bytes that their length precedes.
    #[inline]
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.long()?;
        self.take(usize::try_from(length).map_err(|_| flaw("a length is negative"))?)
    }

    pub fn boolean(&mut self) -> Read<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(flaw("a boolean is neither 0 nor 1")),
        }
    }

    /// Reads the header of the next part of an array or a map: the number of its items and, if the writer recorded it,
    /// their size in bytes. Returns none at the end. `least` is how many bytes an item takes at least.
    #[inline]
    pub fn items(&mut self, least: usize) -> Read<Option<(usize, Option<usize>)>> {
        // The end, or the one part that most maps have.
        if let Some((first, rest)) = self.rest.split_first()
            && *first < 0x80
            && *first & 1 == 0
        {
            self.rest = rest;
            let count = usize::from(*first >> 1);
            return match count.checked_mul(least) {
                Some(needed) if needed <= rest.len() => Ok((count > 0).then_some((count, None))),
                _ => Err(ends()),
            };
        }
        let count = self.long()?;
        if count == 0 {
            return Ok(None);
        }
        let bytes = if count < 0 {
            Some(usize::try_from(self.long()?).map_err(|_| flaw("a length is negative"))?)
        } else {
            None
        };
        let count = usize::try_from(count.unsigned_abs()).map_err(|_| ends())?;
        if count.checked_mul(least).is_none_or(|needed| needed > self.rest.len()) {
            return Err(ends());
        }
        Ok(Some((count, bytes)))
    }
}

#[inline]
#[expect(clippy::cast_possible_wrap, reason = "zigzag is defined on the bits")]
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ ((value & 1) as i64).wrapping_neg()
}

pub fn corrupt(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::CorruptAvro, message)
}

#[cold]
pub fn flaw(message: impl Into<String>) -> Flaw {
    corrupt(message).into()
}

#[cold]
pub fn takes_too_much() -> Flaw {
    let message = "the values of an Avro file take far more memory than the file has bytes";
    Error::new(ErrorKind::TooLarge, message).into()
}

#[cold]
fn ends() -> Flaw {
    flaw("the block ends inside a value")
}

#[cfg(test)]
mod tests {
    use super::Cursor;
    use crate::error::Error;

    /// What is left after skipping integers one by one, or how the first bad one is refused.
    fn one_by_one(bytes: &[u8], count: usize) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes);
        (0..count).try_for_each(|_| cursor.skip_long()).map_err(|flaw| Error::from(flaw).to_string())?;
        Ok(cursor.remaining())
    }

    fn together(bytes: &[u8], count: usize) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes);
        cursor.skip_longs(count).map_err(|flaw| Error::from(flaw).to_string())?;
        Ok(cursor.remaining())
    }

    fn goes_on_rarely(byte: u8) -> bool {
        byte % 16 == 3
    }

    /// What is left after reading pairs of an integer and bytes, or how the first bad one is refused.
    fn pair_by_pair(bytes: &[u8], count: usize) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes);
        let mut pair = || cursor.long().and_then(|_| cursor.bytes());
        (0..count).try_for_each(|_| pair().map(|_| ())).map_err(|flaw| Error::from(flaw).to_string())?;
        Ok(cursor.remaining())
    }

    fn pairs_together(bytes: &[u8], count: usize) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes);
        cursor.skip_pairs(count).map_err(|flaw| Error::from(flaw).to_string())?;
        Ok(cursor.remaining())
    }

    #[test]
    fn skipping_together_is_skipping_one_by_one() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()
        };
        for _ in 0..20_000 {
            let [length, often, count, ..] = next();
            // Bytes that go on are rare, frequent, or nearly all, so that some integers are too long.
            let bytes: Vec<u8> = (0..length % 60)
                .map(|_| {
                    let [value, goes_on, ..] = next();
                    if goes_on < often { value | 0x80 } else { value & 0x7f }
                })
                .collect();
            for count in [usize::from(count % 40), bytes.iter().filter(|byte| **byte < 0x80).count()] {
                assert_eq!(together(&bytes, count), one_by_one(&bytes, count), "{count} of {bytes:?}");
            }
            // Lengths that fit, as most of them do in a manifest.
            let short: Vec<u8> =
                bytes.iter().map(|byte| byte & if goes_on_rarely(*byte) { 0xff } else { 0x0e }).collect();
            for bytes in [&bytes, &short] {
                let count = usize::from(count % 12);
                assert_eq!(pairs_together(bytes, count), pair_by_pair(bytes, count), "{count} pairs of {bytes:?}");
            }
        }
    }
}
