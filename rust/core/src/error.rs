//! The error that kernels return when their input is wrong.
//!
//! It consists of an [`ErrorKind`], which the binding maps by an exhaustive match to an exception
//! class that is defined in Python; a message; and named facts such as the version or the line.

use std::fmt::{self, Write as _};

/// The class of a failure. Each kind is one Python exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A log entry is not one that the Delta protocol allows.
    CorruptLog,
    /// A deletion vector's bytes are damaged or not in a known format.
    CorruptDeletionVector,
    /// Text that should be Z85 is not.
    InvalidZ85,
    /// A partition value cannot be read as its column's type.
    InvalidPartitionValue,
    /// Blocks of an Avro file are damaged or do not match its schema.
    CorruptAvro,
    /// The metadata or the pages of a Parquet file are damaged, or not of a kind that the kernel reads.
    CorruptParquet,
    /// The caller passed an argument that the kernel does not accept.
    InvalidArgument,
    /// The result does not fit into the Arrow type that holds it.
    TooLarge,
}

impl ErrorKind {
    /// Every kind, for the test that each one has its Python class.
    pub const ALL: [Self; 8] = [
        Self::CorruptLog,
        Self::CorruptDeletionVector,
        Self::InvalidZ85,
        Self::InvalidPartitionValue,
        Self::CorruptAvro,
        Self::CorruptParquet,
        Self::InvalidArgument,
        Self::TooLarge,
    ];
}

/// A kernel's error: kind, message and named facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
}

/// The result of a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error whose message names what was found and what was expected.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new() }
    }

    /// Adds a named fact, such as the version of the log entry.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.context.push((name, value.to_string()));
        self
    }

    /// The class of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, without the facts.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The named facts, in the order in which they were added.
    #[must_use]
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.context
    }
}

/// A text of others in quotes, with control characters as JSON escapes them, so that no terminal
/// obeys them.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut shown = String::new();
    shown.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            '\u{8}' => shown.push_str("\\b"),
            '\u{c}' => shown.push_str("\\f"),
            _ if letter.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{:04x}", u32::from(letter));
            }
            _ => shown.push(letter),
        }
    }
    shown.push('"');
    shown
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (name, value) in &self.context {
            write!(f, " ({name}: {value})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::new(ErrorKind::TooLarge, error.to_string())
    }
}
