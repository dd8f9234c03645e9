//! The position of a reader inside JSON text.

use super::scan;
use super::text::Text;

/// How many levels of nested containers the reader accepts.
const MAX_DEPTH: u32 = 128;

/// What is wrong with a piece of JSON, and at which byte.
///
/// It is in a box, so that results without an error stay in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    at: usize,
    what: String,
}

impl JsonError {
    /// An error at byte `at` of the text.
    #[cold]
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self(Box::new(Details { at, what: what.into() }))
    }

    /// The same error in a text in which `before` more bytes come before its place.
    #[cold]
    fn after(mut self, before: usize) -> Self {
        self.0.at = self.0.at.saturating_add(before);
        self
    }

    /// The byte of the text at which the error was found.
    #[must_use]
    pub fn at(&self) -> usize {
        self.0.at
    }

    /// The message.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }
}

/// The type of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or `-`
    Number,
    /// `true` or `false`
    Boolean,
    /// `null`
    Null,
}

impl Kind {
    /// How messages name the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }
}

/// A scalar, as [`Cursor::scalar`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A string, with its escapes unresolved.
    String(Text<'a>),
    /// A number, as it is spelled.
    Number(&'a [u8]),
    /// `true` or `false`.
    Boolean(bool),
    /// `null`.
    Null,
    /// An object or an array, which was skipped.
    Container,
}

/// Reads JSON text from its start to its end.
///
/// `QUOTED` text is itself the inside of a JSON string, like statistics in a log: its quotes are spelled `\"`. It is
/// read as it is spelled, and any other escape is an error, after which the caller has to resolve the escapes.
#[derive(Clone, Debug)]
pub struct Cursor<'a, const QUOTED: bool = false> {
    data: &'a [u8],
    /// What is not read yet, the end of `data`.
    rest: &'a [u8],
    /// Whether a newline counts as a blank or ends the text.
    spans_lines: bool,
}

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Cursor<'a> {
    /// Starts at byte `at` of lines of JSON, in which no value continues on the next line.
    #[must_use]
    pub fn in_lines(data: &'a [u8], at: usize) -> Self {
        Self { data, rest: data.get(at..).unwrap_or_default(), spans_lines: false }
    }

    /// Starts at the beginning of a JSON text.
    #[must_use]
    pub fn in_text(data: &'a [u8]) -> Self {
        Self { data, rest: data, spans_lines: true }
    }

    /// Reads the string that begins here as JSON text, in which nothing but quotes is escaped.
    ///
    /// None if `read` fails or stops before the end of the string. Then the cursor stays where it is.
    #[inline]
    pub fn quoted<T>(&mut self, read: impl FnOnce(&mut Cursor<'a, true>) -> Result<T>) -> Option<T> {
        let mut inside = Cursor::in_quotes(self.data, self.at().saturating_add(1));
        let found = read(&mut inside).ok()?;
        let (b'"', rest) = inside.rest.split_first()? else { return None };
        self.rest = rest;
        Some(found)
    }
}

impl<'a> Cursor<'a, true> {
    /// Starts at byte `at` of the inside of a JSON string. It ends with `data`, or at a quote that is not escaped.
    #[must_use]
    pub fn in_quotes(data: &'a [u8], at: usize) -> Self {
        Self { data, rest: data.get(at..).unwrap_or_default(), spans_lines: false }
    }
}

impl<'a, const QUOTED: bool> Cursor<'a, QUOTED> {
    /// The next byte.
    #[must_use]
    #[inline]
    pub fn at(&self) -> usize {
        self.data.len().saturating_sub(self.rest.len())
    }

    /// The bytes from `start` to here.
    #[must_use]
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.data.get(start..self.at()).unwrap_or_default()
    }

    /// Returns an error at this place.
    #[cold]
    #[inline(never)]
    pub fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(JsonError::new(self.at(), what))
    }

    /// Skips blanks and returns the byte after them.
    #[inline]
    pub fn skip_blanks(&mut self) -> Option<u8> {
        match self.rest {
            [b'\\', next, ..] if QUOTED => (*next == b'"').then_some(b'"'),
            [byte, ..] if *byte > b' ' && (!QUOTED || !matches!(byte, b'"' | b'\\')) => Some(*byte),
            _ => self.skip_some_blanks(),
        }
    }

    fn skip_some_blanks(&mut self) -> Option<u8> {
        loop {
            let (byte, after) = self.rest.split_first()?;
            let blank = match byte {
                b' ' => true,
                b'\t' | b'\r' => !QUOTED,
                b'\n' => !QUOTED && self.spans_lines,
                b'\\' if QUOTED => return after.first().copied().filter(|next| *next == b'"'),
                b'"' if QUOTED => return None,
                _ => false,
            };
            if !blank {
                return Some(*byte);
            }
            self.rest = after;
        }
    }

    #[inline]
    fn step(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Returns the type of the next value without reading it.
    #[inline]
    pub fn kind(&mut self) -> Result<Kind> {
        match self.skip_blanks() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Boolean),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => self.fail("a value was expected"),
            None => self.fail("the text ends where a value was expected"),
        }
    }

    /// Reads the members of an object: `each` takes every key and must read its value.
    #[inline]
    pub fn object(&mut self, each: impl FnMut(&mut Self, Text<'a>) -> Result<()>) -> Result<()> {
        self.step(1);
        if self.skip_blanks() == Some(b'}') {
            self.step(1);
            return Ok(());
        }
        self.members(each)
    }

    #[inline]
    fn members(&mut self, mut each: impl FnMut(&mut Self, Text<'a>) -> Result<()>) -> Result<()> {
        loop {
            if self.skip_blanks() != Some(b'"') {
                return self.fail("a key in quotes was expected");
            }
            let key = self.string()?;
            if self.skip_blanks() != Some(b':') {
                return self.fail("a colon was expected after a key");
            }
            self.step(1);
            each(self, key)?;
            if self.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Called after a member: returns whether the container ends here. If not, the cursor is past the comma.
    #[inline]
    fn more(&mut self, close: u8) -> Result<bool> {
        match self.skip_blanks() {
            Some(b',') => {
                self.step(1);
                Ok(false)
            }
            Some(byte) if byte == close => {
                self.step(1);
                Ok(true)
            }
            Some(_) => self.fail("a comma or the end of the container was expected"),
            None => self.fail("the text ends inside a container"),
        }
    }

    /// Reads a string.
    #[inline]
    pub fn string(&mut self) -> Result<Text<'a>> {
        let quote = if QUOTED { 2 } else { 1 };
        let inside = self.rest.get(quote..).unwrap_or_default();
        let end = if QUOTED { scan::quoted_end(inside).map(|end| (end, false)) } else { scan::string_end(inside) };
        let (end, escaped) = end.map_err(|error| error.after(self.at().saturating_add(quote)))?;
        let (text, rest) = inside.split_at_checked(end).unwrap_or_default();
        self.rest = rest.get(quote..).unwrap_or_default();
        Ok(Text::new(text, escaped))
    }

    /// Reads a scalar, or checks and skips a container. `depth` is the number of containers around it.
    pub fn scalar(&mut self, depth: u32) -> Result<Token<'a>> {
        match self.kind()? {
            Kind::String => Ok(Token::String(self.string()?)),
            Kind::Number => Ok(Token::Number(self.number()?)),
            Kind::Boolean => Ok(Token::Boolean(self.boolean()?)),
            Kind::Null => {
                self.null()?;
                Ok(Token::Null)
            }
            Kind::Object | Kind::Array => {
                self.skip(depth)?;
                Ok(Token::Container)
            }
        }
    }

    /// Reads a number by the grammar of JSON and returns its spelling.
    pub fn number(&mut self) -> Result<&'a [u8]> {
        let start = self.rest;
        self.pass_number()?;
        Ok(start.get(..start.len().saturating_sub(self.rest.len())).unwrap_or_default())
    }

    #[inline]
    fn pass_number(&mut self) -> Result<()> {
        if let Some((b'-', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        match self.rest.first() {
            Some(b'0') => self.step(1),
            Some(b'1'..=b'9') => self.step(scan::count_digits(self.rest)),
            _ => return self.fail("a digit was expected"),
        }
        if matches!(self.rest.first(), Some(b'.' | b'e' | b'E')) { self.pass_fraction() } else { Ok(()) }
    }

    #[inline(never)]
    fn pass_fraction(&mut self) -> Result<()> {
        if self.rest.first() == Some(&b'.') {
            self.step(1);
            self.some_digits()?;
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.step(1);
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.step(1);
            }
            self.some_digits()?;
        }
        Ok(())
    }

    /// Reads a number. None if it is not a 64-bit integer.
    #[inline]
    pub fn integer(&mut self) -> Result<Option<i64>> {
        let (digits, after) = self.rest.split_at_checked(scan::count_digits(self.rest)).unwrap_or_default();
        let plain = !matches!(after.first(), Some(b'.' | b'e' | b'E' | b'-'));
        let leading_zero = digits.len() > 1 && digits.first() == Some(&b'0');
        if plain && (1..=18).contains(&digits.len()) && !leading_zero {
            self.rest = after;
            let value =
                digits.iter().fold(0_i64, |value, digit| value.wrapping_mul(10).wrapping_add(i64::from(digit & 0xF)));
            return Ok(Some(value));
        }
        let spelling = self.number()?;
        Ok(std::str::from_utf8(spelling).ok().and_then(|spelling| spelling.parse().ok()))
    }

    fn some_digits(&mut self) -> Result<()> {
        match scan::count_digits(self.rest) {
            0 => self.fail("a digit was expected"),
            digits => {
                self.step(digits);
                Ok(())
            }
        }
    }

    /// Reads `true` or `false`.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool> {
        if self.rest.first() == Some(&b't') {
            self.word(b"true")?;
            return Ok(true);
        }
        self.word(b"false")?;
        Ok(false)
    }

    /// Reads `null`.
    #[inline]
    pub fn null(&mut self) -> Result<()> {
        self.word(b"null")
    }

    #[inline]
    fn word(&mut self, word: &[u8]) -> Result<()> {
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.fail("JSON has no such word"),
        }
    }

    /// Checks and skips the next value. `depth` is the number of containers around it.
    #[inline]
    pub fn skip(&mut self, depth: u32) -> Result<()> {
        match self.skip_blanks() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.pass_number(),
            Some(b'{') if QUOTED && depth < MAX_DEPTH => self.skip_quoted_object(depth.saturating_add(1)),
            _ => self.skip_other(depth),
        }
    }

    fn skip_other(&mut self, depth: u32) -> Result<()> {
        let inside = depth.saturating_add(1);
        match self.kind()? {
            Kind::String => self.string().map(|_| ()),
            Kind::Number => self.pass_number(),
            Kind::Boolean => self.boolean().map(|_| ()),
            Kind::Null => self.null(),
            _ if inside > MAX_DEPTH => self.fail(format!("nested deeper than {MAX_DEPTH} levels")),
            Kind::Object => self.object(|cursor, _| cursor.skip(inside)),
            Kind::Array => self.array(|cursor| cursor.skip(inside)),
        }
    }

    /// Skips an object whose members are mostly bounds and counts of columns.
    fn skip_quoted_object(&mut self, inside: u32) -> Result<()> {
        let members = self.rest.get(1..).unwrap_or_default();
        let (rest, ended) = scan::plain_members(members);
        if rest.len() == members.len() {
            return self.object(|cursor, _| cursor.skip(inside));
        }
        self.rest = rest;
        if ended { Ok(()) } else { self.members(|cursor, _| cursor.skip(inside)) }
    }

    /// Reads the items of an array: `each` must read one.
    pub fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.step(1);
        if self.skip_blanks() == Some(b']') {
            self.step(1);
            return Ok(());
        }
        loop {
            each(self)?;
            if self.more(b']')? {
                return Ok(());
            }
        }
    }
}
