//! Z85, the Base85 variant of inline deletion vectors and of deletion vector file names
//! (Delta protocol, "Deletion Vector Descriptor Schema"): 4 bytes become 5 characters, big endian.

use crate::error::{Error, ErrorKind, Result};

const ALPHABET: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
const INVALID: u8 = u8::MAX;

/// The value of each byte as a digit, or [`INVALID`].
static DIGITS: [u8; 256] = digits();

#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
const fn digits() -> [u8; 256] {
    let mut table = [INVALID; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        table[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    table
}

/// Encodes `data`, whose length must be a multiple of 4, as Z85 text.
///
/// # Errors
/// `InvalidZ85` if the length is not a multiple of 4.
pub fn encode(data: &[u8]) -> Result<String> {
    let (words, rest) = data.as_chunks::<4>();
    if !rest.is_empty() {
        let message = format!("Z85 encodes whole groups of 4 bytes, got {} bytes", data.len());
        return Err(Error::new(ErrorKind::InvalidZ85, message));
    }
    let mut text = Vec::with_capacity(words.len().saturating_mul(5));
    for word in words {
        let mut rest = u32::from_be_bytes(*word);
        let mut group = [0_u8; 5];
        for slot in group.iter_mut().rev() {
            *slot = ALPHABET.get((rest % 85) as usize).copied().unwrap_or(INVALID);
            rest /= 85;
        }
        text.extend_from_slice(&group);
    }
    String::from_utf8(text).map_err(|error| Error::new(ErrorKind::InvalidZ85, error.to_string()))
}

/// Decodes Z85 text to bytes.
///
/// # Errors
/// `InvalidZ85` if the length is not a multiple of 5, a character is outside the alphabet, or a
/// group encodes more than 32 bits.
pub fn decode(text: &str) -> Result<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    if !rest.is_empty() {
        let message = format!("Z85 text comes in groups of 5 characters, got {} bytes of text", text.len());
        return Err(Error::new(ErrorKind::InvalidZ85, message));
    }
    let mut data = Vec::with_capacity(groups.len().saturating_mul(4));
    for (index, group) in groups.iter().enumerate() {
        let mut value = 0_u64;
        for byte in group {
            let digit = DIGITS.get(usize::from(*byte)).copied().unwrap_or(INVALID);
            if digit == INVALID {
                return Err(bad_group(index, "holds a character outside the Z85 alphabet"));
            }
            value = value.saturating_mul(85).saturating_add(u64::from(digit));
        }
        let word = u32::try_from(value).map_err(|_| bad_group(index, "encodes more than 32 bits"))?;
        data.extend_from_slice(&word.to_be_bytes());
    }
    Ok(data)
}

fn bad_group(index: usize, what: &str) -> Error {
    Error::new(ErrorKind::InvalidZ85, format!("Z85 group {index} {what}"))
}
