//! A string as JSON spells it, with its escapes not yet resolved.

use std::borrow::Cow;

/// The bytes between the quotes of a JSON string that the cursor has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Creates a text whose escapes are known to be well formed.
    #[must_use]
    pub fn new(raw: &'a [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The bytes as they are spelled, with escapes.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether the text contains a backslash.
    #[must_use]
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// Resolves the escapes. None if the text is not UTF-8, or contains half of a surrogate pair,
    /// which UTF-8 cannot encode.
    #[must_use]
    pub fn resolve(&self) -> Option<Cow<'a, str>> {
        let raw = std::str::from_utf8(self.raw).ok()?;
        if !self.escaped {
            return Some(Cow::Borrowed(raw));
        }
        let mut out = Vec::new();
        unescape_into(self.raw, &mut out)?;
        String::from_utf8(out).ok().map(Cow::Owned)
    }

    /// Resolves the escapes into bytes, which are empty if the text is not Unicode.
    #[must_use]
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut out = Vec::new();
        unescape_into(self.raw, &mut out).map_or(Cow::Borrowed(&[]), |()| Cow::Owned(out))
    }

    /// The same as bytes, which use `buffer` if there are escapes.
    pub fn resolve_into<'b>(&self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.raw.is_ascii() {
            std::str::from_utf8(self.raw).ok()?;
        }
        if !self.escaped {
            return Some(self.raw);
        }
        unescape_into(self.raw, buffer)?;
        Some(buffer)
    }
}

/// How many bytes are examined at a time.
const BLOCK: usize = 16;

/// Appends `bytes` to `target` with escapes resolved. Blocks without a backslash are copied whole.
fn unescape_into(bytes: &[u8], target: &mut Vec<u8>) -> Option<()> {
    let (mut from, mut to) = (0_usize, 0_usize);
    // Resolving an escape shortens the text, and a block may be written beyond the end of its text.
    target.resize(bytes.len().saturating_add(BLOCK), 0);
    while from < bytes.len() {
        let plain = if let Some(block) = bytes.get(from..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            target.get_mut(to..)?.first_chunk_mut::<BLOCK>()?.copy_from_slice(block);
            super::scan::backslash_at(*block).unwrap_or(BLOCK)
        } else {
            let rest = bytes.get(from..)?;
            target.get_mut(to..to.checked_add(rest.len())?)?.copy_from_slice(rest);
            rest.iter().position(|byte| *byte == b'\\').unwrap_or(rest.len())
        };
        from = from.checked_add(plain)?;
        to = to.checked_add(plain)?;
        if plain == BLOCK || from >= bytes.len() {
            continue;
        }
        let escape = *bytes.get(from.checked_add(1)?)?;
        from = from.checked_add(2)?;
        let mut encoded = [0_u8; 4];
        let resolved: &[u8] = match escape {
            b'b' => b"\x08",
            b'f' => b"\x0c",
            b'n' => b"\n",
            b'r' => b"\r",
            b't' => b"\t",
            b'u' => {
                let rest = bytes.get(from..)?;
                let (code, after) = code_point(rest)?;
                from = from.checked_add(rest.len().checked_sub(after.len())?)?;
                code.encode_utf8(&mut encoded).as_bytes()
            }
            _ => {
                *target.get_mut(to)? = escape;
                to = to.checked_add(1)?;
                continue;
            }
        };
        target.get_mut(to..to.checked_add(resolved.len())?)?.copy_from_slice(resolved);
        to = to.checked_add(resolved.len())?;
    }
    target.truncate(to);
    Some(())
}

/// Reads the character of a `\u` escape, or of two that form a surrogate pair. Returns the rest too.
fn code_point(text: &[u8]) -> Option<(char, &[u8])> {
    let (unit, rest) = code_unit(text)?;
    if let Some(code) = char::from_u32(unit) {
        return Some((code, rest));
    }
    let (low, rest) = code_unit(rest.strip_prefix(b"\\u")?)?;
    if !(0xD800..0xDC00).contains(&unit) || !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    let offset = (unit & 0x3FF) << 10 | (low & 0x3FF);
    Some((char::from_u32(offset.wrapping_add(0x1_0000))?, rest))
}

fn code_unit(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, rest))
}
