//! Columns of text under construction, whose bytes are checked to be UTF-8 once, when they are closed.

use arrow_array::StringArray;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::error::{Error, ErrorKind, Result};

/// Texts, one behind the other.
#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(text);
        let end = i32::try_from(self.bytes.len())
            .map_err(|_| Error::new(ErrorKind::TooLarge, "the texts of one piece of a log entry exceed 2 GiB"))?;
        self.ends.push(end);
        Ok(())
    }

    pub(super) fn get(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(row).copied().unwrap_or(0);
        let place = |offset: i32| usize::try_from(offset).unwrap_or(0);
        self.bytes.get(place(start)..place(end)).unwrap_or_default()
    }

    pub(super) fn close(mut self, nulls: Option<NullBuffer>) -> Result<StringArray> {
        self.bytes.shrink_to_fit();
        let mut offsets = Vec::with_capacity(self.ends.len().saturating_add(1));
        offsets.push(0);
        offsets.append(&mut self.ends);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(StringArray::try_new(offsets, Buffer::from(self.bytes), nulls)?)
    }
}
