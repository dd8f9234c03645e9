//! What a kernel says when its input is wrong.
//!
//! One opaque error: a [`ErrorKind`] that the binding maps, by an exhaustive match, onto an
//! exception class defined in Python; a sentence; and named context (version, line, offset).

use std::fmt;

/// The class of a failure. Each kind is one Python exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A log entry is not what the Delta protocol allows there.
    CorruptLog,
    /// A deletion vector's bytes are damaged or not in a known format.
    CorruptDeletionVector,
    /// Text that should be Z85 is not.
    InvalidZ85,
    /// A partition value cannot be read as its column's type.
    InvalidPartitionValue,
    /// Blocks of an Avro file are damaged or are not what its schema says.
    CorruptAvro,
    /// The caller passed something that the kernel does not take.
    InvalidArgument,
    /// The result would not fit into the Arrow type that holds it.
    TooLarge,
}

impl ErrorKind {
    /// Every kind, for the test that proves each one is mapped.
    pub const ALL: [Self; 7] = [
        Self::CorruptLog,
        Self::CorruptDeletionVector,
        Self::InvalidZ85,
        Self::InvalidPartitionValue,
        Self::CorruptAvro,
        Self::InvalidArgument,
        Self::TooLarge,
    ];
}

/// A kernel's error: kind, sentence and named context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
}

/// The result of a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a sentence that names what was found and what was expected.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new() }
    }

    /// The same error with one more named fact, such as the version of the log entry.
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

    /// The sentence, without context.
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
