//! Headers of pages, read strictly: whatever a writer would not have left is refused.

use parquet::basic::Encoding;

/// What stands before the bytes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub values: u32,
    pub encoding: Encoding,
    /// Bytes of the page in memory, levels included.
    pub size: u32,
    /// Bytes of the page in the file, without its header.
    pub stored: u32,
}

/// The kinds of pages, with what only one of them tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Dictionary,
    Data,
    DataV2 { nulls: u32, rows: u32, levels: u32, is_compressed: bool },
}

pub const TRUE: u8 = 1;
pub const FALSE: u8 = 2;
pub const I8: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

/// What is done with a field, of which the number and the kind are known.
type Each<'a> = &'a mut dyn FnMut(&mut &[u8], u8, u8) -> Option<()>;

impl Header {
    /// Reads a header, and moves the input behind it; none where anything is unusual.
    pub fn read(input: &mut &[u8]) -> Option<Self> {
        let (mut kind, mut size, mut stored) = (None, None, None);
        let (mut dictionary, mut data, mut newer) = (None, None, None);
        fields(input, &mut |input, id, found| match (id, found) {
            (1, I32) => set(&mut kind, number(input)),
            (2, I32) => set(&mut size, number(input)),
            (3, I32) => set(&mut stored, number(input)),
            // The checksum may be negative; pyarrow does not look at it, and nor does this.
            (4, I32) => varint(input).map(drop),
            (5, STRUCT) => set(&mut data, Body::read(input)),
            (7, STRUCT) => set(&mut dictionary, Body::read(input)),
            (8, STRUCT) => set(&mut newer, Body::read(input)),
            _ => None,
        })?;
        let (kind, body) = match (kind?, data, dictionary, newer) {
            (0, Some(body), None, None) => (Kind::Data, body.of_data()?),
            (2, None, Some(body), None) => (Kind::Dictionary, body.of_dictionary()?),
            (3, None, None, Some(body)) => body.of_newer()?,
            _ => return None,
        };
        Some(Self { kind, values: body.0, encoding: body.1, size: size?, stored: stored? })
    }
}

/// The fields of the structure that belongs to a kind of page.
#[derive(Default)]
struct Body {
    numbers: [Option<u32>; 6],
    is_plain: bool,
}

impl Body {
    fn read(input: &mut &[u8]) -> Option<Self> {
        let mut body = Self::default();
        fields(input, &mut |input, id, found| match found {
            I32 => set(body.numbers.get_mut(usize::from(id).checked_sub(1)?)?, number(input)),
            // Whether a dictionary is sorted, and whether a page is compressed.
            TRUE | FALSE if id == 3 => Some(()),
            TRUE | FALSE if id == 7 => {
                body.is_plain = found == FALSE;
                Some(())
            }
            STRUCT if id == 5 || id == 8 => skip_statistics(input),
            _ => None,
        })?;
        Some(body)
    }

    fn of_data(&self) -> Option<(u32, Encoding)> {
        let [values, encoding, definition, repetition, None, None] = self.numbers else { return None };
        let rle = Some(3);
        (definition == rle && repetition.is_some()).then_some((values?, encoded(encoding?)?))
    }

    fn of_dictionary(&self) -> Option<(u32, Encoding)> {
        let [values, encoding, None, None, None, None] = self.numbers else { return None };
        Some((values?, encoded(encoding?)?))
    }

    fn of_newer(&self) -> Option<(Kind, (u32, Encoding))> {
        let [values, nulls, rows, encoding, definition, Some(0)] = self.numbers else { return None };
        let kind = Kind::DataV2 { nulls: nulls?, rows: rows?, levels: definition?, is_compressed: !self.is_plain };
        Some((kind, (values?, encoded(encoding?)?)))
    }
}

/// Returns the encodings that are read here; others are rare.
fn encoded(number: u32) -> Option<Encoding> {
    match number {
        0 => Some(Encoding::PLAIN),
        2 => Some(Encoding::PLAIN_DICTIONARY),
        8 => Some(Encoding::RLE_DICTIONARY),
        _ => None,
    }
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    *place = Some(value?);
    Some(())
}

/// Reads a structure of the compact protocol whose fields ascend.
pub fn fields(input: &mut &[u8], each: Each<'_>) -> Option<()> {
    let mut id = 0_u8;
    loop {
        let (head, rest) = input.split_first()?;
        *input = rest;
        if *head == 0 {
            return Some(());
        }
        let step = head >> 4;
        if step == 0 {
            return None;
        }
        id = id.checked_add(step)?;
        each(input, id, head & 15)?;
    }
}

fn skip_statistics(input: &mut &[u8]) -> Option<()> {
    fields(input, &mut |input, id, found| match (id, found) {
        (1 | 2 | 5 | 6, BINARY) => {
            let length = usize::try_from(varint(input)?).ok()?;
            *input = input.get(length..)?;
            Some(())
        }
        (3 | 4 | 9, I64) => varint(input).map(drop),
        (7 | 8, TRUE | FALSE) => Some(()),
        _ => None,
    })
}

/// Reads a number that is not negative, of 32 bits.
pub fn number(input: &mut &[u8]) -> Option<u32> {
    let raw = varint(input)?;
    let value = u32::try_from(raw >> 1).ok()?;
    (raw & 1 == 0 && value <= i32::MAX.cast_unsigned()).then_some(value)
}

/// Reads a number of variable length.
pub fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in [0, 7, 14, 21, 28, 35, 42, 49, 56] {
        let (head, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(head & 127) << shift;
        if head & 128 == 0 {
            return Some(value);
        }
    }
    None
}
