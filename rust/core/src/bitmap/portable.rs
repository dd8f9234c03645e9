//! A view of the portable 64-bit Roaring format: the upper 32 bits of a position choose a bucket,
//! and the next 16 bits choose a container in the 32-bit bitmap of that bucket.
//!
//! Nothing is copied. If the header holds offsets, a container is found by its number at constant
//! cost, so that a mask of a few rows does not walk the whole vector.

use super::frame::corrupt;
use crate::error::Result;

const COOKIE_NO_RUNS: u32 = 12_346;
const COOKIE_RUNS: u32 = 12_347;
/// Below this many containers a bitmap with runs has no offset header.
const NO_OFFSET_THRESHOLD: usize = 4;
const ARRAY_LIMIT: u32 = 4_096;
pub(super) const BITMAP_BYTES: usize = 8_192;
const MAX_CONTAINERS: usize = 1 << 16;

/// One container: up to 65,536 positions that share their upper bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Container<'a> {
    /// Sorted positions, two bytes each.
    Array(&'a [[u8; 2]]),
    /// 65,536 bits.
    Bits(&'a [u8]),
    /// Runs as (first, length - 1), two bytes each.
    Runs(&'a [[u8; 4]]),
}

/// A 32-bit Roaring bitmap at the start of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    /// The bytes from the start of the bitmap; there may be more than belong to it.
    data: &'a [u8],
    /// (upper 16 bits, cardinality - 1) of each container.
    headers: &'a [[u8; 4]],
    run_flags: &'a [u8],
    offsets: Option<&'a [[u8; 4]]>,
    /// Where the first container begins.
    body: usize,
}

impl<'a> Bucket<'a> {
    /// Reads the headers of the 32-bit bitmap at the start of `data`.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self> {
        let cookie = le_u32(data, 0).ok_or_else(|| cut("the cookie of a 32-bit bitmap"))?;
        let mut at: usize = 4;
        let (count, has_runs) = if cookie & 0xFFFF == COOKIE_RUNS {
            (usize::try_from(cookie >> 16).unwrap_or(MAX_CONTAINERS).saturating_add(1), true)
        } else if cookie == COOKIE_NO_RUNS {
            let count = le_u32(data, at).ok_or_else(|| cut("the number of containers"))?;
            at = 8;
            (usize::try_from(count).unwrap_or(usize::MAX), false)
        } else {
            return Err(corrupt(format!("{cookie} is not a cookie of a 32-bit Roaring bitmap")));
        };
        if count > MAX_CONTAINERS {
            return Err(corrupt(format!("a 32-bit bitmap declares {count} containers, more than the format allows")));
        }
        let run_flags = if has_runs { take(data, &mut at, count.div_ceil(8))? } else { &[] };
        let (headers, _) = take(data, &mut at, count.saturating_mul(4))?.as_chunks::<4>();
        let offsets = if !has_runs || count >= NO_OFFSET_THRESHOLD {
            Some(take(data, &mut at, count.saturating_mul(4))?.as_chunks::<4>().0)
        } else {
            None
        };
        Ok(Self { data, headers, run_flags, offsets, body: at })
    }

    /// The number of containers.
    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// The upper 16 bits of container `index`.
    pub(super) fn key(&self, index: usize) -> Option<u16> {
        self.headers.get(index).map(|[low, high, _, _]| u16::from_le_bytes([*low, *high]))
    }

    /// The number of the first container whose key is at least `key`.
    pub(super) fn first_at_least(&self, key: u16) -> usize {
        self.headers.partition_point(|[low, high, _, _]| u16::from_le_bytes([*low, *high]) < key)
    }

    /// How many positions container `index` has, according to the header.
    fn cardinality(&self, index: usize) -> u32 {
        self.headers
            .get(index)
            .map_or(0, |[_, _, low, high]| u32::from(u16::from_le_bytes([*low, *high])).saturating_add(1))
    }

    fn is_run(&self, index: usize) -> bool {
        self.run_flags.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// Container `index`, which begins at `at`, and where it ends.
    fn container_at(&self, index: usize, at: usize) -> Result<(Container<'a>, usize)> {
        let mut at = at;
        let container = if self.is_run(index) {
            let count = take(self.data, &mut at, 2)?;
            let count = count.first_chunk::<2>().map_or(0, |count| u16::from_le_bytes(*count));
            Container::Runs(take(self.data, &mut at, usize::from(count).saturating_mul(4))?.as_chunks().0)
        } else if self.cardinality(index) <= ARRAY_LIMIT {
            let bytes = usize::try_from(self.cardinality(index)).unwrap_or(0).saturating_mul(2);
            Container::Array(take(self.data, &mut at, bytes)?.as_chunks().0)
        } else {
            Container::Bits(take(self.data, &mut at, BITMAP_BYTES)?)
        };
        Ok((container, at))
    }

    /// Where container `index` begins: read from the offset header, or found by walking the ones before it.
    fn start(&self, index: usize) -> Result<usize> {
        if let Some(offsets) = self.offsets {
            let offset = offsets.get(index).map(|offset| u32::from_le_bytes(*offset));
            return Ok(offset.map_or(self.body, |offset| usize::try_from(offset).unwrap_or(usize::MAX)));
        }
        (0..index).try_fold(self.body, |at, earlier| Ok(self.container_at(earlier, at)?.1))
    }

    /// Container `index`.
    pub(super) fn container(&self, index: usize) -> Result<Container<'a>> {
        Ok(self.container_at(index, self.start(index)?)?.0)
    }

    /// How many bytes the bitmap has.
    fn byte_len(&self) -> Result<usize> {
        match self.len().checked_sub(1) {
            Some(last) => Ok(self.container_at(last, self.start(last)?)?.1),
            None => Ok(self.body),
        }
    }

    /// Checks the order, offset and cardinality of every container; returns the number of positions and of bytes.
    fn check(&self) -> Result<(u64, usize)> {
        let (mut at, mut total) = (self.body, 0_u64);
        let mut previous = None;
        for index in 0..self.len() {
            let key = self.key(index);
            if key <= previous {
                return Err(corrupt("the containers of a 32-bit bitmap are not in ascending order"));
            }
            previous = key;
            if self.start(index)? != at && self.offsets.is_some() {
                return Err(corrupt(format!(
                    "the offset of container {index} does not match the containers before it"
                )));
            }
            let (container, end) = self.container_at(index, at)?;
            let found = container.check()?;
            if found != self.cardinality(index) {
                let said = self.cardinality(index);
                return Err(corrupt(format!("container {index} declares {said} positions but holds {found}")));
            }
            total = total.saturating_add(u64::from(found));
            at = end;
        }
        Ok((total, at))
    }
}

impl Container<'_> {
    /// Checks the order inside the container and counts its positions.
    fn check(&self) -> Result<u32> {
        match self {
            Self::Array(values) => {
                let sorted = values.iter().map(|value| u16::from_le_bytes(*value));
                if !sorted.is_sorted_by(|a, b| a < b) {
                    return Err(corrupt("an array container is not in ascending order"));
                }
                Ok(u32::try_from(values.len()).unwrap_or(u32::MAX))
            }
            Self::Bits(bytes) => Ok(count_ones(bytes)),
            Self::Runs(runs) => {
                let (mut total, mut next) = (0_u32, 0_u32);
                for run in *runs {
                    let (first, last) = run_bounds(*run);
                    if first < next || last > 0xFFFF {
                        return Err(corrupt("a run container overlaps itself or leaves its block"));
                    }
                    total = total.saturating_add(last.saturating_sub(first)).saturating_add(1);
                    next = last.saturating_add(1);
                }
                Ok(total)
            }
        }
    }
}

fn count_ones(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).fold(0, u32::saturating_add)
}

/// First and last position of a run, within its block.
pub(super) fn run_bounds(run: [u8; 4]) -> (u32, u32) {
    let [a, b, c, d] = run;
    let first = u32::from(u16::from_le_bytes([a, b]));
    (first, first.saturating_add(u32::from(u16::from_le_bytes([c, d]))))
}

/// The buckets of a portable 64-bit bitmap, in ascending order of their keys.
pub(super) struct Buckets<'a> {
    rest: &'a [u8],
    left: u64,
}

impl<'a> Buckets<'a> {
    /// Starts at the first bucket.
    pub(super) fn new(data: &'a [u8]) -> Result<Self> {
        let (count, rest) = data.split_first_chunk::<8>().ok_or_else(|| cut("the number of buckets"))?;
        Ok(Self { rest, left: u64::from_le_bytes(*count) })
    }

    /// The next key with its bitmap, or none after the last.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Bucket<'a>)>> {
        let Some((key, bucket)) = self.peek()? else { return Ok(None) };
        self.skip(bucket.byte_len()?);
        Ok(Some((key, bucket)))
    }

    fn peek(&self) -> Result<Option<(u32, Bucket<'a>)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let (key, data) = self.rest.split_first_chunk::<4>().ok_or_else(|| cut("the key of a bucket"))?;
        Ok(Some((u32::from_le_bytes(*key), Bucket::parse(data)?)))
    }

    fn skip(&mut self, bitmap_bytes: usize) {
        self.left = self.left.saturating_sub(1);
        self.rest = self.rest.get(bitmap_bytes.saturating_add(4)..).unwrap_or(&[]);
    }
}

/// Checks a whole portable bitmap and counts its positions.
pub(super) fn check(data: &[u8]) -> Result<u64> {
    let mut buckets = Buckets::new(data)?;
    let (mut total, mut previous) = (0_u64, None);
    while let Some((key, bucket)) = buckets.peek()? {
        if key > i32::MAX.unsigned_abs() {
            return Err(corrupt(format!("bucket key {key} has its most significant bit set")));
        }
        if previous.is_some_and(|previous| key <= previous) {
            return Err(corrupt("the buckets are not in ascending order"));
        }
        previous = Some(key);
        let (count, bytes) = bucket.check()?;
        total = total.saturating_add(count);
        buckets.skip(bytes);
    }
    if !buckets.rest.is_empty() {
        return Err(corrupt(format!("{} bytes follow the last bucket", buckets.rest.len())));
    }
    Ok(total)
}

fn take<'a>(data: &'a [u8], at: &mut usize, bytes: usize) -> Result<&'a [u8]> {
    let end = at.saturating_add(bytes);
    let part = data
        .get(*at..end)
        .ok_or_else(|| corrupt(format!("the bitmap ends after {} bytes; at least {end} were expected", data.len())))?;
    *at = end;
    Ok(part)
}

fn le_u32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

fn cut(what: &str) -> crate::error::Error {
    corrupt(format!("the bitmap ends before {what}"))
}
